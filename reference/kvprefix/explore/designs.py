"""Stores that do not follow the rules, or follow them by other means: what the variants are made of.

A design acts by rules that may differ from those that it is judged by, picks its victims itself, and may keep stamps of recency,
which the model leaves free. All that it does is a step of the model on a state that the design has made room in. Carries no
requirement of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Any, TypeAlias

import attrs

from kvprefix.api import Answer, Event, EventKind, PutResult
from kvprefix.explore.bounds import World
from kvprefix.explore.nodes import Memory, Node
from kvprefix.explore.walk import Design, Taken
from kvprefix.model import actions as a
from kvprefix.model.actions import NO_CHOICE, Action, Choice, Outcome
from kvprefix.model.choices import choices
from kvprefix.model.step import numbered, step
from kvprefix.model.values import Object, Rules, State, ancestors, descendants, free
from kvprefix.model.writes import decided, draft_of, own_ancestors

#: What leaves together, in this order.
Unit: TypeAlias = tuple[Object, ...]
#: The units of which a design may evict any next, to make room for a put.
Pick: TypeAlias = Callable[[State], Iterable[Unit]]


def acting_by(rules: Rules, **changes: Any) -> Rules:
    """The rules by which a design really acts."""
    return attrs.evolve(rules, caps=attrs.evolve(rules.caps, **changes))


def acts_by(name: str, **changes: Any) -> Design:
    """A design that declares the world's rules and acts by others."""

    def act(world: World, node: Node, action: Action) -> Iterator[Taken]:
        rules = acting_by(world.rules, **changes)
        for choice in choices(rules, node.state, action):
            yield Taken(action, choice, step(rules, node.state, action, choice))

    return Design(name, act)


# --------------------------------------------------------------------------------------------------------------------------------
# Room made by the design's own choice


def rooms(rules: Rules, state: State, need: int, pick: Pick) -> Iterator[tuple[str, ...]]:
    """Every sequence of victims by which the design makes room; none where it cannot."""
    if free(rules, state) >= need:
        yield ()
        return
    for unit in pick(state):
        keys = tuple(o.key for o in unit)
        yield from ((*keys, *rest) for rest in rooms(rules, state.without(keys), need, pick))


def put_with(rules: Rules, state: State, action: a.Put | a.PutBegin, victims: tuple[str, ...]) -> Outcome:
    """The put after these victims left, whoever allowed it: a step of the model on what is left."""
    outcome = step(rules, state.without(victims), action)
    gone = tuple(Event(0, EventKind.REMOVED, key) for key in victims if state.resident(key) is not None)
    reply = outcome.answer
    if isinstance(reply, PutResult) and rules.caps.reports_evictions:
        reply = attrs.evolve(reply, evicted=victims)
    return numbered(state.next_event, attrs.evolve(outcome, answer=reply, events=gone + outcome.events, evicted=victims))


def puts_by(rules: Rules, state: State, action: a.Put | a.PutBegin, pick: Pick) -> Iterator[tuple[Choice, Outcome]]:
    """All that a put may come to if the design picks the victims; it refuses where it finds too few."""
    if decided(rules, state, action) is not None:
        yield NO_CHOICE, step(rules, state, action)
        return
    found = tuple(rooms(rules, state, draft_of(rules, state, action).charge, pick))
    for victims in found:
        yield Choice(victims), put_with(rules, state, action, victims)
    if not found:
        yield Choice(refuse=True), Outcome(PutResult(Answer.NO_SPACE, ()), state)


def evicts(name: str, victims: Pick) -> Design:
    """A design that picks victims in its own way, never an ancestor of the put that asks, and does all else by the rules."""

    def act(world: World, node: Node, action: Action) -> Iterator[Taken]:
        rules, state = world.rules, node.state
        if not isinstance(action, a.Put | a.PutBegin):
            for choice in choices(rules, state, action):
                yield Taken(action, choice, step(rules, state, action, choice))
            return
        own = own_ancestors(rules, state, action)

        def pick(at: State) -> Iterator[Unit]:
            return (unit for unit in victims(at) if not any(o.key in own for o in unit))

        for choice, outcome in puts_by(rules, state, action, pick):
            yield Taken(action, choice, outcome)

    return Design(name, act)


