"""What a run must have seen (SOMETIMES: where a run has no witness, it has shown little), and what must come in time (EVENTUALLY).

Same form as ``invariants``. An EVENTUALLY predicate is asked of a state: from there, letting time pass is enough.
"""

from __future__ import annotations

from itertools import pairwise
from string import ascii_letters

from kvprefix.api import Answer, Geometry, Pin, RemoveResult
from kvprefix.model import actions as a
from kvprefix.model.actions import Action, Outcome
from kvprefix.model.choices import choices
from kvprefix.model.eviction import never_evicts
from kvprefix.model.predicates import Predicate, Transition, enter, transitions
from kvprefix.model.step import step
from kvprefix.model.values import (
    DEFERRED,
    PENDING,
    Rules,
    State,
    ancestors,
    children,
    holds_itself,
    parent_of,
    protected,
    soft_protected,
)
from kvprefix.model.writes import decided, own_ancestors

_sometimes: list[Predicate[Transition]] = []
_eventually: list[Predicate[State]] = []

# --------------------------------------------------------------------------------------------------------------------------------
# Sometimes: each must be witnessed, or a run has shown little


@enter(_sometimes, "a leaf evicted while a branch stays", "PFX-1")
def _leaf_while_branch_stays(rules: Rules, t: Transition) -> bool:
    gone = [(at, victim) for at, unit in t.evictions(rules) for victim in unit]
    return rules.leaves_first and any(len(children(at, up)) > 1 for at, victim in gone for up in ancestors(at, victim))


@enter(_sometimes, "a parent evicted right after its last child", "PFX-1")
def _parent_after_child(rules: Rules, t: Transition) -> bool:
    pairs = pairwise(t.evictions(rules))
    return rules.leaves_first and any(parent_of(at, child) in unit for (at, below), (_, unit) in pairs for child in below)


@enter(_sometimes, "a leased survivor", "PRT-1")
def _leased_survivor(_rules: Rules, t: Transition) -> bool:
    return bool(t.outcome.evicted) and any(o.lease_until > t.after.now for o in t.after.objects)


@enter(_sometimes, "an ancestor protected by a descendant alone", "PFX-5")
def _protected_ancestor(_rules: Rules, t: Transition) -> bool:
    up = t.before.resident(t.action.key) if isinstance(t.action, a.Remove) else None
    return t.answer is Answer.PROTECTED and up is not None and not holds_itself(t.before, up)


@enter(_sometimes, "a soft-pinned object evicted at last", "PRT-4")
def _soft_at_last(rules: Rules, t: Transition) -> bool:
    return any(victim.key in soft_protected(rules, at) for at, unit in t.evictions(rules) for victim in unit)


@enter(_sometimes, "a deferred object becoming visible", "PFX-3")
def _deferred_visible(_rules: Rules, t: Transition) -> bool:
    return any(o.status is DEFERRED and t.after.resident(o.key) is not None for o in t.before.objects)


@enter(_sometimes, "a deferred object evicted", "PFX-3")
def _deferred_evicted(rules: Rules, t: Transition) -> bool:
    return any(victim.status is DEFERRED for _, unit in t.evictions(rules) for victim in unit)


@enter(_sometimes, "no space but for the own ancestors", "PFX-6")
def _no_space_but_ancestors(rules: Rules, t: Transition) -> bool:
    return (
        isinstance(t.action, a.Put | a.PutBegin)
        and t.answer is Answer.NO_SPACE
        and not own_ancestors(rules, t.before, t.action) <= protected(rules, t.before)
    )


@enter(_sometimes, "a cascade of three", "PFX-8")
def _cascade_of_three(_rules: Rules, t: Transition) -> bool:
    return isinstance(t.outcome.answer, RemoveResult) and len(t.outcome.answer.removed or ()) >= 3


@enter(_sometimes, "a stale commit", "STO-5")
def _stale_commit(_rules: Rules, t: Transition) -> bool:
    return isinstance(t.action, a.PutCommit) and t.answer is Answer.STALE


@enter(_sometimes, "a commit without its parent", "PFX-3")
def _commit_without_parent(_rules: Rules, t: Transition) -> bool:
    return isinstance(t.action, a.PutCommit) and t.answer in (Answer.PARENT_MISSING, Answer.DEFERRED)


@enter(_sometimes, "a match before a hit behind a hole", "PFX-4")
def _match_before_hole(_rules: Rules, t: Transition) -> bool:
    hits = sum(t.before.resident(key) is not None for key in t.action.chain) if isinstance(t.action, a.Match) else 0
    return isinstance(t.outcome.answer, int) and 0 < t.outcome.answer < hits


@enter(_sometimes, "a family of two evicted together", "GRP-1")
def _family_of_two(rules: Rules, t: Transition) -> bool:
    return any(len(unit) > 1 for _, unit in t.evictions(rules))


@enter(_sometimes, "a removal under a transfer", "STO-9")
def _removal_under_transfer(_rules: Rules, t: Transition) -> bool:
    return len(t.after.draining) > len(t.before.draining)


# --------------------------------------------------------------------------------------------------------------------------------
# Eventually: from every state, letting time pass is enough


def _later(rules: Rules, s: State) -> State:
    """The state when every attempt, deferral and finite lease has run out and nothing else has happened."""
    deadlines = [s.now, *(d for o in s.objects for d in (o.lease_until, o.deadline))]
    return step(rules, s, a.Advance(max(deadlines) - s.now)).state


@enter(_eventually, "the end of every attempt", "STO-5")
def _attempts_end(rules: Rules, s: State) -> bool:
    after = step(rules, s, a.Advance(rules.caps.pending_timeout_ms)).state
    return not any(o.status is PENDING for o in after.objects)


@enter(_eventually, "the end of every deferral", "PFX-3")
def _deferrals_end(rules: Rules, s: State) -> bool:
    after = step(rules, s, a.Advance(rules.caps.defer_deadline_ms)).state
    return not any(o.status is DEFERRED for o in after.objects)


def largest_size(geometry: Geometry) -> int:
    """The most bytes that a value can have; -1 where not even an empty one fits."""
    fits = [size for size in range(geometry.capacity_bytes + 1) if geometry.charge(size) <= geometry.capacity_bytes]
    return min(max(fits, default=-1), geometry.max_value_bytes or geometry.capacity_bytes)


@enter(_eventually, "room for every value that fits", "PFX-6")
def _room_at_last(rules: Rules, s: State) -> bool:
    """Once leases and attempts have run out, a put is refused only for pins and for bytes that a transfer still uses."""
    after, size = _later(rules, s), largest_size(rules.geometry)
    pinned = [o for o in after.objects if o.in_use or o.options.pin is Pin.HARD]
    if never_evicts(rules) or pinned or after.draining or size < max(1, rules.geometry.min_value_bytes):
        return True
    told_of = {o.key for o in after.objects} | {key for key, _ in after.registered}
    put = a.PutBegin(next(key for key in ascii_letters if key not in told_of), size)
    return decided(rules, after, put) is None and any(not choice.refuse for choice in choices(rules, after, put))


SOMETIMES = tuple(_sometimes)
EVENTUALLY = tuple(_eventually)


def witnessed_by(rules: Rules, before: State, action: Action, outcome: Outcome) -> tuple[Predicate[Transition], ...]:
    """What this step is a witness of."""
    return tuple(p for p in SOMETIMES if any(p.holds(rules, t) for t in transitions(before, action, outcome)))
