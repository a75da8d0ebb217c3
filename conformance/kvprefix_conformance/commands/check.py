"""``kvprefix check``: run the checks against a backend, report on the console and in files, exit with the verdict.

What is written to --out is written beside the console report, never instead of it: where the disk is full, what ran is still shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kvprefix.api import PROFILES
from kvprefix_conformance import expectations, runner
from kvprefix_conformance.commands.backend_argument import BACKENDS_HELP, BackendCommand, backend_argument, target_of
from kvprefix_conformance.plan import DEFAULT_EXAMPLES, DEFAULT_SEED, Plan
from kvprefix_conformance.records import Expectation, Report, Result
from kvprefix_conformance.report import document, files
from kvprefix_conformance.report.console import make_console, show
from kvprefix_conformance.report.plain import printable
from kvprefix_conformance.report.progress import progress_on
from kvprefix_conformance.requirements import catalogue
from kvprefix_conformance.target import Target
from kvprefix_conformance.wire.codec import near

_HELP = f"""Test a backend against what it declares.

{BACKENDS_HELP} A Python factory and a command run in a process of their own.

Exit codes: 0 conforms to all that was tested; 1 does not; 2 bad usage or configuration; 3 inconclusive; 4 the adapter is broken
before the first check; 5 the list of expected failures is stale. 2 goes before 4, 4 before 1, 1 before 5, 5 before 3. Where only
the files of --out could not be written, the code is that of the verdict, or 2 in place of 0.
"""


def requirement_ids(_ctx: click.Context, _parameter: click.Parameter, ids: tuple[str, ...]) -> tuple[str, ...]:
    """The IDs as the catalogue spells them; an unknown one is answered with what is near."""
    known = catalogue().requirements
    for rid in ids:
        if rid.upper() not in known:
            raise click.BadParameter(f"unknown requirement {printable(rid)!r}; {near(rid.upper(), known)}")
    return tuple(rid.upper() for rid in ids)


def profile_names(_ctx: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Known profiles; an unknown one is answered with what is near."""
    for name in names:
        if name not in PROFILES:
            raise click.BadParameter(f"unknown profile {printable(name)!r}; {near(name, PROFILES)}")
    return names


@click.command(cls=BackendCommand, help=_HELP)
@backend_argument
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="P",
    callback=profile_names,
    help="Test this profile even if it is not declared. Repeatable.",
)
@click.option(
    "--requirement",
    "requirements",
    multiple=True,
    metavar="ID",
    callback=requirement_ids,
    help="Test this requirement even if it is not declared. Repeatable.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=DEFAULT_SEED, show_default=True, help="The same seed, the same verdict."
)
@click.option("--explore", is_flag=True, help="Draw a fresh seed; the report names it.")
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    default=DEFAULT_EXAMPLES,
    show_default=True,
    help="Examples of each generated check.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Spread this much time over the checks.",
)
@click.option(
    "--expect",
    "expect_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Expected failures, a TOML file of [[expect]] entries. Those that the suite ships for a backend are not used then, nor "
    "with --profile or --requirement.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write report.json, report.txt and scenarios/*.json, one for each failure.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout; the rest goes to stderr.")
@click.option("--quiet", is_flag=True, help="Print failures and the summary, nothing else.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    backend: str,
    deadline_ms: int,
    expect_file: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    no_color: bool,
    **plan: Any,
) -> None:
    """Test a backend against what it declares."""
    target = target_of(backend, deadline_ms)
    expected = _expected(target, expect_file, asked=bool(plan["profiles"] or plan["requirements"]))
    folder = files.Folder(out) if out is not None else None
    if folder is not None and (problem := folder.prepare()):
        click.echo(f"kvprefix: {problem}; the run goes on, and its report is printed here", err=True)
    report = _run(target, Plan(expectations=expected, deadline_ms=deadline_ms, **plan), quiet=quiet, color=not no_color)
    console = make_console(stderr=as_json, color=not no_color)
    show(report, console, quiet=quiet, rerun=folder.rerun if folder is not None else _check_again(report, target))
    if as_json:
        click.echo(document.dumps(report), nl=False)
    written = folder is None or _write(folder, report)
    ctx.exit(report.exit_code if written or report.exit_code else 2)


def _expected(target: Target, file: Path | None, *, asked: bool) -> tuple[Expectation, ...]:
    """The given expectations; else those that ship for the backend, unless something special was asked for."""
    if file is not None:
        return expectations.load(file)
    return () if asked else expectations.builtin(target.name)


def _check_again(report: Report, target: Target) -> Callable[[Result], str]:
    """Without --out there is no scenario file to name: the command that finds the failure again and writes one."""
    return lambda result: f"kvprefix check --requirement {result.requirement} --seed {report.seed} --out DIR {target.spec}"


def _run(target: Target, plan: Plan, *, quiet: bool, color: bool) -> Report:
    """Run with progress on stderr, which is taken away whatever happens."""
    progress = progress_on(make_console(stderr=True, color=color))
    try:
        return runner.run(target, plan, None if quiet else progress)
    finally:
        progress.stop()


def _write(folder: files.Folder, report: Report) -> bool:
    problem = folder.write(report)
    if problem:
        click.echo(f"kvprefix: {problem}; the report above is all that is kept", err=True)
    return not problem
