"""Unusual but correct backends: a suite that fails one of them demands the reference's own choices.

Each declares what it does and must pass all that it declares.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its overrides do

from __future__ import annotations

import functools
import random
import time
from collections.abc import Sequence

import attrs

from kvprefix.api import (
    UNKNOWN,
    Accounting,
    Admission,
    Answer,
    Batch,
    Capabilities,
    Clock,
    DuplicatePut,
    EmptyValue,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    Geometry,
    Parent,
    Pin,
    Progress,
    PutOptions,
    PutResult,
    Stats,
    Transport,
    VictimPolicy,
)
from kvprefix.errors import ConfigurationError
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import AWARE, CASCADE, DEFER, FLAT, INDEX, NEVER_EVICTS, PLACEHOLDER, UNLEASED
from kvprefix_conformance.faulty.plain import PlainBackend, PlainStore
from kvprefix_conformance.faulty.registry import Variant, line_of, variant

UNRANKED = attrs.evolve(AWARE, policy=VictimPolicy.UNSPECIFIED)

# ---- who goes


@variant(UNRANKED)
class EvictsTheYoungestLeaf(PlainStore):
    """The leaf that was touched last goes first."""

    def age(self, entry: Entry) -> int:
        return -entry.touched


class Dice(PlainStore):
    """A store that throws dice, the same ones after each reset."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.dice = random.Random(5)


@variant(UNRANKED)
class EvictsRandomLeaf(Dice):
    """Any leaf goes, the same ones for the same calls."""

    def age(self, entry: Entry) -> int:
        return self.dice.randrange(1_000_000)


@variant(attrs.evolve(UNRANKED, deterministic=False))
class EvictsUnpredictably(PlainStore):
    """Any leaf goes, and another one next time."""

    def age(self, entry: Entry) -> int:
        return random.SystemRandom().randrange(1_000_000)


@variant(attrs.evolve(AWARE, policy=VictimPolicy.FIFO, touch_calls=frozenset(), lineage_recency=False))
class LeafFirstFifo(PlainStore):
    """The leaf that was stored first goes first; reads save nobody."""


@variant(FLAT)
class FlatLru(PlainStore):
    """No lineage: the last touch decides."""


@variant(attrs.evolve(UNRANKED, evict_unit=EvictUnit.NODE))
class EvictsInRuns(PlainStore):
    """A leaf goes together with the blocks above it up to the next branch, as a radix tree drops a node."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        need, victims = self.need(offer), list[Entry]()
        while sum(self.charge(victim.size) for victim in victims) < need:
            leaves = [entry for entry in self.present() if self.may_evict(entry, offer, victims)]
            if not leaves:
                return None
            leaf = min(leaves, key=self.rank)
            victims.append(leaf)
            for above in self.ancestors(leaf):
                if not self.may_evict(above, offer, victims) or self.rank(above)[0] != self.rank(leaf)[0]:
                    break
                victims.append(above)
        return victims


@variant(NEVER_EVICTS)
class NeverEvicts(PlainStore):
    """A full store refuses."""


@variant(
    attrs.evolve(
        UNRANKED,
        progress=Progress.EVENTUAL,
        refused_put_evicts=True,
        reports_evictions=False,
        watermark=0.75,
        evict_ratio=0.25,
    )
)
class EvictsInTheBackground(PlainStore):
    """A full store refuses, and makes room behind its back: when time passes, when it is asked to, or before the next put."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.refused: Offer | None = None

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        return None if self.need(offer) > 0 else []

    def on_full(self, offer: Offer) -> Answer:
        self.refused = offer
        return Answer.NO_SPACE

    def settle(self) -> None:
        super().settle()
        offer = self.refused or Offer("", "", b"", 0, UNKNOWN, PutOptions(), two_phase=False)
        caps, capacity = self.capabilities, self.geometry.capacity_bytes
        if self.refused is None and self.used() <= caps.watermark * capacity:
            return
        self.refused = None
        goal = min((caps.watermark - caps.evict_ratio) * capacity, capacity - self.charge(offer.size))
        while self.used() > goal and (leaves := [e for e in self.present() if self.may_evict(e, offer, [])]):
            self.evict([min(leaves, key=self.rank)])


