"""``kvprefix replay TRACE``: a request trace through any backend; and ``kvprefix replay generate FILE``: a synthetic trace.

The reference's replay knows no backend by name: they are resolved here and handed to it. However it ended, what ran is shown.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import click

from kvprefix.api import Backend
from kvprefix.errors import ConfigurationError, TraceError
from kvprefix.replay import BLOCK_TOKENS, SHIPPED, Request, TraceReader, line_of
from kvprefix.replay.generate import SMALL, Spread, Workload, generate
from kvprefix.replay.outcome import StopKind, to_json
from kvprefix.replay.run import DEFAULT_BLOCK_BYTES, Lookup, Options, Order, replay
from kvprefix.replay.trace import STDIN
from kvprefix_conformance.commands.backend_argument import BackendCommand
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.report.console import make_console
from kvprefix_conformance.report.plain import one_line, printable
from kvprefix_conformance.report.replay import Played, progress_on, table
from kvprefix_conformance.targets import KINDS, resolve

_EXIT_CODES = {StopKind.BREACH: 1, StopKind.BACKEND: 1, StopKind.TRACE: 2, StopKind.INTERRUPTED: 130}
_REFERENCE = "reference"
_MOONCAKE = "mooncake"
#: As the smallest values in Mooncake's own examples: a block of 64 bytes would be all metadata.
_MOONCAKE_BLOCK_BYTES = 4096
#: Of bad lines, this many are shown; all are counted.
_BAD_LINES_SHOWN = 10

_HELP = f"""Run a request trace through a store and count what it was worth.

TRACE is a file in the JSON-lines format of Mooncake's FAST'25 traces, plain or gzip, or - for the standard input; the name
{", ".join(SHIPPED)} stands for a little one that ships with kvprefix, and `kvprefix replay generate FILE` makes others.

For each request the longest resident prefix is looked up and read, every byte is verified, and the missing blocks are stored, each
under its parent. A store that breaks what it declares ends the replay: a wrong byte, a phantom, an ancestor evicted before its
descendant, an orphan, more bytes than capacity.

The store's clock follows the trace where it can be driven. Real time is not waited for: a lease of a real server counts in the time
that the replay takes.

Exit codes: 0 the trace ran to its end; 1 a requirement was broken, or the store died midway; 2 bad usage, a bad trace, something to
install, or a file that could not be written; 4 a store that cannot be started; 130 interrupted. What ran is shown in any case.
"""


class ReplayCommand(BackendCommand):
    """The command itself, or a subcommand where its first argument is the name of one; ./NAME is a trace of that name."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the subcommand that is named, else of this command."""
        if args and args[0] in _SUBCOMMANDS:
            return _SUBCOMMANDS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run whichever command the context is of."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """A command line may stand in place of --store."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARGS]"]


def _choice(kind: type[Order] | type[Lookup]) -> click.Choice[str]:
    return click.Choice([each.value for each in kind])


@click.command(cls=ReplayCommand, help=_HELP)
@click.argument("trace")
@click.option("--store", metavar="BACKEND", help=f"One of: {', '.join(KINDS)}.  [default: {_REFERENCE}]")
@click.option("--capacity", type=click.IntRange(min=1), metavar="N", help="Capacity in blocks.  [default: 1000]")
@click.option("--capacity-bytes", type=click.IntRange(min=1), metavar="N", help="Capacity in bytes, instead.")
@click.option(
    "--block-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Size of a block's value.  [default: {DEFAULT_BLOCK_BYTES}; {_MOONCAKE}: {_MOONCAKE_BLOCK_BYTES}]",
)
@click.option("--requests", "limit", type=click.IntRange(min=1), metavar="N", help="Only the first N; the rest is not read.")
@click.option(
    "--order",
    type=_choice(Order),
    default=Order.ROOT_FIRST.value,
    show_default=True,
    help="Which end of a path is used first. leaf-first also touches the whole path from its leaf after each save.",
)
@click.option(
    "--store-order",
    type=_choice(Order),
    default=Order.ROOT_FIRST.value,
    show_default=True,
    help="Which end of the missing blocks is stored first.",
)
@click.option(
    "--lookup",
    type=_choice(Lookup),
    default=Lookup.AUTO.value,
    show_default=True,
    help="How a prefix is looked up: match, exists_many, exists block by block, or the first of them that is offered.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed: other keys and other bytes.")
