"""How room is made for a put: the interface, and the exact way of a prefix-aware (or plain flat) store.

Carries PFX-6 (a put is refused exactly when what is protected leaves too little) and PFX-7 (no more is evicted than it needs). The
other way, background passes as Mooncake Store makes them, is in mooncake_like.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from kvprefix.api import FamilyMode
from kvprefix.store.node import Node

if TYPE_CHECKING:
    from kvprefix.store.core import Core


class Room(Protocol):
    """One way to deal with pressure."""

    def fits(self, core: Core, charge: int, above: Node | None = None, kept: int = 0) -> bool:
        """Whether so many bytes, to be put under this parent, are accepted; ``kept`` of them count as protected already."""
        ...

    def make(self, core: Core, charge: int, above: Node | None = None) -> tuple[str, ...]:
        """Evict until so many bytes are free; the keys that went, in order. Only after ``fits``."""
        ...

    def relieve(self, core: Core, *, refused: bool = False) -> None:
        """A put was answered, or time passed: do what goes on between calls."""
        ...

    def visits(self, core: Core, keys: Sequence[str]) -> Iterable[int]:
        """In which order a batch call visits these keys, as indexes."""
        ...


class ExactRoom:
    """Evict inside the put, as much as it needs, and only if that is enough (PFX-6, PFX-7)."""

    def fits(self, core: Core, charge: int, above: Node | None = None, kept: int = 0) -> bool:
        """Decided before anything is evicted, so a refused put evicts nothing. O(1) where a bound decides, else up to the first
        protected ancestor.

        The unprotected objects that are no ancestors of the new one are closed under descendants (PFX-5), so while any is left one
        of them is a leaf: all their bytes can be had.
        """
        capacity = core.geometry.capacity_bytes
        if core.used + charge <= capacity:
            return True
        return core.capabilities.evicts and core.forest.shields(above, capacity - core.protection.bytes - charge + kept)

    def make(self, core: Core, charge: int, above: Node | None = None) -> tuple[str, ...]:
        """One unit at a time; amortised O(log n) each. With families also up to the first protected ancestor.

        The new object is linked to its parent, so no ancestor is a leaf. That keeps ancestors, but not their families.
        """
        limit = core.geometry.capacity_bytes - charge
        if core.used <= limit:
            return ()
        kept = above if core.victims.leaves_only and core.capabilities.families is not FamilyMode.NONE else None
        if kept is not None:
            core.protection.guard(kept)
        evicted: list[str] = []
        while core.used > limit:
            unit = core.victims.take()
            assert unit is not None, "PFX-6: fits() promised room"
            evicted += core.evict(unit)
        if kept is not None:
            core.protection.unguard(kept)
        return tuple(evicted)

    def relieve(self, core: Core, *, refused: bool = False) -> None:
        """Nothing goes on between calls."""

    def visits(self, core: Core, keys: Sequence[str]) -> Iterable[int]:  # noqa: ARG002 - the keys alone decide
        """The order of the request."""
        return range(len(keys))
