"""Families: the shards of one logical block (GRP-1). Under all-or-none a family is protected and evicted as one; under best-effort
it is evicted as one, but for the members that are protected.

A family stands in the forest like an object: it has one place (the root, or below one other family) and sums up its members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from kvprefix.api import ROOT, Capabilities, FamilyMode, Parent
from kvprefix.store.node import RESIDENT, Node, Unit

if TYPE_CHECKING:
    from kvprefix.store.lazyheap import LazyHeap

_Name: TypeAlias = tuple[object, ...]


class Family:
    """The present members of one named family. The second half mirrors :class:`Node`, so that either can be a unit."""

    __slots__ = (
        "blocked",
        "charge",
        "family",
        "guards",
        "kids",
        "links",
        "members",
        "open",
        "queue",
        "ready",
        "residents",
        "roots",
        "soft",
        "stamp",
        "strung",
        "up",
        "whole",
    )

    def __init__(self, whole: bool) -> None:
        #: Whether it is protected as one (all-or-none).
        self.whole = whole
        self.members: dict[Node, None] = {}
        self.residents = 0
        #: Members declared to be roots, those with a named parent, and of these the ones whose parent is present.
        self.roots = 0
        self.strung = 0
        self.links = 0
        #: Best-effort: members that may be evicted, and members that are unprotected but have children.
        self.open = 0
        self.blocked = 0

        #: The family (or lone object) below which it stands, while a member's parent is present.
        self.up: Unit | None = None
        #: Sums over the members; all-or-none only.
        self.charge = 0
        self.kids = 0
        self.guards = 0
        #: Number of soft-pinned members (best-effort: of those that would go).
        self.soft = 0
        #: The highest of all members, past ones included.
        self.stamp = 0
        self.ready = 0
        self.queue: LazyHeap[Unit] | None = None
        self.family: Family | None = None

    def __lt__(self, other: Unit) -> bool:
        """Heaps compare units where ranks tie; ties are free (PFX-9)."""
        return False

    def elsewhere(self, parent: Parent, above: Node | None) -> bool:
        """Whether a member with this parent would stand in another place than the members that are there."""
        if parent is ROOT:
            return self.strung > 0
        if isinstance(parent, str) and self.roots:
            return True
        return above is not None and self.links > 0 and self.up is not home_of(above)


def unit_of(node: Node) -> Unit:
    """What is protected (and has children, for eviction) in place of this object."""
    family = node.family
    return node if family is None or not family.whole else family


def home_of(node: Node) -> Unit:
    """Its family, or itself."""
    return node if node.family is None else node.family


class Families:
    """All families by name, and the rule that they form a forest."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.mode = capabilities.families
        self._whole = self.mode is FamilyMode.ALL_OR_NONE
        self._named: dict[_Name, Family] = {}

    def join(self, node: Node) -> None:
        """Make the object, not yet linked to anything, a member of the family that it names."""
        options = node.options
        if not options.family or self.mode is FamilyMode.NONE:
            return
        name = (options.namespace, options.cache_group, options.family)
        family = self._named.get(name)
        if family is None:
            family = self._named[name] = Family(self._whole)
        family.members[node] = None
        node.family = family
        if node.parent is ROOT:
            family.roots += 1
        elif isinstance(node.parent, str):
            family.strung += 1

    def part(self, node: Node) -> None:
        """The object, no longer linked to anything, leaves its family."""
        family = node.family
        if family is None:
            return
        del family.members[node]
        node.family = None
        if node.parent is ROOT:
            family.roots -= 1
        elif isinstance(node.parent, str):
            family.strung -= 1
        if not family.members:
            options = node.options
            del self._named[(options.namespace, options.cache_group, options.family)]

    def told(self, node: Node, parent: Parent) -> None:
        """A present object that had no parent so far is given one."""
        node.parent = parent
        if node.family is not None:
            node.family.roots += parent is ROOT
            node.family.strung += isinstance(parent, str)

    def misplaced(self, node: Node, parent: Parent, above: Node | None, below: Iterable[Node]) -> bool:
        """Whether the object, hung under this parent (``above``, where it is present) and over ``below``, would give a family two
        places, or put one below itself. Free without families; else O(below), and O(depth) where a new edge could close a cycle.
        """
        if self.mode is FamilyMode.NONE:
            return False
        options = node.options
        own = self._named.get((options.namespace, options.cache_group, options.family)) if options.family else None
        lower = {home_of(child) for child in below}
        if own is not None and own.elsewhere(parent, above):
            return True
        if own in lower or any(isinstance(home, Family) and home.links and home.up is not own for home in lower):
            return True
        new_edge = lower or (own is not None and not own.links) or (own is None and node.kids)
        at = home_of(above) if above is not None else own.up if own is not None else None
        if new_edge:
            lower.add(node if own is None else own)
            while at is not None and at not in lower:
                at = at.up if isinstance(at, Family) else at.up and home_of(at.up)
        return bool(new_edge) and at is not None


def going(family: Family) -> list[Node]:
    """The members that leave when the family is evicted: those that are resident and not protected."""
    return [node for node in family.members if node.state is RESIDENT and not node.guards]
