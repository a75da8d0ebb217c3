"""One object of the store, and its place in the forest.

A node is small on purpose (no dict, no set, no per-object list): a store holds a million of them. The children of a node are a
doubly linked list that runs through the children themselves, so linking and unlinking cost O(1) and a leaf costs nothing.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

from kvprefix.api import Parent, PutOptions

if TYPE_CHECKING:
    from kvprefix.store.families import Family
    from kvprefix.store.groups import ObjectGroup
    from kvprefix.store.lazyheap import LazyHeap


class State(enum.Enum):
    """Where an object is in its life."""

    #: Being written inside a call, or a member of an atomic batch that is not decided yet: nobody sees it.
    DRAFT = "draft"
    #: Begun, not committed: counts in bytes, is a miss, is protected (STO-5).
    PENDING = "pending"
    #: Kept until its parent is resident: counts in bytes, is a miss, goes before anything else (PFX-3).
    DEFERRED = "deferred"
    #: Readable.
    RESIDENT = "resident"
    #: Left the store. Tokens and queues may still hold the node for a while.
    GONE = "gone"


DRAFT: Final = State.DRAFT
PENDING: Final = State.PENDING
DEFERRED: Final = State.DEFERRED
RESIDENT: Final = State.RESIDENT
GONE: Final = State.GONE

PLAIN_OPTIONS: Final = PutOptions()
#: The deadline of a soft pin that never ends.
FOREVER: Final = 1 << 62


class Node:
    """An object that is present. What is said of a *unit* below holds for a family in its place, where families leave as one."""

    __slots__ = (
        "attempt",
        "charge",
        "family",
        "first",
        "group",
        "guards",
        "key",
        "kids",
        "lease",
        "linked",
        "name",
        "next",
        "options",
        "parent",
        "path",
        "prev",
        "queue",
        "ready",
        "soft",
        "stamp",
        "state",
        "timed",
        "up",
        "uses",
        "value",
    )

    def __init__(self, key: str, name: str, charge: int, parent: Parent, options: PutOptions) -> None:
        self.key = key
        #: What children call it: the key itself, or (transport ``key``) the identity inside it.
        self.name = name
        self.value = b""
        #: Bytes that it takes from the capacity.
        self.charge = charge
        self.state = DRAFT
        self.options = options
        #: PENDING: the token of its attempt.
        self.attempt = ""

        # The forest.
        #: The parent as declared, present or not.
        self.parent = parent
        #: The parent, while it is present.
        self.up: Node | None = None
        self.first: Node | None = None
        self.prev: Node | None = None
        self.next: Node | None = None
        #: Unit: number of children that are present, whatever their state.
        self.kids = 0
        #: Upper bound of the bytes from the root down to here, this object included (see Forest.shields).
        self.path = 0
        #: Tick at which a registration linked it to its parent: older touches are not handed up.
        self.linked = 0

        # Protection.
        #: Unit: the number of reasons to keep it (own lease, hard pin, each use, PENDING, each protected child).
        self.guards = 0
        #: Deadline of the lease that is counted in ``guards``; 0: none is.
        self.lease = 0
        #: The lease heap holds an entry for this node.
        self.timed = False
        #: Pins by token that are not given back.
        self.uses = 0
        #: Deadline of the soft pin; 0: none.
        self.soft = 0

        # Eviction.
        #: Unit: rank among victims, the lowest goes first. What it means is the policy's business. It only rises.
        self.stamp = 0
        #: Unit: 1 while it may be evicted. A member of a best-effort family: see Victims.review.
        self.ready = 0
        #: Unit: the victim queue that holds an entry for it.
        self.queue: LazyHeap[Unit] | None = None

        # Company.
        self.family: Family | None = None
        self.group: ObjectGroup | None = None

    def __lt__(self, other: Unit) -> bool:
        """Heaps compare units where ranks tie; ties are free (PFX-9)."""
        return False


#: What is protected and evicted as one: an object, or (all-or-none) a family.
Unit: TypeAlias = "Node | Family"
