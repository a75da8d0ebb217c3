"""Faults of room, batches and removal: bytes that drift, puts that take and fail, batches that answer wrongly.

They break STO-6 to STO-9.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kvprefix.api import Answer, Batch, Capabilities, EventKind, Geometry, PutItem, PutResult, RemoveResult
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import AWARE, DEFER, FLAT
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

# ---- STO-6


class Leaky(PlainStore):
    """A counter of bytes in use that is kept beside the objects, so that it can drift."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.leaked = 0

    def used(self) -> int:
        return super().used() + self.leaked


@fault("STO-6", "B186")
class RemoveKeepsBytes(Leaky):
    """remove does not lower the counter of bytes in use; in the end an empty store refuses every put."""

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        sizes = {entry.key: entry.size for entry in self.present()}
        result = super().remove(key, force=force)
        self.leaked += sum(self.charge(sizes[gone]) for gone in result.removed or ())
        return result


@fault("STO-6", "B116")
class AbortKeepsBytes(Leaky):
    """The room of an aborted attempt never comes back."""

    def put_abort(self, key: str, token: str) -> Answer:
        entry = self.attempt(key, token)
        answer = super().put_abort(key, token)
        self.leaked += self.charge(entry.size) if entry is not None and answer is Answer.OK else 0
        return answer


@fault("STO-6", "B119")
class TimeoutKeepsBytes(Leaky):
    """The room of an attempt that timed out never comes back."""

    def settle(self) -> None:
        overdue = [entry for entry in self.present() if self.is_overdue(entry)]
        self.leaked += sum(self.charge(entry.size) for entry in overdue)
        super().settle()


@fault("STO-6", "B105")
class DuplicateCountedTwice(Leaky):
    """A put of a resident key adds its bytes again."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        super().on_duplicate(entry, offer)
        self.leaked = min(self.leaked + self.charge(entry.size), self.geometry.capacity_bytes - PlainStore.used(self))


@fault("STO-6", "B103")
class PendingNotCounted(PlainStore):
    """Room that is reserved but not yet written is not counted, and is given out twice."""

    def used(self) -> int:
        return super().used() - sum(self.charge(entry.size) for entry in self.present() if entry.state is State.PENDING)


@fault("STO-6", on=DEFER)
class DeferredNotCounted(PlainStore):
    """Deferred objects cost nothing, until they all become visible at once."""

    def used(self) -> int:
        return super().used() - sum(self.charge(entry.size) for entry in self.present() if entry.state is State.DEFERRED)


@fault("STO-6", on=FLAT, overhead_bytes=8, quantum_bytes=32)
class OverheadNotCounted(PlainStore):
    """Only value bytes are counted, neither overhead nor granularity: the store grows over its capacity."""

    def charge(self, size: int) -> int:
        return size


@fault("STO-6", "B195", on=FLAT)
class CapacityIsAdvice(PlainStore):
    """The capacity is declared and enforces nothing."""

    def need(self, offer: Offer) -> int:
        return 0


# ---- STO-7


@fault("STO-7", "B216")
class RefusedPutEvicts(PlainStore):
    """Eviction runs first; when it does not free enough the put is refused and the victims are gone."""

    def on_full(self, offer: Offer) -> Answer:
        spare = [entry for entry in self.present() if self.may_evict(entry, offer, [])]
        self.evict(spare)
        return Answer.NO_SPACE


@fault("STO-7")
class TooLargeEvicts(PlainStore):
    """Whether a value can ever fit is found out after everything evictable was thrown away."""

    def too_large(self, offer: Offer) -> Answer | None:
        answer = super().too_large(offer)
        if answer is not None:
            self.evict([entry for entry in self.present() if self.may_evict(entry, offer, [])])
        return answer


@fault("STO-7", on=FLAT)
class HidesEvictions(PlainStore):
    """Evictions are reported by declaration, and the report is always empty."""

    def evict(self, victims: list[Entry]) -> tuple[str, ...]:
        super().evict(victims)
        return ()


@fault("STO-7", "B033", on=FLAT)
class ClaimsToEvict(PlainStore):
    """Victims are reported and their bytes uncounted, and they are all still there."""

    def evict(self, victims: list[Entry]) -> tuple[str, ...]:
        return tuple(victim.key for victim in victims)


@fault("STO-7", "B134", on=FLAT)
class RefusedPutLeavesKey(PlainStore):
    """A put that is refused for space leaves its key behind: exists is true and there is no value."""

    def on_full(self, offer: Offer) -> Answer:
        self.show(self.place(attrs.evolve(offer, value=b"", size=0)))
        return Answer.NO_SPACE

    def refuses_size(self, size: int) -> bool:
        return size == 0


# ---- STO-8


@fault("STO-8", "B192")
class BatchAnswersTwice(PlainStore):
    """A batch lookup in which a key is missing answers two entries per key."""

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        hits = super().exists_many(keys)
        return hits if all(hits) else hits + hits


@fault("STO-8")
class BatchAnswersSorted(PlainStore):
    """A batch read groups its keys, and answers in the order of the groups."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return super().get_many(sorted(keys))


