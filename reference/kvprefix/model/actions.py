"""Everything that can happen to a store, one frozen class per action; the choice that the rules leave to a store; and an outcome.

An action carries the parent as the store learned it, by whatever transport: as an argument of the put, or out of the key. What a
store may choose freely (which objects to evict, and, where progress is not exact, whether to refuse) is an input of the step.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from kvprefix.api import UNKNOWN, Answer, Event, Parent, PinResult, PutOptions, PutResult, RemoveResult
from kvprefix.model.values import State

# --------------------------------------------------------------------------------------------------------------------------------
# Writes


@attrs.frozen
class Put:
    """Store a value at once."""

    key: str
    value: bytes
    parent: Parent = UNKNOWN
    options: PutOptions = PutOptions()

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return len(self.value)


@attrs.frozen
class PutBegin:
    """Reserve room for a value of this many bytes (STO-5)."""

    key: str
    size: int
    parent: Parent = UNKNOWN
    options: PutOptions = PutOptions()


@attrs.frozen
class PutCommit:
    """Make the value of an attempt visible."""

    key: str
    token: str
    value: bytes


@attrs.frozen
class PutAbort:
    """Give an attempt up."""

    key: str
    token: str


@attrs.frozen
class PutMany:
    """A native batch (STO-8): as its singles in order, or all or nothing, as declared."""

    items: tuple[Put, ...]


# --------------------------------------------------------------------------------------------------------------------------------
# Reads


@attrs.frozen
class Get:
    """Read a value."""

    key: str


@attrs.frozen
class GetMany:
    """Read several values."""

    keys: tuple[str, ...]


@attrs.frozen
class Exists:
    """Whether get would hit."""

    key: str


@attrs.frozen
class ExistsMany:
    """Whether each get would hit."""

    keys: tuple[str, ...]


@attrs.frozen
class Probe:
    """Exists without any effect (PRT-3)."""

    key: str


@attrs.frozen
class Match:
    """How far the chain is resident, walking on from ``start`` (PFX-4)."""

    chain: tuple[str, ...]
    start: int = 0


# --------------------------------------------------------------------------------------------------------------------------------
# Removal, protection, lineage, time


@attrs.frozen
class Remove:
    """Remove an object (STO-9, PFX-8)."""

    key: str
    force: bool = False


@attrs.frozen
class Clear:
    """Remove everything (STO-9)."""

    force: bool = False


@attrs.frozen
class PinObject:
    """Hold a resident object in use, as a transfer does (PRT-6)."""

    key: str


@attrs.frozen
class Unpin:
    """Give a pin back."""

    token: str


@attrs.frozen
class Lease:
    """Protect a resident object for some time (PRT-2)."""

    key: str
    ttl_ms: int


@attrs.frozen
class Register:
    """Declare a parent beside the data path (transport ``event``)."""

    key: str
    parent: Parent


@attrs.frozen
class Advance:
    """Let time pass, and let happen what falls due."""

    ms: int


@attrs.frozen
class EvictionPass:
    """The store evicts on its own: above the watermark, for a put that it refused, or because objects expire (PFX-7)."""

    #: Bytes that a refused put asked for (progress ``eventual``).
    wanted: int = 0


Action: TypeAlias = (
    Put
    | PutBegin
    | PutCommit
    | PutAbort
    | PutMany
    | Get
    | GetMany
    | Exists
    | ExistsMany
    | Probe
    | Match
    | Remove
    | Clear
    | PinObject
    | Unpin
    | Lease
    | Register
    | Advance
    | EvictionPass
)

# --------------------------------------------------------------------------------------------------------------------------------
# What a store chooses, and what comes of it


@attrs.frozen
class Choice:
    """What the store chose, where the rules leave it a choice."""

    #: The objects that it evicts, in the order in which they go.
    victims: tuple[str, ...] = ()
    #: The put is answered NO_SPACE. Never set where an earlier answer decides.
    refuse: bool = False
    #: A batch of singles: one choice per item, and none for the whole.
    members: tuple[Choice, ...] = ()


NO_CHOICE: Final = Choice()

#: What an action answers: the result types of the contract; for a batch one answer per item, in order.
Reply: TypeAlias = (
    PutResult
    | RemoveResult
    | PinResult
    | Answer
    | bytes
    | bool
    | int
    | tuple[PutResult, ...]
    | tuple[bytes | bool | None, ...]
    | None
)


@attrs.frozen
class Outcome:
    """What an action did."""

    answer: Reply
    #: The state after.
    state: State
    #: In order. The order among deferred siblings that become visible together is free; the model takes that of their keys.
    events: tuple[Event, ...] = ()
    #: Keys evicted on the way, in order; deferred objects that were dropped for space included.
    evicted: tuple[str, ...] = ()
    #: A batch of singles: the outcome of each item.
    members: tuple[Outcome, ...] = ()
