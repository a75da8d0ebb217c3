"""``kvprefix rerun``: a recorded scenario again, on the backend that broke or on any other.

Exit codes: 0 nothing is violated, 1 a requirement is, 2 the file is no scenario, 4 the adapter cannot be used.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import click

from kvprefix.errors import ConfigurationError
from kvprefix_conformance import runner, scenario_io
from kvprefix_conformance.commands.backend_argument import (
    BACKENDS_HELP,
    BROKEN_ADAPTER,
    BackendCommand,
    backend_argument,
    target_of,
)
from kvprefix_conformance.narrate import narrate
from kvprefix_conformance.plan import Rerun
from kvprefix_conformance.records import Scenario, Violation
from kvprefix_conformance.report.plain import one_line, printable
from kvprefix_conformance.target import Target


@click.command(
    cls=BackendCommand,
    help=f"Run a recorded scenario again on a backend. Exits with 1 if a requirement is violated, 0 if not.\n\n{BACKENDS_HELP}",
)
@click.argument("scenario", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@backend_argument
@click.pass_context
def command(ctx: click.Context, scenario: Path, backend: str, deadline_ms: int) -> None:
    """Run a scenario again."""
    recorded = read(scenario)
    target = target_of(backend, deadline_ms)
    rerun = runner.rerun(recorded, target)
    if rerun.broken and not rerun.steps:
        click.echo(f"kvprefix: {one_line(rerun.broken)}", err=True)
        ctx.exit(BROKEN_ADAPTER)
    click.echo(printable(narrate(_as_it_went(recorded, rerun, target), rerun=f"kvprefix rerun {scenario} {target.spec}")))
    for line in conclusions(recorded, rerun):
        click.echo(one_line(line))
    ctx.exit(1 if rerun.violations or rerun.broken else 0)


def read(path: Path) -> Scenario:
    """The scenario in a file. Raises ConfigurationError or ScenarioError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"cannot read the scenario in {path}: {problem}.") from None
    return scenario_io.loads(text)


def _as_it_went(recorded: Scenario, rerun: Rerun, target: Target) -> Scenario:
    """The scenario with the new answers. The drawn state is the recorded one, so it is shown only where nothing differs."""
    return attrs.evolve(
        recorded,
        steps=rerun.steps,
        violation=_foremost(recorded, rerun),
        state=() if rerun.differs else recorded.state,
        backend=target.name,
        backend_version="",
        spec=target.spec,
        shown=None,
    )


def _foremost(recorded: Scenario, rerun: Rerun) -> Violation | None:
    """The recorded violation if it showed again, else the first that showed."""
    return next((each for each in rerun.violations if _same(each, recorded.violation)), next(iter(rerun.violations), None))


def _same(one: Violation, other: Violation | None) -> bool:
    return other is not None and (one.requirement, one.kind) == (other.requirement, other.kind)


def conclusions(recorded: Scenario, rerun: Rerun) -> list[str]:
    """What the rerun says beside what the scenario said."""
    lines = []
    if rerun.differs:
        lines.append(f"answers differ from the recorded ones at step {', '.join(str(index + 1) for index in rerun.differs)}")
    if rerun.broken:
        lines.append(f"the backend broke: {rerun.broken}")
    before = recorded.violation
    if before is not None:
        again = any(_same(each, before) for each in rerun.violations)
        lines.append(f"{before.requirement} ({before.kind}) {'shows again' if again else 'does not show'}")
    lines += [f"{each.requirement} ({each.kind}): {each.because}" for each in rerun.violations if not _same(each, before)]
    return lines if lines else ["nothing is violated"]
