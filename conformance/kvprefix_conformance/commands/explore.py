"""``kvprefix explore``: the model checker over the abstract model, and over the catalogue of unsafe variants.

Exit codes: 0 all that must hold holds, or every variant was refuted; 1 an invariant broke, a variant was not refuted, or a safe
design was; 2 bad usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from kvprefix.explore.bounds import Bounds, worlds
from kvprefix.explore.configurations import chosen
from kvprefix.explore.variants import VARIANTS, Refutation, Variant, find_variant, refute
from kvprefix.explore.walk import Walk, walk
from kvprefix.model.witnesses import SOMETIMES
from kvprefix_conformance import scenario_io
from kvprefix_conformance.codec import Json
from kvprefix_conformance.explored import scenario_of, told
from kvprefix_conformance.report.plain import printable


@click.command()
@click.option(
    "--blocks", type=click.IntRange(1), metavar="N", help="Walk forests of so many blocks, instead of each one's own number."
)
@click.option("--deep", is_flag=True, help="Walk each configuration once more with one more block: some 15 minutes.")
@click.option("--only", "names", multiple=True, metavar="CONFIG", help="Only this configuration. Repeatable.")
@click.option("--list", "listing", is_flag=True, help="Name the configurations and the variants; walk nothing.")
@click.option(
    "--variants", "all_variants", is_flag=True, help="Walk the unsafe variants, and the safe design beside each, instead."
)
@click.option("--variant", "variant_names", multiple=True, metavar="NAME", help="Only this variant, its story told. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; counterexamples as scenarios.")
@click.pass_context
def command(
    ctx: click.Context,
    blocks: int | None,
    deep: bool,
    names: tuple[str, ...],
    listing: bool,
    all_variants: bool,
    variant_names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the model checker over the abstract model."""
    configurations = chosen(names, blocks, deep=deep)
    variants = tuple(find_variant(name) for name in variant_names) or VARIANTS
    if listing:
        click.echo(_listed(configurations, variants))
    elif all_variants or variant_names:
        if blocks is not None or deep or names:
            raise click.UsageError("--blocks, --deep and --only are about configurations; a variant brings its own bounds")
        ctx.exit(0 if _explore_variants(variants, as_json=as_json, tell=bool(variant_names)) else 1)
    else:
        ctx.exit(0 if _explore(configurations, as_json=as_json) else 1)


def _listed(configurations: Sequence[Bounds], variants: Sequence[Variant]) -> str:
    lines = ["configurations"]
    for bounds in configurations:
        lines += [f"  {bounds.name:<22} {bounds.doc}", f"  {'':<22} {_dimensions(bounds)}"]
    lines += ["", "variants", *(f"  {variant.name:<28} {variant.doc}" for variant in variants)]
    return "\n".join(lines)


def _dimensions(bounds: Bounds) -> str:
    return "; ".join(f"{name} {value}" for name, value in bounds.dimensions)


def _progress(text: str, *, end: bool = False) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K" + ("" if end else text), nl=False, err=True)


def _tell(text: str, *, as_json: bool) -> None:
    if not as_json:
        click.echo(printable(text))


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


# --------------------------------------------------------------------------------------------------------------------------------
# Configurations

_HEAD = f"{'configuration':<22} {'worlds':>6} {'states':>8} {'transitions':>11} {'diameter':>8} {'CPU s':>7} {'states/s':>8}"


def _explore(configurations: Sequence[Bounds], *, as_json: bool) -> bool:
    """Walk them all; whether everything held."""
    total, rows = Walk(), []
    _tell(_HEAD, as_json=as_json)
    for bounds in configurations:
        seen = explored(bounds, total.witnessed)
        total += seen
        rows.append({"name": bounds.name, "doc": bounds.doc, "dimensions": dict(bounds.dimensions), **_counts(seen)})
        _tell(f"{_line(bounds.name, seen)}\n  {bounds.doc}\n  {_dimensions(bounds)}", as_json=as_json)
        if seen.counterexample is not None:
            _tell("\n" + told(seen.counterexample, unicode=_unicode()), as_json=as_json)
    missing = [predicate.name for predicate in SOMETIMES if predicate.name not in total.witnessed]
    if as_json:
        click.echo(json.dumps({"configurations": rows, "total": _counts(total), "not_witnessed": missing}, indent=2))
    _tell(_line("in all", total), as_json=as_json)
    _tell(f"witnessed {len(SOMETIMES) - len(missing)} of {len(SOMETIMES)}: {', '.join(sorted(total.witnessed))}", as_json=as_json)
    if missing:
        _tell(f"not witnessed: {', '.join(missing)}", as_json=as_json)
    return total.counterexample is None


