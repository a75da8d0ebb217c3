"""A replay for people: progress while it runs, and the table at its end.

Every string that came from a trace's name or a backend is made printable first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import attrs
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kvprefix.replay.outcome import Evidence, Outcome, Step
from kvprefix_conformance.report.plain import one_line

#: Seconds from one line of progress to the next, where there is no terminal.
LINE_EVERY_S = 5.0
#: Requests from one movement of the bar to the next.
_MOVE_EVERY = 20


@attrs.frozen
class Played:
    """A replay with what surrounds it."""

    outcome: Outcome
    #: The trace, as the user named it.
    trace: str
    #: Lines of it that were skipped.
    bad_lines: int
    #: Different blocks in what was read.
    blocks: int
    seconds: float


# --------------------------------------------------------------------------------------------------------------------------------
# The table


def rows(played: Played) -> list[tuple[str, str]]:
    """The lines of the table: a name and what to say of it."""
    outcome, counters = played.outcome, played.outcome.counters
    skipped = f", {_bad_lines(played.bad_lines)} skipped" if played.bad_lines else ""
    lines = [
        ("trace", one_line(played.trace) + skipped),
        ("store", f"{_store_name(outcome)}, capacity {outcome.capacity_blocks:,} blocks of {outcome.block_bytes:,} bytes"),
        ("replayed", ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in outcome.settings.items())),
        ("requests", f"{counters.requests:,}"),
        ("block accesses", f"{counters.accesses:,} to {played.blocks:,} different blocks"),
        ("hits by prefix", f"{counters.hits:,} ({_share(counters.hits, counters.accesses)})"),
        ("  an endless store", _share(counters.accesses - played.blocks, counters.accesses)),
        ("hits behind a hole", _count(counters.unreachable_hits)),
        ("stored", f"{counters.stored:,}" + (f", {counters.duplicates:,} were there" if counters.duplicates else "")),
        ("evicted", _count(counters.evictions)),
        ("not stored", _refusals(outcome)),
        ("orphans", _orphans(outcome)),
        ("bytes verified", f"{counters.bytes_verified:,}, {counters.wrong_bytes:,} wrong"),
        ("time", f"{played.seconds:.1f} s, {counters.accesses / max(played.seconds, 1e-9):,.0f} accesses a second"),
    ]
    if counters.vanished:
        lines.insert(6, ("  gone before reading", f"{counters.vanished:,}"))
    return lines


def table(played: Played) -> str:
    """The lines as a table."""
    lines = rows(played)
    width = 2 + max(len(name) for name, _value in lines)
    return "\n".join(f"{name:{width}}{value}" for name, value in lines)


def _store_name(outcome: Outcome) -> str:
    return one_line(f"{outcome.backend} {outcome.backend_version}".strip())


def _bad_lines(count: int) -> str:
    return f"{count:,} bad line{'s' if count != 1 else ''}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _refusals(outcome: Outcome) -> str:
    counters = outcome.counters
    if not counters.refused:
        return "0"
    answers = ", ".join(f"{answer} {count:,}" for answer, count in sorted(counters.refused.items()))
    return f"{answers}; {counters.not_tried:,} behind them were not tried"


def _orphans(outcome: Outcome) -> str:
    if outcome.evidence is Evidence.NONE:
        return "not known: the store tells neither what it evicts nor what is resident"
    mean = outcome.orphans_mean
    told = [
        f"at most {_count(outcome.counters.orphans_max)}",
        f"{mean:,.1f} on average" if mean is not None else "",
        f"{_count(outcome.orphans)} at the last look" if outcome.samples else "",
    ]
    return f"{', '.join(part for part in told if part)} (by {outcome.evidence.value})"


# --------------------------------------------------------------------------------------------------------------------------------
# Progress


class Progressing(Protocol):
    """Observes a replay."""

    def __call__(self, step: Step) -> None:
        """A request is done."""
        ...

    def stop(self) -> None:
        """Take away what is on the screen. Safe to call twice."""
        ...


def progress_on(console: Console, share: Callable[[], float | None]) -> Progressing:
    """What suits the console; ``share`` is how much of the replay is done, from 0 to 1, where that is known."""
    return Bar(console, share) if console.is_terminal else Lines(console)


class _Counts:
    """The running sums that progress shows."""

    def __init__(self) -> None:
        self._requests = self._accesses = self._hits = 0
        self._orphans: int | None = None

    def add(self, step: Step) -> None:
        """Count a request."""
        self._requests = step.number
        self._accesses += step.accesses
        self._hits += step.hits
        self._orphans = step.orphans

    def __str__(self) -> str:
        orphans = "" if self._orphans is None else f", {self._orphans:,} orphans"
        return f"{self._requests:,} requests, {self._accesses:,} blocks, {_share(self._hits, self._accesses)} hits{orphans}"


class Lines:
    """Progress where there is no terminal: a line every few seconds."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._counts = _Counts()
        self._due = clock() + LINE_EVERY_S

    def __call__(self, step: Step) -> None:
        """Count, and say so when it is time."""
        self._counts.add(step)
        now = self._clock()
        if now >= self._due:
            self._due = now + LINE_EVERY_S
            self._console.print(f"replay: {self._counts}")

    def stop(self) -> None:
        """Nothing is on the screen."""


class Bar:
    """Progress on a terminal: a bar that moves with the trace."""

    def __init__(self, console: Console, share: Callable[[], float | None]) -> None:
        self._share = share
        self._counts = _Counts()
        self._progress = Progress(
            SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
        )
        self._task = self._progress.add_task("starting", total=None)
        self._progress.start()

    def __call__(self, step: Step) -> None:
        """Count, and move the bar now and then."""
        self._counts.add(step)
        if step.number % _MOVE_EVERY == 0:
            share = self._share()
            known: dict[str, Any] = {} if share is None else {"completed": share, "total": 1.0}
            self._progress.update(self._task, description=str(self._counts), **known)

    def stop(self) -> None:
        """Take the bar away."""
        self._progress.stop()
