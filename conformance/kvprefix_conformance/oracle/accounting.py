"""Bytes and counts. Carries STO-6."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Accounting
from kvprefix_conformance.oracle.case import Case, Rules
from kvprefix_conformance.oracle.ledger import Phase
from kvprefix_conformance.oracle.shield import used
from kvprefix_conformance.records import Violation


def never_above_capacity(case: Case) -> Iterator[Violation]:
    """STO-6: what is surely there fits."""
    capacity = case.terms.geometry.capacity_bytes
    if case.terms.capabilities.accounting is Accounting.NONE:
        return
    low = used(case.after, case.terms).lo
    if low > capacity >= used(case.before, case.terms).lo:
        there = sorted(known.key for known in case.after if known.surely_present)
        because = f"{', '.join(there)} are there and cost {low} bytes, the capacity is {capacity}"
        evidence = "resident" if case.seen.resident is not None else "answers"
        yield case.broken("over-capacity", because, expected=f"at most {capacity}", got=str(low), evidence=evidence)


def bytes_are_counted(case: Case) -> Iterator[Violation]:
    """STO-6: stats().used_bytes is the sum over the objects, and never above capacity."""
    if case.step.op != "stats" or case.terms.capabilities.accounting is Accounting.NONE:
        return
    got, capacity, room = case.step.answer["used_bytes"], case.terms.geometry.capacity_bytes, used(case.before, case.terms)
    expected = f"{room.lo}" if room.lo == room.hi else f"{room.lo} to {room.hi}"
    if got > capacity:
        because = f"{got} bytes are in use, the capacity is {capacity}"
        yield case.broken("over-capacity", because, expected=f"at most {capacity}", got=str(got))
    elif got > room.hi or (got < room.lo and not case.before.unsettled) or got < 0:
        because = f"the objects cost {expected} bytes, and stats() counts {got}"
        yield case.broken("drift", because, expected=expected, got=str(got))
    else:
        _note(case)


def _note(case: Case) -> None:
    case.hit("STO-6", "bytes compared")
    if any(known.gone is not None and known.gone.how in ("evicted", "removed") for known in case.before):
        case.hit("STO-6", "bytes compared after objects left")
    if any(Phase.PENDING in known.may for known in case.before):
        case.hit("STO-6", "bytes compared with a PENDING object")


def objects_are_counted(case: Case) -> Iterator[Violation]:
    """STO-6: stats().resident_objects is the number of resident objects."""
    if case.step.op != "stats":
        return
    got = case.step.answer["resident_objects"]
    low = sum(known.surely_resident for known in case.before)
    high = sum(not known.surely_unreadable for known in case.before)
    if not low <= got <= high:
        expected = f"{low}" if low == high else f"{low} to {high}"
        yield case.broken(
            "count-drift", f"{expected} objects are resident, and stats() counts {got}", expected=expected, got=str(got)
        )


RULES: Rules = (never_above_capacity, bytes_are_counted, objects_are_counted)