# ---- lineage


@variant(CASCADE)
class CascadeRemoval(PlainStore):
    """remove takes the descendants with it."""


@variant(DEFER)
class DeferredAdmission(PlainStore):
    """A child may come before its parent, and waits for it unseen."""


@variant(PLACEHOLDER)
class PlaceholderAdmission(PlainStore):
    """A child may come before its parent, and is visible at once."""


@variant(attrs.evolve(AWARE, lineage=frozenset({Transport.KEY})))
class LineageInTheKey(PlainStore):
    """No parent argument: keys of the lineage form carry the parent's hash."""


@variant(
    attrs.evolve(
        AWARE,
        lineage=frozenset({Transport.EVENT}),
        admission=Admission.ANY,
        profiles=AWARE.profiles - {"prefix-aware"},
    )
)
class LineageBesideThePath(PlainStore):
    """Parents are registered beside the data path, before or after the put."""


@variant(attrs.evolve(AWARE, eviction_order=EvictionOrder.ANY, profiles=FLAT.profiles, progress=Progress.NONE))
class GuardsTheDoorOnly(PlainStore):
    """Parents are asked for at put, and eviction does not look at them."""

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return False


# ---- leases, pins, recency


@variant(attrs.evolve(AWARE, exists_leases=ExistsLeases.NONE, lease_calls=frozenset({"get"})))
class LeaseFreeExists(PlainStore):
    """Only get leases; exists and match promise nothing."""


@variant(attrs.evolve(AWARE, exists_leases=ExistsLeases.LAST_HIT))
class LeasesTheLastHit(PlainStore):
    """A lookup leases its last matched block, which protects all before it."""


@variant(attrs.evolve(AWARE, exists_leases=ExistsLeases.HITS))
class LeasesEveryHit(PlainStore):
    """A lookup leases every resident key that it names, behind a hole too."""


@variant(UNLEASED)
class LeasesNothing(PlainStore):
    """No read leases anything; lease does, when asked."""


@variant(
    attrs.evolve(
        AWARE, touch_calls=frozenset({"exists", "exists_many", "match", "duplicate_put", "lease", "pin"}), lineage_recency=False
    )
)
class TouchedByAllButGet(PlainStore):
    """Lookups, duplicate puts, leases and pins move recency; get does not."""


@variant(attrs.evolve(AWARE, reads_extend_soft_pin=True))
class ReadsExtendSoftPins(PlainStore):
    """A read moves the deadline of a soft pin that has not ended."""

    def on_read(self, entry: Entry, call: str) -> None:
        super().on_read(entry, call)
        if entry.options.soft_pin_ms is not None and self.is_soft_pinned_itself(entry):
            entry.soft_until_ms = max(entry.soft_until_ms or 0, self.now() + entry.options.soft_pin_ms)


@variant(attrs.evolve(FLAT, pins=frozenset({Pin.HARD})))
class HardPinsOnly(PlainStore):
    """A soft pin is answered UNSUPPORTED."""


# ---- values, room, calls


@variant(attrs.evolve(AWARE, duplicate_put=DuplicatePut.SILENT))
class SilentDuplicates(PlainStore):
    """A put of a resident key is answered STORED and changes nothing."""


@variant(attrs.evolve(AWARE, empty_value=EmptyValue.STORED))
class StoresEmptyValues(PlainStore):
    """An empty value is stored, and is no miss."""


@variant(attrs.evolve(AWARE, batch=Batch.ATOMIC))
class AtomicBatches(PlainStore):
    """A batch put stores all or nothing."""


@variant(AWARE, overhead_bytes=24, quantum_bytes=16)
class CountsOverhead(PlainStore):
    """Each object costs 24 bytes beside its value, rounded up to 16."""


