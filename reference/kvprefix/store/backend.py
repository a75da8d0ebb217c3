"""The reference store as a backend under test, with every hook that needs no crash.

The clock is driven and nothing runs by itself, so a run repeats exactly. Carries the hook side of PRT-5 (wall time).
"""

from __future__ import annotations

from kvprefix.api import Capabilities, Geometry
from kvprefix.errors import ConfigurationError
from kvprefix.store.offered import check_offered
from kvprefix.store.presets import PREFIX_AWARE
from kvprefix.store.store import ReferenceStore


class ReferenceBackend:
    """A backend around one :class:`ReferenceStore`; all its clients share it. ``seed`` is the store's."""

    def __init__(
        self, capabilities: Capabilities = PREFIX_AWARE, *, overhead_bytes: int = 0, quantum_bytes: int = 1, seed: int = 0
    ) -> None:
        check_offered(capabilities)
        self._capabilities = capabilities
        self._overhead_bytes = overhead_bytes
        self._quantum_bytes = quantum_bytes
        self._seed = seed
        self._store: ReferenceStore | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What is declared."""
        return self._capabilities

    def start(self, capacity: int) -> Geometry:
        """Start with exactly this many bytes."""
        if capacity < 1:
            raise ConfigurationError(f"a store of {capacity} bytes holds nothing", "Give it a capacity of at least one byte.")
        geometry = Geometry(capacity, overhead_bytes=self._overhead_bytes, quantum_bytes=self._quantum_bytes)
        self._store = ReferenceStore(self._capabilities, geometry, seed=self._seed)
        return geometry

    def client(self, index: int = 0, tenant: str = "") -> ReferenceStore:
        """The store itself, for every client below ``capabilities.clients``."""
        if not 0 <= index < self._capabilities.clients:
            raise ConfigurationError(f"client {index} of {self._capabilities.clients}", "Clients are numbered from 0.")
        if tenant:
            raise ConfigurationError(f"tenant {tenant!r} is not declared", "This backend has no tenants.")
        return self._running()

    def reset(self) -> None:
        """Empty again, with the clock at zero."""
        store = self._running()
        self._store = ReferenceStore(store.capabilities, store.geometry, seed=self._seed)

    def close(self) -> None:
        """Stop. Safe to call twice."""
        self._store = None

    def quiesce(self) -> None:
        """Return when no background work is left: there never is any between calls."""
        self._running()

    def now(self) -> int:
        """The driven clock, in milliseconds."""
        return self._running().now

    def advance(self, ms: int) -> None:
        """Let this much time pass at once, and let what fell due happen."""
        self._running().advance(ms)

    def jump_wall_clock(self, ms: int) -> None:  # noqa: ARG002 - that is the point
        """Move wall time (PRT-5). The store reads steady time only, so nothing can follow from it."""
        self._running()

    def resident(self) -> frozenset[str]:
        """All resident keys, without any side effect."""
        return frozenset(self._running().snapshot().objects)

    def _running(self) -> ReferenceStore:
        if self._store is None:
            raise ConfigurationError("the backend is not started", "Call start(capacity) first.")
        return self._store
