"""How the ledger grows: one function per operation takes what a step said and makes the next ledger. It judges nothing.

Puts are in absorb_puts.py; here are time, reads, removal, protection, and what is seen beside the answers. Where an answer
contradicts what was known, the answer wins: the rules have reported it by then, and the rest is judged on the new belief.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from kvprefix.api import (
    Answer,
    Event,
    EventKind,
    ExistsLeases,
    Removal,
)
from kvprefix_conformance.codec import Json, parent_from_json, remove_result_from_json
from kvprefix_conformance.oracle.absorb_puts import Args, put, put_abort, put_begin, put_commit
from kvprefix_conformance.oracle.draft import Draft
from kvprefix_conformance.oracle.ledger import (
    ABSENT,
    PENDING,
    Known,
    Ledger,
    Phase,
    Span,
    Terms,
)
from kvprefix_conformance.records import Step

# --------------------------------------------------------------------------------------------------------------------------------
# Time


def age(ledger: Ledger, terms: Terms, at: tuple[int, int], *, background: bool = True) -> Ledger:
    """The ledger at this instant: what fell due, and what a pass in the background may have taken meanwhile."""
    draft = Draft(ledger, terms)
    moved = at[1] > ledger.now.hi
    draft.now = Span(*at)
    draft.reclaiming = tuple(late for late in ledger.reclaiming if not late[0].reached(draft.now))
    for known in list(ledger):
        _fall_due(draft, known)
    restless = ledger.unsettled or (terms.capabilities.expires and moved) or not terms.capabilities.exclusive
    if background and restless:
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
            _extend_soft_pin(draft, key)
    else:
        draft.deny(key, "probe" if call == "probe" else "exists" if call.startswith("exists") else "answers")


def _extend_soft_pin(draft: Draft, key: str) -> None:
    """Where that is declared (D9), a read may move the deadline of a soft pin that has not ended."""
    known = draft[key]
    if draft.terms.capabilities.reads_extend_soft_pin and known.soft_until is not None and not known.soft_until.reached(draft.now):
        life = max(copy.options.soft_pin_ms or 0 for copy in known.copies)
        until = Span(known.soft_until.lo, max(known.soft_until.hi, draft.now.hi + life))
        draft.set(key, soft_until=until)


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
        draft.touched_by(call, key)


def _get_many(draft: Draft, args: Args, answer: Json) -> None:
    for key, value in zip(args["keys"], answer, strict=False):
        _get(draft, {"key": key}, value, "get_many")


def _exists(draft: Draft, args: Args, answer: Json) -> None:
    key = args["key"]
    _read(draft, "exists", key, answer)
    if answer:
        if draft.terms.capabilities.exists_leases is not ExistsLeases.NONE:
            _leased_by(draft, "exists", key)
        draft.touched_by("exists", key)


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
        draft.touched_by(call, key)
    for key in behind + doubtful:
        draft.touched_by(call, key, surely=False)


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
        draft.touched_by("pin", key)
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
        draft.touched_by("lease", key)
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
    "put": put, "put_begin": put_begin, "put_commit": put_commit, "put_abort": put_abort,
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
    """An atomic snapshot of all resident keys. On a store that others use too, only keys of this run count."""
    ours = resident if draft.terms.capabilities.exclusive else resident & set(draft.objects)
    for key in ours:
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
