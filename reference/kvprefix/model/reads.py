"""The actions that read: get, exists, probe, match and their batches. They change leases and, where declared, soft pins.

Carries STO-3, STO-4, PFX-4 and PRT-3. Recency is the policy's matter, and the model has none.
"""

from __future__ import annotations

import attrs

from kvprefix.api import ExistsLeases
from kvprefix.errors import NotAllowed
from kvprefix.model.actions import Exists, ExistsMany, Get, GetMany, Match, Outcome, Probe
from kvprefix.model.leases import with_lease
from kvprefix.model.values import FOREVER, Rules, State, softly_pinned


def seen(rules: Rules, state: State, call: str, keys: tuple[str, ...], leased: tuple[str, ...]) -> State:
    """The state after a call that hit these keys and leases some of them, if it is one that leases (PRT-3)."""
    caps = rules.caps
    for key in keys:
        obj = state.resident(key)
        if caps.reads_extend_soft_pin and obj is not None and softly_pinned(state, obj) and obj.soft_until < FOREVER:
            state = state.having(attrs.evolve(obj, soft_until=state.now + (obj.options.soft_pin_ms or 0)))
    for key in leased if call in caps.lease_calls else ():
        obj = state.resident(key)
        if obj is not None:
            state = with_lease(rules, state, obj, caps.lease_ttl_ms)
    return state


def leased_of(rules: Rules, hits: tuple[str, ...], matched: tuple[str, ...]) -> tuple[str, ...]:
    """Which keys a call that asks for existence leases: of all its hits, and of those before the first miss (PRT-3)."""
    return {
        ExistsLeases.NONE: (),
        ExistsLeases.HITS: hits,
        ExistsLeases.LONGEST_PREFIX: matched,
        ExistsLeases.LAST_HIT: matched[-1:],
    }[rules.caps.exists_leases]


def matched_of(state: State, chain: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the chain before the first that is not resident."""
    holes = [i for i, key in enumerate(chain) if state.resident(key) is None]
    return chain[: min(holes, default=len(chain))]


def hits_of(state: State, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the keys that are resident."""
    return tuple(key for key in keys if state.resident(key) is not None)


def get_many(rules: Rules, before: State, action: GetMany, call: str = "get_many") -> Outcome:
    """Read several values."""
    # Requires
    hits = hits_of(before, action.keys)

    # Effect
    after = seen(rules, before, call, hits, hits)

    # Answer
    return Outcome(tuple(obj.value if (obj := before.resident(key)) is not None else None for key in action.keys), after)


def get(rules: Rules, before: State, action: Get) -> Outcome:
    """Read a value: whole, or a miss (STO-3)."""
    # Requires, Effect: as a batch of one.
    batch = get_many(rules, before, GetMany((action.key,)), "get")

    # Answer
    obj = before.resident(action.key)
    return Outcome(obj.value if obj is not None else None, batch.state)


def exists_many(rules: Rules, before: State, action: ExistsMany, call: str = "exists_many") -> Outcome:
    """Whether each get would hit."""
    # Requires
    hits, matched = hits_of(before, action.keys), matched_of(before, action.keys)

    # Effect
    after = seen(rules, before, call, hits, leased_of(rules, hits, matched))

    # Answer
    return Outcome(tuple(key in hits for key in action.keys), after)


def exists(rules: Rules, before: State, action: Exists) -> Outcome:
    """Whether get would hit."""
    # Requires, Effect: as a batch of one.
    batch = exists_many(rules, before, ExistsMany((action.key,)), "exists")

    # Answer
    return Outcome(before.resident(action.key) is not None, batch.state)


def probe(_rules: Rules, before: State, action: Probe) -> Outcome:
    """Exists without any effect (PRT-3)."""
    # Answer
    return Outcome(before.resident(action.key) is not None, before)


def match(rules: Rules, before: State, action: Match) -> Outcome:
    """The greatest n such that chain[start:n] are all resident (PFX-4); it tests residency, not parent links."""
    # Requires
    if action.start and "resume" not in rules.caps.walk:
        raise NotAllowed("PFX-4", "this store's match walks from the root only")
    chain = action.chain[action.start :]
    hits, matched = hits_of(before, chain), matched_of(before, chain)

    # Effect
    after = seen(rules, before, "match", hits, leased_of(rules, hits, matched))

    # Answer
    return Outcome(action.start + len(matched), after)
