"""What a put is answered before space is looked at: INVALID, EXISTS, IN_PROGRESS, TOO_LARGE, PARENT_MISSING, in this order.

Carries STO-2, STO-3, STO-7, STO-10, PFX-3, PFX-12 and the forest rule of GRP-1. Options that are not declared are UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvprefix.api import (
    UNKNOWN,
    Admission,
    Answer,
    CacheGroup,
    Capabilities,
    EmptyValue,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    PutOptions,
    Transport,
)
from kvprefix.keys import lineage_of
from kvprefix.store.lineage import Forest
from kvprefix.store.node import DEFERRED, DRAFT, PENDING, PLAIN_OPTIONS, RESIDENT, Node

#: What a put of a present key is answered (STO-2, STO-5, PFX-3).
PRESENT: Final = {RESIDENT: Answer.EXISTS, DRAFT: Answer.EXISTS, DEFERRED: Answer.DEFERRED, PENDING: Answer.IN_PROGRESS}


class Gate:
    """The rules that capabilities and geometry set for every put."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        self._caps = capabilities
        self._geometry = geometry
        # Asked on every put.
        self._lineage = bool(capabilities.lineage)
        self._by_argument = Transport.ARGUMENT in capabilities.lineage
        self._by_key = Transport.KEY in capabilities.lineage
        self._rejects = capabilities.admission is Admission.REJECT
        self._families = capabilities.families is not FamilyMode.NONE
        self._smallest = max(geometry.min_value_bytes, 1 if capabilities.empty_value is EmptyValue.INVALID else 0)
        self._longest = geometry.max_key_bytes
        self._largest = geometry.capacity_bytes if geometry.max_value_bytes is None else geometry.max_value_bytes

    def judge(
        self, objects: Mapping[str, Node], forest: Forest, key: str, size: int, parent: Parent, options: PutOptions
    ) -> Node | Answer:
        """A draft to be placed (``up`` names its present parent), or the answer that refuses the put.

        O(1), but O(depth) where a cycle is possible (see Forest.closes_cycle and Families.misplaced).
        """
        if options is not PLAIN_OPTIONS:
            if not self._supports(options):
                return Answer.UNSUPPORTED
            if not _well_formed(options):
                return Answer.INVALID
        if size < self._smallest or not key or (self._longest is not None and _length(key) > self._longest):
            return Answer.INVALID
        present = objects.get(key)
        name, parent = self._told(forest, key, parent, options)
        if parent is not UNKNOWN:
            if options.cache_group is not CacheGroup.FULL:
                return Answer.INVALID
            if (present is None or present.parent != parent) and forest.closes_cycle(name, parent):
                return Answer.INVALID
        if present is not None:
            return PRESENT[present.state]
        draft = Node(key, name, self._geometry.charge(size), parent, options)
        draft.up = above = forest.parent_of(parent, options.namespace)
        if (name is not key and forest.named(name) is not None) or (self._families and self._misplaced(forest, draft)):
            return Answer.INVALID
        if draft.charge > self._geometry.capacity_bytes or size > self._largest:
            return Answer.TOO_LARGE
        if self._rejects and isinstance(parent, str) and (above is None or above.state not in (RESIDENT, DRAFT)):
            return Answer.PARENT_MISSING
        return draft

    def _told(self, forest: Forest, key: str, parent: Parent, options: PutOptions) -> tuple[str, Parent]:
        """The name under which children know this object, and its declared parent, by whatever transport told it.

        With the key transport a second key with the identity of a present one is INVALID: it names another parent for one block.
        """
        if not self._lineage:
            return key, UNKNOWN
        name = key
        told: Parent = parent if self._by_argument else UNKNOWN
        if self._by_key and (carried := lineage_of(key)) is not None:
            name = carried.identity
            if told is UNKNOWN and options.cache_group is CacheGroup.FULL:
                told = carried.parent
        if told is UNKNOWN and forest.registered:
            told = forest.registered.get(name, UNKNOWN)
        return name, told

    def _misplaced(self, forest: Forest, draft: Node) -> bool:
        return forest.families.misplaced(draft, draft.parent, draft.up, forest.waiting_for(draft))

    def _supports(self, options: PutOptions) -> bool:
        """Whether every option that is set is declared."""
        caps = self._caps
        return (
            options.cache_group in caps.cache_groups
            and (not options.family or caps.families is not FamilyMode.NONE)
            and (options.family_size is None or caps.family_size)
            and (not options.object_group or caps.object_groups)
            and (not options.namespace or caps.namespaces)
            and (options.pin is Pin.NONE or options.pin in caps.pins)
        )


def _well_formed(options: PutOptions) -> bool:
    soft_ms = options.soft_pin_ms
    return options.lease_ms >= 0 and (soft_ms is None or (options.pin is Pin.SOFT and soft_ms >= 0))


def _length(key: str) -> int:
    """In UTF-8; a lone surrogate counts like any other character of its size (STO-10)."""
    return len(key.encode("utf-8", "surrogatepass"))


def waits(node: Node) -> bool:
    """Whether the object's declared parent is not resident (PFX-3)."""
    return isinstance(node.parent, str) and (node.up is None or node.up.state is not RESIDENT)
