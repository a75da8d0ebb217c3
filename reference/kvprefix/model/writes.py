"""The actions that store: put, the two-phase put, and the batch.

Carries STO-2, STO-3, STO-5, STO-7, STO-8, STO-10, PFX-3 and EVT-2. A put is decided in this order: INVALID, EXISTS (or DEFERRED),
IN_PROGRESS, TOO_LARGE, PARENT_MISSING, NO_SPACE; an option that is not declared is UNSUPPORTED before all of them.
"""

from __future__ import annotations

import attrs

from kvprefix.api import (
    UNKNOWN,
    Answer,
    Batch,
    CacheGroup,
    DuplicatePut,
    EmptyValue,
    Event,
    EventKind,
    FamilyMode,
    Parent,
    Pin,
    PutOptions,
    PutResult,
)
from kvprefix.errors import NotAllowed
from kvprefix.model.actions import NO_CHOICE, Choice, Outcome, Put, PutAbort, PutBegin, PutCommit, PutMany
from kvprefix.model.eviction import make_room
from kvprefix.model.leases import group_lease, with_lease
from kvprefix.model.values import (
    DEFERRED,
    FOREVER,
    PENDING,
    RESIDENT,
    Object,
    Rules,
    State,
    ancestors,
    children,
    closes_cycle,
    families_form_a_forest,
    has_resident_parent,
    used,
)

_PRESENT = {RESIDENT: Answer.EXISTS, DEFERRED: Answer.DEFERRED, PENDING: Answer.IN_PROGRESS}

# --------------------------------------------------------------------------------------------------------------------------------
# What a put is answered before space is looked at


def draft_of(rules: Rules, state: State, put: Put | PutBegin) -> Object:
    """The object that the put would make, PENDING, without its value. Its parent: the one told with it, else the registered one."""
    told: Parent = put.parent if put.parent is not UNKNOWN else dict(state.registered).get(put.key, UNKNOWN)
    return Object(
        key=put.key,
        size=put.size,
        charge=rules.geometry.charge(put.size),
        parent=told if rules.caps.lineage else UNKNOWN,
        options=put.options,
        status=PENDING,
    )


def unsupported(rules: Rules, options: PutOptions) -> bool:
    """Whether an option is set that the store does not honour."""
    caps = rules.caps
    return (
        options.cache_group not in caps.cache_groups
        or (options.family != "" and caps.families is FamilyMode.NONE)
        or (options.family_size is not None and not caps.family_size)
        or (options.object_group != "" and not caps.object_groups)
        or (options.namespace != "" and not caps.namespaces)
        or (options.pin is not Pin.NONE and options.pin not in caps.pins)
    )


def malformed(rules: Rules, put: Put | PutBegin) -> bool:
    """Whether key, size or options can never be accepted (STO-3, STO-10)."""
    geometry, options = rules.geometry, put.options
    longest = geometry.max_key_bytes
    empty = put.size == 0 and rules.caps.empty_value is EmptyValue.INVALID
    bad_key = put.key == "" or (longest is not None and len(put.key.encode("utf-8", "surrogatepass")) > longest)
    bad_size = put.size < geometry.min_value_bytes or put.size < 0 or empty
    bad_soft_pin = options.soft_pin_ms is not None and (options.pin is not Pin.SOFT or options.soft_pin_ms < 0)
    return bad_key or bad_size or bad_soft_pin or options.lease_ms < 0


def impossible_lineage(rules: Rules, state: State, draft: Object) -> bool:
    """Whether the parent can never be right: a cycle, a chain outside FULL, a family in two places (PFX-3, PFX-12, GRP-1)."""
    chainless = draft.options.cache_group is not CacheGroup.FULL and draft.parent is not UNKNOWN
    if chainless or closes_cycle(state, draft.key, draft.parent):
        return True
    return not families_form_a_forest(rules, state.having(draft))


def decided(rules: Rules, state: State, put: Put | PutBegin) -> Answer | None:
    """The answer that space has no part in, if there is one."""
    geometry, draft = rules.geometry, draft_of(rules, state, put)
    present = state.find(put.key)
    if unsupported(rules, put.options):
        return Answer.UNSUPPORTED
    if malformed(rules, put) or impossible_lineage(rules, state, draft):
        return Answer.INVALID
    if present is not None:
        return _PRESENT[present.status]
    if draft.charge > geometry.capacity_bytes or (geometry.max_value_bytes is not None and put.size > geometry.max_value_bytes):
        return Answer.TOO_LARGE
    if rules.rejects and not has_resident_parent(state, draft):
        return Answer.PARENT_MISSING
    return None


