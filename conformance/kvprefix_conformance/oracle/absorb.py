"""How the ledger grows: one function per operation takes what a step said and makes the next ledger. It judges nothing.

Where an answer contradicts what was known, the answer wins: the rules have reported it by then, and the rest of the history is
judged on the new belief.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from kvprefix.api import (
    UNKNOWN,
    Answer,
    DuplicatePut,
    Event,
    EventKind,
    ExistsLeases,
    Progress,
    PutResult,
    Removal,
)
from kvprefix_conformance.codec import Json, options_from_json, parent_from_json, put_result_from_json, remove_result_from_json
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
    Ledger,
    Phase,
    Refusal,
    Span,
    Terms,
)
from kvprefix_conformance.oracle.shield import shield
from kvprefix_conformance.records import Step

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


# --------------------------------------------------------------------------------------------------------------------------------
# Time


def age(ledger: Ledger, terms: Terms, at: tuple[int, int]) -> Ledger:
    """The ledger at this instant: what fell due, and what a pass in the background may have taken meanwhile."""
    draft = Draft(ledger, terms)
    moved = at[1] > ledger.now.hi
    draft.now = Span(*at)
    for known in list(ledger):
        _fall_due(draft, known)
    if ledger.unsettled or (terms.capabilities.expires and moved):
        draft.doubt(list(draft.objects))
    return draft.view()


def _fall_due(draft: Draft, known: Known) -> None:
    caps = draft.terms.capabilities
    for phase, wait, how in (
        (Phase.PENDING, caps.pending_timeout_ms, "timed out"),
        (Phase.DEFERRED, caps.defer_deadline_ms, "dropped"),
    ):
        if phase not in known.may:
            continue
        due = known.begun.plus(wait)
        if due.reached(draft.now):
            if known.may - {phase} in (frozenset(), ABSENT):
                draft.leave(known.key, how, "time")
            else:
                draft.set(known.key, may=known.may - {phase})
        elif not due.ahead(draft.now):
            draft.set(known.key, may=known.may | ABSENT)
            if phase is Phase.PENDING and known.attempt in draft.attempts:
                draft.attempts[known.attempt] = attrs.evolve(draft.attempts[known.attempt], doubtful=True)


# --------------------------------------------------------------------------------------------------------------------------------
# Puts


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


def _put(draft: Draft, args: Args, answer: Json) -> None:
    result, copy, key = put_result_from_json(answer), copy_of(args), args["key"]
    duplicate = draft[key].surely_resident and result.answer is Answer.STORED and _silent(draft)
    if not duplicate:
        _evictions(draft, result, key, draft.terms.charge(copy.size))
    _offer(draft, key, copy)
    if result.answer is Answer.EXISTS or duplicate:
        draft.confirm(key)
        _touched_by(draft, "duplicate_put", key)
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


def _put_begin(draft: Draft, args: Args, answer: Json) -> None:
    result, copy, key = put_result_from_json(answer), copy_of(args), args["key"]
    _evictions(draft, result, key, draft.terms.charge(copy.size))
    before = draft[key]
    if not before.surely_present and copy.parent is not UNKNOWN:
        draft.lineage[key] = copy.parent
    if result.answer is Answer.DEFERRED:
        draft.set(key, may=DEFERRED)
    elif result.answer is Answer.EXISTS:
        draft.confirm(key)
        _touched_by(draft, "duplicate_put", key, surely=False)
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


def _put_commit(draft: Draft, args: Args, answer: Json) -> None:
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


def _put_abort(draft: Draft, args: Args, answer: Json) -> None:
    label, key = args["token"], args["key"]
    if _of_another_key(draft.attempts.get(label), key, Answer(answer)):
        return
    draft.lingering.pop(label, None)
    if label in draft.attempts:
        draft.end(label, "aborted" if answer == Answer.OK.value else "stale")
        if draft[key].attempt == label:
            draft.leave(key, "aborted" if answer == Answer.OK.value else "timed out", "answers")


# --------------------------------------------------------------------------------------------------------------------------------
# Reads


def _hit(draft: Draft, key: str) -> bool:
    """A hit: the key is resident. One that cannot be is not believed where something stronger tells what is there."""
    known = draft[key]
    if known.surely_unreadable and (known.may != ABSENT or "resident" in draft.terms.offered):
        return False
    draft.confirm(key)
    return True


def _read(draft: Draft, call: str, key: str, hit: bool) -> None:
    if hit:
        if _hit(draft, key):
            draft.set(key, read_by=draft[key].read_by | {call})
    else:
        draft.deny(key, "probe" if call == "probe" else "exists" if call.startswith("exists") else "answers")


def _touched_by(draft: Draft, call: str, key: str, *, surely: bool = True) -> None:
    if call in draft.terms.capabilities.touch_calls and not draft[key].surely_unreadable:
        draft.touch(key, surely=surely)


def _leased_by(draft: Draft, call: str, key: str, *, surely: bool = True) -> None:
    caps = draft.terms.capabilities
    if call in caps.lease_calls and not draft[key].surely_unreadable:
        draft.grant(key, caps.lease_ttl_ms, call, surely=surely)


def _narrow(draft: Draft, key: str, value: Json) -> None:
    """A value that came back tells which of several puts was kept."""
    copies = tuple(copy for copy in draft[key].copies if value == {"of": key, "fill": copy.fill, "size": copy.size})
    if copies:
        draft.set(key, copies=copies)


def _get(draft: Draft, args: Args, answer: Json, call: str = "get") -> None:
    key = args["key"]
    _read(draft, call, key, answer is not None)
    if answer is not None:
        _narrow(draft, key, answer)
        _leased_by(draft, call, key)
        _touched_by(draft, call, key)


def _get_many(draft: Draft, args: Args, answer: Json) -> None:
    for key, value in zip(args["keys"], answer, strict=False):
        _get(draft, {"key": key}, value, "get_many")


def _exists(draft: Draft, args: Args, answer: Json) -> None:
    key = args["key"]
    _read(draft, "exists", key, answer)
    if answer:
        if draft.terms.capabilities.exists_leases is not ExistsLeases.NONE:
            _leased_by(draft, "exists", key)
        _touched_by(draft, "exists", key)


def _probe(draft: Draft, args: Args, answer: Json) -> None:
    _read(draft, "probe", args["key"], answer)


def _exists_many(draft: Draft, args: Args, answer: Json) -> None:
    keys = list(args["keys"])[: len(answer)]
    for key, hit in zip(keys, answer, strict=False):
        _read(draft, "exists_many", key, hit)
    prefix = _until_miss(answer)
    hits = [key for key, hit in zip(keys, answer, strict=False) if hit]
    _matched(draft, "exists_many", keys[:prefix], [key for key in hits if key not in keys[:prefix]], doubtful=[])


def _until_miss(hits: Sequence[bool]) -> int:
    return next((i for i, hit in enumerate(hits) if not hit), len(hits))


def _match(draft: Draft, args: Args, answer: Json) -> None:
    chain, start = list(args["chain"]), args.get("start", 0)
    if not start <= answer <= len(chain):
        return
    for key in chain[start:answer]:
        _read(draft, "match", key, True)
    if answer < len(chain):
        _read(draft, "match", chain[answer], False)
    behind = [key for key in chain[answer + 1 :] if key not in chain[:answer]]
    sure = [key for key in behind if draft[key].surely_resident]
    doubtful = [key for key in behind if not draft[key].surely_resident and not draft[key].surely_unreadable]
    for key in sure + doubtful:
        draft.set(key, read_by=draft[key].read_by | {"match"})
    _matched(draft, "match", chain[start:answer], sure, doubtful)


def _matched(draft: Draft, call: str, prefix: list[str], behind: list[str], doubtful: list[str]) -> None:
    """Leases and touches of a call that walks a chain: its prefix, hits behind the first hole, and what might be a hit (PRT-3)."""
    mode = draft.terms.capabilities.exists_leases
    if mode is ExistsLeases.HITS:
        leased, maybe = prefix + behind, doubtful
    elif mode is ExistsLeases.LONGEST_PREFIX:
        leased, maybe = prefix, []
    else:
        leased, maybe = (prefix[-1:] if mode is ExistsLeases.LAST_HIT else []), []
    for key in leased:
        _leased_by(draft, call, key)
    for key in maybe:
        _leased_by(draft, call, key, surely=False)
    for key in prefix:
        _touched_by(draft, call, key)
    for key in behind + doubtful:
        _touched_by(draft, call, key, surely=False)


# --------------------------------------------------------------------------------------------------------------------------------
# Removal, pins, leases, lineage, time


def _remove(draft: Draft, args: Args, answer: Json) -> None:
    result, key, known = remove_result_from_json(answer), args["key"], draft[args["key"]]
    if result.answer is Answer.OK:
        gone = {key, *(result.removed or ())}
        if draft.terms.capabilities.removal is Removal.CASCADE and result.removed is None:
            gone |= {child.key for child in draft.view().below(key, surely=True)}
        for each in gone:
            draft.freed_under_transfer(each)
            draft.leave(each, "removed", "answers")
    elif result.answer is Answer.NOT_FOUND and known.maybe_present:
        draft.leave(key, "evicted", "answers")
    elif result.answer is Answer.IN_PROGRESS:
        draft.set(key, may=PENDING)
    elif result.answer is Answer.PROTECTED and known.may - ABSENT:
        draft.set(key, may=known.may - ABSENT)


def _clear(draft: Draft, _args: Args, answer: Json) -> None:
    if answer == Answer.OK.value:
        for key in [known.key for known in draft.objects.values() if known.maybe_present]:
            draft.freed_under_transfer(key)
            draft.leave(key, "cleared", "answers")
        draft.registered.clear()


def _pin(draft: Draft, args: Args, answer: Json) -> None:
    key = args["key"]
    if answer["answer"] == Answer.OK.value and _hit(draft, key):
        draft.pins[args["as"]] = key
        draft.set(key, pins=draft[key].pins | {args["as"]})
        _touched_by(draft, "pin", key)
    elif answer["answer"] == Answer.NOT_FOUND.value:
        draft.deny(key, "answers")


def _unpin(draft: Draft, args: Args, _answer: Json) -> None:
    label = args["token"]
    key = draft.pins.pop(label, None)
    draft.lingering.pop(label, None)
    if key is not None:
        draft.set(key, pins=draft[key].pins - {label})


def _lease(draft: Draft, args: Args, answer: Json) -> None:
    key = args["key"]
    if answer == Answer.OK.value and _hit(draft, key):
        draft.grant(key, args["ttl_ms"], "lease")
        _touched_by(draft, "lease", key)
    elif answer == Answer.NOT_FOUND.value:
        draft.deny(key, "answers")


def _register(draft: Draft, args: Args, answer: Json) -> None:
    if answer == Answer.OK.value:
        draft.registered[args["key"]] = parent_from_json(args["parent"])
        draft.lineage[args["key"]] = parent_from_json(args["parent"])
        if draft[args["key"]].maybe_present:
            draft.set(args["key"], since=draft.step, born=draft.tick)  # its lineage is told from here on


def _snapshot(draft: Draft, _args: Args, answer: Json) -> None:
    look(draft, frozenset(answer["objects"]), "events")


def _quiesce(draft: Draft, _args: Args, _answer: Json) -> None:
    draft.unsettled = False
    if draft.refusal is not None:
        draft.refusal = attrs.evolve(draft.refusal, quiesced=True)


def _jump(draft: Draft, _args: Args, _answer: Json) -> None:
    draft.jumps = (*draft.jumps, draft.step)


def _nothing(_draft: Draft, _args: Args, _answer: Json) -> None:
    """The call tells nothing about any object."""


_ABSORB: Mapping[str, Callable[[Draft, Args, Json], None]] = {
    "put": _put, "put_begin": _put_begin, "put_commit": _put_commit, "put_abort": _put_abort,
    "get": _get, "get_many": _get_many, "exists": _exists, "probe": _probe, "exists_many": _exists_many, "match": _match,
    "remove": _remove, "clear": _clear, "pin": _pin, "unpin": _unpin, "lease": _lease, "register": _register,
    "snapshot": _snapshot, "quiesce": _quiesce, "jump_wall_clock": _jump,
    "events": _nothing, "stats": _nothing, "advance": _nothing,
}  # fmt: skip


def absorb(ledger: Ledger, terms: Terms, step: Step) -> Ledger:
    """The ledger after the step's answer is believed."""
    draft = Draft(ledger, terms)
    _ABSORB[step.op](draft, step.args, step.answer)
    if draft.unsettled:
        draft.doubt(list(draft.objects))  # a pass in the background may come right behind the answer
    return draft.view()


# --------------------------------------------------------------------------------------------------------------------------------
# What is seen beside the answers


def look(draft: Draft, resident: frozenset[str], evidence: str) -> None:
    """An atomic snapshot of all resident keys."""
    for key in resident:
        if not draft[key].surely_resident:
            draft.confirm(key)
    for known in list(draft.objects.values()):
        if known.key not in resident and Phase.RESIDENT in known.may:
            draft.deny(known.key, evidence)


def witness(ledger: Ledger, terms: Terms, resident: frozenset[str] | None, events: Sequence[Event] | None) -> Ledger:
    """The ledger after the events and the snapshot that followed a step."""
    draft = Draft(ledger, terms)
    for event in events or ():
        draft.mirror = draft.mirror.plus(event)
        if event.kind is EventKind.REMOVED and Phase.RESIDENT in draft[event.key].may and draft[event.key].since < draft.step:
            draft.leave(event.key, "evicted", "events")
    if resident is not None:
        look(draft, resident, "resident")
    return draft.view()
