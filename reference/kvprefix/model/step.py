"""The one step of the model: ``step(rules, state, action, choice) -> Outcome``, pure.

The state machine, the model checker and the refinement test of the reference store all take this step and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from kvprefix.model import actions as a
from kvprefix.model import reads, upkeep, writes
from kvprefix.model.actions import NO_CHOICE, Action, Choice, Outcome
from kvprefix.model.values import Rules, State

#: The actions in which the store has a choice.
CHOOSING: Final[Mapping[type, Callable[[Rules, State, Any, Choice], Outcome]]] = {
    a.Put: writes.put,
    a.PutBegin: writes.put_begin,
    a.PutMany: writes.put_many,
    a.EvictionPass: upkeep.eviction_pass,
}

#: All others.
DECIDED: Final[Mapping[type, Callable[[Rules, State, Any], Outcome]]] = {
    a.PutCommit: writes.put_commit,
    a.PutAbort: writes.put_abort,
    a.Get: reads.get,
    a.GetMany: reads.get_many,
    a.Exists: reads.exists,
    a.ExistsMany: reads.exists_many,
    a.Probe: reads.probe,
    a.Match: reads.match,
    a.Remove: upkeep.remove,
    a.Clear: upkeep.clear,
    a.PinObject: upkeep.pin,
    a.Unpin: upkeep.unpin,
    a.Lease: upkeep.lease,
    a.Register: upkeep.register,
    a.Advance: upkeep.advance,
}


def step(rules: Rules, state: State, action: Action, choice: Choice = NO_CHOICE) -> Outcome:
    """What the action does in this state if the store chooses so.

    Raises :class:`kvprefix.errors.NotAllowed`, with the requirement that would be broken, for a choice that the rules forbid.
    """
    if type(action) in CHOOSING:
        outcome = CHOOSING[type(action)](rules, state, action, choice)
    else:
        writes.no_choice(choice)
        outcome = DECIDED[type(action)](rules, state, action)
    return numbered(state.next_event, outcome)


def numbered(first: int, outcome: Outcome) -> Outcome:
    """The outcome with its events numbered on from ``first`` (EVT-1)."""
    events = tuple(attrs.evolve(event, sequence=first + i) for i, event in enumerate(outcome.events))
    members: tuple[Outcome, ...] = ()
    following = first
    for member in outcome.members:
        members += (numbered(following, member),)
        following = members[-1].state.next_event
    return attrs.evolve(outcome, events=events, members=members, state=attrs.evolve(outcome.state, next_event=first + len(events)))
