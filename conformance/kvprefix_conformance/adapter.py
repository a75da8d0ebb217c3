"""For writers of adapters: the contract in one import, serving a Python backend over stdio, a clock that the suite drives.

A backend has ``capabilities``, ``start``, ``client``, ``reset``, ``close``; its client has ``put``, ``get``, ``exists``. Every
other call and hook is offered by having a method of that name. What each must do is said in :mod:`kvprefix.api`.
"""

from __future__ import annotations

from kvprefix.api import (
    HOOKS,
    OPTIONAL_CALLS,
    ROOT,
    UNKNOWN,
    Accounting,
    Admission,
    Answer,
    Backend,
    Batch,
    CacheGroup,
    Capabilities,
    Clock,
    ClosureScope,
    DuplicatePut,
    EmptyValue,
    Event,
    EventKind,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    FullClient,
    Geometry,
    HookedBackend,
    Parent,
    Pin,
    PinResult,
    Progress,
    PutItem,
    PutOptions,
    PutResult,
    Removal,
    RemoveResult,
    Root,
    Snapshot,
    Stats,
    StoreClient,
    Transport,
    Unknown,
    VictimPolicy,
    offers,
)
from kvprefix_conformance.wire.client import connect
from kvprefix_conformance.wire.host import serve

__all__ = [
    "HOOKS", "OPTIONAL_CALLS", "ROOT", "UNKNOWN", "Accounting", "Admission", "Answer", "Backend", "Batch", "CacheGroup",
    "Capabilities", "Clock", "ClosureScope", "DrivenClock", "DuplicatePut", "EmptyValue", "Event", "EventKind", "EvictUnit",
    "EvictionOrder", "ExistsLeases", "FamilyMode", "FullClient", "Geometry", "HookedBackend", "Parent", "Pin", "PinResult",
    "Progress", "PutItem", "PutOptions", "PutResult", "Removal", "RemoveResult", "Root", "Snapshot", "Stats", "StoreClient",
    "Transport", "Unknown", "VictimPolicy", "connect", "offers", "serve",
]  # fmt: skip


class DrivenClock:
    """Milliseconds that stand still until the suite moves them. The store asks ``now``; the backend offers both as hooks."""

    def __init__(self) -> None:
        self._now_ms = 0

    def now(self) -> int:
        """The time, in milliseconds."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Let this much time pass."""
        if ms < 0:
            raise ValueError(f"time does not go back, and advance was given {ms} ms")
        self._now_ms += ms
