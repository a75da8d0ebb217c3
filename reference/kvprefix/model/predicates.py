"""What a predicate is: a named sentence of the spec about a state, or about a step that was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Generic, TypeVar

import attrs

from kvprefix.api import Answer, PinResult, PutResult, RemoveResult
from kvprefix.model.actions import Action, Outcome, PutMany
from kvprefix.model.values import RESIDENT, Object, Rules, State, family_members


@attrs.frozen
class Transition:
    """One step that was taken. A batch of singles is one transition per item (see ``transitions``)."""

    before: State
    action: Action
    outcome: Outcome

    @property
    def after(self) -> State:
        """The state after it."""
        return self.outcome.state

    @property
    def answer(self) -> Answer | None:
        """The answer, where the action has one of that kind."""
        reply = self.outcome.answer
        if isinstance(reply, PutResult | RemoveResult | PinResult):
            return reply.answer
        return reply if isinstance(reply, Answer) else None

    def evictions(self, rules: Rules) -> Iterator[tuple[State, tuple[Object, ...]]]:
        """What was evicted, unit by unit, each with the state right before it: victims of one family in a row are one unit."""
        at, victims = self.before, self.outcome.evicted
        while victims:
            first = at.find(victims[0])
            together = family_members(rules, at, first) if first is not None and first.status is RESIDENT else ()
            keys = {victims[0], *(o.key for o in together if o.status is RESIDENT)}
            taken = tuple(takewhile(keys.__contains__, victims))
            yield at, tuple(o for o in at.objects if o.key in taken)
            at, victims = at.without(taken), victims[len(taken) :]


def transitions(before: State, action: Action, outcome: Outcome) -> tuple[Transition, ...]:
    """The step as its single steps: one, or for a batch of singles one per item."""
    if not isinstance(action, PutMany) or not outcome.members:
        return (Transition(before, action, outcome),)
    befores = (before, *(member.state for member in outcome.members))
    return tuple(Transition(*each) for each in zip(befores, action.items, outcome.members, strict=False))


On = TypeVar("On")


@attrs.frozen
class Predicate(Generic[On]):
    """A named sentence of the spec."""

    name: str
    requirement: str
    holds: Callable[[Rules, On], bool]


def enter(registry: list[Predicate[On]], name: str, requirement: str) -> Callable[[Callable[[Rules, On], bool]], Predicate[On]]:
    """Decorator: the function becomes a predicate of this registry."""

    def make(holds: Callable[[Rules, On], bool]) -> Predicate[On]:
        registry.append(Predicate(name, requirement, holds))
        return registry[-1]

    return make
