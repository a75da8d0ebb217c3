"""The click group: finds a subcommand's module by name when it is called, and turns every error into a message and an exit code.

2 bad usage or configuration, 4 an adapter that cannot be used, 70 a bug of ours, 130 interrupted; the commands set the others.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from kvprefix.errors import AdapterError, KvprefixError
from kvprefix_conformance.report.plain import printable
from kvprefix_conformance.version import suite_version
from kvprefix_conformance.wire.codec import near

USAGE = 2
BROKEN_ADAPTER = 4
BUG = 70
#: Errors of a disk that takes no more.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED = 130

#: Every subcommand with its line in --help. One whose module is not there is neither listed nor known.
COMMANDS: Mapping[str, str] = {
    "check": "Test a backend against what it declares.",
    "list": "List requirements and the checks that judge them; nothing is run.",
    "explain": "Explain a requirement: sentence, reason, checks, faults that break it.",
    "smoke": "Is the adapter right? A few operations, each answer shown.",
    "rerun": "Run a recorded scenario again on a backend.",
    "init": "Write an adapter stub.",
    "keys": "Hash blocks; format, parse and explain object keys.",
    "vectors": "Copy or check the language-neutral vectors.",
    "faults": "Test the suite itself: which faulty backends it catches.",
    "report": "Render reports, merge shards, draw the matrix and the badge.",
    "results": "Refresh and compare recorded results of real backends.",
    "explore": "Run the model checker over the abstract model.",
    "replay": "Run a request trace through a store.",
    "spec": "Show the requirement matrix; build the specification.",
}


def _module(name: str) -> str | None:
    """The module of a subcommand, if it is there."""
    module = f"kvprefix_conformance.commands.{name}"
    return module if name in COMMANDS and importlib.util.find_spec(module) is not None else None


class KvprefixGroup(click.Group):
    """Commands by name, imported when called; errors become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands whose module is there, in the order of COMMANDS."""
        return [name for name in COMMANDS if _module(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command's module."""
        module = _module(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name is answered with what is near."""
        name = args[0]
        if not name.startswith("-") and _module(name) is None:
            ctx.fail(f"no command {printable(name)!r}; {near(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and exit with the right code; never a traceback for bad input."""
        _make_streams_usable()
        extra["standalone_mode"] = False
        try:
            with _signals_interrupt():
                code = super().main(*args, **extra)
            sys.stdout.flush()
        except click.exceptions.Exit as exit_:
            sys.exit(exit_.exit_code)
        except click.ClickException as problem:
            problem.show()
            sys.exit(USAGE)
        except AdapterError as problem:
            _complain(str(problem), BROKEN_ADAPTER)
        except KvprefixError as problem:
            _complain(str(problem), USAGE)
        except (click.Abort, KeyboardInterrupt):
            _complain("interrupted", INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has left
            _silence_stdout()
            sys.exit(1)
        except OSError as problem:
            if problem.errno not in _NO_ROOM:
                _bug()
            _silence_stdout()
            _complain(f"cannot write the output: {problem.strerror}", USAGE)
        except Exception:
            _bug()
        sys.exit(code if isinstance(code, int) else 0)


def _bug() -> NoReturn:
    traceback.print_exc()
    _complain("this is a bug in kvprefix; please report it with the lines above", BUG)


def _silence_stdout() -> None:
    """What is left to be flushed at exit must not complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _complain(message: str, code: int) -> NoReturn:
    print(f"kvprefix: {printable(message)}", file=sys.stderr)
    sys.exit(code)


def _make_streams_usable() -> None:
    """A stream that was closed before the start goes nowhere; a terminal that cannot show a character shows its escape instead."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _signals_interrupt() -> Any:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: the report is written, children are stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only the main thread may; a test runner may call from another.
            with contextlib.suppress(ValueError):
                before[number] = signal.signal(number, interrupt)
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)


@click.group(cls=KvprefixGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(suite_version(), prog_name="kvprefix", message="%(prog)s %(version)s")
def group() -> None:
    """The executable specification of prefix-aware KV-cache stores, and the suite that backends must pass."""
