"""Each predicate can fail: one hand-made bad state or step for each, and a check that none is left out."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Admission,
    Answer,
    Capabilities,
    Event,
    EventKind,
    EvictionOrder,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    PinResult,
    PutOptions,
    PutResult,
    Removal,
    RemoveResult,
    Transport,
)
from kvprefix.model import actions as a
from kvprefix.model import eviction, writes
from kvprefix.model.choices import choices
from kvprefix.model.invariants import ALWAYS, ALWAYS_STEP, broken_by, broken_in
from kvprefix.model.predicates import Transition, transitions
from kvprefix.model.step import step
from kvprefix.model.values import DEFERRED, PENDING, RESIDENT, Object, Rules, State, Status
from kvprefix.model.witnesses import EVENTUALLY, SOMETIMES

CAPS = Capabilities(
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    admission=Admission.REJECT,
    removal=Removal.CASCADE,
    event_parents=True,
    object_groups=True,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
)


def rules(capacity: int = 3, **caps: Any) -> Rules:
    return Rules(attrs.evolve(CAPS, **caps), Geometry(capacity))


def obj(key: str, parent: Parent = ROOT, status: Status = RESIDENT, *, family: str = "", **facts: Any) -> Object:
    """An object of one byte that keeps all rules by itself."""
    value, due = (b"1", 0) if status is RESIDENT else (b"", 9) if status is PENDING else (b"1", 9)
    plain = Object(key, 1, 1, parent, PutOptions(family=family), status, value, deadline=due)
    return attrs.evolve(plain, **{"token": f"t-{key}" if status is PENDING else "", **facts})


def state(*objects: Object, **facts: Any) -> State:
    return State(objects=tuple(sorted(objects, key=lambda o: o.key)), **facts)


WHOLE = FamilyMode.ALL_OR_NONE
#: Families {a, c} and {b} on a chain a, b, c: neither can go before the other.
ENTANGLED = state(obj("a", family="F"), obj("b", "a", family="G"), obj("c", "b", family="F"))
A, B_BELOW_A = obj("a"), obj("b", "a")
SOFT = PutOptions(pin=Pin.SOFT)

BAD_STATES: dict[str, tuple[Rules, State]] = {
    "closure": (rules(), state(B_BELOW_A)),
    "accounting": (rules(1), state(A, obj("b"))),
    "one object per key": (rules(), state(A, A)),
    "whole values": (rules(), state(obj("a", value=b"12"))),
    "lineage a forest": (rules(), state(obj("a", "b"), B_BELOW_A)),
    "families a forest": (rules(families=WHOLE), ENTANGLED),
    "nothing held unseen": (rules(), state(obj("a", "x", DEFERRED, lease_until=5))),
    "deadlines ahead": (rules(), state(obj("a", status=PENDING), now=9)),
    "deferred only while the parent is missing": (rules(), state(A, obj("b", "a", DEFERRED))),
    "one owner per token": (rules(), state(obj("a", in_use=frozenset({"p"})), obj("b", in_use=frozenset({"p"})))),
    "one lease per object group": (
        rules(),
        state(obj("a", options=PutOptions(object_group="g"), lease_until=5), obj("b", options=PutOptions(object_group="g"))),
    ),
    "a leaf among the unprotected": (rules(families=WHOLE), ENTANGLED),
}

#: These follow from a definition, so no state is bad for them; what can be wrong is the definition (see the last test).
BY_DEFINITION = {"protection closed under ancestors", "protection closed under families"}


def put(key: str, parent: Parent = ROOT, **facts: Any) -> a.Put:
    return a.Put(key, **{"value": b"1", "parent": parent, **facts})


def event(sequence: int, kind: EventKind, key: str, parent: Parent = UNKNOWN) -> Event:
    return Event(sequence, kind, key, parent)


def bad(
    rule: Rules, before: State, action: a.Action, answer: a.Reply, after: State, *evicted: str, **facts: Any
) -> tuple[Rules, Transition]:
    return rule, Transition(before, action, a.Outcome(answer, after, evicted=evicted, **facts))


STORED, REMOVED = EventKind.STORED, EventKind.REMOVED
OK = PutResult(Answer.STORED)
LEASED, PINNED = obj("a", lease_until=5), obj("a", in_use=frozenset({"p"}))

BAD_STEPS: dict[str, tuple[Rules, Transition]] = {
    "descendants evicted first": bad(rules(2), state(A, B_BELOW_A), put("c"), OK, state(B_BELOW_A, obj("c")), "a"),
    "protected objects survive eviction": bad(rules(1), state(LEASED), put("c"), OK, state(obj("c")), "a"),
    "own ancestors survive a put": bad(rules(1), state(A), put("b", "a"), OK, state(B_BELOW_A), "a"),
    "deferred objects evicted first": bad(
        rules(2, admission=Admission.DEFER), state(A, obj("d", "x", DEFERRED)), put("c"), OK, state(obj("c")), "a"
    ),
    "soft pins evicted last": bad(rules(2), state(obj("a", options=SOFT, soft_until=9), obj("b")), put("c"), OK, state(), "a"),
    "families evicted whole": bad(
        rules(2, families=WHOLE), state(obj("a", family="F"), obj("b", family="F")), put("c"), OK, state(), "a"
    ),
    "exact progress": bad(rules(1), state(A), put("c"), PutResult(Answer.NO_SPACE), state(A)),
    "minimal eviction": bad(rules(2), state(A, obj("b")), put("c"), OK, state(obj("c")), "a", "b"),
    "eviction only under pressure": bad(rules(), state(A), a.Get("b"), None, state(), "a"),
    "no trace of a refused put": bad(rules(1), state(LEASED), put("c"), PutResult(Answer.NO_SPACE), state(LEASED, obj("c"))),
    "immutable objects": bad(rules(), state(A), put("a"), PutResult(Answer.EXISTS), state(obj("a", value=b"2"))),
    "unseen until commit": bad(rules(), state(obj("a", status=PENDING)), a.PutAbort("a", "t-a"), Answer.OK, state(A)),
    "stale attempts without effect": bad(rules(), state(obj("a", status=PENDING)), a.PutCommit("a", "old", b"1"), OK, state(A)),
    "fresh tokens": bad(rules(), state(PINNED), a.PinObject("a"), PinResult(Answer.OK, "p"), state(PINNED, next_token=2)),
    "removal as declared": bad(rules(), state(A, B_BELOW_A), a.Remove("a"), RemoveResult(Answer.OK, ("a",)), state(B_BELOW_A)),
    "clear spares the protected unless forced": bad(rules(), state(LEASED), a.Clear(), Answer.OK, state()),
    "bytes in use outlive a removal": bad(
        rules(), state(PINNED), a.Remove("a", force=True), RemoveResult(Answer.OK, ("a",)), state()
    ),
    "greatest match": bad(rules(), state(A, obj("c")), a.Match(("a", "b", "c")), 2, state(A, obj("c"))),
    "reads change no more than leases and soft pins": bad(rules(), state(A), a.Probe("a"), True, state(LEASED)),
    "leases never shorter": bad(rules(), state(LEASED), a.Lease("a", 1), Answer.OK, state(obj("a", lease_until=1))),
    "soft pins fixed at write": bad(rules(), state(obj("a", soft_until=5)), a.Get("a"), b"1", state(obj("a", soft_until=7))),
    "steady time": bad(rules(), state(A), a.Get("a"), b"1", state(A, now=1)),
    "events replay to the resident set": bad(rules(), state(), put("a"), OK, state(A)),
    "gapless event numbers": bad(rules(), state(), put("a"), OK, state(A, next_event=3), events=(event(2, STORED, "a", ROOT),)),
    "no event twice": bad(
        rules(), state(), put("a"), OK, state(A, next_event=3), events=(event(1, STORED, "a"), event(2, STORED, "a"))
    ),
    "closure after every event": bad(
        rules(),
        state(obj("b", "a", DEFERRED)),
        put("a"),
        OK,
        state(A, B_BELOW_A),
        events=(event(1, STORED, "b"), event(2, STORED, "a")),
    ),
    "removed events before stored events": bad(
        rules(1), state(A), put("c"), OK, state(obj("c")), "a", events=(event(1, STORED, "c"), event(2, REMOVED, "a"))
    ),
}


def test_every_predicate_has_a_bad_example() -> None:
    assert {p.name for p in ALWAYS} == set(BAD_STATES) | BY_DEFINITION
    assert {p.name for p in ALWAYS_STEP} == set(BAD_STEPS)


def test_names_are_unique_and_every_predicate_has_its_requirement() -> None:
    on_states = [(p.name, p.requirement) for p in (*ALWAYS, *EVENTUALLY)]
    every = on_states + [(p.name, p.requirement) for p in (*ALWAYS_STEP, *SOMETIMES)]
    assert len({name for name, _ in every}) == len(every)
    assert all(requirement.partition("-")[0] in {"STO", "PRT", "PFX", "GRP", "EVT"} for _, requirement in every)


@pytest.mark.parametrize("name", BAD_STATES)
def test_a_bad_state_breaks(name: str) -> None:
    rule, bad_state = BAD_STATES[name]
    assert name in [p.name for p in broken_in(rule, bad_state)]


@pytest.mark.parametrize("name", BAD_STEPS)
def test_a_bad_step_breaks(name: str) -> None:
    rule, t = BAD_STEPS[name]
    assert name in [p.name for p in broken_by(rule, t.before, t.action, t.outcome)]


def test_the_examples_are_bad_in_few_ways_each() -> None:
    """An example that breaks everything shows nothing of a single predicate. (Hand-made steps do not bother with events.)"""
    told = {"events replay to the resident set", "gapless event numbers", "minimal eviction", "bytes in use outlive a removal"}
    for name, (rule, t) in BAD_STEPS.items():
        others = {p.name for p in broken_by(rule, t.before, t.action, t.outcome)} - told - {name}
        assert len(others) <= 2, (name, others)


def test_a_good_state_and_a_good_step_break_nothing() -> None:
    before = state(A, B_BELOW_A)
    action, choice = put("c"), a.Choice(("b",))
    outcome = step(rules(2), before, action, choice)
    assert broken_in(rules(2), before) == ()
    assert broken_by(rules(2), before, action, outcome) == ()


@pytest.mark.parametrize("witness", SOMETIMES, ids=lambda p: p.name)
def test_no_witness_is_seen_where_nothing_happens(witness: Any) -> None:
    outcome = step(rules(), State.initial(), a.Probe("a"))
    assert not witness.holds(rules(), Transition(State.initial(), a.Probe("a"), outcome))


NEVER: dict[str, State] = {
    "the end of every attempt": state(obj("a", status=PENDING, deadline=1 << 40)),
    "the end of every deferral": state(obj("a", "x", DEFERRED, deadline=1 << 40)),
    "room for every value that fits": state(obj("a", "c"), B_BELOW_A, obj("c", "b")),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_must_come_can_fail_to_come(name: str) -> None:
    predicate = next(p for p in EVENTUALLY if p.name == name)
    assert not predicate.holds(rules(families=WHOLE), NEVER[name])
    assert predicate.holds(rules(families=WHOLE), state(A))
    assert set(NEVER) == {p.name for p in EVENTUALLY}


def test_a_batch_of_singles_is_judged_item_by_item() -> None:
    action = a.PutMany((put("a"), put("b", "a")))
    choice = next(choices(rules(), State.initial(), action))
    singles = transitions(State.initial(), action, step(rules(), State.initial(), action, choice))
    assert [t.action for t in singles] == list(action.items)
    assert singles[1].before == singles[0].after


#: Rules of the model made unsafe on purpose, and what says so.
UNSAFE = [
    (eviction, "is_leaf", lambda *_: True, "descendants evicted first"),
    (writes, "own_ancestors", lambda *_: frozenset(), "own ancestors survive a put"),
    (eviction, "protected", lambda *_: frozenset(), "protected objects survive eviction"),
    (eviction, "soft_protected", lambda *_: frozenset(), "soft pins evicted last"),
    (writes, "impossible_lineage", lambda *_: False, "lineage a forest"),
]


@pytest.mark.parametrize(("module", "function", "wrong", "said"), UNSAFE, ids=lambda x: x if isinstance(x, str) else "")
def test_an_unsafe_model_is_found_out(module: Any, function: str, wrong: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some step of the unsafe model, from a state that the safe one reaches, breaks just what it should."""
    rule = rules(2, admission=Admission.PLACEHOLDER)
    starts = [state(A, B_BELOW_A), state(LEASED, obj("b")), state(obj("a", options=SOFT, soft_until=9), obj("b")), state(B_BELOW_A)]
    asked = [put("c"), put("c", "a"), put("c", "b"), put("a", "b"), put("c", value=b"11")]
    assert all(broken_by(rule, s, act, step(rule, s, act, c)) == () for s in starts for act in asked for c in choices(rule, s, act))
    monkeypatch.setattr(module, function, wrong)
    if function == "own_ancestors":
        monkeypatch.setattr("kvprefix.model.choices.own_ancestors", wrong)
    found = set()
    for s in starts:
        for act in asked:
            for choice in eviction.ways_to_make_room(rule, s, len(act.value), writes.own_ancestors(rule, s, act)):
                outcome = writes.put(rule, s, act, choice) if writes.decided(rule, s, act) is None else None
                if outcome is not None:
                    found |= {p.name for p in broken_by(rule, s, act, outcome)} | {p.name for p in broken_in(rule, outcome.state)}
    assert said in found


@pytest.mark.parametrize("said", sorted(BY_DEFINITION))
def test_a_protection_that_spreads_nowhere_is_found_out(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rules(families=WHOLE)
    kept = state(obj("a", family="F"), obj("d", family="F"), obj("b", "a", lease_until=5))
    assert broken_in(rule, kept) == ()
    monkeypatch.setattr("kvprefix.model.values._spread", lambda _rules, _state, keys: frozenset(keys))
    lone = attrs.evolve(
        kept,
        objects=tuple(
            attrs.evolve(o, lease_until=5 if o.key != "d" and said.endswith("families") else o.lease_until) for o in kept.objects
        ),
    )
    assert said in [p.name for p in broken_in(rule, lone)]
