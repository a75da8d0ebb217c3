"""The oracle: feeds the steps of one history to the ledger and to every rule, and counts what was really exercised.

It is a function of the history alone (with capabilities and geometry): any recorded history can be judged again, without a backend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from kvprefix.api import Answer, Batch
from kvprefix_conformance.oracle import (
    accounting,
    admission,
    answers,
    batches,
    closure,
    contract,
    events,
    matching,
    objects,
    progress,
    protection,
    recency,
    removal,
)
from kvprefix_conformance.oracle.absorb import absorb, age, witness
from kvprefix_conformance.oracle.case import Case, Rule
from kvprefix_conformance.oracle.ledger import Ledger, Terms
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Recorded, Seen

_MODULES = (
    contract, answers, objects, accounting, protection, closure, admission, matching, progress, removal, recency, events,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)


class Oracle:
    """Judges one history, step by step, from an empty store. With ``explain`` it also says which answers were open at each step."""

    def __init__(self, terms: Terms, *, explain: bool = False) -> None:
        self.terms = terms
        self._explain = explain
        #: What is known now, and what was known right before the last step (for drawing: it doubts nothing that was seen).
        self.ledger = Ledger()
        self.before = Ledger()
        #: (requirement, label) -> how often it was really exercised.
        self.exercised: Counter[tuple[str, str]] = Counter()
        #: Answers that the last step might have had, in words.
        self.allowed: tuple[str, ...] = ()

    def feed(self, recorded: Recorded) -> list[Violation]:
        """Judge the next step; the violations that it proves, at most one of each kind."""
        self.before = age(self.ledger, self.terms, recorded.seen.at, background=False)
        found = [*self._judge(recorded), *contract.looks(recorded.seen, self.ledger.step)]
        self.ledger = attrs.evolve(self.ledger, step=self.ledger.step + 1)
        return list({(violation.requirement, violation.kind): violation for violation in reversed(found)}.values())[::-1]

    def _judge(self, recorded: Recorded) -> Iterable[Violation]:
        step = recorded.step
        self.allowed = ()
        if contract.failed(step):
            failure = contract.failure(step, self.ledger.step)
            return [] if failure is None else [failure]
        found: list[Violation] = []
        whole = self._case(step, recorded.seen, absorbed=step.op != "put_many")
        for rule in batches.RULES:
            found += rule(whole)
        if step.op != "put_many":
            found += self._apply(whole)
            return found
        parts = [] if _undone(self.terms, step) else batches.members(step)
        for number, part in enumerate(parts, start=1):
            last = number == len(parts)
            seen = recorded.seen if last else attrs.evolve(recorded.seen, resident=None, events=None)
            found += self._apply(self._case(part, seen, batch="put_many"))
        return found

    def _case(self, step: Step, seen: Seen, *, absorbed: bool = True, batch: str = "") -> Case:
        before = age(self.ledger, self.terms, seen.at)
        mid = absorb(before, self.terms, step) if absorbed else before
        after = witness(mid, self.terms, seen.resident, seen.events) if absorbed else mid
        return Case(self.terms, step, seen, before, mid, after, self.exercised, batch)

    def _apply(self, case: Case) -> list[Violation]:
        stages = answers.stages_of(case) if self._explain else None
        self.allowed = tuple(answer.value for answer in answers.allowed(stages)) if stages is not None and not case.batch else ()
        found = [violation for rule in RULES for violation in rule(case)]
        self.ledger = attrs.evolve(case.after, tick=case.after.tick + 1)
        return found


def _undone(terms: Terms, step: Step) -> bool:
    """A batch that is declared atomic and was refused: its members say nothing of their own."""
    answers_ = [Answer(result["answer"]) for result in step.answer]
    return terms.capabilities.batch is Batch.ATOMIC and Answer.STORED not in answers_


def explained(history: Sequence[Recorded], terms: Terms) -> tuple[Step, ...]:
    """The steps of a history, each with the answers that were open there."""
    oracle, steps = Oracle(terms, explain=True), []
    for recorded in history:
        oracle.feed(recorded)
        steps.append(attrs.evolve(recorded.step, allowed=oracle.allowed))
    return tuple(steps)


def judge(history: Sequence[Recorded], terms: Terms) -> list[Violation]:
    """All violations of a recorded history, in the order of its steps."""
    oracle = Oracle(terms)
    return [violation for recorded in history for violation in oracle.feed(recorded)]
