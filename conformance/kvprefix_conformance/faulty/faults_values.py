"""Faults of values and of visibility: what a key holds, whether it is there, and whose attempt completes it.

They break STO-1 to STO-5, and STO-10.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

import posixpath
import unicodedata
import zlib

import attrs

from kvprefix.api import Answer, Capabilities, EmptyValue, Geometry, PinResult
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import AWARE, FLAT
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

# ---- STO-1


@fault("STO-1", "B076", on=FLAT)
class ForgetsAtOnce(PlainStore):
    """A dead store: every put is STORED, and nothing is kept."""

    def publish(self, entry: Entry) -> Answer:
        answer = super().publish(entry)
        del self.shelf.entries[entry.key]
        return answer


@fault("STO-1", "B062")
class AlwaysMisses(PlainStore):
    """A dead store: it fills up and every lookup is a miss."""

    def hit(self, key: str) -> Entry | None:
        return None


@fault("STO-1", "B137")
class FlipsLastByte(PlainStore):
    """The last byte of a value comes back changed, and no checksum notices."""

    def read(self, entry: Entry) -> bytes | None:
        return entry.value[:-1] + bytes([entry.value[-1] ^ 1]) if entry.value else entry.value


@fault("STO-1", "B095", on=FLAT)
class LosesReadValues(PlainStore):
    """The second read of an object finds it gone: the first one scheduled its deletion."""

    def read(self, entry: Entry) -> bytes | None:
        value = entry.value
        self.leave(entry)
        return value


# ---- STO-2


@fault("STO-2")
class OverwritesDuplicates(PlainStore):
    """A put of a resident key replaces the value and still answers EXISTS."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        if not offer.two_phase and offer.size == entry.size:
            entry.value = offer.value
        super().on_duplicate(entry, offer)


@fault("STO-2")
class DuplicateTakesRoom(PlainStore):
    """Room is made before the key is looked up, so a duplicate put on a full store evicts another object."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        spare = [other for other in self.present() if other is not entry and self.may_evict(other, offer, [])]
        if spare and self.need(offer) > 0:
            self.evict(spare[:1])


@fault("STO-2", on=FLAT)
class DuplicateFailsWhenFull(PlainStore):
    """A put of a resident key is answered NO_SPACE when the value would not fit a second time."""

    def duplicate(self, offer: Offer) -> Answer | None:
        answer = super().duplicate(offer)
        return Answer.NO_SPACE if answer is Answer.EXISTS and self.need(offer) > 0 else answer


# ---- STO-3


@fault("STO-3", "B191")
class EmptyForMiss(PlainStore):
    """get of an absent key returns an empty value, which engines take for a hit."""

    def missed(self, key: str) -> bytes | None:
        return b""


@fault("STO-3", "B132", "B135", "B136")
class TornValue(PlainStore):
    """Half of a value comes back as a hit, as if one of its two parts had been lost."""

    def read(self, entry: Entry) -> bytes | None:
        return entry.value[: (len(entry.value) + 1) // 2]


@fault("STO-3", "B036", "B094", "B104")
class ForeignValue(PlainStore):
    """Values lie under a short hash of the key that nobody verifies: two keys that collide share the bytes of the later one."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.places: dict[int, bytes] = {}

    def show(self, entry: Entry) -> None:
        self.places[self._place(entry)] = entry.value
        super().show(entry)

    def read(self, entry: Entry) -> bytes | None:
        return self.places[self._place(entry)]

    def _place(self, entry: Entry) -> int:
        return zlib.crc32(entry.key.encode("utf-8", "surrogatepass")) % 4


@fault("STO-3", on=attrs.evolve(AWARE, empty_value=EmptyValue.STORED))
class EmptyValueReadsAsMiss(PlainStore):
    """Empty values are stored by declaration, and get cannot tell them from a miss."""

    def read(self, entry: Entry) -> bytes | None:
        return entry.value or None


# ---- STO-4


