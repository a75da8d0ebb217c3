"""``kvprefix smoke``: is the adapter right? A few operations, each with its answer, before any check is run.

Exit codes: 0 nothing is wrong, 1 something is but checks can run, 2 bad usage, 4 the adapter cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from kvprefix_conformance import runner
from kvprefix_conformance.commands.backend_argument import (
    BACKENDS_HELP,
    BROKEN_ADAPTER,
    BackendCommand,
    backend_argument,
    target_of,
)
from kvprefix_conformance.narrate import answer_text, call_text
from kvprefix_conformance.records import Step
from kvprefix_conformance.report.plain import one_line, printable


@click.command(
    cls=BackendCommand, help=f"Is the adapter right? A few operations, each answer shown; nothing is judged yet.\n\n{BACKENDS_HELP}"
)
@backend_argument
@click.pass_context
def command(ctx: click.Context, backend: str, deadline_ms: int) -> None:
    """Show a few operations with their answers."""
    target = target_of(backend, deadline_ms)
    smoke = runner.smoke(target)
    for line in numbered(smoke.steps):
        click.echo(line)
    if smoke.offered:
        click.echo(f"\noffers: {', '.join(sorted(smoke.offered))}")
    for problem in smoke.problems:
        click.echo(f"problem: {one_line(problem)}", err=True)
    if smoke.broken:
        click.echo("kvprefix: the adapter cannot be tested like this", err=True)
        ctx.exit(BROKEN_ADAPTER)
    if not smoke.ok:
        ctx.exit(1)
    click.echo(f"\nfit to be tested: kvprefix check {printable(target.spec)}")


def numbered(steps: Sequence[Step]) -> list[str]:
    """Steps with their answers, one line each."""
    calls = [printable(call_text(step), keep="") for step in steps]
    column = min(60, max((len(call) for call in calls), default=0))
    return [
        f"{number:>3}. {call:<{column}}  -> {printable(answer_text(step), keep='')}"
        for number, (step, call) in enumerate(zip(steps, calls, strict=True), start=1)
    ]
