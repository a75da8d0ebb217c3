"""How a command takes a backend: BACKEND as its last argument, or a command line after --, and the deadline of one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kvprefix_conformance.plan import Plan
from kvprefix_conformance.target import Target
from kvprefix_conformance.targets import KINDS, resolve

#: Exit code where the adapter cannot be used at all.
BROKEN_ADAPTER = 4

_COMMAND = "kvprefix.command"
_Function = TypeVar("_Function", bound=Callable[..., Any])

BACKENDS_HELP = f"BACKEND is one of: {', '.join(KINDS)}."


class BackendCommand(click.Command):
    """A command whose arguments end at --; what follows is the command line of an adapter, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first --."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
            if not ctx.meta[_COMMAND]:
                raise click.UsageError("-- must be followed by the command of an adapter", ctx)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The last line of usage shows both forms."""
        return [piece.replace("[BACKEND]", "BACKEND | -- COMMAND ARGS") for piece in super().collect_usage_pieces(ctx)]


def backend_argument(function: _Function) -> _Function:
    """The argument BACKEND and the option --deadline."""
    deadline = click.option(
        "--deadline",
        "deadline_ms",
        type=click.IntRange(min=1),
        default=Plan().deadline_ms,
        show_default=True,
        metavar="MS",
        help="Longest time that one operation of an adapter in another process may take.",
    )
    return click.argument("backend", default="")(deadline(function))


def target_of(backend: str, deadline_ms: int) -> Target:
    """What the arguments of the current command name. Raises :class:`ConfigurationError`."""
    command: tuple[str, ...] = click.get_current_context().meta.get(_COMMAND, ())
    return resolve(backend, command, deadline_ms)
