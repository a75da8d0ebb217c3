"""Protection: what leases, pins and open writes keep, and for how long. Carries PRT-1 to PRT-5 and PFX-5.

An object that went although something protected it breaks PRT-1, or PFX-5 where the protection came from a descendant; where the
history tells why it was not protected, that requirement is charged too. An object that stayed protected too long shows in remove.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import LEASE_CALLS, Answer, Pin, Removal
from kvprefix_conformance.oracle.case import Case, Rules, evidence_of, nth, said
from kvprefix_conformance.oracle.ledger import Known, Ledger, Shield
from kvprefix_conformance.oracle.shield import shield, soft, soft_counted, span_text
from kvprefix_conformance.records import Violation

# --------------------------------------------------------------------------------------------------------------------------------
# Gone too early


def evicted_while_protected(case: Case) -> Iterator[Violation]:
    """PRT-1, PFX-5: no pass takes what is protected, whether the pass says so or a later look shows it."""
    pass_ = case.eviction
    for victim in pass_.victims:
        known = case.before[victim]
        if known.maybe_present:
            why = f"{nth(case.index)} evicted it at {span_text(case.before.now)}"
            yield from _taken(case, case.before, known, shield(case.before, victim), why, pass_.evidence)
    for reading, known in case.contradictions:
        if not reading.hit and known.kept is not None and reading.key not in pass_.victims:
            why = f"after the pass of {nth(known.kept_at)} {said(reading)}"
            yield from _taken(case, case.before, known, known.kept, why, evidence_of(reading))


def _taken(case: Case, then: Ledger, known: Known, cover: Shield, why: str, evidence: str) -> Iterator[Violation]:
    if cover.own:
        yield from _blamed(case, then, known, "evicted-protected", f"{cover.own[0]}, and {why}", evidence)
        if known.copy is not None and known.copy.options.pin is Pin.HARD and any("hard-pinned" in reason for reason in cover.own):
            yield case.broken("hard-pin-evicted", f"{cover.own[0]}, and {why}", expected=f"{known.key} stays", evidence=evidence)
    elif cover.derived:
        because = f"{cover.derived[0]} and protects its ancestor {known.key}, and {why}"
        yield case.broken("guarded-ancestor-evicted", because, expected=f"{known.key} stays", got="evicted", evidence=evidence)


def _blamed(case: Case, then: Ledger, known: Known, kind: str, because: str, evidence: str) -> Iterator[Violation]:
    """The loss itself, and the rule about leases that explains it where there is one."""
    expected = f"{known.key} stays"
    yield case.broken(kind, because, expected=expected, got="gone", evidence=evidence)
    grant = known.grant
    if grant is None or known.pins or not grant.until.ahead(then.now):
        return
    if any(jump > grant.step for jump in then.jumps):
        yield case.broken("wall-clock", f"{because}, after wall time jumped", expected=expected, got="gone", evidence=evidence)
    elif grant.last.reached(then.now):
        because += f"; only the shorter grant of {nth(grant.step)}, until {span_text(grant.last)}, was over"
        yield case.broken("lease-shortened", because, expected=expected, got="gone", evidence=evidence)
    elif grant.call in LEASE_CALLS:
        because += f"; {grant.call} at {nth(grant.step)} grants a lease by declaration"
        yield case.broken("lease-not-granted", because, expected=expected, got="gone", evidence=evidence)


def removed_while_protected(case: Case) -> Iterator[Violation]:
    """PRT-1, STO-9: without force neither remove nor clear takes what is protected."""
    if case.step.op not in ("remove", "clear") or case.step.args.get("force") or case.answer is not Answer.OK:
        return
    targets = [case.before[case.key]] if case.step.op == "remove" else list(case.before)
    for known in targets:
        cover = shield(case.before, known.key)
        if known.surely_present and cover.own and not _being_written(case, known):
            because = f"{cover.own[0]}, and {case.step.op} without force at {span_text(case.before.now)} is answered OK"
            yield from _blamed(case, case.before, known, "removed-protected", because, "answers")
            yield case.broken("removed-though-protected", because, expected="PROTECTED", got="OK")


def _being_written(case: Case, known: Known) -> bool:
    """A PENDING key is answered IN_PROGRESS by remove: removal.py judges that."""
    return case.step.op == "remove" and known.attempt is not None


# --------------------------------------------------------------------------------------------------------------------------------
# Kept too long


def protected_without_reason(case: Case) -> Iterator[Violation]:
    """PRT-2, PRT-3, PRT-5, STO-9: remove and clear are not refused where nothing protects; the history tells what held on."""
    if case.step.op not in ("remove", "clear") or case.answer is not Answer.PROTECTED:
        return
    keys = [case.key] if case.step.op == "remove" else [known.key for known in case.before if known.maybe_present]
    if case.step.args.get("force"):
        return  # removal.py: closure may refuse even a forced remove
    if any(shield(case.before, key).possible for key in keys) or _refused_for_children(case):
        return
    known = case.before[keys[0]] if len(keys) == 1 else None
    kind, why = _held_by(case, known) if known is not None else ("remove-refused", "nothing is leased, pinned or being written")
    yield case.broken(
        kind,
        f"{why}, and {case.step.op} at {span_text(case.before.now)} is answered PROTECTED",
        expected="OK",
        got="PROTECTED",
    )


def _refused_for_children(case: Case) -> bool:
    if case.step.op != "remove" or case.terms.capabilities.removal is not Removal.REFUSE:
        return False
    return bool(case.before.below(case.key, surely=False))


def _held_by(case: Case, known: Known) -> tuple[str, str]:
    """What most likely still holds an object that nothing protects."""
    grant = known.grant
    if grant is not None and known.maybe_present:
        over = f"the lease of {known.key} ended at {span_text(grant.until)}"
        jumped = any(jump > grant.step for jump in case.before.jumps)
        return ("wall-clock", f"{over} and wall time jumped") if jumped else ("lease-overstays", over)
    for gone in case.before:
        child_of = case.before.lineage.get(gone.key) == known.key and not gone.maybe_present
        if child_of and gone.grant is not None and not gone.grant.until.reached(case.before.now):
            return "derived-lease-kept", f"the lease of {gone.key} went with it, {known.key} itself was never leased"
    calls = sorted(known.read_by)
    if calls:
        return "undeclared-lease", f"{known.key} was read by {', '.join(calls)} only, which leases nothing by declaration"
    return "remove-refused", f"nothing protects {known.key}"


# --------------------------------------------------------------------------------------------------------------------------------
# Soft pins


def soft_pins_go_last(case: Case) -> Iterator[Violation]:
    """PRT-4: a soft-pinned object, or an ancestor of one, goes only when no evictable leaf is left that is not."""
    pass_ = case.eviction
    if not pass_.victims or not case.before.exact:
        return
    for position, victim in enumerate(pass_.victims):
        if not case.before[victim].surely_resident or not soft_counted(case.before, case.terms, victim, surely=True):
            continue
        gone = set(pass_.victims[:position]) if pass_.ordered else set()
        went = set() if pass_.ordered else set(pass_.victims)
        for other in leaves(case, gone):
            if other.key not in went and not soft_counted(case.before, case.terms, other.key, surely=False):
                yield case.broken(
                    "soft-pin-order",
                    f"{victim} counts as soft-pinned and was evicted while {other.key}, an evictable leaf that does not, was left",
                    expected=f"{other.key} goes first",
                    got=f"{victim} went",
                    evidence=pass_.evidence,
                )
                break


def leaves(case: Case, gone: set[str]) -> list[Known]:
    """Objects that a pass could have taken next, once these are gone: resident, unprotected, nothing below, not the put's own."""
    own = _ancestors_of_put(case)
    return [
        known
        for known in case.before
        if known.surely_resident
        and known.key not in gone
        and known.key not in own
        and not shield(case.before, known.key).possible
        and all(child.key in gone for child in case.before.children(known.key, surely=False))
    ]


