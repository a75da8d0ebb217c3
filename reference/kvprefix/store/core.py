"""The transitions of the store: what happens to one object, with all the books kept. The calls (store.py) are made of these.

Carries STO-5 (attempts), STO-6 (accounting), STO-9 (bytes that a transfer uses), PFX-3 (deferred objects) and EVT-2 (event order).
"""

from __future__ import annotations

from collections import OrderedDict, deque

import attrs

from kvprefix.api import UNKNOWN, Admission, Answer, CacheGroup, Capabilities, Geometry, Parent, PutOptions
from kvprefix.store.admission import Gate, waits
from kvprefix.store.events import EventLog
from kvprefix.store.eviction import Policy, Victims
from kvprefix.store.families import Family, going
from kvprefix.store.groups import ObjectGroup
from kvprefix.store.lineage import Forest, children
from kvprefix.store.node import DEFERRED, DRAFT, GONE, PENDING, RESIDENT, Node, Unit
from kvprefix.store.protection import Protection
from kvprefix.store.room import Room


@attrs.define
class Attempt:
    """An open two-phase write (STO-5)."""

    node: Node
    size: int
    #: It is given up when now >= this.
    deadline: int


class Core:
    """All state of one store. Single-threaded; ``now`` is driven from outside (milliseconds)."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry, policy: Policy, room: Room) -> None:
        self.capabilities = capabilities
        self.geometry = geometry
        self.policy = policy
        self.room = room
        self.gate = Gate(capabilities, geometry)
        self.log = EventLog(removals=capabilities.removed_event != "none")
        self.now = 0
        self.tick = 0
        self.evicted_objects = 0
        self._defers = capabilities.admission is Admission.DEFER
        #: Who uses an object, by token (PRT-6); objects that were forced away meanwhile included.
        self.pins: dict[str, Node] = {}
        self._empty()

    def _empty(self) -> None:
        self.objects: dict[str, Node] = {}
        #: Bytes of all present objects, and of what a transfer still uses (STO-6).
        self.used = 0
        self.resident_objects = 0
        self.victims = Victims(self.capabilities)
        self.protection = Protection(self.victims)
        self.forest = Forest(self.capabilities, self.policy, self.victims, self.protection)
        self.object_groups: dict[str, ObjectGroup] = {}
        # Both in order of deadline, for each has one length of life: the oldest comes first.
        self.attempts: OrderedDict[str, Attempt] = OrderedDict()
        self.deferred: OrderedDict[Node, int] = OrderedDict()

    # ---- time

    def advance(self, ms: int) -> None:
        """Let time pass and what is due happen: leases, soft pins, attempts, deferred objects. Amortised O(log n) for each."""
        self.now += ms
        self.protection.expire(self.now)
        while self.attempts:
            token, attempt = next(iter(self.attempts.items()))
            if attempt.deadline > self.now:
                break
            self.give_up(token)
        while self.deferred:
            node, deadline = next(iter(self.deferred.items()))
            if deadline > self.now:
                break
            self.leave(node)

    # ---- a new object

    def judge(self, key: str, size: int, parent: Parent, options: PutOptions) -> Node | Answer:
        """A draft, or the answer that refuses it, space not looked at."""
        return self.gate.judge(self.objects, self.forest, key, size, parent, options)

    def fits(self, draft: Node) -> bool:
        """Whether there is room for the draft, or can be made (PFX-6); nothing is evicted yet."""
        return self.room.fits(self, draft.charge, draft.up)

    def place(self, draft: Node) -> tuple[str, ...]:
        """Make room and enter the draft, still invisible; the keys that were evicted, in order.

        It is linked first: its parent is no leaf then, and no ancestor can become one while room is made.
        """
        above = draft.up
        if above is not None:
            self.forest.link(draft, above)
        evicted = self.room.make(self, draft.charge, above)
        self.used += draft.charge
        self.objects[draft.key] = draft
        self.forest.enter(draft)
        return evicted

    def finish(self, node: Node) -> Answer:
        """A placed object that has its value becomes readable, or waits for its parent (PFX-3). O(objects that waited for it)."""
        if self._defers and waits(node):
            self._defer(node)
            return Answer.DEFERRED
        self._show(node)
        if self._defers and node.first is not None:
            self._release_below(node)
        return Answer.STORED

    def _release_below(self, node: Node) -> None:
        shown = deque((node,))
        while shown:
            for child in children(shown.popleft()):
                if child.state is DEFERRED:
                    self._show(child)
                    shown.append(child)

    def _show(self, node: Node) -> None:
        options = node.options
        if node.state is DEFERRED:
            del self.deferred[node]
            self.victims.withdraw(node)
            node.state = DRAFT
        node.path = node.charge + (node.up.path if node.up is not None else 0)
        self._stamp(node)
        self.protection.pin_at_write(node, self.now)
        if options.object_group:
            self._join_object_group(node)
        if options.lease_ms:
            self.protection.lease(node, self.now, options.lease_ms)
        self.resident_objects += 1
        if node.family is not None:
            node.family.residents += 1
        self.log.stored(node.key, node.parent)
        node.state = RESIDENT
        self.victims.review(node)

    def _defer(self, node: Node) -> None:
        self._stamp(node)
        node.state = DEFERRED
        self.deferred[node] = self.now + self.capabilities.defer_deadline_ms
        self.victims.review(node)

    def _stamp(self, node: Node) -> None:
        self.tick += 1
        self.policy.stored(node, self.tick)
        if node.family is not None:
            node.family.stamp = max(node.family.stamp, node.stamp)

    def _join_object_group(self, node: Node) -> None:
        name = node.options.object_group
        group = self.object_groups.get(name)
        if group is None:
            group = self.object_groups[name] = ObjectGroup()
        self.protection.join_group(node, group)

    # ---- attempts

    def open(self, node: Node, size: int, token: str) -> None:
        """A placed object becomes an open attempt: protected until commit, abort or timeout (STO-5)."""
        node.state = PENDING
        node.attempt = token
        self.protection.guard(node)
        self.attempts[token] = Attempt(node, size, self.now + self.capabilities.pending_timeout_ms)

    def close(self, token: str) -> Node:
        """The attempt ends; its object is a draft again, for the caller to finish."""
        node = self.attempts.pop(token).node
        node.state = DRAFT
        self.protection.unguard(node)
        return node

    def give_up(self, token: str) -> None:
        """The attempt ends and leaves nothing."""
        self.leave(self.close(token))

    # ---- leaving

    def evict(self, unit: Unit) -> list[str]:
        """A unit that was taken out of its queue goes; the keys that went."""
        nodes = going(unit) if isinstance(unit, Family) else [unit]
        self.evicted_objects += len(nodes)
        for node in nodes:
            self.leave(node)
        return [node.key for node in nodes]

    def remove(self, node: Node) -> None:
        """The object goes on request; an open attempt on it becomes stale."""
        if node.state is PENDING:
            self.give_up(node.attempt)
        else:
            self.leave(node)

    def leave(self, node: Node) -> None:
        """The object goes, for whatever reason; a ``removed`` event if it was readable. O(1); O(children) where some stay."""
        if node.state is RESIDENT:
            self.resident_objects -= 1
            if node.family is not None:
                node.family.residents -= 1
            self.log.removed(node.key)
            self.protection.release(node)
            if node.group is not None and not node.group.members:
                del self.object_groups[node.options.object_group]
        elif node.state is DEFERRED:
            del self.deferred[node]
            self.victims.withdraw(node)
        node.state = GONE
        self.victims.review(node)
        self.forest.leave(node)
        del self.objects[node.key]
        if node.uses:
            self.protection.bytes += node.charge
        else:
            self.used -= node.charge

    def clear(self) -> None:
        """Everything goes, in one step but for what transfers still use (STO-9): O(open pins)."""
        self._empty()
        for node in set(self.pins.values()):
            node.state = GONE
            self.used += node.charge
            self.protection.bytes += node.charge
        self.log.cleared()

    # ---- using

    def pin(self, node: Node, token: str) -> None:
        """A transfer uses the object."""
        node.uses += 1
        self.pins[token] = node
        self.protection.guard(node)

    def unpin(self, token: str) -> bool:
        """The transfer has ended; whether the token was known. The bytes of an object that was forced away come free (STO-9)."""
        node = self.pins.pop(token, None)
        if node is None:
            return False
        node.uses -= 1
        if node.state is not GONE:
            self.protection.unguard(node)
        elif not node.uses:
            self.used -= node.charge
            self.protection.bytes -= node.charge
        return True

    def touch(self, node: Node) -> None:
        """Recency (PFX-9). O(1): nothing moves, unless the object was next to go; amortised O(log n) then."""
        self.tick += 1
        self.policy.touched(node, self.tick)
        if node.family is not None:
            node.family.stamp = max(node.family.stamp, node.stamp)
        if node.ready and node.queue is not None:
            node.queue.tidy()

    # ---- lineage beside the data path

    def register(self, key: str, parent: Parent) -> Answer:
        """Declare a parent. INVALID: another one is known, it would close a cycle, or the object can have none. O(depth)."""
        node = self.forest.named(key)
        known = node.parent if node is not None else self.forest.registered.get(key, UNKNOWN)
        if parent is UNKNOWN or parent == known:
            return Answer.OK
        if not key or known is not UNKNOWN or self.forest.closes_cycle(key, parent):
            return Answer.INVALID
        if node is None:
            self.forest.registered[key] = parent
            return Answer.OK
        above = self.forest.parent_of(parent, node.options.namespace)
        if node.options.cache_group is not CacheGroup.FULL or self.forest.families.misplaced(node, parent, above, ()):
            return Answer.INVALID
        self.tick += 1
        self.forest.declare(node, parent, self.tick)
        return Answer.OK
