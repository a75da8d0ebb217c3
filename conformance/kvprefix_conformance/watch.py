"""The watch of a run: which requirements are judged, what was found broken and with which history, and what was exercised.

A new (requirement, kind) ends the example that showed it; one that is known already is passed over, so that what lies behind it is
found too. Each finding keeps the history that proved it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import attrs

from kvprefix_conformance.oracle.kinds import ANY, KINDS
from kvprefix_conformance.plan import CheckInfo
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Session

#: A finding that proved nothing by itself is looked for again, at most so often in all.
MOST_TRIES = 3
#: What is told even of a requirement that is skipped: an option that is not declared was not refused.
_UNDECLARED = frozenset({"pin-undeclared", "cache-group-undeclared"})
#: So many kinds of violation are kept for one requirement; more tell nothing new.
MOST_KINDS = 6


@attrs.frozen
class Finding:
    """A requirement broken in one way, and the recorded history that proves it."""

    violation: Violation
    steps: tuple[Step, ...]
    check: CheckInfo
    #: The requirement that the oracle charged, where that one is not under test and another had to take it.
    charged: str


class Watch:
    """What the run knows so far."""

    def __init__(self, wanted: Iterable[str], skipped: Iterable[str], tell: Callable[[CheckInfo, Violation], None]) -> None:
        self.wanted = tuple(wanted)
        self.skipped = frozenset(skipped)
        self.findings: dict[tuple[str, str], Finding] = {}
        #: Findings whose smallest scenario is still to be made.
        self.pending: list[Finding] = []
        #: Findings that prove nothing by themselves, and the violation that comes before each.
        self.behind: dict[tuple[str, str], Violation] = {}
        self._tries: Counter[tuple[str, str]] = Counter()
        self.exercised: Counter[tuple[str, str]] = Counter()
        self.operations = 0
        self.examples = 0
        self.evictions = 0
        #: Calls in which the adapter broke: left out from then on, so that the rest can be judged.
        self.shunned: set[str] = set()
        self._tell = tell
        self._fresh: list[Violation] = []

    def new(self, violation: Violation) -> bool:
        """Whether this is news; then the example ends there."""
        requirement = self.charge(violation)
        if not requirement or not self._worth(requirement, violation.kind):
            return False
        self._fresh.append(violation)
        return True

    def _worth(self, requirement: str, kind: str) -> bool:
        if (requirement, kind) in self.findings:
            return (requirement, kind) in self.behind and self._tries[requirement, kind] < MOST_TRIES
        return sum(known == requirement for known, _ in set(self.findings) - set(self.behind)) < MOST_KINDS

    def charge(self, violation: Violation) -> str:
        """The requirement under test that takes the violation; empty if none does."""
        if violation.requirement in self.wanted:
            return violation.requirement
        if violation.kind in _UNDECLARED and violation.requirement in self.skipped:
            return violation.requirement
        return self.wanted[0] if self.wanted and KINDS[violation.kind].requirement == ANY else ""

    def end_example(self, check: CheckInfo, session: Session, exercised: Counter[tuple[str, str]]) -> list[Finding]:
        """Take in what one example showed."""
        self.examples += 1
        self.operations += len(session.history)
        self.exercised.update(exercised)
        self.evictions += sum(len(_evicted(recorded.step)) for recorded in session.history)
        found = []
        for violation in self._fresh:
            requirement = self.charge(violation)
            steps = tuple(recorded.step for recorded in session.history[: violation.step + 1])
            finding = Finding(attrs.evolve(violation, requirement=requirement), steps, check, violation.requirement)
            if self._worth(requirement, violation.kind):
                found.append(finding)
                self._take(finding)
            if violation.kind in ("adapter-raised", "nonsense", "adapter-protocol") and steps:
                self.shunned.add(steps[-1].op)
        self._fresh = []
        return found

    def consequence(self, finding: Finding, first: Violation) -> None:
        """Even in its smallest scenario the finding comes behind another violation: it may only follow from that one."""
        key = finding.violation.requirement, finding.violation.kind
        self.behind[key] = first
        self._tries[key] += 1

    def add(self, check: CheckInfo, violation: Violation, steps: tuple[Step, ...] = ()) -> None:
        """A finding that no session showed: the backend could not be emptied or opened again."""
        requirement = self.charge(violation)
        if requirement and (requirement, violation.kind) not in self.findings:
            self._take(Finding(attrs.evolve(violation, requirement=requirement), steps, check, violation.requirement))

    def _take(self, finding: Finding) -> None:
        key = finding.violation.requirement, finding.violation.kind
        self.findings[key] = finding
        self.behind.pop(key, None)
        self.pending.append(finding)
        self._tell(finding.check, finding.violation)


def _evicted(step: Step) -> list[str]:
    answers = step.answer if isinstance(step.answer, list) else [step.answer]
    return [key for answer in answers if isinstance(answer, dict) for key in answer.get("evicted") or ()]
