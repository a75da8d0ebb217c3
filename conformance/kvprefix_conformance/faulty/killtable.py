"""The kill table: does the suite fail each faulty backend, on the requirement that it breaks, and with how short a scenario?

This is how the suite itself is tested for sensitivity; variants.py is its test for specificity.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import attrs

from kvprefix_conformance import runner
from kvprefix_conformance.faulty.registry import Fault
from kvprefix_conformance.plan import DEFAULT_SEED, Plan
from kvprefix_conformance.records import Report, Result, Scenario, Verdict
from kvprefix_conformance.target import Target

#: Examples per generated check, at most.
EXAMPLES = 100
#: First a run with so few: most faults die on the directed scenarios, and a run does not end at its first finding.
FIRST_EXAMPLES = 8


@attrs.frozen
class Kill:
    """What one run of the suite says of one faulty backend."""

    fault: Fault
    #: The run failed, and the fault's own requirement is what failed.
    killed: bool
    #: Kind of the violation; empty for a survivor.
    kind: str
    #: Why, in one line: the contradiction, or why the fault survived.
    because: str
    #: The minimal scenario.
    scenario: Scenario | None
    seconds: float

    @property
    def steps(self) -> int:
        """Steps of the minimal scenario; 0 for a survivor."""
        return len(self.scenario.steps) if self.scenario is not None else 0


def kill(fault: Fault, seed: int = DEFAULT_SEED, examples: int = EXAMPLES) -> Kill:
    """Run the suite against the fault, on its requirement only; again with all examples if the first few do not catch it."""
    begun = time.perf_counter()
    row = _run(fault, seed, min(FIRST_EXAMPLES, examples))
    if not row.killed and examples > FIRST_EXAMPLES:
        row = _run(fault, seed, examples)
    return attrs.evolve(row, seconds=time.perf_counter() - begun)


def _run(fault: Fault, seed: int, examples: int) -> Kill:
    target = Target(fault.name, fault.open, f"fault:{fault.name}")
    report = runner.run(target, Plan(requirements=(fault.requirement,), seed=seed, examples=examples))
    if report.interrupted:  # an interrupted run shows nothing, and whoever interrupted wants it to end
        raise KeyboardInterrupt(report.interrupted)
    result = next((each for each in report.results if each.requirement == fault.requirement), None)
    failed = result is not None and result.verdict is Verdict.FAIL and report.exit_code == 1
    scenario = result.scenario if failed and result is not None else None
    violation = scenario.violation if scenario is not None else None
    return Kill(
        fault=fault,
        killed=failed,
        kind=violation.kind if violation is not None else "",
        because=violation.because if violation is not None else _why_not(report, result),
        scenario=scenario,
        seconds=report.seconds,
    )


def _why_not(report: Report, result: Result | None) -> str:
    if result is None:
        return report.broken or report.interrupted or "its requirement was not tested"
    return f"{result.verdict.name.lower().replace('_', ' ')}{': ' if result.reason else ''}{result.reason}"


def kills(faults: Iterable[Fault], seed: int = DEFAULT_SEED, examples: int = EXAMPLES) -> Iterator[Kill]:
    """One row after the other."""
    for fault in faults:
        yield kill(fault, seed, examples)