def own_ancestors(rules: Rules, state: State, put: Put | PutBegin) -> frozenset[str]:
    """What a put may not evict to make room for itself (PFX-6)."""
    if not rules.leaves_first:
        return frozenset()
    return frozenset(above.key for above in ancestors(state, draft_of(rules, state, put)))


# --------------------------------------------------------------------------------------------------------------------------------
# Becoming visible, and leaving, with events


def stored(rules: Rules, obj: Object) -> Event:
    """The event of an object that becomes visible; ``step`` numbers it (EVT-2)."""
    return Event(0, EventKind.STORED, obj.key, obj.parent if rules.caps.event_parents else UNKNOWN)


def removed(rules: Rules, before: State, keys: tuple[str, ...]) -> tuple[Event, ...]:
    """The events of objects that leave, in this order; those that never were visible leave silently (EVT-1)."""
    if rules.caps.removed_event == "none":
        return ()
    return tuple(Event(0, EventKind.REMOVED, key) for key in keys if before.resident(key) is not None)


def publish(rules: Rules, state: State, obj: Object) -> tuple[State, tuple[Event, ...]]:
    """Make the object visible, and right after it, recursively, what was deferred for it (PFX-3). Lease and soft pin begin now."""
    options = obj.options
    soft_ms = FOREVER if options.soft_pin_ms is None else options.soft_pin_ms
    shown = attrs.evolve(
        obj,
        status=RESIDENT,
        token="",
        deadline=0,
        lease_until=group_lease(rules, state, obj),
        soft_until=state.now + soft_ms if options.pin is Pin.SOFT else 0,
    )
    state = with_lease(rules, state.having(shown), shown, options.lease_ms)
    events: tuple[Event, ...] = (stored(rules, shown),)
    for child in children(state, shown):
        if child.status is DEFERRED:
            state, later = publish(rules, state, child)
            events += later
    return state, events


def place(rules: Rules, state: State, draft: Object, value: bytes) -> tuple[Answer, State, tuple[Event, ...]]:
    """A value for which there is room: visible at once, or deferred until its parent is resident."""
    whole = attrs.evolve(draft, value=value if rules.caps.values else b"", token="")
    if rules.defers and not has_resident_parent(state, whole):
        waiting = attrs.evolve(whole, status=DEFERRED, deadline=state.now + rules.caps.defer_deadline_ms)
        return Answer.DEFERRED, state.having(waiting), ()
    state, events = publish(rules, state, whole)
    return Answer.STORED, state, events


# --------------------------------------------------------------------------------------------------------------------------------
# The actions


def result(rules: Rules, answer: Answer, evicted: tuple[str, ...] = (), token: str | None = None) -> PutResult:
    """The answer of a put; the victims are told where they are reported."""
    return PutResult(answer, evicted if rules.caps.reports_evictions else None, token)


def no_choice(choice: Choice) -> None:
    """Where space has no part in the answer, nothing is evicted (STO-7)."""
    if choice != NO_CHOICE:
        raise NotAllowed("STO-7", f"space has no part in this answer, but the store chose {choice}")


def put(rules: Rules, before: State, action: Put, choice: Choice) -> Outcome:
    """Store a value at once."""
    # Requires
    answer = decided(rules, before, action)
    if answer is not None:
        no_choice(choice)
        if answer is Answer.EXISTS and rules.caps.duplicate_put is DuplicatePut.SILENT:
            answer = Answer.STORED
        return Outcome(result(rules, answer), before)

    # Effect
    draft = draft_of(rules, before, action)
    roomy = make_room(rules, before, draft.charge, own_ancestors(rules, before, action), choice)
    gone = removed(rules, before, choice.victims)
    if choice.refuse:
        return Outcome(result(rules, Answer.NO_SPACE, choice.victims), roomy, gone, choice.victims)
    answer, after, shown = place(rules, roomy, draft, action.value)

    # Answer
    return Outcome(result(rules, answer, choice.victims), after, gone + shown, choice.victims)


def put_begin(rules: Rules, before: State, action: PutBegin, choice: Choice) -> Outcome:
    """Reserve room for a value; nothing is visible yet (STO-5)."""
    # Requires
    answer = decided(rules, before, action)
    if answer is not None:
        no_choice(choice)
        return Outcome(result(rules, answer), before)

    # Effect
    draft = draft_of(rules, before, action)
    roomy = make_room(rules, before, draft.charge, own_ancestors(rules, before, action), choice)
    gone = removed(rules, before, choice.victims)
    if choice.refuse:
        return Outcome(result(rules, Answer.NO_SPACE, choice.victims), roomy, gone, choice.victims)
    token = f"attempt-{before.next_token}"
    attempt = attrs.evolve(draft, token=token, deadline=before.now + rules.caps.pending_timeout_ms)
    after = attrs.evolve(roomy.having(attempt), next_token=before.next_token + 1)

    # Answer
    return Outcome(result(rules, Answer.OK, choice.victims, token), after, gone, choice.victims)


