"""Random walks through the model, under many declarations: whatever the store chooses, what must always hold does.

Walks are drawn from one random generator that Hypothesis seeds (and reports): drawn choice by choice they stay too near to the
empty store. ``note`` prints the walk of a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Admission,
    Batch,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EmptyValue,
    Event,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    Progress,
    PutOptions,
    Removal,
    Transport,
)
from kvprefix.errors import NotAllowed
from kvprefix.model import actions as a
from kvprefix.model.choices import choices
from kvprefix.model.invariants import broken_by, broken_in
from kvprefix.model.step import step
from kvprefix.model.values import Rules, State
from kvprefix.model.witnesses import EVENTUALLY, SOMETIMES, witnessed_by

KEYS = ("a", "b", "c", "d")
CALLS = frozenset({"get", "get_many", "exists", "exists_many", "match"})


def any_rules(rng: Random) -> Rules:
    """Any declaration that is no contradiction, at a capacity of a few objects."""
    argument, event = Transport.ARGUMENT, Transport.EVENT
    lineage = rng.choice([{argument}, {argument}, {argument}, {argument, event}, {event}, set()])
    progress = rng.choice([Progress.EXACT, Progress.EXACT, Progress.EXACT, Progress.EVENTUAL, Progress.NONE, Progress.REJECT])
    leaves_first = [EvictionOrder.DESCENDANTS_FIRST] * 3 + [EvictionOrder.ANY]
    leases = rng.random() < 0.5
    caps = Capabilities(
        **{field: rng.choice(list(values)) for field, values in FREE.items()},
        lineage=frozenset(lineage),
        admission=rng.choice(list(Admission)) if argument in lineage else Admission.ANY,
        eviction_order=rng.choice(leaves_first) if lineage else EvictionOrder.ANY,
        evicts=progress is not Progress.REJECT,
        progress=progress,
        evict_ratio=0.25,
        lease_ttl_ms=2 if leases else 0,
        lease_calls=CALLS if leases else frozenset(),
        pending_timeout_ms=3,
        defer_deadline_ms=3,
        pins=frozenset(Pin) - {Pin.NONE},
        family_size=True,
        cache_groups=frozenset({CacheGroup.FULL, CacheGroup.BLOB}),
        walk=frozenset({"root", "resume"}),
    )
    overhead, quantum = rng.choice([(0, 1), (0, 1), (1, 1), (0, 2)])
    return Rules(caps, Geometry(rng.randint(3, 6), overhead_bytes=overhead, quantum_bytes=quantum))


FREE: dict[str, Any] = {
    "removal": Removal,
    "families": [FamilyMode.NONE, FamilyMode.NONE, FamilyMode.ALL_OR_NONE, FamilyMode.BEST_EFFORT],
    "evict_unit": EvictUnit,
    "watermark": [1.0, 1.0, 0.75],
    "exists_leases": ExistsLeases,
    "duplicate_put": DuplicatePut,
    "empty_value": EmptyValue,
    "batch": Batch,
    "refused_put_evicts": [False, True],
    "reports_evictions": [False, True],
    "reads_extend_soft_pin": [False, True],
    "object_groups": [False, True],
    "namespaces": [False, False, True],
    "event_parents": [False, True],
    "expires": [False, False, False, False, True],
    "values": [True, True, True, False],
    "removed_event": ["last-copy", "last-copy", "last-copy", "none"],
}


def any_options(rng: Random, rules: Rules) -> PutOptions:
    """Mostly plain; else anything that is declared, and seldom what is not."""
    caps = rules.caps
    family = rng.choice(["", "", "F", "G"]) if caps.families is not FamilyMode.NONE else ""
    if rng.random() < 0.7:
        return PutOptions(family=family)
    soft = rng.random() < 0.5
    return PutOptions(
        cache_group=rng.choice([CacheGroup.FULL] * 6 + [CacheGroup.BLOB, CacheGroup.WINDOW]),
        family=family,
        object_group=rng.choice(["", "g"]) if caps.object_groups else "",
        namespace=rng.choice(["", "", "n"]) if caps.namespaces else "",
        pin=Pin.SOFT if soft else rng.choice([Pin.NONE, Pin.NONE, Pin.HARD]),
        soft_pin_ms=rng.choice([None, 2]) if soft else None,
        lease_ms=rng.choice([0, 2]),
    )


def any_put(rng: Random, rules: Rules, state: State) -> a.Put:
    """A put, mostly of a key that is absent and below what is there, so that chains and branches grow."""
    absent = [key for key in KEYS if state.find(key) is None]
    key = rng.choice([*absent, *absent, *absent, *KEYS]) if rng.random() < 0.97 else ""
    there = [o.key for o in state.objects if o.key != key]
    parents: list[Parent] = [ROOT, *there, *there, *there, *there, rng.choice(KEYS), UNKNOWN]
    value = rng.choice([b"1"] * 8 + [b"22"] * 6 + [b"333", b"", b"7777777"])
    return a.Put(key, value, rng.choice(parents), any_options(rng, rules))


def any_action(rng: Random, rules: Rules, state: State) -> a.Action:
    """Any action, puts before all; keys and tokens are mostly those that are there."""
    there = [o.key for o in state.objects]
    key = rng.choice(there * 3 + list(KEYS))
    pins = sorted(token for o in (*state.objects, *state.draining) for token in o.in_use)
    attempts = [o for o in state.objects if o.token]
    attempt = rng.choice([(o.key, o.token, o.size) for o in attempts] * 4 + [("a", "attempt-1", 1)])
    chain = tuple(rng.choice(there * 3 + list(KEYS)) for _ in range(rng.randint(0, 4)))
    put = any_put(rng, rules, state)
    parents: list[Parent] = [*KEYS, *KEYS, ROOT, UNKNOWN]
    kinds: dict[a.Action, int] = {
        put: 24,
        a.PutBegin(put.key, put.size, put.parent, put.options): 4,
        a.PutCommit(attempt[0], attempt[1], b"9" * rng.choice([attempt[2], attempt[2], 1])): 6 if attempts else 1,
        a.PutAbort(attempt[0], attempt[1]): 1,
        a.PutMany(tuple(any_put(rng, rules, state) for _ in range(rng.randint(0, 2)))): 2,
        a.Get(key): 1,
        a.GetMany(chain): 1,
        a.Exists(key): 1,
        a.ExistsMany(chain): 1,
        a.Probe(key): 1,
        a.Match(chain, rng.choice([0, 0, 0, 1, 2])): 2,
        a.Remove(key, rng.random() < 0.3): 4,
        a.Clear(rng.random() < 0.2): 1,
        a.PinObject(key): 2,
        a.Unpin(rng.choice([*pins, *pins, "pin-9"])): 2,
        a.Lease(key, rng.randint(-1, 3)): 1,
        a.Register(key, rng.choice(parents)): 4 if Transport.EVENT in rules.caps.lineage else 1,
        a.Advance(rng.randint(0, 3)): 2,
        a.EvictionPass(rng.randint(0, 2)): 2,
    }
    return rng.choices(list(kinds), list(kinds.values()))[0]


def walk(rng: Random, rules: Rules, steps: int, say: Callable[[str], None] = note) -> Iterator[tuple[State, a.Action, a.Outcome]]:
    """Steps from the empty store, each with a choice that the rules allow."""
    state = State.initial()
    say(f"{rules}")
    for _ in range(steps):
        action = any_action(rng, rules, state)
        choice = rng.choice(list(choices(rules, state, action)))
        outcome = step(rules, state, action, choice)
        say(f"{action} {choice if choice != a.NO_CHOICE else ''}: {outcome.answer!r}")
        yield state, action, outcome
        state = outcome.state


def state_after_walk(rng: Random, rules: Rules, steps: int) -> State:
    *_, (_, _, outcome) = walk(rng, rules, steps)
    return outcome.state


def quiet(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@quiet(200)
@given(st.randoms(use_true_random=True))
def test_on_every_walk_what_must_always_hold_does(rng: Random) -> None:
    rules = any_rules(rng)
    for before, action, outcome in walk(rng, rules, 20):
        assert [p.name for p in broken_by(rules, before, action, outcome)] == []
        assert [p.name for p in broken_in(rules, outcome.state)] == []
    assert [p.name for p in EVENTUALLY if not p.holds(rules, outcome.state)] == []


def test_such_walks_see_everything_that_must_be_seen() -> None:
    """Walks of numbered seeds until nothing is left unseen; the limit is far beyond what that takes."""
    unseen = {p.name for p in SOMETIMES}
    for rng in map(Random, range(5000)):
        rules = any_rules(rng)
        for before, action, outcome in walk(rng, rules, 20, say=lambda _: None):
            unseen -= {p.name for p in witnessed_by(rules, before, action, outcome)}
        if not unseen:
            break
    assert unseen == set()


@quiet(100)
@given(st.randoms(use_true_random=True))
def test_step_allows_exactly_the_choices(rng: Random) -> None:
    """Brute force over every order of every subset of the keys, refused or not, at the end of a walk."""
    rules = any_rules(rng)
    state = state_after_walk(rng, rules, 8)
    put = any_put(rng, rules, state)
    kinds: list[a.Action] = [put, put, a.PutBegin(put.key, put.size, put.parent, put.options), a.EvictionPass(2)]
    asked = rng.choice(kinds)
    tried = [a.Choice(v, refuse) for n in range(len(KEYS) + 1) for v in permutations(KEYS, n) for refuse in (False, True)]
    listed = list(choices(rules, state, asked))
    assert len(listed) == len(set(listed)) > 0
    assert {choice for choice in tried if allows(rules, state, asked, choice)} == set(listed)


def allows(rules: Rules, state: State, action: a.Action, choice: a.Choice) -> bool:
    try:
        step(rules, state, action, choice)
    except NotAllowed:
        return False
    return True


@quiet(50)
@given(st.randoms(use_true_random=True))
def test_a_batch_of_singles_does_what_its_singles_do(rng: Random) -> None:
    rules = any_rules(rng)
    rules = attrs.evolve(rules, caps=attrs.evolve(rules.caps, batch=Batch.SINGLES))
    state = state_after_walk(rng, rules, 5)
    items = tuple(any_put(rng, rules, state) for _ in range(3))
    choice = rng.choice(list(choices(rules, state, a.PutMany(items))))
    batch = step(rules, state, a.PutMany(items), choice)
    answers: list[a.Reply] = []
    events: list[Event] = []
    for item, chosen in zip(items, choice.members, strict=True):
        single = step(rules, state, item, chosen)
        answers.append(single.answer)
        events += single.events
        state = single.state
    assert (batch.answer, batch.events, batch.state) == (tuple(answers), tuple(events), state)


def test_a_state_is_frozen_comparable_and_hashable() -> None:
    rules = Rules(Capabilities(), Geometry(4))
    put = a.Put("a", b"1", ROOT)
    one, two = (step(rules, State.initial(), put).state for _ in range(2))
    assert one == two
    assert len({one, two, State.initial()}) == 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.now = 3  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.objects[0].value = b"2"  # type: ignore[misc]


def test_a_step_leaves_the_state_before_it_alone() -> None:
    rules = Rules(Capabilities(), Geometry(2))
    before = step(rules, State.initial(), a.Put("a", b"11")).state
    snapshot = attrs.evolve(before)
    after = step(rules, before, a.Put("b", b"22"), a.Choice(("a",))).state
    assert before == snapshot
    assert [o.key for o in after.objects] == ["b"]