@click.option(
    "--sample-every", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="Requests between two looks."
)
@click.option(
    "--block-tokens", type=click.IntRange(min=1), default=BLOCK_TOKENS, show_default=True, metavar="N", help="Tokens of a block."
)
@click.option("--keep-going", is_flag=True, help="Skip bad lines of the trace; they are counted, and the first ones shown.")
@click.option("--lease-ms", type=click.IntRange(min=1), metavar="MS", help=f"Read lease of {_MOONCAKE}.  [default: 1]")
@click.option(
    "--watermark",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="R",
    help=f"Where {_MOONCAKE} begins to evict.  [default: 0.95]",
)
@click.option(
    "--evict-ratio", type=click.FloatRange(0, 1), metavar="R", help=f"How much {_MOONCAKE} evicts at once.  [default: 0.05]"
)
@click.option(
    "--deadline",
    "deadline_ms",
    type=click.IntRange(min=1),
    default=Plan().deadline_ms,
    show_default=True,
    metavar="MS",
    help="Longest time that one operation of a store in another process may take.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON, samples included.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout; the rest goes to stderr.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    trace: str,
    block_tokens: int,
    keep_going: bool,
    limit: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    no_color: bool,
    **how: Any,
) -> None:
    """Run a request trace through a store."""
    open_backend = _store(ctx, how)
    options = _options(how)
    bad = _BadLines()
    reader = TraceReader(SHIPPED.get(trace, trace), block_tokens=block_tokens, keep_going=keep_going, on_bad=bad)
    with contextlib.closing(iter(reader)) as lines:
        requests = _begun(itertools.islice(lines, limit))
        if out is not None and (problem := _prepare(out)):
            click.echo(f"kvprefix: {problem}; the replay goes on, and its result is printed here", err=True)
        played = _play(requests, reader, open_backend, options, trace=trace, limit=limit, quiet=quiet, color=not no_color)
    bad.sum_up()
    _show(played, as_json=as_json, color=not no_color)
    written = out is None or _written(out, _document(played))
    stop = played.outcome.stop
    ctx.exit(_EXIT_CODES[stop.kind] if stop is not None else 0 if written else 2)


# --------------------------------------------------------------------------------------------------------------------------------
# What is asked for


def _store(ctx: click.Context, how: dict[str, Any]) -> Callable[[], Backend]:
    """How to open the store. Raises ConfigurationError, or MissingDependencyError later, when it is opened."""
    command_line: tuple[str, ...] = ctx.meta.get("kvprefix.command", ())
    spec = how["store"] if how["store"] is not None else "" if command_line else _REFERENCE
    tuning = {
        "lease_ttl_ms": how["lease_ms"] or 1,
        "watermark": 0.95 if how["watermark"] is None else how["watermark"],
        "ratio": 0.05 if how["evict_ratio"] is None else how["evict_ratio"],
    }
    given = [f"--{name.replace('_', '-')}" for name in ("lease_ms", "watermark", "evict_ratio") if how[name] is not None]
    target = resolve(spec, command_line, how["deadline_ms"])
    if spec == _MOONCAKE:
        return functools.partial(target.open, **tuning)  # a partial of open_backend, which takes them
    if given:
        raise ConfigurationError(f"{', '.join(given)} is for --store {_MOONCAKE}.", "Leave it away.")
    return target.open


def _options(how: dict[str, Any]) -> Options:
    block_bytes = how["block_bytes"] or (_MOONCAKE_BLOCK_BYTES if how["store"] == _MOONCAKE else DEFAULT_BLOCK_BYTES)
    if how["capacity_bytes"] is not None:
        if how["capacity"] is not None:
            raise ConfigurationError("both --capacity and --capacity-bytes were given.", "Give one of them.")
        if how["capacity_bytes"] < block_bytes:
            raise ConfigurationError(f"{how['capacity_bytes']} bytes hold no block of {block_bytes} bytes.", "Give more.")
    capacity = how["capacity"] or 1000
    return Options(
        capacity_blocks=capacity if how["capacity_bytes"] is None else how["capacity_bytes"] // block_bytes,
        block_bytes=block_bytes,
        order=Order(how["order"]),
        store_order=Order(how["store_order"]),
        lookup=Lookup(how["lookup"]),
        sample_every=how["sample_every"],
        namespace=f"replay-{how['seed']}",
    )


def _begun(requests: Iterator[Request]) -> Iterator[Request]:
    """The same requests, the first of them read: a trace that cannot be read at all starts no server."""
    return itertools.chain([next(requests)], requests)


