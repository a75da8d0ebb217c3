"""All other actions: removal, pins, leases, lineage beside the data path, time, and evictions that no put asked for.

Carries STO-5 (timeouts), STO-9, PRT-1, PRT-2, PRT-6, PFX-3 (deadlines, cycles), PFX-7 (watermark passes) and PFX-8.
"""

from __future__ import annotations

import attrs

from kvprefix.api import UNKNOWN, Answer, CacheGroup, Event, EventKind, PinResult, Removal, RemoveResult, Transport
from kvprefix.errors import NotAllowed
from kvprefix.model.actions import Advance, Choice, Clear, EvictionPass, Lease, Outcome, PinObject, Register, Remove, Unpin
from kvprefix.model.eviction import evict, pass_goal
from kvprefix.model.leases import with_lease
from kvprefix.model.values import (
    PENDING,
    RESIDENT,
    Object,
    Rules,
    State,
    closes_cycle,
    declared_parent,
    descendants,
    families_form_a_forest,
    protected,
)
from kvprefix.model.writes import removed

# --------------------------------------------------------------------------------------------------------------------------------
# Removal


def taken_away(state: State, gone: tuple[Object, ...]) -> State:
    """The state after these were removed. What a transfer uses is a miss at once; its bytes stay until the last unpin (STO-9)."""
    draining = tuple(o for o in gone if o.in_use)
    return attrs.evolve(state.without(o.key for o in gone), draining=state.draining + draining)


def remove(rules: Rules, before: State, action: Remove) -> Outcome:
    """Remove an object, and under ``cascade`` all below it, deepest first, all or nothing (STO-9, PFX-8)."""
    # Requires
    obj = before.find(action.key)
    if obj is None:
        return Outcome(RemoveResult(Answer.NOT_FOUND, ()), before)
    if obj.status is PENDING and not action.force:
        return Outcome(RemoveResult(Answer.IN_PROGRESS, ()), before)
    below, removal = descendants(before, obj), rules.caps.removal
    gone = (*below, obj) if removal is Removal.CASCADE else (obj,)
    held = protected(rules, before)
    if (removal is Removal.REFUSE and below) or (not action.force and any(o.key in held for o in gone)):
        return Outcome(RemoveResult(Answer.PROTECTED, ()), before)

    # Effect
    keys = tuple(o.key for o in gone)
    after = taken_away(before, gone)

    # Answer
    return Outcome(RemoveResult(Answer.OK, keys), after, removed(rules, before, keys))


def clear(rules: Rules, before: State, action: Clear) -> Outcome:
    """Remove everything; attempts become STALE, registrations are forgotten (STO-9)."""
    # Requires
    if protected(rules, before) and not action.force:
        return Outcome(Answer.PROTECTED, before)

    # Effect
    after = attrs.evolve(taken_away(before, before.objects), registered=())

    # Answer
    return Outcome(Answer.OK, after, (Event(0, EventKind.CLEARED),))


# --------------------------------------------------------------------------------------------------------------------------------
# Protection


def pin(_rules: Rules, before: State, action: PinObject) -> Outcome:
    """Hold a resident object in use (PRT-6)."""
    # Requires
    obj = before.resident(action.key)
    if obj is None:
        return Outcome(PinResult(Answer.NOT_FOUND), before)

    # Effect
    token = f"pin-{before.next_token}"
    held = attrs.evolve(obj, in_use=obj.in_use | {token})
    after = attrs.evolve(before.having(held), next_token=before.next_token + 1)

    # Answer
    return Outcome(PinResult(Answer.OK, token), after)


def unpin(_rules: Rules, before: State, action: Unpin) -> Outcome:
    """Give a pin back, once (PRT-6)."""
    # Requires
    holders = [o for o in (*before.objects, *before.draining) if action.token in o.in_use]
    if not holders:
        return Outcome(Answer.NOT_FOUND, before)

    # Effect
    rest = attrs.evolve(holders[0], in_use=holders[0].in_use - {action.token})
    if holders[0] in before.objects:
        after = before.having(rest)
    else:
        others = tuple(o for o in before.draining if o != holders[0])
        after = attrs.evolve(before, draining=(*others, rest) if rest.in_use else others)

    # Answer
    return Outcome(Answer.OK, after)


def lease(rules: Rules, before: State, action: Lease) -> Outcome:
    """Protect a resident object for some time (PRT-2)."""
    # Requires
    obj = before.resident(action.key)
    if obj is None:
        return Outcome(Answer.NOT_FOUND, before)

    # Effect
    after = with_lease(rules, before, obj, action.ttl_ms)

    # Answer
    return Outcome(Answer.OK, after)


# --------------------------------------------------------------------------------------------------------------------------------
# Lineage beside the data path


def register(rules: Rules, before: State, action: Register) -> Outcome:
    """Declare a parent; nothing appears, vanishes or is evicted by it."""
    # Requires
    if Transport.EVENT not in rules.caps.lineage:
        return Outcome(Answer.UNSUPPORTED, before)
    key, parent, obj = action.key, action.parent, before.find(action.key)
    known = declared_parent(before, key)
    if parent == known or parent is UNKNOWN:
        return Outcome(Answer.OK, before)
    chainless = obj is not None and obj.options.cache_group is not CacheGroup.FULL
    if key == "" or known is not UNKNOWN or chainless or closes_cycle(before, key, parent):
        return Outcome(Answer.INVALID, before)

    # Effect
    if obj is not None:
        after = before.having(attrs.evolve(obj, parent=parent))
        if not families_form_a_forest(rules, after):
            return Outcome(Answer.INVALID, before)
    else:
        after = attrs.evolve(before, registered=tuple(sorted([*before.registered, (key, parent)], key=lambda r: r[0])))

    # Answer
    return Outcome(Answer.OK, after)


# --------------------------------------------------------------------------------------------------------------------------------
# Time, and evictions that no put asked for


def advance(_rules: Rules, before: State, action: Advance) -> Outcome:
    """Let time pass. Leases and soft pins just end; attempts and deferred objects that are overdue leave without an event."""
    # Requires
    if action.ms < 0:
        raise NotAllowed("PRT-5", "steady time never goes back")

    # Effect
    now = before.now + action.ms
    overdue = {o.key for o in before.objects if o.status is not RESIDENT and now >= o.deadline}
    after = attrs.evolve(before.without(overdue), now=now)

    # Answer
    return Outcome(Answer.OK, after)


def eviction_pass(rules: Rules, before: State, action: EvictionPass, choice: Choice) -> Outcome:
    """Evict in the background, as far as the rules for passes go or less far (PFX-7). It is never forced to happen."""
    # Requires
    if choice.refuse or choice.members:
        raise NotAllowed("PFX-7", f"a pass chooses victims only, not {choice}")

    # Effect
    after = evict(rules, before, choice.victims, (), pass_goal(rules, before, action.wanted))

    # Answer
    return Outcome(Answer.OK, after, removed(rules, before, choice.victims), choice.victims)
