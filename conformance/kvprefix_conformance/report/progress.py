"""Progress on a console while checks run: a live bar on a terminal, one line for each check elsewhere. Both observe a run."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from kvprefix_conformance.plan import CheckInfo, Observer
from kvprefix_conformance.records import Result, Violation
from kvprefix_conformance.report.plain import one_line


class Shown(Observer, Protocol):
    """An observer that may have something on the screen to take away."""

    def stop(self) -> None:
        """Take it away. Safe to call again, and when nothing was started."""
        ...


def progress_on(console: Console) -> Shown:
    """The observer that suits the console."""
    return Live(console) if console.is_terminal else Lines(console)


class Live:
    """Progress on a terminal: one bar that moves, and a line for each requirement that breaks."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def run_started(self, checks: tuple[CheckInfo, ...], requirements: tuple[str, ...]) -> None:
        """Show the bar."""
        self._progress.start()
        self._task = self._progress.add_task(f"{len(requirements)} requirements", total=len(checks), counts="")

    def check_started(self, check: CheckInfo, index: int, total: int) -> None:
        """Name the check."""
        self._update(description=check.name, completed=index - 1, total=total, counts="")

    def progress(self, check: CheckInfo, examples: int, operations: int) -> None:
        """Count."""
        self._update(description=check.name, counts=f"{examples} examples, {operations} operations")

    def violation(self, check: CheckInfo, violation: Violation) -> None:
        """Tell it at once, above the bar."""
        self._progress.console.print(_broken(violation, check), style="red")
        self._update(description=f"{check.name}: minimising")

    def check_finished(self, check: CheckInfo, seconds: float) -> None:  # noqa: ARG002 - the signature of Observer
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task)

    def run_finished(self, results: tuple[Result, ...]) -> None:  # noqa: ARG002 - the signature of Observer
        """Take the bar away."""
        self.stop()

    def stop(self) -> None:
        """Take the bar away, if it is there. Safe to call again."""
        self._progress.stop()

    def _update(
        self, *, description: str, counts: str | None = None, completed: int | None = None, total: int | None = None
    ) -> None:
        if self._task is not None:
            self._progress.update(self._task, description=description, completed=completed, total=total)
            if counts is not None:
                self._progress.update(self._task, counts=counts)


class Lines:
    """Progress where there is no terminal: one line for each check as it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._place = ""
        self._counts = ""

    def run_started(self, checks: tuple[CheckInfo, ...], requirements: tuple[str, ...]) -> None:
        """Say what is to come."""
        self._console.print(f"{len(checks)} checks for {len(requirements)} requirements")

    def check_started(self, check: CheckInfo, index: int, total: int) -> None:  # noqa: ARG002 - the signature of Observer
        """Remember which it is."""
        self._place, self._counts = f"[{index}/{total}]", "no example"

    def progress(self, check: CheckInfo, examples: int, operations: int) -> None:  # noqa: ARG002 - the signature of Observer
        """Remember the counts."""
        self._counts = f"{examples} examples, {operations} operations"

    def violation(self, check: CheckInfo, violation: Violation) -> None:
        """Tell it at once."""
        self._console.print(_broken(violation, check), soft_wrap=True)

    def check_finished(self, check: CheckInfo, seconds: float) -> None:
        """The line."""
        self._console.print(f"{self._place} {check.name}: {self._counts}, {seconds:.1f} s", soft_wrap=True)

    def run_finished(self, results: tuple[Result, ...]) -> None:
        """Nothing: the report follows."""

    def stop(self) -> None:
        """Nothing to take away."""


def _broken(violation: Violation, check: CheckInfo) -> str:
    return one_line(f"{violation.requirement} broken in {check.name} ({violation.kind}): {violation.because}")
