"""Every reachable state of the model for every forest of up to three blocks: closure and exact progress hold, and are tested hard.

A small foretaste of the bounded model checker: all actions, all choices, states told apart up to the time on the clock and the
names of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import attrs
import pytest

from kvprefix.api import ROOT, Admission, Capabilities, EvictionOrder, Geometry, Parent, Removal, Transport
from kvprefix.model import actions as a
from kvprefix.model.choices import choices
from kvprefix.model.invariants import ALWAYS, ALWAYS_STEP
from kvprefix.model.predicates import Transition
from kvprefix.model.step import step
from kvprefix.model.values import Rules, State
from kvprefix.model.witnesses import SOMETIMES

#: Up to names these are all forests of three blocks; smaller ones are those of which a block is never put.
FORESTS: dict[str, dict[str, Parent]] = {
    "three roots": {"a": ROOT, "b": ROOT, "c": ROOT},
    "a chain of two and a root": {"a": ROOT, "b": "a", "c": ROOT},
    "a chain of three": {"a": ROOT, "b": "a", "c": "b"},
    "a root with two children": {"a": ROOT, "b": "a", "c": "a"},
}

#: The smallest forest in which a leaf can be evicted beside its sibling.
BRANCH: dict[str, Parent] = {"a": ROOT, "b": "a", "c": "a", "d": ROOT}


def configurations() -> Iterator[tuple[dict[str, Parent], dict[str, int], int]]:
    for forest, sizes, capacity in product(FORESTS.values(), product((1, 2), repeat=3), (2, 3, 4)):
        yield forest, dict(zip(forest, sizes, strict=True)), capacity
    yield BRANCH, dict.fromkeys(BRANCH, 1), 3


AWARE = Capabilities(
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    event_parents=True,
    pending_timeout_ms=1,
    defer_deadline_ms=1,
)
KINDS: dict[str, tuple[Admission, Removal, bool]] = {
    "reject and refuse": (Admission.REJECT, Removal.REFUSE, False),
    "reject and cascade": (Admission.REJECT, Removal.CASCADE, False),
    "defer": (Admission.DEFER, Removal.CASCADE, False),
    "two-phase": (Admission.REJECT, Removal.CASCADE, True),
    "two-phase and defer": (Admission.DEFER, Removal.REFUSE, True),
}

JUDGED = ("descendants evicted first", "protected objects survive eviction", "exact progress", "closure after every event")
EXPECTED = {
    "reject and refuse": {
        "a leaf evicted while a branch stays",
        "a parent evicted right after its last child",
        "a leased survivor",
        "an ancestor protected by a descendant alone",
        "no space but for the own ancestors",
    },
    "reject and cascade": {"a cascade of three", "a leaf evicted while a branch stays", "no space but for the own ancestors"},
    "defer": {"a deferred object becoming visible", "a deferred object evicted", "a leased survivor"},
    "two-phase": {"a stale commit", "an ancestor protected by a descendant alone"},
    "two-phase and defer": {"a commit without its parent", "a deferred object becoming visible"},
}


def up_to_names(state: State) -> State:
    """The same state at time 0, its tokens named by their objects: what the rules cannot tell apart."""
    objects = tuple(
        attrs.evolve(
            o,
            token=f"of {o.key}" if o.token else "",
            lease_until=max(0, o.lease_until - state.now),
            deadline=max(0, o.deadline - state.now),
        )
        for o in state.objects
    )
    return State(objects=objects)


def actions(forest: dict[str, Parent], sizes: dict[str, int], state: State, two_phase: bool) -> Iterator[a.Action]:
    for key, parent in forest.items():
        present = state.find(key)
        if two_phase:
            yield a.PutBegin(key, sizes[key], parent)
            yield a.PutCommit(key, f"of {key}", b"1" * sizes[key])
            yield a.PutAbort(key, f"of {key}")
        else:
            yield a.Put(key, b"1" * sizes[key], parent)
            yield a.Lease(key, 1)
        if present is not None:
            yield a.Remove(key)
            yield a.Remove(key, force=True)
    yield a.Advance(1)


def reached(rules: Rules, forest: dict[str, Parent], sizes: dict[str, int], two_phase: bool) -> Iterable[Transition]:
    """Every step out of every reachable state."""
    found, todo = {State.initial()}, [State.initial()]
    while todo:
        state = todo.pop()
        for action in actions(forest, sizes, state, two_phase):
            for choice in choices(rules, state, action):
                transition = Transition(state, action, step(rules, state, action, choice))
                yield transition
                after = up_to_names(transition.after)
                if after not in found:
                    found.add(after)
                    todo.append(after)


@pytest.mark.parametrize("kind", KINDS)
def test_every_reachable_state_is_closed_and_every_put_gets_its_room(kind: str) -> None:
    admission, removal, two_phase = KINDS[kind]
    caps = attrs.evolve(AWARE, admission=admission, removal=removal)
    closure = next(p for p in ALWAYS if p.name == "closure")
    judged = [p for p in ALWAYS_STEP if p.name in JUDGED]
    assert len(judged) == len(JUDGED)
    unseen = set(SOMETIMES)
    steps = 0
    for forest, sizes, capacity in configurations():
        rules = Rules(caps, Geometry(capacity))
        for t in reached(rules, forest, sizes, two_phase):
            steps += 1
            assert closure.holds(rules, t.after), t
            assert [p.name for p in judged if not p.holds(rules, t)] == [], t
            unseen -= {p for p in unseen if p.holds(rules, t)}
    assert steps > 10_000
    assert EXPECTED[kind] & {p.name for p in unseen} == set()
