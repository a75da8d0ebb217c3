"""A plain store: the contract done the slow and obvious way, with one method per decision (rules.py) under the calls (here).

Faulty backends are subclasses that override one decision: that is what inheritance is for here. It shares nothing with the
reference store or the abstract model, and carries every store-side requirement that is done, so that each can be broken.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast

import attrs

from kvprefix.api import (
    OPTIONAL_CALLS,
    UNKNOWN,
    Admission,
    Answer,
    Batch,
    CacheGroup,
    Capabilities,
    Event,
    EventKind,
    ExistsLeases,
    Geometry,
    Parent,
    PinResult,
    PutItem,
    PutOptions,
    PutResult,
    Removal,
    RemoveResult,
    Snapshot,
    Stats,
    StoreClient,
    Transport,
)
from kvprefix.errors import ConfigurationError
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.rules import PlainRules

T = TypeVar("T")
_DONE = frozenset({Answer.STORED, Answer.EXISTS, Answer.DEFERRED})


class PlainStore(PlainRules):
    """One store for all its clients: every call of the contract, made of the decisions of :class:`PlainRules`."""

    #: What the registry made of a subclass (a fault or a variant).
    made: Any = None

    # ---- put ----------------------------------------------------------------------------------------------------------------

    def result(self, answer: Answer, evicted: tuple[str, ...] = (), token: str | None = None) -> PutResult:
        """A put's answer, with its evictions where they are reported."""
        return PutResult(answer, evicted if self.capabilities.reports_evictions else None, token)

    def offer(self, key: str, value: bytes, size: int, parent: Parent, options: PutOptions, *, two_phase: bool) -> Offer:
        """What a put or put_begin brings."""
        name, declared = self.lineage(key, parent, options)
        return Offer(key, name, bytes(value) if self.capabilities.values else b"", size, declared, options, two_phase)

    def place(self, offer: Offer) -> Entry:
        """Take the offer in, invisible so far."""
        token = self.token("attempt") if offer.two_phase else ""
        entry = Entry(offer.key, offer.name, offer.value, offer.size, offer.parent, offer.options, self.now(), token)
        self.shelf.entries[self.slot(offer.key)] = entry
        self.shelf.registered.pop(offer.name, None)  # the object itself carries it from here on
        return entry

    def token(self, kind: str) -> str:
        """A token that was never given out before."""
        self.shelf.tokens += 1
        return f"{kind}-{self.shelf.tokens}"

    def accept(self, offer: Offer) -> tuple[PutResult, Entry | None]:
        """Decide, make room, and take in; the entry is PENDING then."""
        self.settle()
        answer = self.refusal(offer)
        if answer is not None:
            return self.result(answer), None
        victims = self.choose_victims(offer)
        if victims is None:
            return self.result(self.on_full(offer)), None
        evicted = self.evict(victims)
        entry = self.place(offer)
        return self.result(Answer.OK, evicted, entry.token or None), entry

    def on_full(self, offer: Offer) -> Answer:  # noqa: ARG002 - faults look at the offer
        """No room: the answer, and nothing else happens (STO-7)."""
        return Answer.NO_SPACE

    def publish(self, entry: Entry) -> Answer:
        """Make a placed object readable, or keep it until its parent is there (PFX-3)."""
        if self.capabilities.admission is Admission.DEFER and self.lacks_parent(entry):
            entry.state, entry.begun_ms = State.DEFERRED, self.now()
            entry.stored = self.tick()
            self.touch(entry)
            return Answer.DEFERRED
        self.show(entry)
        return Answer.STORED

    def show(self, entry: Entry) -> None:
        """It is resident from now on: its lease, its soft pin and its recency begin, and children that waited follow."""
        options = entry.options
        entry.state, entry.stored = State.RESIDENT, self.tick()
        self.touch(entry)
        if options.lease_ms:
            self.grant(entry, options.lease_ms)
        if options.soft_pin_ms is not None:
            entry.soft_until_ms = self.now() + options.soft_pin_ms
        self.emit(EventKind.STORED, entry)
        self.release_deferred(entry)

    def release_deferred(self, parent: Entry) -> None:
        """Deferred children become visible right after their parent (PFX-3)."""
        for child in self.children(parent):
            if child.state is State.DEFERRED:
                self.show(child)

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """Store the value."""
        result, entry = self.accept(self.offer(key, value, len(value), parent, options, two_phase=False))
        return result if entry is None else attrs.evolve(result, answer=self.publish(entry))

    def put_begin(self, key: str, size: int, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """Reserve room for a value of this size (STO-5)."""
        return self.accept(self.offer(key, b"", size, parent, options, two_phase=True))[0]

    def attempt(self, key: str, token: str) -> Entry | None:
        """The open attempt of this token on this key (STO-5)."""
        entry = self.find(key)
        return entry if entry is not None and entry.state is State.PENDING and entry.token == token else None

    def fits_begun(self, entry: Entry, value: bytes) -> bool:
        """Whether the value has the length that was begun (STO-5)."""
        return len(value) == entry.size

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        """Make the value visible; the parent is looked at again (STO-5, PFX-3)."""
        self.settle()
        entry = self.attempt(key, token)
        if entry is None:
            return self.result(Answer.STALE)
        if not self.fits_begun(entry, value):
            return self.result(Answer.INVALID)
        if self.capabilities.admission is Admission.REJECT and self.lacks_parent(entry):
            self.leave(entry)
            return self.result(Answer.PARENT_MISSING)
        entry.value, entry.token = bytes(value) if self.capabilities.values else b"", ""
        return self.result(self.publish(entry))

    def put_abort(self, key: str, token: str) -> Answer:
        """Give the attempt up (STO-5)."""
        self.settle()
        entry = self.attempt(key, token)
        if entry is None:
            return Answer.STALE
        self.leave(entry)
        return Answer.OK

    def put_one(self, item: PutItem) -> PutResult:
        """A member of a batch."""
        return self.put(item.key, item.value, parent=item.parent, options=item.options)

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        """Native batch: singles in order, or all or nothing (STO-8)."""
        before = copy.deepcopy(self.shelf)
        results = [self.put_one(item) for item in items]
        if self.capabilities.batch is Batch.SINGLES:
            return results
        lost = [item for item, r in zip(items, results, strict=True) if r.answer in _DONE and self.find(item.key) is None]
        refused = [r for r in results if r.answer not in _DONE] + [self.result(Answer.NO_SPACE) for _ in lost]
        if not refused:
            return results
        self.shelf = before
        return [r if r.answer not in _DONE or r.answer is Answer.EXISTS else self.result(refused[0].answer) for r in results]

    # ---- reading ------------------------------------------------------------------------------------------------------------

    def read(self, entry: Entry) -> bytes | None:
        """The bytes that get returns (STO-1, STO-3)."""
        return entry.value

    def missed(self, key: str) -> bytes | None:  # noqa: ARG002 - faults look at the key
        """What get returns for a miss (STO-3)."""
        return None

    def _get(self, key: str, call: str) -> bytes | None:
        entry = self.hit(key)
        if entry is None:
            return self.missed(key)
        self.on_read(entry, call)
        return self.read(entry)

    def get(self, key: str) -> bytes | None:
        """The value, or None."""
        return self._get(key, "get")

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Native batch (STO-8)."""
        return [self._get(key, "get_many") for key in keys]

    def exists(self, key: str) -> bool:
        """Whether get would hit; leases where declared (PRT-3)."""
        return self.exists_in_chain([key], "exists")[0]

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        """Native batch (STO-8)."""
        return self.exists_in_chain(keys, "exists_many")

    def exists_in_chain(self, keys: Sequence[str], call: str) -> list[bool]:
        """Which keys are hits, with the side effects of the call."""
        entries = [self.hit(key) for key in keys]
        matched = next((i for i, entry in enumerate(entries) if entry is None), len(entries))
        self.on_lookup(entries, matched, touched=entries, call=call)
        return [entry is not None for entry in entries]

    def probe(self, key: str) -> bool:
        """exists without side effects (PRT-3)."""
        return self.hit(key) is not None

    def match_length(self, chain: Sequence[str], start: int) -> int:
        """Up to the first miss (PFX-4)."""
        length = start
        while length < len(chain) and self.hit(chain[length]) is not None:
            length += 1
        return length

    def match(self, chain: Sequence[str], start: int = 0) -> int:
        """The longest resident prefix, walked from ``start``; leases where declared (PRT-3, PFX-4)."""
        length = self.match_length(chain, start)
        entries = [self.hit(key) for key in chain[start:]]
        self.on_lookup(entries, length - start, touched=entries[: length - start], call="match")
        return length

    def on_lookup(self, entries: Sequence[Entry | None], matched: int, *, touched: Sequence[Entry | None], call: str) -> None:
        """Touches and leases of a lookup; ``matched`` is the number of hits before the first miss."""
        if call in self.capabilities.touch_calls:
            for entry in present_only(touched):
                self.touch(entry)
        if call in self.capabilities.lease_calls:
            for entry in self.leased_by_lookup(entries, matched):
                self.grant(entry, self.capabilities.lease_ttl_ms)

    def leased_by_lookup(self, entries: Sequence[Entry | None], matched: int) -> list[Entry]:
        """Which hits a lookup leases (PRT-3)."""
        return {
            ExistsLeases.NONE: [],
            ExistsLeases.HITS: present_only(entries),
            ExistsLeases.LONGEST_PREFIX: present_only(entries[:matched]),
            ExistsLeases.LAST_HIT: present_only(entries[:matched][-1:]),
        }[self.capabilities.exists_leases]

    # ---- removing -----------------------------------------------------------------------------------------------------------

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        """What stands in the way of a removal (STO-9, PFX-8)."""
        if entry.state is State.PENDING and not force:
            return Answer.IN_PROGRESS
        if self.is_protected(entry) and not force:
            return Answer.PROTECTED
        refuse = self.capabilities.removal is Removal.REFUSE and self.children(entry)
        return Answer.PROTECTED if refuse else None

    def removed_with(self, entry: Entry) -> list[Entry]:
        """What a removal takes, in order (PFX-8: deepest first)."""
        below = self.descendants(entry) if self.capabilities.removal is Removal.CASCADE else []
        return [*reversed(below), entry]

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        """Remove the object, with its descendants where that is declared (STO-9, PFX-8)."""
        self.settle()
        entry = self.find(key)
        if entry is None:
            return RemoveResult(Answer.NOT_FOUND, ())
        answer = self.removal_refusal(entry, force=force)
        if answer is not None:
            return RemoveResult(answer, ())
        gone = self.removed_with(entry)
        for each in gone:
            self.leave(each)
        return RemoveResult(Answer.OK, tuple(each.key for each in gone))

    def clear_refusal(self) -> Answer | None:
        """What stands in the way of clear without force (STO-9)."""
        return Answer.PROTECTED if any(self.is_protected(entry) for entry in self.present()) else None

    def clear(self, *, force: bool = False) -> Answer:
        """Remove everything in one step (STO-9). Bytes under a transfer stay in use until it ends."""
        self.settle()
        answer = None if force else self.clear_refusal()
        if answer is not None:
            return answer
        self.shelf.lingering.extend((self.charge(entry.size), entry.pins) for entry in self.present() if entry.pins)
        self.shelf.entries.clear()
        self.shelf.registered.clear()
        self.emit(EventKind.CLEARED, None)
        return Answer.OK

    # ---- pins, leases, lineage beside the data path ---------------------------------------------------------------------------

    def pin(self, key: str) -> PinResult:
        """Hold the object in use (PRT-1)."""
        entry = self.hit(key)
        if entry is None:
            return PinResult(Answer.NOT_FOUND)
        if "pin" in self.capabilities.touch_calls:
            self.touch(entry)
        token = self.token("pin")
        entry.pins.add(token)
        return PinResult(Answer.OK, token)

    def unpin(self, token: str) -> Answer:
        """Give a pin back; nothing happens for a token that holds none."""
        holders = [entry.pins for entry in self.present()] + [pins for _, pins in self.shelf.lingering]
        found = [pins for pins in holders if token in pins]
        for pins in found:
            pins.discard(token)
        self.shelf.lingering = [(size, pins) for size, pins in self.shelf.lingering if pins]
        return Answer.OK if found else Answer.NOT_FOUND

    def lease(self, key: str, ttl_ms: int) -> Answer:
        """Protect the object for a time (PRT-2)."""
        entry = self.hit(key)
        if entry is None:
            return Answer.NOT_FOUND
        if "lease" in self.capabilities.touch_calls:
            self.touch(entry)
        self.grant(entry, ttl_ms)
        return Answer.OK

    def register(self, key: str, parent: Parent) -> Answer:
        """Declare a parent beside the data path (transport ``event``)."""
        if Transport.EVENT not in self.capabilities.lineage:
            return Answer.UNSUPPORTED
        self.settle()
        entry = self.find(key)
        known = self.shelf.registered.get(key, UNKNOWN) if entry is None else entry.parent
        full = entry is None or entry.options.cache_group is CacheGroup.FULL
        if parent in (known, UNKNOWN):
            return Answer.OK
        if self.refuses_key(key) or known is not UNKNOWN or not full or self.closes_cycle(key, parent):
            return Answer.INVALID
        if entry is None:
            self.shelf.registered[key] = parent
        else:
            entry.parent = parent
        return Answer.OK

    # ---- watching -----------------------------------------------------------------------------------------------------------

    def events(self, after: int = 0) -> list[Event]:
        """Events behind this number, oldest first (EVT-1)."""
        return [event for event in self.shelf.log if event.sequence > after]

    def snapshot(self) -> Snapshot:
        """The resident set, and the number of the event that made it (EVT-1)."""
        return Snapshot(len(self.shelf.log), {entry.key: entry.parent for entry in self.present() if self.is_visible(entry)})

    def quiesce(self) -> None:
        """Let background work end; there is none here."""
        self.settle()

    def resident(self) -> frozenset[str]:
        """All resident keys, without any side effect."""
        return frozenset(entry.key for entry in self.present() if self.is_visible(entry))

    def stats(self) -> Stats:
        """Accounting (STO-6)."""
        self.settle()
        return Stats(self.used(), len(self.resident()), self.shelf.evicted)


def present_only(entries: Sequence[T | None]) -> list[T]:
    """Those that are not None."""
    return [entry for entry in entries if entry is not None]


# --------------------------------------------------------------------------------------------------------------------------------
# The backend


class Some:
    """A client that offers some calls of a store; it has no other methods, for having one is offering it."""

    def __init__(self, store: object, calls: Collection[str]) -> None:
        for call in calls:
            setattr(self, call, getattr(store, call))


class PlainBackend:
    """A backend around one plain store, or a subclass of it; all its clients share the store. The clock is driven.

    ``calls`` names the optional calls that are offered; None: all that the capabilities allow.
    """

    def __init__(
        self,
        capabilities: Capabilities,
        store: type[PlainStore] = PlainStore,
        *,
        overhead_bytes: int = 0,
        quantum_bytes: int = 1,
        calls: Collection[str] | None = None,
    ) -> None:
        self.capabilities = capabilities
        self._kind = store
        self.overhead_bytes = overhead_bytes
        self.quantum_bytes = quantum_bytes
        self._calls = self._all_calls() if calls is None else frozenset(calls)
        self._store: PlainStore | None = None

    def _all_calls(self) -> frozenset[str]:
        event = Transport.EVENT in self.capabilities.lineage
        return frozenset(OPTIONAL_CALLS) - (frozenset() if event else {"register"})

    def start(self, capacity: int) -> Geometry:
        """Start with this many bytes."""
        self._store = self._kind(self.capabilities, self.geometry(capacity))
        return self._store.geometry

    def geometry(self, capacity: int) -> Geometry:
        """What is obtained when this many bytes are asked for."""
        return Geometry(capacity, overhead_bytes=self.overhead_bytes, quantum_bytes=self.quantum_bytes)

    def client(self, index: int = 0, tenant: str = "") -> StoreClient:
        """A client of the store. Raises :class:`ConfigurationError` for an index or tenant that is not declared."""
        if not 0 <= index < self.capabilities.clients or tenant:
            raise ConfigurationError(f"no client {index} for tenant {tenant!r}", "See capabilities.clients and .tenants.")
        return cast(StoreClient, Some(self.store, {"put", "get", "exists", *self._calls}))

    @property
    def store(self) -> PlainStore:
        """The running store. Raises :class:`ConfigurationError` before start and after close."""
        if self._store is None:
            raise ConfigurationError("the backend is not started.", "Call start(capacity) first.")
        return self._store

    def reset(self) -> None:
        """Empty again, with the clock at zero."""
        self._store = self._kind(self.capabilities, self.store.geometry)

    def close(self) -> None:
        """Stop. Safe to call twice."""
        self._store = None

    def quiesce(self) -> None:
        """Let background work end."""
        self.store.quiesce()

    def now(self) -> int:
        """The driven clock, in milliseconds."""
        return self.store.steady_ms

    def advance(self, ms: int) -> None:
        """Let this much time pass."""
        self.store.advance(ms)

    def jump_wall_clock(self, ms: int) -> None:
        """Move wall time, which nothing follows (PRT-5)."""
        self.store.wall_ms += ms

    def resident(self) -> frozenset[str]:
        """All resident keys, without any side effect."""
        return self.store.resident()
