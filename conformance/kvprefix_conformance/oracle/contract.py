"""What an adapter does outside the contract: it raises, dies, hangs, talks nonsense, or refuses what it offers.

Such a violation belongs to no requirement by nature; it is charged to the one that the call serves (kinds.CHARGED_TO).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kvprefix.api import Answer
from kvprefix_conformance.oracle.answers import put_stages
from kvprefix_conformance.oracle.case import Case, Rules
from kvprefix_conformance.oracle.kinds import CHARGED_TO
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Seen

_KINDS = {
    "raised": "adapter-raised", "died": "adapter-died", "timeout": "adapter-timeout", "protocol": "adapter-protocol",
    "nonsense": "nonsense",
}  # fmt: skip


def failed(step: Step) -> bool:
    """The step has no answer that the contract knows."""
    return isinstance(step.answer, dict) and ("error" in step.answer or "skipped" in step.answer)


def failure(step: Step, index: int) -> Violation | None:
    """The violation in a step without an answer; None for a step that was not run."""
    if "error" not in step.answer:
        return None
    error = step.answer["error"]
    kind = _KINDS.get(error["kind"], "adapter-raised")
    return Violation(CHARGED_TO[step.op], kind, error["detail"], index, expected="an answer of the contract", got=kind)


def looks(seen: Seen, index: int) -> Iterator[Violation]:
    """A hook or call through which the suite looks after each step broke."""
    for call, kind, detail in seen.broken:
        name = _KINDS.get(kind, "adapter-raised")
        yield Violation(CHARGED_TO[call], name, detail, index, expected="an answer of the contract", got=name)


def offers_are_meant(case: Case) -> Iterator[Violation]:
    """A call that is offered, with options that are declared, is not answered UNSUPPORTED."""
    answer = case.step.answer
    said = answer.get("answer") if isinstance(answer, dict) else answer
    if said != Answer.UNSUPPORTED.value:
        return
    if case.is_put and put_stages(case)[0].possible:
        return
    because = f"{case.step.op} is offered and its options are declared, and it is answered UNSUPPORTED"
    violation = case.broken("unsupported", because, expected="an answer", got="UNSUPPORTED")
    yield attrs.evolve(violation, requirement=CHARGED_TO[case.step.op])


RULES: Rules = (offers_are_meant,)
