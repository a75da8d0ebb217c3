"""Which object goes next: candidates, victim queues, and the policies that rank them.

Candidates are kept as they come and go; nothing is searched. Carries PFX-1 (only leaves are candidates), PFX-9 (policies), the
soft-pin half of PRT-4, and "deferred objects go first" of PFX-3.
"""

from __future__ import annotations

from typing import Protocol

from kvprefix.api import Capabilities, EvictionOrder, VictimPolicy
from kvprefix.store.families import Family, unit_of
from kvprefix.store.lazyheap import LazyHeap
from kvprefix.store.node import DEFERRED, RESIDENT, Node, Unit


class Policy(Protocol):
    """Ranks evictable objects by ``node.stamp``: the lowest goes first. Stamps only rise. ``tick`` counts calls."""

    def stored(self, node: Node, tick: int) -> None:
        """The object became readable, or was deferred."""
        ...

    def touched(self, node: Node, tick: int) -> None:
        """One of the calls in ``touch_calls`` hit the object."""
        ...

    def left(self, node: Node, parent: Node) -> None:
        """The object left, or was cut off, while its parent stays."""
        ...


class Fifo:
    """The order of storing; touches are ignored."""

    def stored(self, node: Node, tick: int) -> None:
        """Rank by storing time."""
        node.stamp = tick

    def touched(self, node: Node, tick: int) -> None:
        """Nothing: reads do not save a block."""

    def left(self, node: Node, parent: Node) -> None:
        """Nothing is handed up."""


class Lru:
    """The order of the last touch; each object for itself."""

    def stored(self, node: Node, tick: int) -> None:
        """Storing is a touch."""
        node.stamp = tick

    def touched(self, node: Node, tick: int) -> None:
        """Rank by the last touch."""
        node.stamp = tick

    def left(self, node: Node, parent: Node) -> None:
        """Nothing is handed up."""


class LeafFirstLru:
    """The order of the last touch of the object or of anything below it (PFX-9 with ``lineage_recency``), at O(1) per touch.

    A touch must stamp all ancestors. It is enough to hand the stamp up when the child leaves: a parent is no candidate while it has
    children, so its stamp is not looked at before the last one left, and by then each child has handed up the highest stamp of its
    own subtree (by induction from the leaves; the order in which they left does not matter, for max is free of order). What the
    parent then holds is the highest tick of any touch at or below it, which is what stamping at once would have left there.
    ``linked`` keeps that exact where lineage is declared later than the objects were stored (transport ``event``): a touch before
    the link had no such ancestor.
    """

    def stored(self, node: Node, tick: int) -> None:
        """Storing is a touch, of the ancestors too."""
        node.stamp = tick

    def touched(self, node: Node, tick: int) -> None:
        """Rank by the last touch."""
        node.stamp = tick

    def left(self, node: Node, parent: Node) -> None:
        """The child's touches outlive it."""
        if node.stamp > parent.stamp and node.stamp > node.linked:
            parent.stamp = node.stamp


def policy_of(capabilities: Capabilities) -> Policy:
    """The policy that the capabilities declare; ``unspecified`` is served as LRU."""
    if capabilities.policy is VictimPolicy.FIFO:
        return Fifo()
    return LeafFirstLru() if capabilities.lineage_recency else Lru()


class Victims:
    """The units that may be evicted, in queues: deferred objects, then plain ones, then soft-pinned ones.

    Whoever changes a unit's state, protection, children or soft pin has it reviewed. That is O(1), and an amortised O(log n) where
    the unit enters a heap. ``unit.ready`` says whether it counts as live in ``unit.queue``.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        #: Children do not matter to a store that promises no order of eviction.
        self.leaves_only = capabilities.eviction_order is EvictionOrder.DESCENDANTS_FIRST
        self._deferred = self._queue()
        self._plain = self._queue()
        self._soft = self._queue()

    def _queue(self) -> LazyHeap[Unit]:
        def revise(unit: Unit) -> int | None:
            if unit.queue is not queue:
                return None
            if not unit.ready:
                unit.queue = None
                return None
            return unit.stamp

        queue: LazyHeap[Unit] = LazyHeap(revise)
        return queue

    def review(self, unit: Unit) -> None:
        """Enter the unit among the candidates, or withdraw it, or move it to the queue where it belongs now."""
        leaf = not unit.kids or not self.leaves_only
        if isinstance(unit, Family):
            ready = not unit.guards and leaf and unit.residents > 0 if unit.whole else unit.open > 0 and not unit.blocked
            self._set(unit, ready, self._soft if unit.soft else self._plain)
            if unit.whole and unit.residents < len(unit.members):
                for member in unit.members:
                    if member.state is DEFERRED:
                        self.review(member)
        elif unit.state is DEFERRED:
            self._set(unit, leaf and not unit_of(unit).guards, self._deferred)
        elif unit.family is None:
            self._set(unit, leaf and not unit.guards and unit.state is RESIDENT, self._soft if unit.soft else self._plain)
        elif unit.family.whole:
            self.review(unit.family)
        else:
            self._review_member(unit, leaf, unit.family)

    def withdraw(self, node: Node) -> None:
        """A deferred object is none any more. Its entry is forgotten: as a member of a family it may never be queued again."""
        self._set(node, False, self._deferred)
        node.queue = None

    def _review_member(self, node: Node, leaf: bool, family: Family) -> None:
        """A best-effort family goes when one member may go, and none that is unprotected still has children (PFX-1 and GRP-1)."""
        ready = 0
        if node.state is RESIDENT and not node.guards:
            ready = (1 if leaf else 2) + (4 if node.soft else 0)
        before, node.ready = node.ready, ready
        family.open += (ready & 1) - (before & 1)
        family.blocked += (ready >> 1 & 1) - (before >> 1 & 1)
        family.soft += (ready >> 2) - (before >> 2)
        self.review(family)

    def _set(self, unit: Unit, ready: bool, queue: LazyHeap[Unit]) -> None:
        if not ready:
            if unit.ready:
                unit.ready = 0
                if unit.queue is not None:
                    unit.queue.lose()
        elif unit.queue is queue:
            if not unit.ready:
                unit.ready = 1
                queue.regain()
        else:
            if unit.ready and unit.queue is not None:
                unit.queue.lose()
            unit.ready = 1
            unit.queue = queue
            queue.push(unit)

    def take(self) -> Unit | None:
        """Take the next victim out of its queue; None where nothing may go."""
        return self._take(self._deferred) or self._take(self._plain) or self._take(self._soft)

    def take_from(self, *, soft: bool) -> Unit | None:
        """Take the next victim of one kind only."""
        return self._take(self._soft if soft else self._plain)

    def _take(self, queue: LazyHeap[Unit]) -> Unit | None:
        unit = queue.pop()
        if unit is not None:
            unit.queue = None
            unit.ready = 0
        return unit