@fault("STO-4", "B033")
class RemovedKeyStillExists(PlainStore):
    """The table that exists looks at keeps the keys that remove took."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.remembered: set[str] = set()

    def show(self, entry: Entry) -> None:
        self.remembered.add(entry.key)
        super().show(entry)

    def exists(self, key: str) -> bool:
        return super().exists(key) or key in self.remembered


@fault("STO-4", "B021")
class AbortPublishes(PlainStore):
    """An aborted attempt leaves its reserved block reachable, with whatever bytes lie in it."""

    def put_abort(self, key: str, token: str) -> Answer:
        self.settle()
        entry = self.attempt(key, token)
        if entry is None:
            return Answer.STALE
        entry.value, entry.token = bytes(entry.size), ""
        self.show(entry)
        return Answer.OK


@fault("STO-4")
class LeaseOfAbsentKeyIsOk(PlainStore):
    """lease of a key that is not there is answered OK."""

    def lease(self, key: str, ttl_ms: int) -> Answer:
        super().lease(key, ttl_ms)
        return Answer.OK


@fault("STO-4")
class PinsPendingObjects(PlainStore):
    """pin takes an object that is still being written."""

    def pin(self, key: str) -> PinResult:
        entry = self.find(key)
        if entry is None or entry.state is not State.PENDING:
            return super().pin(key)
        entry.pins.add(self.token("pin"))
        return PinResult(Answer.OK, max(entry.pins))


# ---- STO-5


@fault("STO-5", "B106", "B133")
class PendingVisible(PlainStore):
    """An object is published when its room is reserved, before its bytes arrive."""

    def is_visible(self, entry: Entry) -> bool:
        return entry.state is not State.DEFERRED


@fault("STO-5", "B139", "B142")
class StaleCommitCompletes(PlainStore):
    """commit and abort look at the key only: a late writer completes or ends another writer's attempt."""

    def attempt(self, key: str, token: str) -> Entry | None:
        entry = self.find(key)
        return entry if entry is not None and entry.state is State.PENDING else None


@fault("STO-5", "B140")
class DeadWriterBlocksKey(PlainStore):
    """An attempt never times out: when its writer dies the key is lost for ever."""

    def is_overdue(self, entry: Entry) -> bool:
        return entry.state is not State.PENDING and super().is_overdue(entry)


@fault("STO-5")
class TimesOutOneLate(PlainStore):
    """An attempt is given up one millisecond after its declared timeout."""

    def is_overdue(self, entry: Entry) -> bool:
        late = self.now() >= entry.begun_ms + self.capabilities.pending_timeout_ms + 1
        return late if entry.state is State.PENDING else super().is_overdue(entry)


@fault("STO-5")
class CommitIgnoresSize(PlainStore):
    """commit takes a value of any length, whatever was begun."""

    def fits_begun(self, entry: Entry, value: bytes) -> bool:
        entry.size = len(value)
        return True


@fault("STO-5")
class SecondWriterSupersedes(PlainStore):
    """A put of a key that another writer has begun throws that attempt away."""

    def duplicate(self, offer: Offer) -> Answer | None:
        entry = self.find(offer.key)
        if entry is not None and entry.state is State.PENDING:
            self.leave(entry)
        return super().duplicate(offer)


# ---- STO-10


@fault("STO-10", on=FLAT)
class TruncatesLongKeys(PlainStore):
    """Only the first 128 characters of a key are looked at."""

    def slot(self, key: str) -> str:
        return key[:128]


@fault("STO-10", on=FLAT)
class StopsAtNul(PlainStore):
    """Keys pass through a C string: what follows a NUL is lost."""

    def slot(self, key: str) -> str:
        return key.partition("\0")[0]


@fault("STO-10", on=FLAT)
class NormalisesPaths(PlainStore):
    """Keys are file names below a folder: a/./b and a/b are one object."""

    def slot(self, key: str) -> str:
        return posixpath.normpath(key)


@fault("STO-10", on=FLAT)
class NormalisesUnicode(PlainStore):
    """Keys that look alike are one: the composed and the decomposed form of a letter."""

    def slot(self, key: str) -> str:
        return unicodedata.normalize("NFC", key)