class TinyBackend(PlainBackend):
    """Obtains 128 bytes, whatever was asked for."""

    def geometry(self, capacity: int) -> Geometry:
        return Geometry(min(capacity, 128))


@variant(AWARE, backend=TinyBackend)
class TinyStore(PlainStore):
    """A store of 128 bytes."""


class HugeBackend(PlainBackend):
    """Takes values of a fifth of the capacity and more."""

    def geometry(self, capacity: int) -> Geometry:
        return Geometry(64 * capacity, min_value_bytes=64 * capacity // 5)


@variant(AWARE, backend=HugeBackend)
class HugeObjects(PlainStore):
    """Five of the smallest objects fill the store."""


@variant(INDEX)
class IndexOnly(PlainStore):
    """No bytes: get answers an empty value for every hit."""


@variant(attrs.evolve(AWARE, reports_evictions=False), calls=())
class ShowsNothing(PlainStore):
    """Put, get and exists only, and no evictions reported: what is inside has to be guessed from reads."""


class RealClockStore(PlainStore):
    """Time is real."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.epoch = time.monotonic()

    def now(self) -> int:
        return int((time.monotonic() - self.epoch) * 1000)


class RealClockBackend(PlainBackend):
    """advance really waits."""

    def now(self) -> int:
        return self.store.now()

    def advance(self, ms: int) -> None:
        time.sleep(ms / 1000)
        self.store.settle()


@variant(
    attrs.evolve(AWARE, clock=Clock.REAL, lease_ttl_ms=40, pending_timeout_ms=80, defer_deadline_ms=80), backend=RealClockBackend
)
class RealClock(RealClockStore):
    """Leases run on a real clock, and are short."""


@variant(attrs.evolve(AWARE, reclaim_ms=50))
class ReclaimsLater(PlainStore):
    """Bytes of removed objects are counted for another 50 ms, unless a put needs them."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.late: list[tuple[int, int]] = []

    def leave(self, entry: Entry) -> None:
        super().leave(entry)
        if entry.state is State.RESIDENT:
            self.late.append((self.now() + self.capabilities.reclaim_ms, self.charge(entry.size)))

    def stats(self) -> Stats:
        told = super().stats()
        late = sum(size for due, size in self.late if due > self.now())
        return attrs.evolve(told, used_bytes=min(told.used_bytes + late, self.geometry.capacity_bytes))


# ---- a store that is no plain store


class Bare:
    """One dict with put, get and exists: nothing is evicted, removed, leased or told."""

    capabilities = Capabilities(
        name="variant:bare", evicts=False, progress=Progress.REJECT, accounting=Accounting.NONE, reports_evictions=False
    )

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._room = 0
        self._capacity = 0

    def start(self, capacity: int) -> Geometry:
        self._capacity = self._room = capacity
        return Geometry(capacity)

    def client(self, index: int = 0, tenant: str = "") -> Bare:
        if index or tenant:
            raise ConfigurationError("this backend has one client and no tenants.")
        return self

    def reset(self) -> None:
        self._objects.clear()
        self._room = self._capacity

    def close(self) -> None:
        self._objects.clear()

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        answer = self._refusal(key, value, options)
        if answer is None:
            self._objects[key] = value
            self._room -= len(value)
        return PutResult(answer or Answer.STORED)

    def _refusal(self, key: str, value: bytes, options: PutOptions) -> Answer | None:
        decisions: Sequence[tuple[bool, Answer]] = (
            (options != PutOptions(), Answer.UNSUPPORTED),
            (not key or not value, Answer.INVALID),
            (key in self._objects, Answer.EXISTS),
            (len(value) > self._capacity, Answer.TOO_LARGE),
            (len(value) > self._room, Answer.NO_SPACE),
        )
        return next((answer for applies, answer in decisions if applies), None)

    def get(self, key: str) -> bytes | None:
        return self._objects.get(key)

    def exists(self, key: str) -> bool:
        return key in self._objects


BARE = Variant("bare", line_of(Bare), functools.partial(Bare))
