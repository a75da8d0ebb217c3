"""How the ledger grows by puts: what was stored, what had to go for it, what was refused and what that tells. It judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from kvprefix.api import UNKNOWN, Answer, DuplicatePut, Progress, PutResult
from kvprefix_conformance.codec import Json, options_from_json, parent_from_json, put_result_from_json
from kvprefix_conformance.oracle.draft import Draft
from kvprefix_conformance.oracle.ledger import (
    ABSENT,
    DEFERRED,
    PENDING,
    RESIDENT,
    Attempt,
    Copy,
    Grant,
    Known,
    Phase,
    Refusal,
    Span,
)
from kvprefix_conformance.oracle.shield import shield

Args = Mapping[str, Json]


def copy_of(args: Args) -> Copy:
    """What a put offers: value, parent, options."""
    value = args.get("value") or {"fill": 0, "size": args.get("size", 0)}
    return Copy(
        fill=value["fill"],
        size=value["size"],
        parent=parent_from_json(args["parent"]) if "parent" in args else UNKNOWN,
        options=options_from_json(args.get("options") or {}),
    )


def _evictions(draft: Draft, result: PutResult, key: str, charge: int) -> None:
    """What went on the way of a put: as reported, or anything that might have had to go."""
    caps = draft.terms.capabilities
    took = result.answer in (Answer.STORED, Answer.DEFERRED, Answer.OK)
    pressed = draft.pressed(charge)
    if result.evicted is not None:
        _reported(draft, result.evicted, key, pressed=pressed)
        for other in [k for k in draft.objects.values() if pressed and k.surely_resident and k.key != key]:
            draft.set(other.key, passed=draft.step)
    elif pressed and caps.evicts and (took or caps.refused_put_evicts):
        draft.doubt([other for other in draft.objects if other != key])
    if pressed and caps.evicts and (caps.progress is Progress.EVENTUAL or caps.watermark < 1.0):
        draft.unsettled = True


def _reported(draft: Draft, evicted: Sequence[str], key: str, *, pressed: bool) -> None:
    resident_went = any(draft[victim].surely_resident for victim in evicted)
    for victim in evicted:
        draft.leave(victim, "evicted", "answers")
    for other in [k for k in draft.objects.values() if k.may == DEFERRED and k.key != key]:
        if resident_went and not shield(draft.view(), other.key).possible:
            draft.leave(other.key, "dropped", "answers")
        elif pressed:
            draft.set(other.key, may=DEFERRED | ABSENT)


def put(draft: Draft, args: Args, answer: Json) -> None:
    """A single put."""
    result, copy, key = put_result_from_json(answer), copy_of(args), args["key"]
    duplicate = draft[key].surely_resident and result.answer is Answer.STORED and _silent(draft)
    if not duplicate:
        _evictions(draft, result, key, draft.terms.charge(copy.size))
    _offer(draft, key, copy)
    if result.answer is Answer.EXISTS or duplicate:
        draft.confirm(key)
        draft.touched_by("duplicate_put", key)
    elif result.answer is Answer.STORED:
        _stored(draft, key, copy)
    elif result.answer is Answer.DEFERRED:
        _deferred(draft, key, copy)
    else:
        _refused(draft, key, copy, result.answer)
    _note_refusal(draft, key, copy.size, result.answer)


def _offer(draft: Draft, key: str, copy: Copy) -> None:
    draft.set(key, offered=draft[key].offered | {(copy.fill, copy.size)})
    if not draft[key].surely_present and copy.parent is not UNKNOWN:
        draft.lineage[key] = copy.parent


def _silent(draft: Draft) -> bool:
    return draft.terms.capabilities.duplicate_put is DuplicatePut.SILENT


def _stored(draft: Draft, key: str, copy: Copy) -> None:
    before = draft[key]
    draft.begin_life(key, copy, stored=draft.now)
    if _silent(draft) and Phase.RESIDENT in before.may:
        # It may be the old object: which one was kept is not known until it is read.
        grant = before.grant and attrs.evolve(before.grant, until=Span(0, before.grant.until.hi))
        draft.set(key, copies=(*before.copies, copy), grant=grant, touched=draft.now.since(before.touched))
        draft.set(key, stored=draft.now.since(before.stored))
    draft.touch(key)
    _promote(draft, key)


def _promote(draft: Draft, key: str) -> None:
    """Deferred children become visible right after their parent (PFX-3)."""
    view = draft.view()
    sure = {child.key for child in view.children(key, surely=True)}
    for child in view.children(key, surely=False):
        if Phase.DEFERRED not in child.may:
            continue
        surely = child.key in sure and child.may == DEFERRED
        grant = None
        if child.copy is not None and child.copy.options.lease_ms > 0:
            until = Span(0, draft.now.plus(child.copy.options.lease_ms).hi)
            grant = Grant(until, until, "put", draft.step)
        stamp = Span(child.begun.lo, draft.now.hi)
        may = RESIDENT if surely else (child.may - DEFERRED) | RESIDENT
        draft.set(child.key, may=may, since=draft.step, born=draft.tick, stored=stamp, touched=stamp, grant=grant, promoted=True)
        _promote(draft, child.key)


def _deferred(draft: Draft, key: str, copy: Copy) -> None:
    before = draft[key]
    if before.may == DEFERRED:
        return  # the first value is kept and its deadline does not move
    kept = before.offered | {(copy.fill, copy.size)}
    draft.objects[key] = Known(key, may=DEFERRED, copies=(copy,), since=draft.step, born=draft.tick, begun=draft.now, offered=kept)
    if Phase.DEFERRED in before.may:  # it may be the old one
        draft.set(key, copies=(*before.copies, copy), begun=draft.now.since(before.begun))
    if isinstance(copy.parent, str):
        _not_a_parent(draft, copy.parent)


def _refused(draft: Draft, key: str, copy: Copy, answer: Answer) -> None:
    if answer is Answer.IN_PROGRESS:
        draft.set(key, may=PENDING)
    elif answer in (Answer.NO_SPACE, Answer.TOO_LARGE, Answer.PARENT_MISSING):
        draft.deny(key, "answers")
        draft.set(key, refused=draft.step)
        if answer is Answer.PARENT_MISSING and isinstance(copy.parent, str):
            _not_a_parent(draft, copy.parent)
    elif draft[key].surely_unreadable:
        draft.set(key, refused=draft.step)


def _not_a_parent(draft: Draft, parent: str) -> None:
    """The store says that this parent is not resident. (It may be there, in another namespace or cache group.)"""
    copy = draft[parent].copy
    if copy is None or (copy.options.namespace == "" and copy.options.cache_group.value == "full"):
        draft.deny(parent, "answers")


def _note_refusal(draft: Draft, key: str, size: int, answer: Answer) -> None:
    old = draft.refusal
    if answer in (Answer.STORED, Answer.DEFERRED, Answer.OK):
        draft.refusal = None
    elif answer is Answer.NO_SPACE and (old is None or (old.key, old.size) != (key, size)):
        draft.refusal = Refusal(key, size, draft.now, draft.step)


def put_begin(draft: Draft, args: Args, answer: Json) -> None:
    """The first half of a two-phase put."""
    result, copy, key = put_result_from_json(answer), copy_of(args), args["key"]
    _evictions(draft, result, key, draft.terms.charge(copy.size))
    before = draft[key]
    if not before.surely_present and copy.parent is not UNKNOWN:
        draft.lineage[key] = copy.parent
    if result.answer is Answer.DEFERRED:
        draft.set(key, may=DEFERRED)
    elif result.answer is Answer.EXISTS:
        draft.confirm(key)
        draft.touched_by("duplicate_put", key, surely=False)
    elif result.answer is Answer.OK:
        if before.attempt is not None:
            draft.end(before.attempt, "superseded")
        draft.objects[key] = Known(
            key,
            may=PENDING,
            copies=(copy,),
            since=draft.step,
            born=draft.tick,
            begun=draft.now,
            attempt=args["as"],
            offered=before.offered,
        )
        draft.attempts[args["as"]] = Attempt(args["as"], key, copy.size, copy, draft.now)
        draft.touch(key, surely=False)
    else:
        _refused(draft, key, copy, result.answer)
    _note_refusal(draft, key, copy.size, result.answer)


def put_commit(draft: Draft, args: Args, answer: Json) -> None:
    """The second half: it becomes visible, or not."""
    result, key, label = put_result_from_json(answer), args["key"], args["token"]
    attempt = draft.attempts.get(label)
    value = args["value"]
    draft.set(key, offered=draft[key].offered | {(value["fill"], value["size"])})
    if result.answer is Answer.INVALID or _of_another_key(attempt, key, result.answer):
        return
    draft.lingering.pop(label, None)
    if result.answer in (Answer.STORED, Answer.DEFERRED):
        _committed(draft, key, label, result, Copy(value["fill"], value["size"], UNKNOWN))
        return
    if attempt is not None:
        draft.end(label, "refused" if result.answer is Answer.PARENT_MISSING else "stale")
        if draft[key].attempt == label:
            draft.leave(key, "timed out" if result.answer is Answer.STALE else "dropped", "answers")
    if result.answer is Answer.PARENT_MISSING and attempt is not None and isinstance(attempt.copy.parent, str):
        _not_a_parent(draft, attempt.copy.parent)


def _of_another_key(attempt: Attempt | None, key: str, answer: Answer) -> bool:
    """STALE to a token that belongs to another key says nothing of that attempt."""
    return attempt is not None and attempt.key != key and answer is Answer.STALE


def _committed(draft: Draft, key: str, label: str, result: PutResult, fallback: Copy) -> None:
    attempt = draft.attempts.get(label)
    copy = attrs.evolve(attempt.copy, fill=fallback.fill, size=fallback.size) if attempt else fallback
    begun = attempt.begun if attempt else draft.now
    open_ = draft[key] if draft[key].attempt == label else None
    draft.end(label, "committed")
    if result.evicted:
        _reported(draft, result.evicted, key, pressed=True)
    if result.answer is Answer.DEFERRED:
        kept = draft[key].offered
        draft.objects[key] = Known(
            key, may=DEFERRED, copies=(copy,), since=draft.step, born=draft.tick, begun=draft.now, offered=kept
        )
        return
    draft.begin_life(key, copy, stored=Span(begun.lo, draft.now.hi))
    if open_ is not None:
        draft.set(key, since=open_.since, born=open_.born)
    draft.touch(key, since=begun)
    _promote(draft, key)


def put_abort(draft: Draft, args: Args, answer: Json) -> None:
    """The attempt is given up."""
    label, key = args["token"], args["key"]
    if _of_another_key(draft.attempts.get(label), key, Answer(answer)):
        return
    draft.lingering.pop(label, None)
    if label in draft.attempts:
        draft.end(label, "aborted" if answer == Answer.OK.value else "stale")
        if draft[key].attempt == label:
            draft.leave(key, "aborted" if answer == Answer.OK.value else "timed out", "answers")
