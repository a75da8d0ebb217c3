"""What must always hold, as named predicates: of every state (ALWAYS), and over every step (ALWAYS_STEP).

Each says one sentence of the spec about what a step did, not how the step decides it, and carries that sentence's requirement ID.
The model checker, the random walks and the refinement test read the registries at the end; ``witnesses`` holds the other kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from kvprefix.api import Answer, EventKind, EvictUnit, FamilyMode, PinResult, Progress, PutResult, Removal, RemoveResult
from kvprefix.model import actions as a
from kvprefix.model.actions import Action, Outcome
from kvprefix.model.eviction import evictable, never_evicts
from kvprefix.model.predicates import Predicate, Transition, enter, transitions
from kvprefix.model.values import (
    DEFERRED,
    PENDING,
    RESIDENT,
    Object,
    Rules,
    State,
    ancestors,
    charge_of,
    children,
    closes_cycle,
    descendants,
    families_form_a_forest,
    family_members,
    family_of,
    free,
    has_resident_parent,
    parent_of,
    protected,
    soft_protected,
    used,
)
from kvprefix.model.writes import batch_needs, decided, own_ancestors

_always: list[Predicate[State]] = []
_step: list[Predicate[Transition]] = []

# --------------------------------------------------------------------------------------------------------------------------------
# Always, of every state


@enter(_always, "closure", "PFX-2")
def _closure(rules: Rules, s: State) -> bool:
    return not rules.closed or all(has_resident_parent(s, o) for o in s.objects if o.status is RESIDENT)


@enter(_always, "accounting", "STO-6")
def _accounting(rules: Rules, s: State) -> bool:
    exact = all(o.charge == rules.geometry.charge(o.size) for o in (*s.objects, *s.draining))
    return exact and 0 <= used(s) <= rules.geometry.capacity_bytes


@enter(_always, "one object per key", "STO-3")
def _one_object_per_key(_rules: Rules, s: State) -> bool:
    keys = [o.key for o in s.objects]
    return keys == sorted(set(keys))


@enter(_always, "whole values", "STO-3")
def _whole_values(rules: Rules, s: State) -> bool:
    return not rules.caps.values or all(len(o.value) == o.size for o in s.objects if o.status is not PENDING)


@enter(_always, "protection closed under ancestors", "PFX-5")
def _protection_closed(rules: Rules, s: State) -> bool:
    held = protected(rules, s)
    return not rules.leaves_first or all(
        above.key in held for o in s.objects if o.key in held for above in [parent_of(s, o)] if above is not None
    )


@enter(_always, "protection closed under families", "GRP-1")
def _protection_of_families(rules: Rules, s: State) -> bool:
    held = protected(rules, s)
    return not rules.whole_families or all(
        member.key in held for o in s.objects if o.key in held for member in family_members(rules, s, o)
    )


@enter(_always, "lineage a forest", "PFX-3")
def _lineage_forest(_rules: Rules, s: State) -> bool:
    declared = (*((o.key, o.parent) for o in s.objects), *s.registered)
    return not any(closes_cycle(s, key, parent) for key, parent in declared)


@enter(_always, "families a forest", "GRP-1")
def _families_forest(rules: Rules, s: State) -> bool:
    return families_form_a_forest(rules, s)


@enter(_always, "nothing held unseen", "STO-4")
def _nothing_held_unseen(_rules: Rules, s: State) -> bool:
    return not any(o.lease_until or o.soft_until or o.in_use for o in s.objects if o.status is not RESIDENT)


@enter(_always, "deadlines ahead", "STO-5")
def _deadlines_ahead(_rules: Rules, s: State) -> bool:
    return all((o.deadline > s.now) == (o.status is not RESIDENT) for o in s.objects)


@enter(_always, "deferred only while the parent is missing", "PFX-3")
def _deferred_waits(_rules: Rules, s: State) -> bool:
    return not any(has_resident_parent(s, o) for o in s.objects if o.status is DEFERRED)


@enter(_always, "one owner per token", "PRT-6")
def _one_owner(_rules: Rules, s: State) -> bool:
    tokens = [t for o in (*s.objects, *s.draining) for t in (*o.in_use, *([o.token] if o.token else []))]
    attempts = all(bool(o.token) == (o.status is PENDING) for o in s.objects)
    return attempts and len(tokens) == len(set(tokens)) and all(o.in_use for o in s.draining)


@enter(_always, "one lease per object group", "GRP-2")
def _one_lease_per_group(rules: Rules, s: State) -> bool:
    seen: dict[str, int] = {}
    shared = [o for o in s.objects if o.status is RESIDENT and o.options.object_group and rules.caps.object_groups]
    return all(seen.setdefault(o.options.object_group, o.lease_until) == o.lease_until for o in shared)


@enter(_always, "a leaf among the unprotected", "PFX-6")
def _leaf_among_unprotected(rules: Rules, s: State) -> bool:
    held = protected(rules, s)
    return all(o.key in held for o in s.objects) or bool(evictable(rules, s))


# --------------------------------------------------------------------------------------------------------------------------------
# Always, over every step: eviction


def _stored_keys(t: Transition) -> set[str]:
    return {o.key for o in t.after.objects if o.status is RESIDENT and t.before.resident(o.key) is None}


def _kept_for_the_put(rules: Rules, t: Transition) -> frozenset[str]:
    if isinstance(t.action, a.PutMany):
        return batch_needs(rules, t.before, t.action)[2]
    return own_ancestors(rules, t.before, t.action) if isinstance(t.action, a.Put | a.PutBegin) else frozenset()


@enter(_step, "descendants evicted first", "PFX-1")
def _descendants_first(rules: Rules, t: Transition) -> bool:
    return not rules.leaves_first or not any(
        below.status is not DEFERRED for at, unit in t.evictions(rules) for victim in unit for below in descendants(at, victim)
    )


@enter(_step, "protected objects survive eviction", "PRT-1")
def _protected_stay(rules: Rules, t: Transition) -> bool:
    return not protected(rules, t.before) & set(t.outcome.evicted)


@enter(_step, "own ancestors survive a put", "PFX-6")
def _ancestors_stay(rules: Rules, t: Transition) -> bool:
    return not _kept_for_the_put(rules, t) & set(t.outcome.evicted)


@enter(_step, "deferred objects evicted first", "PFX-3")
def _deferred_first(rules: Rules, t: Transition) -> bool:
    """When a resident object goes, each deferred one is protected, or has something below it that is there."""
    keep = _kept_for_the_put(rules, t)
    return not any(
        o.status is DEFERRED and o.key not in protected(rules, at, keep) and all(d.status is DEFERRED for d in descendants(at, o))
        for at, unit in t.evictions(rules)
        if any(victim.status is RESIDENT for victim in unit)
        for o in at.objects
    )


@enter(_step, "soft pins evicted last", "PRT-4")
def _soft_pins_last(rules: Rules, t: Transition) -> bool:
    """When what goes counts as soft-pinned, no lone leaf is left that does not. (Of a family all would have to go.)"""
    keep = _kept_for_the_put(rules, t)
    for at, unit in t.evictions(rules):
        soft, held = soft_protected(rules, at), protected(rules, at, keep)
        lone = [o for o in at.objects if o.status is RESIDENT and len(family_members(rules, at, o)) == 1]
        leaves = [o for o in lone if not rules.leaves_first or all(child.status is DEFERRED for child in children(at, o))]
        if any(o.status is RESIDENT and o.key in soft for o in unit) and any(o.key not in held | soft for o in leaves):
            return False
    return True


@enter(_step, "families evicted whole", "GRP-1")
def _families_whole(rules: Rules, t: Transition) -> bool:
    """What an eviction leaves of a family it took from is exactly what is protected: under all-or-none nothing."""
    if rules.caps.families is FamilyMode.NONE:
        return True
    kept = protected(rules, t.before, _kept_for_the_put(rules, t))
    victims = [o for o in t.before.objects if o.key in t.outcome.evicted and o.status is RESIDENT]
    families = {family_of(rules, o) for o in victims}
    left = [o for o in t.before.objects if o not in victims and o.status is RESIDENT and family_of(rules, o) in families]
    return not left if rules.whole_families else all(o.key in kept for o in left)


@enter(_step, "exact progress", "PFX-6")
def _exact_progress(rules: Rules, t: Transition) -> bool:
    """A put that no earlier answer decides is refused exactly when what is not protected does not make room enough."""
    if not isinstance(t.action, a.Put | a.PutBegin) or decided(rules, t.before, t.action) is not None:
        return t.answer is not Answer.NO_SPACE or isinstance(t.action, a.PutMany)
    held = protected(rules, t.before, own_ancestors(rules, t.before, t.action))
    kept = charge_of(o for o in t.before.objects if o.key in held) + charge_of(t.before.draining)
    in_use = used(t.before) if never_evicts(rules) else kept
    fits = rules.geometry.capacity_bytes - in_use >= rules.geometry.charge(t.action.size)
    refused = t.answer is Answer.NO_SPACE
    return refused or fits if rules.caps.progress in (Progress.EVENTUAL, Progress.NONE) else refused == (not fits)


@enter(_step, "minimal eviction", "PFX-7")
def _minimal_eviction(rules: Rules, t: Transition) -> bool:
    """Without the last unit that it took (an object, a family, or the blocks of one node) the put would not have had room."""
    if not isinstance(t.action, a.Put | a.PutBegin) or not t.outcome.evicted:
        return True
    *earlier, (at, unit) = t.evictions(rules)
    while earlier and rules.caps.evict_unit is EvictUnit.NODE and _hang_below(*earlier[-1], unit):
        at, unit = earlier.pop()
    return free(rules, at) < rules.geometry.charge(t.action.size)


def _hang_below(state: State, lower: tuple[Object, ...], upper: tuple[Object, ...]) -> bool:
    return any(parent_of(state, o) in upper for o in lower)


@enter(_step, "eviction only under pressure", "STO-1")
def _eviction_only_under_pressure(rules: Rules, t: Transition) -> bool:
    """Only puts and passes evict; a refused put only where that is declared (STO-7); a store that never evicts never."""
    if not t.outcome.evicted:
        return True
    if isinstance(t.action, a.EvictionPass):
        return rules.caps.expires or not never_evicts(rules)
    refused = t.answer not in (Answer.STORED, Answer.DEFERRED, Answer.OK, None)
    allowed = not refused or (t.answer is Answer.NO_SPACE and rules.caps.refused_put_evicts)
    return isinstance(t.action, a.Put | a.PutBegin | a.PutMany) and allowed and not never_evicts(rules)


# --------------------------------------------------------------------------------------------------------------------------------
# Always, over every step: writing, removing, reading


@enter(_step, "no trace of a refused put", "STO-7")
def _no_trace(_rules: Rules, t: Transition) -> bool:
    if not isinstance(t.action, a.Put | a.PutBegin | a.PutCommit | a.PutAbort):
        return True
    if t.answer in (Answer.STORED, Answer.DEFERRED, Answer.OK) and t.before.find(t.action.key) != t.after.find(t.action.key):
        return True
    gone = {t.action.key} if isinstance(t.action, a.PutCommit) and t.answer is Answer.PARENT_MISSING else set(t.outcome.evicted)
    return t.after == attrs.evolve(t.before.without(gone), next_event=t.after.next_event)


@enter(_step, "immutable objects", "STO-2")
def _immutable(_rules: Rules, t: Transition) -> bool:
    """A key that stays resident keeps value, size and options; its parent too, but that an UNKNOWN one may be registered."""
    for o in t.before.objects:
        now = t.after.resident(o.key)
        if o.status is RESIDENT and now is not None and o.key not in t.outcome.evicted:
            same_parent = now.parent == o.parent or isinstance(t.action, a.Register)
            if (now.value, now.size, now.options) != (o.value, o.size, o.options) or not same_parent:
                return False
    return True


@enter(_step, "unseen until commit", "STO-5")
def _unseen_until_commit(_rules: Rules, t: Transition) -> bool:
    """What becomes visible is what a put or commit stored, or was deferred until then; an attempt only by its own token."""
    for key in _stored_keys(t):
        was = t.before.find(key)
        if was is not None and was.status is PENDING:
            if not isinstance(t.action, a.PutCommit) or (t.action.key, t.action.token) != (key, was.token):
                return False
        elif was is None and not (
            (isinstance(t.action, a.Put) and t.action.key == key) or (isinstance(t.action, a.PutMany) and t.answer is None)
        ):
            return False
    return True


@enter(_step, "stale attempts without effect", "STO-5")
def _stale(_rules: Rules, t: Transition) -> bool:
    if not isinstance(t.action, a.PutCommit | a.PutAbort):
        return True
    obj = t.before.find(t.action.key)
    owned = obj is not None and obj.status is PENDING and obj.token == t.action.token
    return (t.answer is Answer.STALE) != owned and (owned or t.after == t.before)


@enter(_step, "fresh tokens", "STO-5")
def _fresh_tokens(_rules: Rules, t: Transition) -> bool:
    reply = t.outcome.answer
    token = reply.token if isinstance(reply, PutResult | PinResult) else None
    spent = t.after.next_token - t.before.next_token
    held = {x for o in (*t.before.objects, *t.before.draining) for x in (*o.in_use, o.token)}
    return spent == (token is not None) and token not in held


@enter(_step, "removal as declared", "PFX-8")
def _removal(rules: Rules, t: Transition) -> bool:
    """``refuse``: never over descendants. ``cascade``: all of them, deepest first. Unforced: nothing that is protected."""
    if not isinstance(t.action, a.Remove) or t.answer is not Answer.OK or not isinstance(t.outcome.answer, RemoveResult):
        return not isinstance(t.action, a.Remove) or t.after == t.before
    gone = t.outcome.answer.removed or ()
    target = t.before.find(t.action.key)
    below = {o.key for o in descendants(t.before, target)} if target is not None else set()
    allowed = {Removal.ANY: {t.action.key}, Removal.REFUSE: {t.action.key} - below, Removal.CASCADE: {t.action.key} | below}
    objects = [o for key in gone if (o := t.before.find(key)) is not None]
    deepest_first = all(o not in ancestors(t.before, later) for i, o in enumerate(objects) for later in objects[i + 1 :])
    refused = rules.caps.removal is Removal.REFUSE and bool(below)
    spared = t.action.force or not protected(rules, t.before) & set(gone)
    left = {o.key for o in t.before.objects} - {o.key for o in t.after.objects}
    return not refused and deepest_first and spared and set(gone) == left == allowed[rules.caps.removal]


@enter(_step, "clear spares the protected unless forced", "STO-9")
def _clear(rules: Rules, t: Transition) -> bool:
    if not isinstance(t.action, a.Clear):
        return True
    if t.answer is Answer.PROTECTED:
        return t.after == t.before and bool(protected(rules, t.before)) and not t.action.force
    return not t.after.objects and not t.after.registered and (t.action.force or not protected(rules, t.before))


@enter(_step, "bytes in use outlive a removal", "STO-9")
def _bytes_in_use(_rules: Rules, t: Transition) -> bool:
    """Whatever leaves, and however: each pin holds its object's bytes until that pin is given back, once (PRT-6)."""

    def held(state: State) -> dict[str, int]:
        return {token: o.charge for o in (*state.objects, *state.draining) for token in o.in_use}

    expected = held(t.before)
    if isinstance(t.action, a.Unpin):
        known = expected.pop(t.action.token, None) is not None
        if (t.answer is Answer.OK) != known or not (known or t.after == t.before):
            return False
    return {k: v for k, v in held(t.after).items() if k in expected or not isinstance(t.action, a.PinObject)} == expected