# --------------------------------------------------------------------------------------------------------------------------------
# Recency


#: Every order in which an action may touch keys, judged in the state after it; the first key gets the oldest stamp.
Touches: TypeAlias = Callable[[State, Action], Iterable[tuple[str, ...]]]


def stamped(memory: Memory, touched: tuple[str, ...], state: State) -> Memory:
    """The stamps after these touches, as ranks of what is present."""
    ranks = dict(memory)
    for key in touched:
        ranks[key] = max(ranks.values(), default=-1) + 1
    present = sorted((ranks[o.key], o.key) for o in state.objects)
    return tuple(sorted((key, rank) for rank, (_, key) in enumerate(present)))


def lru(name: str, touches: Touches, *, leaves_only: bool = False) -> Design:
    """Least recently used first, but never an ancestor of the put that asks.

    What an action stamps is ``touches``; whether lineage is looked at when the victim is chosen, ``leaves_only``.
    """

    def act(world: World, node: Node, action: Action) -> Iterator[Taken]:
        state = node.state

        def pick(at: State) -> Iterator[Unit]:
            ranks, own = dict(node.memory), own_ancestors(world.rules, state, action) if isinstance(action, a.Put) else frozenset()
            able = [o for o in at.objects if o.key not in own and not (leaves_only and descendants(at, o))]
            return iter([(min(able, key=lambda o: ranks[o.key]),)] if able else [])

        if isinstance(action, a.Put):
            results = puts_by(world.rules, state, action, pick)
        else:
            results = iter([(NO_CHOICE, step(world.rules, state, action))])
        for choice, outcome in results:
            for order in touches(outcome.state, action):
                yield Taken(action, choice, outcome, stamped(node.memory, order, outcome.state))

    return Design(name, act)


def line_of(state: State, key: str) -> tuple[str, ...]:
    """The key and its present ancestors, nearest first; empty for a miss."""
    obj = state.resident(key)
    return (key, *(above.key for above in ancestors(state, obj))) if obj is not None else ()


def _asked(state: State, action: Action) -> tuple[str, ...]:
    """What a put or a get is about, if it is there now."""
    return (action.key,) if isinstance(action, a.Put | a.Get) and state.resident(action.key) is not None else ()


def _hits(state: State, action: Action) -> tuple[str, ...]:
    return tuple(key for key in action.chain if state.resident(key) is not None) if isinstance(action, a.Match) else ()


def leaf_first(state: State, action: Action) -> Iterable[tuple[str, ...]]:
    """A put or a get stamps its object alone; match stamps what it hit, the leaf first and the root last."""
    yield (*_asked(state, action), *reversed(_hits(state, action)))


def as_named(state: State, action: Action) -> Iterable[tuple[str, ...]]:
    """A put or a get stamps its object alone; match stamps what it hit in the order in which it is named: the root first."""
    yield (*_asked(state, action), *_hits(state, action))


def with_ancestors(state: State, action: Action) -> Iterable[tuple[str, ...]]:
    """Put, get and match stamp the object, then each of its ancestors later than its child, all in one step."""
    keys = _asked(state, action) + _hits(state, action)[-1:]
    yield tuple(key for asked in keys for key in line_of(state, asked))


def in_hash_order(state: State, action: Action) -> Iterable[tuple[str, ...]]:
    """As :func:`with_ancestors`, but match stamps what it hit in an order that has nothing to do with the chain."""
    yield from permutations(_hits(state, action)) if isinstance(action, a.Match) else with_ancestors(state, action)


def only_what_is_asked(state: State, action: Action) -> Iterable[tuple[str, ...]]:
    """As :func:`with_ancestors`, but a get stamps the one object that it names: a device cache has taken the hits on the head."""
    yield from leaf_first(state, action) if isinstance(action, a.Get) else with_ancestors(state, action)