def _ancestors_of_put(case: Case) -> set[str]:
    own = {case.key}
    if case.is_put and isinstance(case.offer.parent, str) and case.before[case.offer.parent].maybe_present:
        own |= {case.offer.parent, *(known.key for known in case.before.above(case.offer.parent))}
    return own


# --------------------------------------------------------------------------------------------------------------------------------
# What the run has seen


def seen(case: Case) -> Iterator[Violation]:
    """Must-hits: protected objects that outlived a pass or a removal, and leases that were seen to end."""
    if case.taken or (case.is_put and case.pressed and case.answer is Answer.NO_SPACE):
        for known in case.after:
            if known.surely_resident and case.before[known.key].surely_resident:
                _note_survivor(case, case.before[known.key], shield(case.before, known.key))
    for reading, known in case.answered:
        if reading.hit and known.kept is not None:  # where nothing else shows it: read after a pass that might have taken it
            _note_survivor(case, known, known.kept)
    for victim in case.eviction.victims:
        grant = case.before[victim].grant
        if grant is not None and grant.until.reached(case.before.now):
            case.hit("PRT-2", "a lease was seen to end")
    if case.step.op == "remove" and not case.step.args.get("force"):
        _note_remove(case, case.before[case.key])
    if case.step.op == "probe":
        case.hit("PRT-3", "a probe")
    yield from ()


def _note_survivor(case: Case, known: Known, cover: Shield) -> None:
    if cover.own:
        case.hit("PRT-1", "a protected object outlived pressure")
        if known.grant is not None and any(jump > known.grant.step for jump in case.before.jumps):
            case.hit("PRT-5", "a lease outlived a jump of wall time")
        if known.grant is not None and known.grant.call in LEASE_CALLS and not known.pins:
            case.hit("PRT-3", "an object leased by a read was kept")
        if known.copy is not None and known.copy.options.pin is Pin.HARD:
            case.hit("PRT-4", "a hard-pinned object outlived pressure")
    elif cover.derived:
        case.hit("PFX-5", "an ancestor of a protected object outlived pressure")
    if soft(case.before, known, surely=True):
        case.hit("PRT-4", "a soft-pinned object outlived an eviction")


def _note_remove(case: Case, known: Known) -> None:
    cover, answer = shield(case.before, known.key), case.answer
    if known.surely_resident and cover.own and answer is Answer.PROTECTED:
        case.hit("PRT-1", "a protected object refused removal")
        if known.grant is not None and known.grant.last.reached(case.before.now):
            case.hit("PRT-2", "a longer lease outlived a shorter grant")
        if known.grant is not None and known.grant.call in LEASE_CALLS:
            case.hit("PRT-3", "an object leased by a read was kept")
        if case.before.jumps:
            case.hit("PRT-5", "a lease outlived a jump of wall time")
    if known.surely_resident and not cover.possible and answer is Answer.OK:
        if known.grant is not None:
            case.hit("PRT-2", "a lease was seen to end")
            if case.before.jumps:
                case.hit("PRT-5", "a lease ended on time after a jump of wall time")
        if known.read_by:
            case.hit("PRT-3", "a read that leases nothing protected nothing")


RULES: Rules = (evicted_while_protected, removed_while_protected, protected_without_reason, soft_pins_go_last, seen)
