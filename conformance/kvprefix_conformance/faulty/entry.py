"""What the plain store keeps: objects, offers, and the shelf that holds everything which can change. Values only, no rule.

Carries no requirement itself.
"""

from __future__ import annotations

import enum

import attrs

from kvprefix.api import Event, Parent, PutOptions


class State(enum.Enum):
    """Where a present object stands; an absent one has no entry."""

    PENDING = "pending"
    DEFERRED = "deferred"
    RESIDENT = "resident"


@attrs.frozen
class Offer:
    """What a put or put_begin brings."""

    key: str
    #: By which children name it: the key, or the identity inside a key of lineage form.
    name: str
    value: bytes
    size: int
    parent: Parent
    options: PutOptions
    two_phase: bool


@attrs.define(eq=False)
class Entry:
    """One present object. Two entries are equal only if they are one."""

    key: str
    name: str
    value: bytes
    size: int
    parent: Parent
    options: PutOptions
    #: When it was begun, or deferred, in milliseconds.
    begun_ms: int
    #: Token of its attempt, while PENDING by put_begin.
    token: str = ""
    state: State = State.PENDING
    #: Ticks at which it became visible (or deferred), and at which it was last touched.
    stored: int = 0
    touched: int = 0
    lease_until_ms: int = 0
    #: End of a soft pin; None: it never ends.
    soft_until_ms: int | None = None
    #: Tokens of the pins that hold it in use.
    pins: set[str] = attrs.field(factory=set)


@attrs.define
class Shelf:
    """All state but the clock; copied as a whole where a batch may have to be undone."""

    entries: dict[str, Entry] = attrs.field(factory=dict)
    registered: dict[str, Parent] = attrs.field(factory=dict)
    #: Bytes taken by force from under a transfer, with the pins that still hold them (STO-9).
    lingering: list[tuple[int, set[str]]] = attrs.field(factory=list)
    log: list[Event] = attrs.field(factory=list)
    ticks: int = 0
    tokens: int = 0
    evicted: int = 0