def explored(bounds: Bounds, known: frozenset[str] = frozenset()) -> Walk:
    """Walk every world within the bounds, up to the first in which something is broken. ``known`` need not be witnessed again."""
    seen = Walk()
    for world in worlds(bounds):
        _progress(f"{bounds.name}: world {seen.worlds + 1}, {seen.states} states, {seen.transitions} transitions")
        seen += walk(world, known=known | seen.witnessed)
        if seen.counterexample is not None:
            break
    _progress("", end=True)
    return seen


def _line(name: str, seen: Walk) -> str:
    broken = "" if seen.counterexample is None else "  BROKEN"
    counts = f"{seen.worlds:>6} {seen.states:>8} {seen.transitions:>11} {seen.diameter:>8}"
    return f"{name:<22} {counts} {seen.seconds:>7.1f} {seen.rate:>8.0f}{broken}"


def _counts(seen: Walk) -> dict[str, Json]:
    found = seen.counterexample
    return {
        "worlds": seen.worlds,
        "states": seen.states,
        "transitions": seen.transitions,
        "diameter": seen.diameter,
        "cpu_seconds": round(seen.seconds, 3),
        "states_per_second": round(seen.rate),
        "witnessed": sorted(seen.witnessed),
        "counterexample": None if found is None else scenario_io.document(scenario_of(found)),
    }


# --------------------------------------------------------------------------------------------------------------------------------
# Variants


def _explore_variants(variants: Sequence[Variant], *, as_json: bool, tell: bool) -> bool:
    """Walk the variants and the safe designs beside them; whether each was refuted, and no safe one."""
    refutations = []
    _tell(f"{'variant':<28} {'steps':>5} {'breaks':<8} {'sentence':<36} {'states':>7} {'safe':>7} {'CPU s':>6}", as_json=as_json)
    for variant in variants:
        _progress(variant.name)
        refutation = refute(variant)
        _progress("", end=True)
        refutations.append(refutation)
        _tell(_row(refutation), as_json=as_json)
        found = refutation.counterexample if tell else None
        for each in (found, refutation.safe.counterexample):
            if each is not None:
                _tell("\n" + told(each, unicode=_unicode()), as_json=as_json)
    if as_json:
        click.echo(json.dumps({"variants": [_variant_json(each) for each in refutations]}, indent=2))
    failed = [each.variant.name for each in refutations if not each.holds]
    refuted = f"{len(refutations) - len(failed)} of {len(refutations)} variants refuted, the safe design beside each not"
    _tell(refuted + (f"; not so: {', '.join(failed)}" if failed else ""), as_json=as_json)
    return not failed


def _row(each: Refutation) -> str:
    found, variant = each.counterexample, each.variant
    seconds = each.unsafe.seconds + each.safe.seconds
    steps, requirement = ("-", "NOTHING") if found is None else (str(each.length), found.broken[0].requirement)
    safe = "BROKEN" if each.safe.counterexample is not None else str(each.safe.states)
    return f"{variant.name:<28} {steps:>5} {requirement:<8} {variant.breaks:<36} {each.unsafe.states:>7} {safe:>7} {seconds:>6.1f}"


def _variant_json(each: Refutation) -> dict[str, Json]:
    variant, found = each.variant, each.counterexample
    return {
        "name": variant.name,
        "doc": variant.doc,
        "breaks": variant.breaks,
        "requirement": None if found is None else found.broken[0].requirement,
        "refuted": found is not None,
        "steps": each.length,
        "scenario": None if found is None else scenario_io.document(scenario_of(found)),
        "dimensions": dict(variant.bounds.dimensions),
        "unsafe": {"design": variant.design.name, **_counts(each.unsafe)},
        "safe": {"design": variant.safe.name, **_counts(each.safe)},
    }