def attempt_of(state: State, key: str, token: str) -> Object | None:
    """The open attempt that this token owns: not one that was superseded, timed out or forced away (STO-5)."""
    found = state.find(key)
    return found if found is not None and found.status is PENDING and found.token == token else None


def put_commit(rules: Rules, before: State, action: PutCommit) -> Outcome:
    """Make the value of an attempt visible (STO-5)."""
    # Requires
    attempt = attempt_of(before, action.key, action.token)
    if attempt is None:
        return Outcome(result(rules, Answer.STALE), before)
    if len(action.value) != attempt.size:
        return Outcome(result(rules, Answer.INVALID), before)
    if rules.rejects and not has_resident_parent(before, attempt):
        return Outcome(result(rules, Answer.PARENT_MISSING), before.without({attempt.key}))

    # Effect
    answer, after, events = place(rules, before, attempt, action.value)

    # Answer
    return Outcome(result(rules, answer), after, events)


def put_abort(_rules: Rules, before: State, action: PutAbort) -> Outcome:
    """Give an attempt up (STO-5)."""
    # Requires
    attempt = attempt_of(before, action.key, action.token)
    if attempt is None:
        return Outcome(Answer.STALE, before)

    # Effect
    after = before.without({attempt.key})

    # Answer
    return Outcome(Answer.OK, after)


def put_many(rules: Rules, before: State, action: PutMany, choice: Choice) -> Outcome:
    """A native batch (STO-8)."""
    return (put_each if rules.caps.batch is Batch.SINGLES else put_all)(rules, before, action, choice)


def put_each(rules: Rules, before: State, action: PutMany, choice: Choice) -> Outcome:
    """As the single puts in order: each answers for itself, and after a refused one the next is still tried."""
    # Requires
    if choice != Choice(members=choice.members) or len(choice.members) != len(action.items):
        raise NotAllowed("STO-8", f"a batch of {len(action.items)} singles chooses for each of them, not {choice}")

    # Effect
    members: tuple[Outcome, ...] = ()
    after = before
    for item, chosen in zip(action.items, choice.members, strict=True):
        members += (put(rules, after, item, chosen),)
        after = members[-1].state

    # Answer
    answers = tuple(member.answer for member in members if isinstance(member.answer, PutResult))
    events = tuple(event for member in members for event in member.events)
    return Outcome(answers, after, events, tuple(key for member in members for key in member.evicted), members)


def put_all(rules: Rules, before: State, action: PutMany, choice: Choice) -> Outcome:
    """All or nothing: one member refused, and each answers what it was refused with.

    Room is made once, for all, and never at the cost of a member or an ancestor of one. The first answer reports the victims.
    """
    # Requires
    answer, need, keep = batch_needs(rules, before, action)
    if answer is not None:
        no_choice(choice)
        return Outcome(tuple(result(rules, answer) for _ in action.items), before)

    # Effect
    after = make_room(rules, before, need, keep, choice)
    events = removed(rules, before, choice.victims)
    answers: tuple[Answer, ...] = ()
    for item in action.items:
        if choice.refuse:
            answers += (Answer.NO_SPACE,)
            continue
        single = decided(rules, after, item)
        if single is None:
            single, after, shown = place(rules, after, draft_of(rules, after, item), item.value)
            events += shown
        elif single is Answer.EXISTS and rules.caps.duplicate_put is DuplicatePut.SILENT:
            single = Answer.STORED
        answers += (single,)

    # Answer
    reported = tuple(result(rules, each, choice.victims if i == 0 else ()) for i, each in enumerate(answers))
    return Outcome(reported, after, events, choice.victims)


def batch_needs(rules: Rules, state: State, action: PutMany) -> tuple[Answer | None, int, frozenset[str]]:
    """Of an atomic batch: the answer with which it is refused, else the room that it needs and the keys that it may not evict."""
    trial, keep = state, frozenset(item.key for item in action.items)
    for item in action.items:
        answer = decided(rules, trial, item)
        if answer not in (None, Answer.EXISTS, Answer.DEFERRED):
            return answer, 0, keep
        keep |= frozenset(above.key for above in ancestors(trial, draft_of(rules, trial, item)))
        if answer is None:
            _, trial, _ = place(rules, trial, draft_of(rules, trial, item), item.value)
    return None, used(trial) - used(state), keep
