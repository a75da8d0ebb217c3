"""Faults of lookups and events: match lengths that promise too much or too little, events that mislead an index.

They break PFX-4, EVT-1 and EVT-2.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

from collections.abc import Sequence

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Capabilities,
    Event,
    EventKind,
    Geometry,
    Parent,
    PutOptions,
    PutResult,
    RemoveResult,
    Snapshot,
)
from kvprefix_conformance.faulty.entry import Entry, State
from kvprefix_conformance.faulty.kinds import CASCADE, DEFER, INDEX, UNLEASED
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

# ---- PFX-4


@fault("PFX-4", "B016", on=INDEX)
class MatchCountsPastTheHole(PlainStore):
    """match counts all resident blocks of the chain, also those behind a missing one."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        return start + sum(self.hit(key) is not None for key in chain[start:])


@fault("PFX-4", "B080")
class MatchLosesTheLastBlock(PlainStore):
    """When the whole chain is resident match keeps one block back for the engine to compute."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        length = super().match_length(chain, start)
        return length - 1 if start < length == len(chain) else length


@fault("PFX-4", "B018", on=INDEX)
class MatchFromTheLastHit(PlainStore):
    """match looks for the last resident block and takes all before it for resident."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        hits = [i + 1 for i in range(start, len(chain)) if self.hit(chain[i]) is not None]
        return max(hits, default=start)


@fault("PFX-4")
class MatchWalksParentLinks(PlainStore):
    """match stops at a block whose declared parent is not the block before it, resident or not."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        length = super().match_length(chain, start)
        for i in range(max(start, 1), length):
            entry = self.hit(chain[i])
            if entry is None or entry.parent != chain[i - 1]:
                return i
        return length


@fault("PFX-4", "B106")
class MatchCountsPending(PlainStore):
    """match counts a block that is still being written."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        length = start
        while length < len(chain) and self.find(chain[length]) is not None:
            length += 1
        return length


@fault("PFX-4", on=INDEX)
class EmptyChainRaises(PlainStore):
    """match of the empty chain raises an exception."""

    def match_length(self, chain: Sequence[str], start: int) -> int:
        self.hit(chain[0])
        return super().match_length(chain, start)


# ---- EVT-1


@fault("EVT-1", "B172", "B180", "B222", on=INDEX)
class EvictionsSendNoEvent(PlainStore):
    """An evicted object sends no removed event: the index keeps it for ever."""

    def evict(self, victims: list[Entry]) -> tuple[str, ...]:
        events = list(self.shelf.log)
        reported = super().evict(victims)
        self.shelf.log = events
        return reported


@fault("EVT-1", "B180", on=INDEX)
class RemovalsSendNoEvent(PlainStore):
    """remove sends no removed event."""

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        events = list(self.shelf.log)
        result = super().remove(key, force=force)
        self.shelf.log = events
        return result


@fault("EVT-1", on=INDEX)
class ClearSendsNoEvent(PlainStore):
    """clear sends no cleared event."""

    def emit(self, kind: EventKind, entry: Entry | None) -> None:
        if kind is not EventKind.CLEARED:
            super().emit(kind, entry)


@fault("EVT-1", "B177", on=INDEX)
class DuplicatesSendStored(PlainStore):
    """A put of a resident key sends a second stored event."""

    def on_duplicate(self, entry: Entry, offer: object) -> None:
        self.emit(EventKind.STORED, entry)


@fault("EVT-1", on=UNLEASED)
class CommitSendsNoEvent(PlainStore):
    """Only single-step puts send stored events."""

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        events = list(self.shelf.log)
        result = super().put_commit(key, token, value)
        self.shelf.log = events
        return result


@fault("EVT-1", on=INDEX)
class SequenceHasGaps(PlainStore):
    """Evictions count in the sequence twice, so a consumer sees loss where none was."""

    def next_sequence(self) -> int:
        return len(self.shelf.log) + 1 + self.shelf.evicted


@fault("EVT-1", "B178", on=INDEX)
class EventLogIsShort(PlainStore):
    """Only the last four events are kept: who asks again from the start is told nothing of the loss."""

    def events(self, after: int = 0) -> list[Event]:
        return [event for event in self.shelf.log[-4:] if event.sequence > after]


@fault("EVT-1", "B173", on=INDEX)
class SnapshotIsStale(PlainStore):
    """A snapshot carries the number of the last event and lacks the object that it stored."""

    def snapshot(self) -> Snapshot:
        told = super().snapshot()
        last = self.shelf.log[-1].key if self.shelf.log else ""
        return Snapshot(told.sequence, {key: parent for key, parent in told.objects.items() if key != last})


@fault("EVT-1", "B175", on=INDEX)
class SnapshotNumberIsAhead(PlainStore):
    """A snapshot carries a number of its own, above the stream's: a consumer skips the events that follow it."""

    def snapshot(self) -> Snapshot:
        told = super().snapshot()
        return Snapshot(told.sequence + 2, told.objects)


# ---- EVT-2


@fault("EVT-2", "B171", on=UNLEASED)
class StoredEventsLackParents(PlainStore):
    """Stored events carry no parent."""

    def event_parent(self, entry: Entry) -> Parent:
        return UNKNOWN


@fault("EVT-2", "B171", on=UNLEASED)
class StoredEventsNameTheRoot(PlainStore):
    """Stored events name the first block of the chain as parent."""

    def event_parent(self, entry: Entry) -> Parent:
        above = self.ancestors(entry)
        return above[-1].key if above else ROOT if entry.parent is ROOT else entry.parent


@fault("EVT-2", on=CASCADE)
class CascadeEventsTopDown(PlainStore):
    """A cascade answers its keys deepest first and sends their removed events parent first."""

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        sent = len(self.shelf.log)
        result = super().remove(key, force=force)
        keys = [event.key for event in reversed(self.shelf.log[sent:])]
        numbers = [event.sequence for event in self.shelf.log[sent:]]
        self.shelf.log[sent:] = [Event(n, EventKind.REMOVED, k) for n, k in zip(numbers, keys, strict=True)]
        return result


@fault("EVT-2", on=UNLEASED)
class StoredBeforeRemoved(PlainStore):
    """The stored event of a put is sent before the removed events of what went for it."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        sent = len(self.shelf.log)
        result = super().put(key, value, parent=parent, options=options)
        new = self.shelf.log[sent:]
        ordered = [e for e in new if e.kind is EventKind.STORED] + [e for e in new if e.kind is not EventKind.STORED]
        self.shelf.log[sent:] = [
            Event(old.sequence, event.kind, event.key, event.parent) for old, event in zip(new, ordered, strict=True)
        ]
        return result


@fault("EVT-2", on=DEFER)
class ReleasedChildIsToldFirst(PlainStore):
    """Deferred children send their stored events before the parent that released them."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.held: list[Entry] = []

    def emit(self, kind: EventKind, entry: Entry | None) -> None:
        waiting = [] if entry is None else [c for c in self.children(entry) if c.state is State.DEFERRED]
        if kind is EventKind.STORED and entry is not None and waiting:
            self.held.append(entry)
            return
        super().emit(kind, entry)
        if kind is EventKind.STORED and self.held:
            super().emit(kind, self.held.pop())