@enter(_step, "greatest match", "PFX-4")
def _greatest_match(_rules: Rules, t: Transition) -> bool:
    if not isinstance(t.action, a.Match):
        return True
    chain, start = t.action.chain, t.action.start
    lengths = [n for n in range(start, max(start, len(chain)) + 1) if all(t.before.resident(key) for key in chain[start:n])]
    return t.outcome.answer == max(lengths)


@enter(_step, "reads change no more than leases and soft pins", "PRT-3")
def _reads(_rules: Rules, t: Transition) -> bool:
    if isinstance(t.action, a.Probe):
        return t.after == t.before
    if not isinstance(t.action, a.Get | a.GetMany | a.Exists | a.ExistsMany | a.Match | a.Lease):
        return True
    bare = [tuple(attrs.evolve(o, lease_until=0, soft_until=0) for o in s.objects) for s in (t.before, t.after)]
    return bare[0] == bare[1] and attrs.evolve(t.after, objects=t.before.objects) == t.before


# --------------------------------------------------------------------------------------------------------------------------------
# Always, over every step: deadlines and events


def _staying(t: Transition) -> Iterable[tuple[Object, Object]]:
    """Objects that were resident before and are resident after, in both forms."""
    for o in t.before.objects:
        now = t.after.resident(o.key)
        if o.status is RESIDENT and now is not None and o.key not in t.outcome.evicted:
            yield o, now


