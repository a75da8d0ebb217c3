"""remove and clear. Carries STO-9 and PFX-8."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Answer, EventKind, Removal
from kvprefix_conformance.codec import remove_result_from_json
from kvprefix_conformance.oracle.case import Case, Rules, nth, story
from kvprefix_conformance.oracle.ledger import PENDING, Known
from kvprefix_conformance.oracle.objects import aliased, hostile
from kvprefix_conformance.oracle.shield import own_reasons, shield
from kvprefix_conformance.records import Violation


def answer_fits_the_key(case: Case) -> Iterator[Violation]:
    """STO-9: absent is NOT_FOUND, PENDING is IN_PROGRESS unless forced, present is not NOT_FOUND."""
    if case.step.op != "remove":
        return
    known, got, force = case.before[case.key], case.answer, bool(case.step.args.get("force"))
    if got is Answer.INVALID and hostile(case.key):
        return
    if not known.maybe_present:
        allowed = {Answer.NOT_FOUND}
    elif known.may == PENDING and not force:
        allowed = {Answer.IN_PROGRESS}
    elif known.surely_present:
        allowed = {Answer.OK} if force else {Answer.OK, Answer.PROTECTED}
        if force and case.terms.capabilities.removal is Removal.REFUSE and case.before.below(case.key, surely=False):
            allowed.add(Answer.PROTECTED)
        if known.may & PENDING and not force:
            allowed.add(Answer.IN_PROGRESS)
    else:
        return
    if got not in allowed:
        names = " or ".join(sorted(answer.value for answer in allowed))
        because = f"{story(known)}, and remove is answered {got.value}"
        kind = "hostile-key" if aliased(case.before, case.key) else "remove-answer"
        yield case.broken(kind, because, expected=names, got=got.value)
    elif got is Answer.NOT_FOUND:
        case.hit("STO-9", "an absent key removed")
    elif known.may == PENDING:
        case.hit("STO-9", "a PENDING key removed")
    elif got is Answer.OK and known.surely_resident:
        case.hit("STO-9", "a resident key removed")


def force_is_obeyed(case: Case) -> Iterator[Violation]:
    """STO-9, PFX-8: forced, nothing but resident children under removal refuse stands in the way."""
    if case.step.op not in ("remove", "clear") or not case.step.args.get("force") or case.answer is not Answer.PROTECTED:
        return
    children = case.step.op == "remove" and case.before.below(case.key, surely=False)
    if children and case.terms.capabilities.removal is Removal.REFUSE:
        return
    because = f"{case.step.op} is forced, and is answered PROTECTED"
    yield case.broken("remove-refused", because, expected="OK", got="PROTECTED")


def children_are_heeded(case: Case) -> Iterator[Violation]:
    """PFX-8: an object with descendants is refused, or goes with all of them, as declared."""
    if case.step.op != "remove":
        return
    below = case.before.below(case.key, surely=True)
    if not case.before[case.key].surely_resident or not below:
        return
    if case.answer is Answer.OK:
        removal = case.terms.capabilities.removal
        judge = {Removal.REFUSE: _must_refuse, Removal.CASCADE: _must_cascade, Removal.ANY: _must_declare}[removal]
        yield from judge(case, below)
    elif case.answer is Answer.PROTECTED:
        case.hit("PFX-8", "a removal with descendants refused")
        yield from _took_nothing(case)


def _must_refuse(case: Case, below: list[Known]) -> Iterator[Violation]:
    because = f"{below[0].key} is {_state(below[0])} below {case.key}, removal is declared refuse, and {case.key} was removed"
    yield case.broken("removed-over-children", because, expected="PROTECTED", got="OK")


def _must_declare(case: Case, below: list[Known]) -> Iterator[Violation]:
    because = (
        f"{below[0].key} is {_state(below[0])} below {case.key}, {case.key} was removed, and neither refuse nor cascade is declared"
    )
    yield case.broken("removal-undeclared", because, expected="PROTECTED, or the descendants removed too", got="OK")


def _must_cascade(case: Case, below: list[Known]) -> Iterator[Violation]:
    guarded = [(known, own_reasons(case.before, known)) for known in below]
    for known, reasons in guarded:
        if reasons and not case.step.args.get("force"):
            because = f"{reasons[0]}, and the removal of its ancestor {case.key} without force is answered OK"
            yield case.broken("cascade-over-protected", because, expected=f"{known.key} stays", got="OK")
            return
    removed = remove_result_from_json(case.step.answer).removed
    for known in below:
        left = removed is not None and known.key not in removed
        if left or (case.seen.resident is not None and known.key in case.seen.resident):
            because = f"{known.key} is below {case.key}, and the cascade of {nth(case.index)} left it"
            yield case.broken("cascade-incomplete", because, expected=f"{known.key} removed", got="left")
    if removed is not None:
        yield from _deepest_first(case, removed)
        yield from _no_more(case, removed)
    case.hit("PFX-8", "a removal that cascaded")


def _deepest_first(case: Case, removed: tuple[str, ...]) -> Iterator[Violation]:
    for position, key in enumerate(removed):
        late = [child.key for child in case.before.children(key, surely=True) if child.key in removed[position + 1 :]]
        if late:
            because = f"{late[0]} is below {key}, and the cascade took {key} first"
            yield case.broken("cascade-order", because, expected="deepest first", got=", ".join(removed))
            return


def _no_more(case: Case, removed: tuple[str, ...]) -> Iterator[Violation]:
    below = {known.key for known in case.before.below(case.key, surely=False)} | {case.key}
    for key in removed:
        if key not in below:
            because = f"{key} is not below {case.key}, and its removal took it"
            yield case.broken("cascade-overreach", because, expected=f"{key} stays", got="removed")


def _took_nothing(case: Case) -> Iterator[Violation]:
    """A removal that is refused takes no part."""
    if case.seen.resident is None:
        return
    for known in case.before.below(case.key, surely=True):
        if known.surely_resident and known.key not in case.seen.resident:
            because = f"the removal of {case.key} is refused, and it took {known.key}"
            yield case.broken(
                "cascade-over-protected", because, expected="nothing changed", got=f"{known.key} gone", evidence="resident"
            )


def _state(known: Known) -> str:
    return "resident" if known.surely_resident else "PENDING" if known.may == PENDING else "present"


def clear_tells(case: Case) -> Iterator[Violation]:
    """STO-9: clear takes all, and emits exactly one cleared event."""
    if case.step.op != "clear":
        return
    if case.answer is not Answer.OK:
        protected = any(known.surely_present and shield(case.before, known.key).sure for known in case.before)
        if protected:
            case.hit("STO-9", "a clear refused")
        return
    case.hit("STO-9", "a clear")
    if case.seen.events is not None:
        count = sum(event.kind is EventKind.CLEARED for event in case.seen.events)
        if count != 1:
            because = f"clear is answered OK and {count} cleared events were emitted"
            yield case.broken("cleared-events", because, expected="1", got=str(count), evidence="events")


RULES: Rules = (answer_fits_the_key, force_is_obeyed, children_are_heeded, clear_tells)
