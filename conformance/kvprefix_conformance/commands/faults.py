"""``kvprefix faults``: the suite's own test. It runs the suite against deliberately broken stores and shows which it catches.

Exit codes: 0 every fault was caught on the requirement that it breaks, 1 at least one survived, 2 bad usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from kvprefix_conformance.faulty import FAULTS, find_fault
from kvprefix_conformance.faulty.killtable import EXAMPLES, Kill, kills
from kvprefix_conformance.faulty.registry import Fault
from kvprefix_conformance.plan import DEFAULT_SEED
from kvprefix_conformance.report.plain import one_line


@click.command()
@click.option("--only", "names", multiple=True, metavar="NAME", help="Only this fault. Repeatable.")
@click.option("--requirement", "requirements", multiple=True, metavar="ID", help="Only faults that break this. Repeatable.")
@click.option("--list", "listing", is_flag=True, help="Name the faults with what each does wrong; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--seed", type=int, default=DEFAULT_SEED, show_default=True, help="Seed of the generated checks.")
@click.option(
    "--examples", type=click.IntRange(1), default=EXAMPLES, show_default=True, help="Examples per generated check, at most."
)
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    requirements: tuple[str, ...],
    listing: bool,
    as_json: bool,
    seed: int,
    examples: int,
) -> None:
    """Test the suite itself: which faulty backends it catches."""
    faults = chosen(names, requirements)
    if listing:
        click.echo(json.dumps([_described(each) for each in faults], indent=2) if as_json else _list(faults))
        return
    rows: list[Kill] = []
    if not as_json:
        click.echo(_HEAD)
    for row in kills(faults, seed, examples):
        rows.append(row)
        if as_json:
            _progress(len(rows), len(faults))
        else:
            click.echo(_line(row))
    survivors = [row.fault.name for row in rows if not row.killed]
    if as_json:
        click.echo(json.dumps([_row(each) for each in rows], indent=2))
    else:
        click.echo(_summary(rows, survivors))
    ctx.exit(1 if survivors else 0)


def chosen(names: Sequence[str], requirements: Sequence[str]) -> tuple[Fault, ...]:
    """The faults that are asked for; all for no wish. Raises :class:`ConfigurationError` for an unknown name."""
    faults = tuple(find_fault(name) for name in names) or FAULTS
    known = {fault.requirement for fault in FAULTS}
    for requirement in requirements:
        if requirement not in known:
            raise click.BadParameter(f"no fault breaks {requirement!r}; there are faults for {', '.join(sorted(known))}")
    return tuple(fault for fault in faults if not requirements or fault.requirement in requirements)


# --------------------------------------------------------------------------------------------------------------------------------
# Text

_HEAD = f"{'fault':<36} {'breaks':<7} {'caught':<9} {'by':<25} {'steps':>5} {'seconds':>8}"


def _line(row: Kill) -> str:
    verdict = "yes" if row.killed else "SURVIVED"
    text = f"{row.fault.name:<36} {row.fault.requirement:<7} {verdict:<9} {row.kind:<25} {row.steps:>5} {row.seconds:>8.1f}"
    return text if row.killed else f"{text.rstrip()}  {one_line(row.because)}"


def _summary(rows: Sequence[Kill], survivors: Sequence[str]) -> str:
    seconds = sum(row.seconds for row in rows)
    text = f"\n{len(rows) - len(survivors)} of {len(rows)} faults caught in {seconds:.0f} s"
    return text if not survivors else f"{text}; survived: {', '.join(survivors)}"


def _list(faults: Sequence[Fault]) -> str:
    return "\n".join(f"{fault.name:<36} {fault.requirement:<7} {fault.doc}" for fault in faults)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {total}", nl=done == total, err=True)


# --------------------------------------------------------------------------------------------------------------------------------
# JSON


def _described(fault: Fault) -> dict[str, Any]:
    return {"name": fault.name, "requirement": fault.requirement, "reports": list(fault.reports), "doc": fault.doc}


def _row(row: Kill) -> dict[str, Any]:
    found = {"kind": row.kind, "because": row.because, "steps": row.steps, "seconds": round(row.seconds, 3)}
    return {**_described(row.fault), "caught": row.killed, **found}