@fault("STO-8")
class BatchStopsAtFirstFailure(PlainStore):
    """Behind the first member that is refused nothing is tried, related to it or not."""

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        results: list[PutResult] = []
        for item in items:
            failed = next((r for r in results if r.answer not in (Answer.STORED, Answer.EXISTS)), None)
            results.append(failed or self.put_one(item))
        return results


@fault("STO-8", "B193", "B074")
class BatchSeesOtherKeys(PlainStore):
    """The batch form of exists builds its keys in another way than put does, and misses some."""

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        return [hit and i % 2 == 0 for i, hit in enumerate(super().exists_many(keys))]


@fault("STO-8", on=attrs.evolve(AWARE, batch=Batch.ATOMIC))
class AtomicBatchHalfStored(PlainStore):
    """Batches are atomic by declaration, and a batch with a bad member stores the good ones."""

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        return [self.put_one(item) for item in items]


# ---- STO-9


@fault("STO-9")
class RemovesProtected(PlainStore):
    """remove without force takes what is leased or pinned."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        return super().removal_refusal(entry, force=force or entry.state is not State.PENDING)


@fault("STO-9", "B219")
class ClearIgnoresProtection(PlainStore):
    """clear without force frees objects that a reader holds."""

    def clear_refusal(self) -> Answer | None:
        return None


@fault("STO-9", on=FLAT)
class RemoveOfAbsentIsOk(PlainStore):
    """remove of a key that is not there is answered OK, so nobody can tell what it did."""

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        result = super().remove(key, force=force)
        return RemoveResult(Answer.OK, ()) if result.answer is Answer.NOT_FOUND else result


@fault("STO-9")
class RemoveTakesPending(PlainStore):
    """remove without force throws away an object that is being written."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        return None if entry.state is State.PENDING else super().removal_refusal(entry, force=force)


@fault("STO-9")
class ClearTellsOneByOne(PlainStore):
    """clear emits a removed event for each object, and no cleared event."""

    def emit(self, kind: EventKind, entry: Entry | None) -> None:
        if kind is not EventKind.CLEARED:
            super().emit(kind, entry)

    def clear(self, *, force: bool = False) -> Answer:
        there = self.present()
        answer = super().clear(force=force)
        for entry in reversed(there):
            if answer is Answer.OK and entry.state is State.RESIDENT:
                self.emit(EventKind.REMOVED, entry)
        return answer


@fault("STO-5", "B022", "B220")
class ForceLeavesAttemptOpen(PlainStore):
    """A forced clear forgets the attempts that are open: a later commit brings its object back."""

    def clear(self, *, force: bool = False) -> Answer:
        open_attempts = [entry for entry in self.present() if entry.state is State.PENDING]
        answer = super().clear(force=force)
        if answer is Answer.OK:
            self.shelf.entries.update({entry.key: entry for entry in open_attempts})
        return answer
