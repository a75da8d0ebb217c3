"""Faults of eviction: who goes, in which order, how many, and when none goes though it could.

They break PFX-1, PFX-6, PFX-7, PFX-9 and PFX-10.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

import zlib
from collections.abc import Sequence

import attrs

from kvprefix.api import Answer, Capabilities, Geometry, PutItem, PutResult, VictimPolicy
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import AWARE, UNLEASED
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

LINEAR = attrs.evolve(UNLEASED, lineage_recency=False)
FIFO = attrs.evolve(LINEAR, policy=VictimPolicy.FIFO)
UNRANKED = attrs.evolve(UNLEASED, policy=VictimPolicy.UNSPECIFIED)


class Structureless(PlainStore):
    """Eviction knows no lineage: children hold nothing, and protect nothing."""

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return False

    def is_protected(self, entry: Entry) -> bool:
        return self.is_protected_itself(entry)


# ---- PFX-1


@fault("PFX-1", "B006", on=LINEAR)
class EvictsByPlainLru(Structureless):
    """The least recently used object goes, whatever hangs below it."""


@fault("PFX-1", "B002", on=FIFO)
class EvictsByPlainFifo(Structureless):
    """The oldest object goes: roots were stored first, so roots go first."""


@fault("PFX-1", "B011", on=attrs.evolve(AWARE, policy=VictimPolicy.UNSPECIFIED))
class EvictsByLeaseOrder(Structureless):
    """The object whose lease ended first goes: a root that was leased once goes before the tail that was leased later."""

    def age(self, entry: Entry) -> int:
        return entry.lease_until_ms * 1_000 + entry.stored


@fault("PFX-1", "B115", on=UNLEASED)
class PendingChildHoldsNothing(PlainStore):
    """Only resident children make an object an inner one: its parent goes while a child is being written."""

    def is_protected(self, entry: Entry) -> bool:
        below = [each for each in self.descendants(entry) if each.state is not State.PENDING]
        return any(self.is_protected_itself(each) for each in [entry, *below])

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return any(child not in gone and child.state is not State.PENDING for child in self.children(entry))


@fault("PFX-1", on=UNLEASED)
class EvictsTopDown(PlainStore):
    """The right objects go in one pass, parents before their children."""

    def evict(self, victims: list[Entry]) -> tuple[str, ...]:
        return super().evict(sorted(victims, key=lambda entry: len(self.ancestors(entry))))


@fault("PFX-1", "B023", "B029", on=LINEAR)
class LastChildDecides(PlainStore):
    """A block points at the child stored last, and counts as a leaf when that one is gone, whoever else is below."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.latest: dict[str, Entry] = {}

    def show(self, entry: Entry) -> None:
        for above in self.ancestors(entry)[:1]:
            self.latest[above.key] = entry
        super().show(entry)

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        child = self.latest.get(entry.key)
        return child in self.present() and child not in gone


@fault("PFX-1", "B031", on=UNLEASED)
class DuplicatePutReparents(PlainStore):
    """A put of a resident key with another parent moves the object there, and the old parent no longer counts its child."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        if isinstance(offer.parent, str):
            entry.parent = offer.parent
        super().on_duplicate(entry, offer)


# ---- PFX-6


@fault("PFX-6", "B201")
class NeverEvicts(PlainStore):
    """The backend declares that it evicts, and a full store refuses every put."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        return None if self.need(offer) > 0 else []


@fault("PFX-6")
class RefusesEverything(PlainStore):
    """A dead store: every put is answered NO_SPACE."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        return None


@fault("PFX-6", on=UNLEASED)
class GivesUpAfterOneVictim(PlainStore):
    """One object is evicted at most; a larger value is refused though more could go."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        victims = super().choose_victims(offer)
        return None if victims is None or len(victims) > 1 else victims


@fault("PFX-6", "B111", "B109", on=UNLEASED)
class SoftPinsAreHard(PlainStore):
    """Soft-pinned objects are never evicted, and in the end nothing can be stored."""

    def may_evict(self, entry: Entry, offer: Offer, gone: list[Entry]) -> bool:
        return super().may_evict(entry, offer, gone) and not self.is_soft_pinned(entry)


@fault("PFX-6", on=UNLEASED)
class EvictsItsOwnAncestors(PlainStore):
    """A put may evict the chain on which it is to hang."""

    def is_own_ancestor(self, entry: Entry, offer: Offer) -> bool:
        return False


@fault("PFX-6", "B023", on=UNLEASED)
class NeverLeafAgain(PlainStore):
    """An object that once had a child is an inner one for ever: the store fills with blocks that nothing can evict."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.parents: set[str] = set()

    def show(self, entry: Entry) -> None:
        self.parents |= {above.key for above in self.ancestors(entry)}
        super().show(entry)

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return entry.key in self.parents


# ---- PFX-7


@fault("PFX-7", on=UNLEASED)
class EvictsOneMore(PlainStore):
    """A pass takes one object more than it needs."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        victims = super().choose_victims(offer)
        spare = [e for e in self.present() if victims and self.may_evict(e, offer, victims)]
        return victims + sorted(spare, key=self.rank)[:1] if victims else victims


