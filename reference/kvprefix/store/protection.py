"""What must not go: leases, pins, transfers in use, open attempts; and the bytes that are protected, kept as they change.

Carries PRT-1, PRT-2, PRT-4, PFX-5. A unit (an object, or a whole family) counts its reasons in ``guards``: its own, and one for
each protected child. So protection is closed under ancestors by construction, and a change walks up only to the first ancestor
that is protected anyway.
"""

from __future__ import annotations

from kvprefix.api import Pin
from kvprefix.store.eviction import Victims
from kvprefix.store.families import unit_of
from kvprefix.store.groups import ObjectGroup
from kvprefix.store.lazyheap import LazyHeap
from kvprefix.store.node import FOREVER, GONE, Node, Unit


class Protection:
    """Leases and pins of all objects, on the store's clock (milliseconds)."""

    def __init__(self, victims: Victims) -> None:
        self._victims = victims
        #: Bytes that no eviction can free (PFX-6): of protected objects, and of what a transfer uses though it was forced away.
        self.bytes = 0
        #: Number of protected units; clear is refused while there are any (STO-9).
        self.units = 0
        #: Number of readable objects with a hard pin.
        self.hard_pinned = 0
        self._leases: LazyHeap[Node] = LazyHeap(_lease_of)
        self._group_leases: LazyHeap[ObjectGroup] = LazyHeap(_group_lease_of)
        self._soft_pins: LazyHeap[Node] = LazyHeap(_soft_pin_of)

    # ---- reasons

    def guard(self, node: Node) -> None:
        """One more reason to keep the object. O(1) where its unit is protected already, else up to the first protected ancestor."""
        at: Unit = unit_of(node)
        while True:
            at.guards += 1
            if at.guards > 1:
                return
            self.bytes += at.charge
            self.units += 1
            self._victims.review(at)
            if at.up is None or not self._victims.leaves_only:
                return
            at = at.up if at.up.family is None or not at.up.family.whole else at.up.family

    def unguard(self, node: Node) -> None:
        """One reason less. O(1) where others are left, else up to the first ancestor that has others."""
        at: Unit = unit_of(node)
        while True:
            at.guards -= 1
            if at.guards:
                return
            self.bytes -= at.charge
            self.units -= 1
            self._victims.review(at)
            if at.up is None or not self._victims.leaves_only:
                return
            at = at.up if at.up.family is None or not at.up.family.whole else at.up.family

    # ---- leases

    def lease(self, node: Node, now: int, ttl_ms: int) -> None:
        """Set max(own deadline, now + ttl) (PRT-2). A grant of 0 ms protects nothing."""
        deadline = now + ttl_ms
        if node.group is not None:
            self._lease_group(node.group, now, deadline)
            return
        if deadline <= node.lease or deadline <= now:
            return
        held, node.lease = node.lease, deadline
        if not held:
            self.guard(node)
        if not node.timed:
            node.timed = True
            self._leases.push(node)

    def _lease_group(self, group: ObjectGroup, now: int, deadline: int) -> None:
        """O(members) where the group was not leased, else O(1)."""
        if deadline <= group.lease or deadline <= now:
            return
        held, group.lease = group.lease, deadline
        if not held:
            for member in group.members:
                self.guard(member)
        if not group.timed:
            group.timed = True
            self._group_leases.push(group)

    def join_group(self, node: Node, group: ObjectGroup) -> None:
        """The object becomes a member and shares the lease that the others have (GRP-2)."""
        node.group = group
        group.members[node] = None
        if group.lease:
            self.guard(node)

    def expire(self, now: int) -> None:
        """Let go what ran out: at now == deadline a lease is over. Amortised O(log n) per grant."""
        while (node := self._leases.head()) is not None and node.lease <= now:
            self._leases.pop()
            node.timed = False
            node.lease = 0
            self.unguard(node)
        while (group := self._group_leases.head()) is not None and group.lease <= now:
            self._group_leases.pop()
            group.timed = False
            group.lease = 0
            for member in group.members:
                self.unguard(member)
        while (node := self._soft_pins.head()) is not None and node.soft <= now:
            self._soft_pins.pop()
            self._set_soft(node, 0)
            self._victims.review(node)

    # ---- pins

    def pin_at_write(self, node: Node, now: int) -> None:
        """The pin that the put asked for; a soft pin's life starts when the object becomes visible (PRT-4)."""
        options = node.options
        if options.pin is Pin.HARD:
            self.hard_pinned += 1
            self.guard(node)
        elif options.pin is Pin.SOFT and options.soft_pin_ms is None:
            self._set_soft(node, FOREVER)
        elif options.pin is Pin.SOFT and options.soft_pin_ms:
            self._set_soft(node, now + options.soft_pin_ms)
            self._soft_pins.push(node)

    def extend_soft_pin(self, node: Node, now: int) -> None:
        """A read moves the deadline of a live soft pin, where ``reads_extend_soft_pin`` is declared (D9)."""
        if 0 < node.soft < FOREVER:
            node.soft = now + (node.options.soft_pin_ms or 0)

    def _set_soft(self, node: Node, until: int) -> None:
        if node.family is not None and node.family.whole:
            node.family.soft += bool(until) - bool(node.soft)
        node.soft = until

    # ---- leaving

    def release(self, node: Node) -> None:
        """Give up every reason of a readable object's own; it is about to leave (evicted: it has none, so this is a few tests)."""
        if node.lease:
            node.lease = 0
            self._leases.lose()
            self.unguard(node)
        if node.soft:
            if node.soft < FOREVER:
                self._soft_pins.lose()
            self._set_soft(node, 0)
        if node.group is not None:
            node.group.members.pop(node)
            if node.group.lease:
                self.unguard(node)
                if not node.group.members:
                    node.group.lease = 0
                    self._group_leases.lose()
        if node.options.pin is Pin.HARD:
            self.hard_pinned -= 1
            self.unguard(node)
        for _ in range(node.uses):
            self.unguard(node)


def _lease_of(node: Node) -> int | None:
    return node.lease or None


def _group_lease_of(group: ObjectGroup) -> int | None:
    return group.lease or None


def _soft_pin_of(node: Node) -> int | None:
    return None if node.state is GONE or not node.soft else node.soft
