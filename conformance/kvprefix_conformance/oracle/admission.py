"""Admission of objects whose parent is not there. Carries PFX-3 beside the stages in answers.py, and PFX-12 for cache groups."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Admission, Answer, CacheGroup
from kvprefix_conformance.oracle.answers import parent_away
from kvprefix_conformance.oracle.case import Case, Rules, nth
from kvprefix_conformance.oracle.ledger import Phase
from kvprefix_conformance.oracle.objects import removed_keys
from kvprefix_conformance.records import Violation


def admission_is_declared(case: Case) -> Iterator[Violation]:
    """PFX-3: a store that is tested for prefix awareness says what it does with a child without its parent."""
    if not case.is_put or case.terms.capabilities.admission is not Admission.ANY or case.result.answer is not Answer.STORED:
        return
    sure, _possible, why = parent_away(case, case.offer)
    if sure and not case.before[case.key].surely_resident:
        yield case.broken(
            "admission-undeclared",
            f"put of {case.key} is answered STORED, {why}, and no admission is declared",
            expected="PARENT_MISSING or DEFERRED, or admission placeholder declared",
            got="STORED",
        )


def other_cache_groups_are_free(case: Case) -> Iterator[Violation]:
    """PFX-12: a cascade takes full objects only."""
    if case.step.op != "remove" or not isinstance(case.step.answer, dict):
        return
    for key in removed_keys(case)[1:]:
        copy = case.before[key].copy
        if copy is not None and copy.options.cache_group is not CacheGroup.FULL:
            because = (
                f"{key} is a {copy.options.cache_group.value} object, and the removal of {case.key} took it at {nth(case.index)}"
            )
            yield case.broken("non-full-bound", because, expected=f"{key} stays", got="removed")


def seen(case: Case) -> Iterator[Violation]:
    """Must-hits: promotions, objects of other cache groups beside a chain."""
    for known in case.after:
        before = case.before[known.key]
        if before.may == frozenset({Phase.DEFERRED}) and known.surely_resident:
            case.hit("PFX-3", "a deferred object became visible")
    if case.is_put and case.result.answer is Answer.STORED and case.offer.options.cache_group is not CacheGroup.FULL:
        case.hit("PFX-12", "an object of another cache group stored")
    if case.is_put and case.result.answer is Answer.INVALID and case.offer.options.cache_group is not CacheGroup.FULL:
        case.hit("PFX-12", "a parent of another cache group's object refused")
    yield from ()


RULES: Rules = (admission_is_declared, other_cache_groups_are_free, seen)
