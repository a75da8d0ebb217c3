"""The forest: which present object is whose parent, and which children wait for a parent that is absent.

Carries the lineage half of PFX-1 to PFX-8 and the cycle rule of PFX-3. Lineage lives with the objects (their declared parents) and,
for the transport ``event``, in registrations; an object that left is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import UNKNOWN, CacheGroup, Capabilities, FamilyMode, Parent, Removal, Transport
from kvprefix.store.eviction import Policy, Victims
from kvprefix.store.families import Families, Family, home_of, unit_of
from kvprefix.store.node import RESIDENT, Node
from kvprefix.store.protection import Protection


class Forest:
    """Links between present objects. Every call is O(1) unless its docstring says otherwise."""

    def __init__(self, capabilities: Capabilities, policy: Policy, victims: Victims, protection: Protection) -> None:
        self._policy = policy
        self._victims = victims
        self._protection = protection
        self.families = Families(capabilities)
        #: Present objects by the name that children use for them.
        self._names: dict[str, Node] = {}
        #: Name of an absent (or unfit) parent -> first of the children that wait for it.
        self._waiting: dict[str, Node] = {}
        #: Parents declared beside the data path, of objects that are absent so far.
        self.registered: dict[str, Parent] = {}
        #: Whether path bounds hold: nothing is ever put above a resident object, and no family grows above its children.
        self._paths_hold = (
            capabilities.prefix_closed
            and capabilities.removal is not Removal.ANY
            and Transport.EVENT not in capabilities.lineage
            and capabilities.families is not FamilyMode.ALL_OR_NONE
        )

    # ---- questions

    def named(self, name: str) -> Node | None:
        """The present object of this name, whatever its state."""
        return self._names.get(name)

    def parent_of(self, parent: Parent, namespace: str) -> Node | None:
        """The present object that this declared parent means, or None: another namespace or cache group is as if absent (PFX-3)."""
        if not isinstance(parent, str):
            return None
        node = self._names.get(parent)
        if node is None or node.options.cache_group is not CacheGroup.FULL or node.options.namespace != namespace:
            return None
        return node

    def waiting_for(self, node: Node) -> list[Node]:
        """The present children that get this object as their parent once it enters. O(children that wait for its name)."""
        first = self._waiting.get(node.name)
        if first is None or node.options.cache_group is not CacheGroup.FULL:
            return []
        return [child for child in _siblings(first) if child.options.namespace == node.options.namespace]

    def shields(self, parent: Node | None, spare: int) -> bool:
        """Whether the unprotected bytes from this parent up to the root are at most ``spare`` (PFX-6: a put never evicts its own
        ancestors). O(1) where a bound decides, else up to the first protected ancestor.
        """
        if parent is None or spare < 0 or not self._victims.leaves_only:
            return spare >= 0
        if self._paths_hold and parent.state is RESIDENT and parent.path <= spare:
            return True
        at = unit_of(parent)
        while not at.guards:
            spare -= at.charge
            if spare < 0 or at.up is None:
                break
            at = unit_of(at.up) if isinstance(at.up, Node) else at.up
        return spare >= 0

    def closes_cycle(self, name: str, parent: Parent) -> bool:
        """Whether declaring this parent would make the object its own ancestor (PFX-3). O(1) unless something may be declared to be
        below this name already, else O(depth).
        """
        if not isinstance(parent, str):
            return False
        if parent == name:
            return True
        if name not in self._waiting and name not in self._names and not self.registered:
            return False
        at: Parent = parent
        while isinstance(at, str) and at != name:
            node = self._names.get(at)
            at = node.parent if node is not None else self.registered.get(at, UNKNOWN)
        return at == name

    # ---- links

    def link(self, node: Node, parent: Node) -> None:
        """Hang the node under its present parent, behind its siblings; up to the first protected ancestor where it is protected."""
        unit = unit_of(parent)
        parent.kids += 1
        if unit is not parent:
            unit.kids += 1
        node.up = parent
        parent.first = _append(parent.first, node)
        if parent.kids == 1:
            self._victims.review(parent)
            if unit is not parent:
                self._victims.review(unit)
        if node.family is not None:
            self._tie(node.family, parent)
        if node.guards and self._victims.leaves_only:
            self._protection.guard(parent)

    def unlink(self, node: Node) -> None:
        """Take the node from under its parent and hand its stamp up (PFX-9)."""
        parent = node.up
        assert parent is not None, "only linked nodes are unlinked"
        unit = unit_of(parent)
        self._policy.left(node, parent)
        if parent.family is not None:
            parent.family.stamp = max(parent.family.stamp, parent.stamp)
        parent.first = _without(parent.first, node)
        node.up = None
        parent.kids -= 1
        if unit is not parent:
            unit.kids -= 1
        if node.family is not None:
            self._untie(node.family, parent)
        if node.guards and self._victims.leaves_only:
            self._protection.unguard(parent)
        if not parent.kids:
            self._victims.review(parent)
            if unit is not parent:
                self._victims.review(unit)

    def _tie(self, family: Family, parent: Node) -> None:
        """One more member hangs under a present parent. A whole family is linked, and guards what is above it, once for all."""
        family.links += 1
        if family.links == 1:
            family.up = home_of(parent)
            if family.guards and self._victims.leaves_only:
                self._protection.guard(parent)

    def _untie(self, family: Family, parent: Node) -> None:
        family.links -= 1
        if not family.links:
            family.up = None
            if family.guards and self._victims.leaves_only:
                self._protection.unguard(parent)

    # ---- coming and going

    def enter(self, node: Node) -> None:
        """Make the node known by name, a member of its family, and the parent of what waited for it. O(children that waited)."""
        self._names[node.name] = node
        if self.registered:
            self.registered.pop(node.name, None)
        if node.options.family:
            self._enlist(node)
        if self._waiting:
            for child in self.waiting_for(node):
                self._stop_waiting(child)
                self.link(child, node)
        # It waits already where a flat store evicted its parent to make room for it.
        if node.up is None and node.prev is None and isinstance(node.parent, str):
            self._wait(node)

    def _enlist(self, node: Node) -> None:
        self.families.join(node)
        family = node.family
        if family is None:
            return
        if family.whole:
            family.charge += node.charge
            if family.guards:
                self._protection.bytes += node.charge
        if node.up is not None:
            self._tie(family, node.up)

    def leave(self, node: Node) -> None:
        """Forget the node; its children, if any are left, wait for it again. O(children)."""
        del self._names[node.name]
        while node.first is not None:
            child = node.first
            self.unlink(child)
            self._wait(child)
        if node.up is not None:
            self.unlink(node)
        elif isinstance(node.parent, str):
            self._stop_waiting(node)
        family = node.family
        if family is not None:
            if family.whole:
                family.charge -= node.charge
                if family.guards:
                    self._protection.bytes -= node.charge
            self.families.part(node)
            self._victims.review(family)

    def declare(self, node: Node, parent: Parent, tick: int) -> None:
        """Give a present object the parent that it was stored without (transport ``event``)."""
        node.linked = tick
        self.families.told(node, parent)
        above = self.parent_of(parent, node.options.namespace)
        if above is not None:
            self.link(node, above)
        elif isinstance(parent, str):
            self._wait(node)

    def _wait(self, node: Node) -> None:
        assert isinstance(node.parent, str)
        self._waiting[node.parent] = _append(self._waiting.get(node.parent), node)

    def _stop_waiting(self, node: Node) -> None:
        assert isinstance(node.parent, str)
        rest = _without(self._waiting[node.parent], node)
        if rest is None:
            del self._waiting[node.parent]
        else:
            self._waiting[node.parent] = rest


def children(node: Node) -> Iterator[Node]:
    """Present children, oldest link first. Unlinking while iterating is not allowed."""
    return _siblings(node.first)


def descendants(node: Node) -> list[Node]:
    """All present descendants and the node itself, deepest first. O(their number)."""
    found = [node]
    for each in found:
        found.extend(children(each))
    found.reverse()
    return found


# ---- lists of siblings: ``next`` ends with None, the ``prev`` of the first is the last, so that both ends are at hand


def _append(first: Node | None, node: Node) -> Node:
    if first is None:
        node.prev = node
        return node
    last = first.prev
    assert last is not None
    last.next = node
    node.prev = last
    first.prev = node
    return first


def _without(first: Node | None, node: Node) -> Node | None:
    following, before = node.next, node.prev
    if node is first:
        first = following
    elif before is not None:
        before.next = following
    if following is not None:
        following.prev = before
    elif first is not None:
        first.prev = before
    node.prev = node.next = None
    return first


def _siblings(first: Node | None) -> Iterator[Node]:
    while first is not None:
        yield first
        first = first.next