@enter(_step, "leases never shorter", "PRT-2")
def _monotone_leases(_rules: Rules, t: Transition) -> bool:
    return all(now.lease_until >= was.lease_until for was, now in _staying(t))


@enter(_step, "soft pins fixed at write", "PRT-4")
def _fixed_soft_pins(rules: Rules, t: Transition) -> bool:
    return rules.caps.reads_extend_soft_pin or all(now.soft_until == was.soft_until for was, now in _staying(t))


@enter(_step, "steady time", "PRT-5")
def _steady_time(_rules: Rules, t: Transition) -> bool:
    return t.after.now == t.before.now + (t.action.ms if isinstance(t.action, a.Advance) else 0)


def _replay(t: Transition) -> Iterator[set[str]]:
    """The resident keys as a consumer of the events sees them: before, and after each event."""
    seen = {o.key for o in t.before.objects if o.status is RESIDENT}
    yield set(seen)
    for event in t.outcome.events:
        if event.kind is EventKind.CLEARED:
            seen.clear()
        elif event.kind is EventKind.STORED:
            seen.add(event.key)
        else:
            seen.discard(event.key)
        yield set(seen)


@enter(_step, "events replay to the resident set", "EVT-1")
def _events_replay(rules: Rules, t: Transition) -> bool:
    *_, seen = _replay(t)
    resident = {o.key for o in t.after.objects if o.status is RESIDENT}
    return seen == resident if rules.caps.removed_event != "none" else seen >= resident


