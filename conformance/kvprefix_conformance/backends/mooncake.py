"""Mooncake Store under test: a real mooncake_master on loopback, and a real client in a child process.

It is judged as what it is, a flat object store with leases and pins (STO, PRT). It is told nothing of parents; PFX-1 can be asked
for, and shows what a store without lineage does to a chain.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import time
import weakref
from typing import Final

from kvprefix.api import (
    Accounting,
    Capabilities,
    Clock,
    DuplicatePut,
    EmptyValue,
    ExistsLeases,
    Geometry,
    Pin,
    Progress,
)
from kvprefix.errors import AdapterError, ConfigurationError
from kvprefix_conformance.backends import mooncake_link
from kvprefix_conformance.backends.mooncake_client import MooncakeClient, Options, Room, eviction_passes
from kvprefix_conformance.backends.mooncake_link import Admin, Worker

_PAGE_BYTES: Final = 4096
_START_DEADLINE_S: Final = 60.0


def open_backend(
    *,
    lease_ttl_ms: int = 100,
    watermark: float = 1.0,
    ratio: float = 1e-9,
    local_buffer: int | None = None,
    pending_timeout_ms: int = 1000,
    deadline_ms: int = 10_000,
) -> MooncakeBackend:
    """A backend that is not started yet. Raises MissingDependencyError if package, binary or a system library is missing.

    The defaults make eviction exact: one object, the least recent, for each put that found no room. For a replay give the
    production values (watermark 0.95, ratio 0.05, lease 5000) and a local buffer that holds the largest batch.
    """
    binary = mooncake_link.find_binary()
    mooncake_link.check_libraries()
    options = Options(
        lease_ttl_ms=lease_ttl_ms,
        watermark=watermark,
        ratio=ratio,
        local_buffer=local_buffer,
        pending_timeout_ms=pending_timeout_ms,
        deadline_ms=deadline_ms,
    )
    return MooncakeBackend(options, str(binary))


def declared(options: Options) -> Capabilities:
    """What Mooncake Store is, in the words of the contract."""
    leased = frozenset({"get", "get_many", "exists", "exists_many"})
    return Capabilities(
        name="mooncake",
        version=_version(),
        profiles=frozenset({"object-store", "protected-store"}),
        deterministic=False,  # leases follow real time, eviction is another thread's
        clock=Clock.REAL,
        empty_value=EmptyValue.INVALID,
        accounting=Accounting.EXACT,
        pending_timeout_ms=options.pending_timeout_ms,
        duplicate_put=DuplicatePut.SILENT,
        evicts=options.evicts,
        progress=Progress.EVENTUAL if options.evicts else Progress.REJECT,
        progress_ms=options.lease_ttl_ms + 400,
        refused_put_evicts=True,
        contiguous=True,
        reports_evictions=False,
        touch_calls=leased,
        watermark=options.watermark,
        evict_ratio=options.ratio,
        lease_ttl_ms=options.lease_ttl_ms,
        lease_calls=leased,
        exists_leases=ExistsLeases.HITS,
        pins=frozenset({Pin.HARD, Pin.SOFT}),
        get_after_lease="fail",
    )


def _version() -> str:
    for name in mooncake_link.DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return ""


def segment_size(capacity: int) -> int:
    """The smallest segment of at least this many bytes that one value can fill.

    The allocator rounds sizes up to four significant bits and looks for free ranges by sizes rounded down; the segment is
    memory-mapped, so whole pages.
    """
    step = max(_PAGE_BYTES, 1 << max(0, capacity.bit_length() - 4))
    return -(-capacity // step) * step


# --------------------------------------------------------------------------------------------------------------------------------
# The backend


class MooncakeBackend:
    """One master and one client. Nothing is left running after close, nor after the death of this process."""

    def __init__(self, options: Options, binary: str, bootstrap: str = "") -> None:
        self._options = options
        self._binary = binary
        self._bootstrap = bootstrap
        self._capabilities = declared(options)
        self._geometry: Geometry | None = None
        self._worker: Worker | None = None
        self._admin: Admin | None = None
        self._client: MooncakeClient | None = None
        self._room: Room | None = None
        _register(self)

    @property
    def capabilities(self) -> Capabilities:
        """A flat, leased object store."""
        return self._capabilities

    def start(self, capacity: int) -> Geometry:
        """Start a server of this capacity, rounded up to what one value can fill."""
        if capacity < 1:
            raise ConfigurationError(f"a capacity of {capacity} bytes", "Give at least 1.")
        self._geometry = Geometry(capacity_bytes=segment_size(capacity), min_value_bytes=1)
        self._open(self._geometry)
        return self._geometry

    def _open(self, geometry: Geometry) -> None:
        capacity = geometry.capacity_bytes
        config = {
            "binary": self._binary,
            "flags": self._options.flags(),
            "capacity": capacity,
            "local_buffer": self._options.local_buffer or min(max(2 * capacity, 1 << 20), 64 << 20),
        }
        worker = Worker(config, _START_DEADLINE_S, self._bootstrap)
        self._worker = worker
        admin = Admin(worker.facts["admin_port"], self._options.deadline_ms / 1000)
        self._admin = admin
        self._room = Room(lambda: eviction_passes(admin), self._options.evicts, self._options.deadline_ms / 2000)
        self._client = MooncakeClient(worker, self._room, admin, geometry, self._options)

    def client(self, index: int = 0, tenant: str = "") -> MooncakeClient:
        """The one client."""
        if index or tenant or self._client is None:
            raise ConfigurationError("the Mooncake backend has one client, after start, and no tenants")
        return self._client

    def reset(self) -> None:
        """Empty the store; start anew where that did not work or the server is gone."""
        if self._geometry is None or self._client is None:
            raise ConfigurationError("reset before start")
        with contextlib.suppress(AdapterError):
            if self._client.empty():
                return
        self.close()
        _register(self)
        self._open(self._geometry)

    def close(self) -> None:
        """Stop client and server and wait for both. Safe to call twice."""
        if self._admin is not None:
            self._admin.close()
        if self._worker is not None:
            self._worker.close()
        _OPEN.discard(self)

    # -- hooks ------------------------------------------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Wait until no eviction is wanted any more. One that finds everything leased goes on until a lease ends."""
        until = time.monotonic() + (self._options.lease_ttl_ms + self._options.deadline_ms) / 1000
        while self._room is not None and self._room.wanted and time.monotonic() < until:
            self._room.settle()

    def now(self) -> int:
        """Steady time of this machine, which Mooncake shares."""
        return int(time.monotonic() * 1000)

    def advance(self, ms: int) -> None:
        """Wait."""
        time.sleep(ms / 1000)

    def resident(self) -> frozenset[str]:
        """All readable keys, without a lease or a touch."""
        return self.client().resident()


_OPEN: weakref.WeakSet[MooncakeBackend] = weakref.WeakSet()


def _register(backend: MooncakeBackend) -> None:
    """Close what is still open when the interpreter ends; if it is killed, the worker notices by itself."""
    if not _OPEN:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _OPEN.add(backend)


def _close_all() -> None:
    for backend in list(_OPEN):
        backend.close()
