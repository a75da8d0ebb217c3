"""What a key holds, and whether it is there. Carries STO-1, STO-2, STO-3, STO-4, STO-5 (visibility), STO-7 (traces), STO-10.

Every rule here is one sentence: a reading contradicts what is known. Which requirement that breaks depends on how the key came to
be known as present or absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvprefix.api import Answer
from kvprefix_conformance.codec import Json, remove_result_from_json
from kvprefix_conformance.oracle.case import TOOK_ROOM, Case, Reading, Rules, evidence_of, said, story
from kvprefix_conformance.oracle.ledger import DEFERRED, PENDING, Known, Ledger
from kvprefix_conformance.records import Violation

_PLAIN = re.compile(r"[A-Za-z0-9_.:@=+-][A-Za-z0-9_.:@=/+-]{0,255}\Z")


def hostile(key: str) -> bool:
    """Whether a key is one of those that STO-10 is about: anything but a short plain name without path steps."""
    return not _PLAIN.match(key) or ".." in key or "//" in key


def aliased(ledger: Ledger, key: str) -> bool:
    """Whether a hostile key is in play, this one or another: then a wrong reading of either is STO-10's matter."""
    return hostile(key) or any(known.offered and hostile(known.key) for known in ledger)


# --------------------------------------------------------------------------------------------------------------------------------
# A miss where there must be a hit


def lost(case: Case) -> Iterator[Violation]:
    """STO-1: from STORED until evicted or removed, a key is a hit. What protection kept is protection.py's matter."""
    for reading, known in case.contradictions:
        if not reading.hit and not (known.kept is not None and known.kept.sure):
            for kind in _kinds_of_loss(case, reading, known):
                yield case.broken(
                    kind,
                    f"{story(known)}, nothing may have taken it, and {said(reading)}",
                    expected=f"{reading.key} is a hit",
                    got="a miss",
                    evidence=evidence_of(reading),
                )


def _kinds_of_loss(case: Case, reading: Reading, known: Known) -> list[str]:
    if reading.call in ("get_many", "exists_many"):
        return ["batch-not-singles"]
    if aliased(case.before, reading.key):
        return ["hostile-key"]
    if known.promoted:
        return ["deferred-not-promoted"]
    if known.copy is not None and known.copy.size == 0:
        return ["empty-value"]
    if reading.call == "resident" and case.is_put and reading.key != case.key:
        return _taken_by_put(case)
    if reading.call == "resident" and case.step.op == "remove":
        below = [child.key for child in case.before.below(case.key, surely=False)]
        return ["cascade-overreach"] if reading.key in below else ["lost"]
    return ["unreported-eviction"] if known.passed >= 0 else ["lost"]


def _taken_by_put(case: Case) -> list[str]:
    """The snapshot after a put lacks another object that the put does not report."""
    if case.result.answer is Answer.EXISTS:
        return ["duplicate-evicted"]
    if case.result.answer not in TOOK_ROOM:
        return ["refused-put-evicted"]
    return ["unreported-eviction"] if case.pressed else ["lost", "evicted-without-need"]


# --------------------------------------------------------------------------------------------------------------------------------
# A hit where there must be a miss


def phantom(case: Case) -> Iterator[Violation]:
    """STO-4, STO-5, STO-7, PFX-3: what is not readable is a miss, whatever the reason."""
    for reading, known in case.contradictions:
        if reading.hit:
            yield case.broken(
                _kind_of_phantom(case, reading, known),
                f"{story(known)}, and {said(reading)}",
                expected=f"{reading.key} is a miss",
                got="a hit" if not _empty(reading.value) else "an empty value",
                evidence=evidence_of(reading),
            )


def _kind_of_phantom(case: Case, reading: Reading, known: Known) -> str:
    if _empty(reading.value):
        return "empty-for-miss"
    if reading.call in ("get_many", "exists_many"):
        return "batch-not-singles"
    if aliased(case.before, reading.key):
        return "hostile-key"
    if reading.call in ("lease", "pin"):
        return "effect-on-absent"
    if known.may == PENDING:
        return "visible-before-commit"
    if known.may == DEFERRED:
        return "deferred-visible"
    how = "" if known.gone is None or known.refused > known.gone.step else known.gone.how
    if known.refused >= 0 and not how:
        return "trace-left"
    return {"dropped": "deferred-outlived", "evicted": "false-report"}.get(how, "phantom")


