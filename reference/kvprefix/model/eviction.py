"""Eviction: what may go next, when a pass is over, and what a full store may answer. The one place where the rules leave a choice.

The model has no policy: any order that the rules allow is a legal one. Carries PFX-1, PFX-3 (deferred objects go first), PFX-6,
PFX-7, PRT-1, PRT-4, GRP-1 and the space half of STO-7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import TypeAlias

from kvprefix.api import EvictUnit, FamilyMode, Progress
from kvprefix.errors import NotAllowed
from kvprefix.model.actions import Choice
from kvprefix.model.values import (
    DEFERRED,
    PENDING,
    RESIDENT,
    Object,
    Rules,
    State,
    descendants,
    family_members,
    free,
    parent_of,
    protected,
    room_at_most,
    soft_protected,
    used,
)

#: Keys that leave together.
Unit: TypeAlias = frozenset[str]


def unit_of(rules: Rules, state: State, obj: Object, held: frozenset[str]) -> Unit:
    """What leaves with an unprotected object: under families its resident members, but for those that are protected (GRP-1)."""
    if obj.status is not RESIDENT or rules.caps.families is FamilyMode.NONE:
        return frozenset({obj.key})
    return frozenset(o.key for o in family_members(rules, state, obj) if o.status is RESIDENT and o.key not in held)


def is_leaf(state: State, unit: Unit) -> bool:
    """Whether nothing outside the unit is resident or PENDING below it (PFX-1); deferred objects are not there yet."""
    return not any(
        below.status is not DEFERRED and below.key not in unit
        for obj in state.objects
        if obj.key in unit
        for below in descendants(state, obj)
    )


def softness(rules: Rules, state: State, unit: Unit) -> int:
    """Who goes first: 0 deferred objects (PFX-3), 1 plain ones, 2 soft-pinned ones (PRT-4)."""
    if any(o.status is DEFERRED for o in state.objects if o.key in unit):
        return 0
    return 2 if unit & soft_protected(rules, state) else 1


def evictable(rules: Rules, state: State, keep: Iterable[str] = ()) -> frozenset[Unit]:
    """The units of which any may go next. ``keep``: the ancestors of the put that needs the room."""
    held = protected(rules, state, keep)
    units = {unit_of(rules, state, obj, held) for obj in state.objects if obj.key not in held}
    if rules.leaves_first:
        units = {unit for unit in units if is_leaf(state, unit)}
    softest = min((softness(rules, state, unit) for unit in units), default=0)
    return frozenset(unit for unit in units if softness(rules, state, unit) == softest)


def never_evicts(rules: Rules) -> bool:
    """Whether a full store refuses instead (D12)."""
    return not rules.caps.evicts or rules.caps.progress is Progress.REJECT


def next_units(rules: Rules, state: State, keep: Iterable[str], goal: int, last: tuple[Object, ...]) -> frozenset[Unit]:
    """The units with which a pass may go on that is to make ``goal`` bytes free, after it took ``last``; none: it is over (PFX-7).

    Where whole nodes are evicted, a pass that has met its goal may finish its node: it goes on from a block to its parent. Where a
    node begins is the store's business.
    """
    units = evictable(rules, state, keep)
    if free(rules, state) < goal:
        return units
    if rules.caps.evict_unit is not EvictUnit.NODE:
        return frozenset()
    above = {parent.key for obj in last if (parent := parent_of(state, obj)) is not None}
    return frozenset(unit for unit in units if unit & above)


def evict(rules: Rules, state: State, victims: tuple[str, ...], keep: Iterable[str], goal: int) -> State:
    """The state after these victims left, in this order; NotAllowed, with the rule that it breaks, if one may not go."""
    last: tuple[Object, ...] = ()
    while victims:
        units = next_units(rules, state, keep, goal, last)
        unit = next((unit for unit in units if victims[0] in unit), None)
        if unit is None:
            raise objection(rules, state, victims[0], keep, goal)
        together, victims = victims[: len(unit)], victims[len(unit) :]
        if frozenset(together) != unit:
            raise NotAllowed("GRP-1", f"{sorted(unit)} are evicted together, not {list(together)}")
        last = tuple(o for o in state.objects if o.key in unit)
        state = state.without(unit)
    return state


def passes(rules: Rules, state: State, keep: Iterable[str], goal: int) -> Iterator[tuple[tuple[str, ...], State]]:
    """Every sequence of victims that ``evict`` allows, those that stop early included, with the state after it."""

    def go_on(victims: tuple[str, ...], at: State, last: tuple[Object, ...]) -> Iterator[tuple[tuple[str, ...], State]]:
        yield victims, at
        for unit in sorted(next_units(rules, at, keep, goal, last), key=sorted):
            taken = tuple(o for o in at.objects if o.key in unit)
            for order in permutations(sorted(unit)):
                yield from go_on((*victims, *order), at.without(unit), taken)

    return go_on((), state, ())


def objection(rules: Rules, state: State, key: str, keep: Iterable[str], goal: int) -> NotAllowed:
    """Why this object may not go now."""
    obj = state.find(key)
    if obj is None:
        return NotAllowed("STO-1", f"{key!r} is not there")
    if obj.status is PENDING or key in protected(rules, state):
        return NotAllowed("PRT-1", f"{key!r} is protected")
    if key in protected(rules, state, keep):
        return NotAllowed("PFX-6", f"{key!r} is an ancestor, or kept with one, of the put that needs the room")
    if rules.leaves_first and not is_leaf(state, unit_of(rules, state, obj, protected(rules, state, keep))):
        return NotAllowed("PFX-1", f"{key!r} has a descendant that is resident or PENDING")
    if free(rules, state) >= goal:
        return NotAllowed("PFX-7", f"the pass has met its goal before {key!r}")
    if obj.status is RESIDENT and any(softness(rules, state, unit) == 0 for unit in evictable(rules, state, keep)):
        return NotAllowed("PFX-3", f"a deferred object is left that goes before {key!r}")
    return NotAllowed("PRT-4", f"an object without a soft pin is left that goes before {key!r}")


# --------------------------------------------------------------------------------------------------------------------------------
# Room for a put, and passes in the background


def may_refuse(rules: Rules, state: State, need: int, keep: Iterable[str]) -> bool:
    """Whether a put of this charge may be answered NO_SPACE (PFX-6)."""
    if rules.caps.progress is Progress.NONE:
        return True
    if never_evicts(rules) or rules.caps.progress is Progress.EVENTUAL:
        return free(rules, state) < need
    return room_at_most(rules, state, keep) < need


def make_room(rules: Rules, state: State, need: int, keep: Iterable[str], choice: Choice) -> State:
    """The state after the evictions of a put that needs this room, refused or not; NotAllowed if it may not end so."""
    if choice.victims and never_evicts(rules):
        raise NotAllowed("PFX-6", f"a store that never evicts took {list(choice.victims)}")
    after = evict(rules, state, choice.victims, keep, need)
    if not choice.refuse:
        if free(rules, after) < need:
            raise NotAllowed("PFX-6", f"{need} bytes are not free after evicting {list(choice.victims)}")
        return after
    if not may_refuse(rules, state, need, keep):
        raise NotAllowed("PFX-6", f"refused, though there is room for {need} bytes or room can be made")
    if choice.victims and not rules.caps.refused_put_evicts:
        raise NotAllowed("STO-7", f"refused, but evicted {list(choice.victims)}")
    if choice.victims and free(rules, after) >= need:
        raise NotAllowed("PFX-6", "room was made and the put refused")
    return after


def ways_to_make_room(rules: Rules, state: State, need: int, keep: Iterable[str]) -> Iterator[Choice]:
    """Every choice that ``make_room`` allows."""
    refusable = may_refuse(rules, state, need, keep)
    for victims, after in passes(rules, state, keep, 0 if never_evicts(rules) else need):
        if free(rules, after) >= need:
            yield Choice(victims)
        if refusable and (not victims or (rules.caps.refused_put_evicts and free(rules, after) < need)):
            yield Choice(victims, refuse=True)


def pass_goal(rules: Rules, state: State, wanted: int) -> int:
    """Bytes that a pass in the background may make free (PFX-7); it may stop earlier.

    Above the watermark it goes down to watermark minus ratio; for a put that an ``eventual`` store refused, as far as it needs;
    objects that expire go without any goal.
    """
    capacity, caps = rules.geometry.capacity_bytes, rules.caps
    if caps.expires:
        return capacity
    goal = wanted if caps.progress is Progress.EVENTUAL else 0
    if not never_evicts(rules) and used(state) > caps.watermark * capacity:
        # The tiny addend keeps a product that is whole on paper from being rounded down.
        goal = max(goal, capacity - max(0, math.floor((caps.watermark - caps.evict_ratio) * capacity + 1e-9)))
    return goal
