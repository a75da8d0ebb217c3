"""The report for people: the requirement table, the failures one screen each, and one line that sums up; on a console or as text.

Every string that came from a backend is made printable first.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kvprefix_conformance.narrate import narrate
from kvprefix_conformance.records import Report, Result, Verdict
from kvprefix_conformance.report.plain import one_line, printable

#: Width where there is no terminal to ask.
WIDTH: Final = 120

_STYLES: Mapping[Verdict, str] = {
    Verdict.SKIPPED: "dim",
    Verdict.PASS: "green",
    Verdict.EXPECTED_FAILURE: "yellow",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold red",
}

_WORDS: Mapping[Verdict, str] = {
    Verdict.SKIPPED: "skipped",
    Verdict.PASS: "pass",
    Verdict.EXPECTED_FAILURE: "expected failure",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.FAIL: "FAIL",
    Verdict.ERROR: "ERROR",
}

#: What each exit code means.
MEANINGS: Mapping[int, str] = {
    0: "conforms to all that was tested",
    1: "does not conform",
    2: "bad usage or configuration",
    3: "inconclusive: not everything could be shown",
    4: "the adapter is broken before the first check",
    5: "the list of expected failures is stale",
}


def make_console(*, stderr: bool = False, color: bool = True) -> Console:
    """A console that prints what it is given and nothing cleverer. On no terminal it is WIDTH columns wide."""
    console = Console(stderr=stderr, no_color=None if color else True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


#: The command that runs a failure's scenario again, or empty where there is no file to name.
Rerun = Callable[[Result], str]


def _no_file(_result: Result) -> str:
    return ""


def text_of(report: Report, rerun: Rerun = _no_file) -> str:
    """The whole report as plain text, with the must-hits in full."""
    file = io.StringIO()
    console = Console(file=file, color_system=None, width=WIDTH, markup=False, emoji=False, highlight=False)
    show(report, console, rerun=rerun)
    for line in exercised(report):
        console.print(line, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def show(report: Report, console: Console, *, quiet: bool = False, rerun: Rerun = _no_file) -> None:
    """Print the report; quiet: only what is wrong, and the summary."""
    if report.results and not quiet:
        console.print(table(report))
    for result in failures(report):
        _show_failure(result, console, rerun(result))
    _show_remarks(report, console)
    console.print(Text(summary(report), style="bold"), soft_wrap=True)


def failures(report: Report) -> tuple[Result, ...]:
    """The results that failed and were not expected to."""
    return tuple(result for result in report.results if result.verdict >= Verdict.FAIL)


# --------------------------------------------------------------------------------------------------------------------------------
# Parts


def table(report: Report) -> Table:
    """One row for each requirement."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column("requirement", no_wrap=True)
    rows.add_column("verdict", no_wrap=True)
    rows.add_column("must-hits", no_wrap=True)
    rows.add_column("evidence", no_wrap=True)
    rows.add_column("why", ratio=1)
    for result in report.results:
        rows.add_row(
            result.requirement,
            Text(_WORDS[result.verdict], style=_STYLES[result.verdict]),
            _seen(result),
            result.evidence,
            one_line(result.reason),
        )
    return rows


def _seen(result: Result) -> str:
    """How many must-hits there were, and how often the rarest of them was seen."""
    counts = result.exercised.values()
    return f"{len(counts)}, rarest {min(counts)} times" if counts else ""


def exercised(report: Report) -> list[str]:
    """What the run really saw for each requirement, one line each."""
    lines = [
        f"{result.requirement}: " + ", ".join(f"{name} ({count})" for name, count in result.exercised.items())
        for result in report.results
        if result.exercised
    ]
    return ["", "What the run really saw (times)", *map(one_line, lines)] if lines else []


def _show_failure(result: Result, console: Console, rerun: str) -> None:
    console.print()
    console.print(Rule(f"{result.requirement} {_WORDS[result.verdict]}", style="red", align="left"))
    if result.scenario is None:
        console.print(one_line(result.reason), soft_wrap=True)
    else:
        text = narrate(result.scenario, unicode=console.encoding.startswith("utf"), rerun=rerun)
        console.print(printable(text), soft_wrap=True, end="")


def _show_remarks(report: Report, console: Console) -> None:
    remarks = [f"stale expected failure: {entry}" for entry in report.stale]
    if report.broken:
        remarks.append(f"the adapter cannot be tested: {report.broken}")
    if report.interrupted:
        remarks.append(f"cut short: {report.interrupted}; this is what ran")
    if remarks:
        console.print()
    for remark in remarks:
        console.print(one_line(remark, 2000), style="yellow", soft_wrap=True)
    console.print()


def summary(report: Report) -> str:
    """One line: who, what was shown, how much was done, and what the exit code means."""
    by_verdict = {verdict: sum(result.verdict is verdict for result in report.results) for verdict in Verdict}
    verdicts = ", ".join(f"{count} {_WORDS[verdict]}" for verdict, count in sorted(by_verdict.items(), reverse=True) if count)
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
    name = one_line(f"{report.backend} {report.backend_version}".strip(), 80)
    code = report.exit_code
    parts = [verdicts or "nothing was judged", counts, f"seed {report.seed}", f"{report.seconds:.1f} s"]
    return f"{name}: {MEANINGS[code]} (exit {code}). " + "; ".join(part for part in parts if part)