def _empty(value: Json) -> bool:
    return isinstance(value, dict) and value.get("size") == 0


# --------------------------------------------------------------------------------------------------------------------------------
# The bytes


def bytes_are_whole(case: Case) -> Iterator[Violation]:
    """STO-1, STO-2, STO-3: a hit brings exactly the bytes that were stored under this key."""
    for reading, known in case.answered:
        if reading.value is None or not known.copies or known.surely_unreadable or not case.terms.capabilities.values:
            continue
        right = [{"of": known.key, "fill": copy.fill, "size": copy.size} for copy in known.copies]
        if reading.value in right or (_empty(reading.value) and any(copy.size == 0 for copy in known.copies)):
            continue
        kind = _kind_of_bytes(reading, known)
        yield case.broken(
            "batch-not-singles" if reading.call == "get_many" else "hostile-key" if aliased(case.before, known.key) else kind,
            f"{story(known)} with {_value_text(right[0])}, and {reading.call} returns {_value_text(reading.value)}",
            expected=" or ".join(_value_text(value) for value in right),
            got=_value_text(reading.value),
        )


def _kind_of_bytes(reading: Reading, known: Known) -> str:
    value = reading.value
    if value.get("of", known.key) != known.key:
        return "foreign"
    if "of" in value and "whole" not in value and (value["fill"], value["size"]) in known.offered:
        return "overwritten"
    same_length = any(value["size"] == copy.size for copy in known.copies)
    return "wrong-bytes" if same_length else "torn"


def _value_text(value: Json) -> str:
    if "of" not in value:
        return f"{value['size']} bytes that nobody wrote" if value["size"] else "an empty value"
    part = f" ({value['size']} of {value['whole']} bytes)" if "whole" in value else f" ({value['size']} bytes)"
    return f"value {value['fill']} of {value['of']}{part}"


# --------------------------------------------------------------------------------------------------------------------------------
# What the run has seen


def seen(case: Case) -> Iterator[Violation]:
    """Must-hits of STO-1 to STO-5, STO-7 and STO-10."""
    for reading, known in case.answered:
        if reading.hit and known.surely_resident:
            _seen_hit(case, reading, known)
        elif not reading.hit and known.surely_unreadable:
            _seen_miss(case, known)
    if case.is_put and hostile(case.key) and case.result.answer is Answer.INVALID:
        case.hit("STO-10", "a hostile key judged")
    yield from ()


def _seen_hit(case: Case, reading: Reading, known: Known) -> None:
    if reading.value is not None:
        case.hit("STO-3", "a value read back")
        if case.index > known.since + 1:
            case.hit("STO-1", "a value read back after other steps")
        if len(known.offered) > 1:
            case.hit("STO-2", "a value read back after a duplicate put")
        if hostile(reading.key):
            case.hit("STO-10", "a hostile key judged")
    elif not case.terms.capabilities.values:
        case.hit("STO-1", "a value read back after other steps")


def _seen_miss(case: Case, known: Known) -> None:
    how = known.gone.how if known.gone is not None else ""
    if known.may == PENDING:
        case.hit("STO-5", "a PENDING key read")
    if known.may == PENDING or how in ("aborted", "removed", "cleared") or known.gone is None:
        case.hit("STO-4", "an absent key read")
    if how == "removed":
        case.hit("STO-4", "a removed key read")
    if known.refused >= 0:
        case.hit("STO-7", "a refused key read")


def removed_keys(case: Case) -> tuple[str, ...]:
    """Keys that a successful remove took, as far as it says; the key itself first."""
    result = remove_result_from_json(case.step.answer)
    others = tuple(key for key in result.removed or () if key != case.key)
    return (case.key, *others) if result.answer is Answer.OK else ()


RULES: Rules = (lost, phantom, bytes_are_whole, seen)
