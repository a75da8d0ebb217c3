"""Native batches as a whole. Carries STO-8; members are judged one by one as the singles that they stand for."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Answer, Batch
from kvprefix_conformance.codec import Json
from kvprefix_conformance.oracle.case import Case, Rules
from kvprefix_conformance.records import Step, Violation

_MEMBERS = {"put_many": "items", "get_many": "keys", "exists_many": "keys"}


def length(step: Step) -> tuple[int, int] | None:
    """How many members a batch was given, and how many answers it gave; None for another call."""
    if step.op not in _MEMBERS:
        return None
    return len(step.args[_MEMBERS[step.op]]), len(step.answer)


def one_answer_per_member(case: Case) -> Iterator[Violation]:
    """STO-8: one answer per member."""
    counts = length(case.step)
    if counts is None:
        return
    if counts[0] != counts[1]:
        because = f"{case.step.op} was given {counts[0]} members and answered {counts[1]}"
        yield case.broken("batch-length", because, expected=str(counts[0]), got=str(counts[1]))
    elif case.step.op != "put_many" and len(set(map(str, case.step.answer))) > 1:
        case.hit("STO-8", "a batch read with different answers")


def all_or_nothing(case: Case) -> Iterator[Violation]:
    """STO-8, declared atomic: either every member is stored (or was there), or none is."""
    if case.step.op != "put_many":
        return
    answers = [Answer(result["answer"]) for result in case.step.answer]
    stored = [answer for answer in answers if answer is Answer.STORED]
    refused = [answer for answer in answers if answer not in (Answer.STORED, Answer.EXISTS, Answer.DEFERRED)]
    if stored and refused:
        case.hit("STO-8", "a batch put with a refused member")
    if stored:
        case.hit("STO-8", "a batch put")
    if case.terms.capabilities.batch is Batch.ATOMIC and stored and refused:
        names = ", ".join(answer.value for answer in answers)
        yield case.broken("batch-not-atomic", "the batch is declared atomic and stored a part", expected="all or none", got=names)


def members(step: Step) -> list[Step]:
    """A put_many as the single puts that it stands for; any other step as itself."""
    if step.op != "put_many" or length(step) != (len(step.answer), len(step.answer)):
        return [step]
    return [_single(item, answer, step) for item, answer in zip(step.args["items"], step.answer, strict=True)]


def _single(item: Json, answer: Json, step: Step) -> Step:
    return Step(op="put", args=item, answer=answer, client=step.client)


RULES: Rules = (one_answer_per_member, all_or_nothing)
