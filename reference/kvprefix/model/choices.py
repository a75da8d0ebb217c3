"""Every choice that the rules leave the store in a step: what the model checker branches over.

``step`` allows exactly these; a test says so. Carries no requirement of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Batch
from kvprefix.model.actions import NO_CHOICE, Action, Choice, EvictionPass, Put, PutBegin, PutMany
from kvprefix.model.eviction import pass_goal, passes, ways_to_make_room
from kvprefix.model.values import Rules, State
from kvprefix.model.writes import batch_needs, decided, draft_of, own_ancestors, put


def choices(rules: Rules, state: State, action: Action) -> Iterator[Choice]:
    """All choices with which ``step`` may be called here, each once. At least one, where the action is one that the store has."""
    if isinstance(action, Put | PutBegin):
        yield from put_choices(rules, state, action)
    elif isinstance(action, PutMany) and rules.caps.batch is Batch.SINGLES:
        yield from (Choice(members=members) for members in member_choices(rules, state, action.items))
    elif isinstance(action, PutMany):
        answer, need, keep = batch_needs(rules, state, action)
        yield from ways_to_make_room(rules, state, need, keep) if answer is None else (NO_CHOICE,)
    elif isinstance(action, EvictionPass):
        yield from (Choice(victims) for victims, _ in passes(rules, state, (), pass_goal(rules, state, action.wanted)))
    else:
        yield NO_CHOICE


def put_choices(rules: Rules, state: State, action: Put | PutBegin) -> Iterator[Choice]:
    """The choices of a single put."""
    if decided(rules, state, action) is not None:
        yield NO_CHOICE
        return
    draft = draft_of(rules, state, action)
    yield from ways_to_make_room(rules, state, draft.charge, own_ancestors(rules, state, action))


def member_choices(rules: Rules, state: State, items: tuple[Put, ...]) -> Iterator[tuple[Choice, ...]]:
    """One choice per item, each made in the state that the items before it left."""
    if not items:
        yield ()
        return
    for first in put_choices(rules, state, items[0]):
        after = put(rules, state, items[0], first).state
        yield from ((first, *rest) for rest in member_choices(rules, after, items[1:]))