@fault("PFX-7", on=UNLEASED)
class EvictsEverythingEvictable(PlainStore):
    """A pass that has begun does not stop before nothing evictable is left."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        victims = super().choose_victims(offer)
        while victims and (spare := [e for e in self.present() if self.may_evict(e, offer, victims)]):
            victims.append(min(spare, key=self.rank))
        return victims


@fault("PFX-7", on=UNLEASED)
class KeepsReserve(PlainStore):
    """An eighth of the capacity is kept free at every put, and nothing is declared of it."""

    def need(self, offer: Offer) -> int:
        return super().need(offer) + self.geometry.capacity_bytes // 8


# ---- PFX-9


@fault("PFX-9", "B001", on=UNLEASED)
class TouchesTheFetchedBlockOnly(PlainStore):
    """A touch stamps the object and not its ancestors: a head that a device cache hides ages and goes first."""

    def stamped(self, entry: Entry) -> list[Entry]:
        return [entry]


@fault("PFX-9", on=UNLEASED)
class RecencyLeavesWithTheChild(PlainStore):
    """An ancestor is as young as its youngest child while that is there; when the child goes its touches are forgotten."""

    def stamped(self, entry: Entry) -> list[Entry]:
        return [entry]

    def age(self, entry: Entry) -> int:
        return max(each.touched for each in [entry, *self.descendants(entry)])


@fault("PFX-9", on=UNLEASED)
class ReadsTouchNothing(PlainStore):
    """The order of storing decides, and the backend declares the order of touches."""

    def age(self, entry: Entry) -> int:
        return entry.stored


@fault("PFX-9", "B122", on=UNLEASED)
class CountsUses(PlainStore):
    """The object that was read least often goes, however long ago the others were read."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        super().__init__(capabilities, geometry)
        self.uses: dict[str, int] = {}

    def touch(self, entry: Entry) -> None:
        super().touch(entry)
        for each in self.stamped(entry):
            self.uses[each.key] = self.uses.get(each.key, 0) + 1

    def age(self, entry: Entry) -> int:
        return self.uses[entry.key] * 1_000_000 + entry.touched


@fault("PFX-9", "B003", on=attrs.evolve(UNLEASED, touch_calls=UNLEASED.touch_calls | {"duplicate_put"}))
class DuplicatePutRefreshesNothing(PlainStore):
    """A put of a resident key touches it by declaration, and does not."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        pass


@fault("PFX-9", on=UNLEASED)
class DuplicatePutRefreshes(PlainStore):
    """A put of a resident key moves its recency, and the backend declares that it does not."""

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:
        self.touch(entry)


@fault("PFX-9", on=UNLEASED)
class PutOfChildStampsNothing(PlainStore):
    """Reads stamp all ancestors, the put of a child does not."""

    def show(self, entry: Entry) -> None:
        stamps = {above.key: above.touched for above in self.ancestors(entry)}
        super().show(entry)
        for above in self.ancestors(entry):
            above.touched = stamps.get(above.key, above.touched)


# ---- PFX-10: stores that keep order by touching tails before heads, and so hang on how calls are cut


class TailsAreOlder(Structureless):
    """No lineage at eviction. Each put and touch of a chain stamps its tail first, so that heads are younger and go later."""

    def touch(self, entry: Entry) -> None:
        for each in self.stamped(entry):
            each.touched = self.tick()


@fault("PFX-10", "B005", on=UNRANKED)
class TailFirstWithinOneCall(TailsAreOlder):
    """Blocks of one batch put are ordered tail first; a later batch of the same prompt is younger, and the head goes before it."""

    def stamped(self, entry: Entry) -> list[Entry]:
        return [entry]

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        results = [self.put_one(item) for item in items]
        for item, result in reversed(list(zip(items, results, strict=True))):
            entry = self.find(item.key)
            if entry is not None and result.answer is Answer.STORED:
                entry.touched = self.tick()
        return results


@fault("PFX-10", on=UNRANKED)
class MatchTouchesInHashOrder(TailsAreOlder):
    """Single calls touch tails first; match visits its keys in the order of their hashes and touches each alone."""

    def on_lookup(self, entries: Sequence[Entry | None], matched: int, *, touched: Sequence[Entry | None], call: str) -> None:
        if call != "match":
            super().on_lookup(entries, matched, touched=touched, call=call)
            return
        for entry in sorted((e for e in touched if e is not None), key=lambda e: zlib.adler32(e.key.encode())):
            entry.touched = self.tick()


@fault("PFX-10", "B005", "B001", on=UNRANKED)
class SuffixCallsSkipTheHead(TailsAreOlder):
    """Whoever stores or reads a suffix touches that suffix only: its head, stored by an earlier call, grows older than it."""

    def stamped(self, entry: Entry) -> list[Entry]:
        return [entry, *self.ancestors(entry)][:2]


@fault("PFX-10", on=UNRANKED)
class EqualTimestampsBreakTies(TailsAreOlder):
    """Recency is milliseconds and ties go to the older entry: within one millisecond the root goes first."""

    def tick(self) -> int:
        return self.now()

    def rank(self, entry: Entry) -> tuple[int, int]:
        order = list(self.shelf.entries).index(self.slot(entry.key))
        return 0, entry.touched * 1_000_000 + order