@enter(_step, "gapless event numbers", "EVT-1")
def _gapless(_rules: Rules, t: Transition) -> bool:
    numbers = [event.sequence for event in t.outcome.events]
    return [*numbers, t.after.next_event] == list(range(t.before.next_event, t.before.next_event + len(numbers) + 1))


@enter(_step, "no event twice", "EVT-1")
def _no_event_twice(_rules: Rules, t: Transition) -> bool:
    """A stored event makes a key resident that was not, a removed event one less: the set changes with every event."""
    sets = list(_replay(t))
    return all(x != y or e.kind is EventKind.CLEARED for x, y, e in zip(sets, sets[1:], t.outcome.events, strict=False))


@enter(_step, "closure after every event", "EVT-2")
def _closure_in_events(rules: Rules, t: Transition) -> bool:
    """A stored event follows its parent's, a removed event precedes its parent's: no consumer ever sees an orphan."""
    if not rules.closed or rules.caps.removed_event == "none":
        return True
    parents = {o.key: o.parent for o in (*t.before.objects, *t.after.objects)}
    return all(not isinstance(parents[key], str) or parents[key] in seen for seen in _replay(t) for key in seen)


@enter(_step, "removed events before stored events", "EVT-2")
def _removed_before_stored(_rules: Rules, t: Transition) -> bool:
    kinds = [event.kind for event in t.outcome.events]
    return EventKind.STORED not in kinds or EventKind.REMOVED not in kinds[kinds.index(EventKind.STORED) :]


ALWAYS = tuple(_always)
ALWAYS_STEP = tuple(_step)


def broken_in(rules: Rules, state: State) -> tuple[Predicate[State], ...]:
    """What does not hold of this state though it always must."""
    return tuple(p for p in ALWAYS if not p.holds(rules, state))


def broken_by(rules: Rules, before: State, action: Action, outcome: Outcome) -> tuple[Predicate[Transition], ...]:
    """What does not hold of this step, or of one of its single steps, though it always must."""
    return tuple(p for p in ALWAYS_STEP if not all(p.holds(rules, t) for t in transitions(before, action, outcome)))