class _BadLines:
    """Tells of the first bad lines at once, and of all at the end."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, bad: TraceError) -> None:
        self._count += 1
        if self._count <= _BAD_LINES_SHOWN:
            click.echo(f"kvprefix: {printable(str(bad))}", err=True)

    def sum_up(self) -> None:
        """How many there were."""
        if self._count:
            shown = f" (the first {_BAD_LINES_SHOWN} are shown above)" if self._count > _BAD_LINES_SHOWN else ""
            click.echo(f"kvprefix: bad lines skipped: {self._count:,}{shown}", err=True)


# --------------------------------------------------------------------------------------------------------------------------------
# The run


def _play(
    requests: Iterator[Request],
    reader: TraceReader,
    open_backend: Callable[[], Backend],
    options: Options,
    *,
    trace: str,
    limit: int | None,
    quiet: bool,
    color: bool,
) -> Played:
    """Replay with progress on stderr; store and progress are taken away whatever happens."""
    with contextlib.closing(open_backend()) as backend, contextlib.ExitStack() as stack:
        observe = None
        if not quiet:
            observe = progress_on(make_console(stderr=True, color=color), lambda: _share_done(reader, limit))
            stack.callback(observe.stop)
        begun = time.perf_counter()
        outcome = replay(requests, backend, options, observe)
        seconds = time.perf_counter() - begun
    return Played(outcome, trace, reader.bad_lines, len(reader.parents), seconds)


def _share_done(reader: TraceReader, limit: int | None) -> float | None:
    return reader.share_read() if limit is None else min(1.0, reader.requests / limit)


def _show(played: Played, *, as_json: bool, color: bool) -> None:
    console = make_console(stderr=as_json, color=color)
    if played.outcome.counters.requests:
        console.print(table(played), soft_wrap=True)
    if as_json:
        click.echo(_document(played), nl=False)
    stop = played.outcome.stop
    if stop is not None:
        click.echo(f"kvprefix: {one_line(str(stop))}", err=True)


def _document(played: Played) -> str:
    trace = {"source": played.trace, "bad_lines": played.bad_lines, "blocks": played.blocks}
    return json.dumps({**to_json(played.outcome), "trace": trace, "seconds": round(played.seconds, 3)}, indent=2) + "\n"


# --------------------------------------------------------------------------------------------------------------------------------
# Files


def _prepare(path: Path) -> str:
    """Make the folder of a file that will be written; what is wrong, or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        return _unwritable(path, problem)
    return f"cannot write {path}: it is a directory" if path.is_dir() else ""


def _written(path: Path, text: str) -> bool:
    try:
        with _whole_file(path) as file:
            file.write_text(text, encoding="utf-8")
    except OSError as problem:
        click.echo(f"kvprefix: {printable(_unwritable(path, problem))}; what is printed above is all that is kept", err=True)
        return False
    return True


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """A neighbour to write to, which then takes the place of the file: nobody ever finds half of one."""
    if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
        yield path
        return
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _unwritable(path: Path, problem: OSError) -> str:
    return f"cannot write {path}: {problem.strerror or problem}"


# --------------------------------------------------------------------------------------------------------------------------------
# kvprefix replay generate


def _spread(_ctx: click.Context, _parameter: click.Parameter, text: str) -> Spread:
    """The distribution that an option tells."""
    try:
        return Spread.parse(text)
    except ConfigurationError as problem:
        raise click.BadParameter(str(problem)) from None


def _knob_options(function: Callable[..., None]) -> Callable[..., None]:
    """One option for each field of Workload."""
    for field in reversed(attrs.fields(Workload)):
        default = getattr(SMALL, field.name)
        spread = isinstance(default, Spread)
        option = click.option(
            f"--{field.name.replace('_', '-')}",
            type=str if spread else type(default),
            default=str(default) if spread else default,
            show_default=True,
            callback=_spread if spread else None,
            metavar="A,B,C,D" if spread else "N" if isinstance(default, int) else "R",
            help=field.metadata["doc"],
        )
        function = option(function)
    return function


@click.command(name="generate")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_knob_options
@click.pass_context
def generate_command(ctx: click.Context, /, file: Path, **knobs: Any) -> None:
    """Write a synthetic trace to FILE, or to the standard output for -.

    Conversations begin with a shared system prompt, grow turn by turn, and now and then fork. Lengths and times are drawn from
    distributions told by four quantiles: least, median, nine tenths, most; one number is a constant. The same options give the same
    bytes on every machine; without any they give the trace that ships as `small`.
    """
    workload = Workload(**knobs)
    counts = {"requests": 0, "blocks": 0}
    different: set[int] = set()

    def lines() -> Iterator[str]:
        for request in generate(workload):
            counts["requests"] += 1
            counts["blocks"] += len(request.hash_ids)
            different.update(request.hash_ids)
            yield line_of(request)

    try:
        if str(file) == STDIN:
            sys.stdout.writelines(lines())
            sys.stdout.flush()
        else:
            with _whole_file(file) as part, part.open("w", encoding="ascii", newline="\n") as stream:
                stream.writelines(lines())
    except BrokenPipeError:
        raise
    except OSError as problem:
        click.echo(f"kvprefix: {printable(_unwritable(file, problem))}", err=True)
        ctx.exit(2)
    told = f"{counts['requests']:,} requests, {counts['blocks']:,} blocks, {len(different):,} of them different"
    click.echo(f"kvprefix: {told}", err=True)


_SUBCOMMANDS: dict[str, click.Command] = {"generate": generate_command}
