"""Faults of leases and pins: what they keep, how long, who grants them and who gives them back.

They break PRT-1 to PRT-5 and PFX-5.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kvprefix.api import Answer, ExistsLeases, Pin
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import AWARE, CASCADE, FLAT, UNLEASED
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

# ---- PRT-1


class Careless(PlainStore):
    """Eviction asks :meth:`is_spared`, not the protection that remove asks."""

    def is_spared(self, entry: Entry) -> bool:
        """Whether eviction spares the object itself."""
        return self.is_protected_itself(entry)

    def may_evict(self, entry: Entry, offer: Offer, gone: list[Entry]) -> bool:
        if entry in gone or self.is_own_ancestor(entry, offer) or self.is_held_by(entry, gone):
            return False
        return not any(self.is_spared(each) for each in [entry, *self.descendants(entry)])


@fault("PRT-1", "B085", "B087", "B091")
class EvictsLeased(Careless):
    """A lease keeps an object from remove, not from eviction."""

    def is_spared(self, entry: Entry) -> bool:
        return entry.state is State.PENDING or self.is_hard_pinned(entry) or bool(entry.pins)


@fault("PRT-1", "B124")
class EvictsInUse(Careless):
    """An object that a transfer holds by a pin is evicted under it."""

    def is_spared(self, entry: Entry) -> bool:
        return entry.state is State.PENDING or self.is_hard_pinned(entry) or self.is_leased(entry)


@fault("PRT-1", "B144", "B147")
class EvictsPending(Careless):
    """Room that is reserved for an open attempt is taken by another put."""

    def is_spared(self, entry: Entry) -> bool:
        return entry.state is not State.PENDING and self.is_protected_itself(entry)


@fault("PRT-1")
class RemovesInUse(PlainStore):
    """remove looks at leases and forgets the pins that transfers hold."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        held, entry.pins = entry.pins, set[str]()
        answer = super().removal_refusal(entry, force=force)
        entry.pins = held
        return answer


@fault("PRT-1", "B101")
class UnpinDropsAllPins(PlainStore):
    """A pin is a flag: one reader's unpin releases every other reader's pin too."""

    def unpin(self, token: str) -> Answer:
        for entry in self.present():
            if token in entry.pins:
                entry.pins = {token}
        return super().unpin(token)


@fault("PRT-1")
class LeaseEndsOneEarly(PlainStore):
    """A lease is over one millisecond before its deadline."""

    def is_leased(self, entry: Entry) -> bool:
        return self.now() < entry.lease_until_ms - 1


# ---- PRT-2


@fault("PRT-2")
class ShortGrantShortens(PlainStore):
    """A grant sets the deadline, so a short one cuts a longer lease."""

    def lease_deadline(self, entry: Entry, ttl_ms: int) -> int:
        return self.now() + ttl_ms


@fault("PRT-2")
class LeaseHoldsAtDeadline(PlainStore):
    """At its deadline a lease still protects."""

    def is_leased(self, entry: Entry) -> bool:
        return self.now() <= entry.lease_until_ms and entry.lease_until_ms > 0


@fault("PRT-2", on=CASCADE)
class LeaseIsCopiedToAncestors(PlainStore):
    """The protection of an ancestor is stored in it, and outlives the leased child."""

    def grant(self, entry: Entry, ttl_ms: int) -> None:
        super().grant(entry, ttl_ms)
        for above in self.ancestors(entry):
            super().grant(above, ttl_ms)


# ---- PRT-3


@fault("PRT-3", "B203", on=attrs.evolve(AWARE, exists_leases=ExistsLeases.NONE))
class ExistsLeasesAnyway(PlainStore):
    """exists and match lease what they hit, and the backend declares that they lease nothing."""

    def leased_by_lookup(self, entries: Sequence[Entry | None], matched: int) -> list[Entry]:
        return [entry for entry in entries if entry is not None]


@fault("PRT-3", "B203")
class ProbeLeases(PlainStore):
    """probe is exists under another name: it leases."""

    def probe(self, key: str) -> bool:
        return self.exists_in_chain([key], "exists")[0]


@fault("PRT-3", on=UNLEASED)
class ProbeTouches(PlainStore):
    """probe moves the recency of what it looks at."""

    def probe(self, key: str) -> bool:
        entry = self.hit(key)
        if entry is not None:
            self.touch(entry)
        return entry is not None


@fault("PRT-3", "B085", "B087")
class MatchLeasesNothing(PlainStore):
    """match leases the matched blocks by declaration, and does not."""

    def match(self, chain: Sequence[str], start: int = 0) -> int:
        return self.match_length(chain, start)


@fault("PRT-3", "B203")
class LeasesBehindTheHole(PlainStore):
    """Lookups lease every resident key they were asked for; declared are those before the first miss."""

    def leased_by_lookup(self, entries: Sequence[Entry | None], matched: int) -> list[Entry]:
        return [entry for entry in entries if entry is not None]


@fault("PRT-3", on=attrs.evolve(AWARE, exists_leases=ExistsLeases.LAST_HIT))
class LastHitLeasesTheFirst(PlainStore):
    """The last hit is leased by declaration, and the first one gets the lease."""

    def leased_by_lookup(self, entries: Sequence[Entry | None], matched: int) -> list[Entry]:
        return [entry for entry in entries[: min(matched, 1)] if entry is not None]


@fault("PRT-3", on=UNLEASED)
class GetLeasesUndeclared(PlainStore):
    """get leases for half a second, and the backend declares no leases by reads."""

    def read(self, entry: Entry) -> bytes | None:
        self.grant(entry, 500)
        return entry.value


# ---- PRT-4


@fault("PRT-4")
class EvictsHardPinned(Careless):
    """A hard pin keeps an object from remove, not from eviction."""

    def is_spared(self, entry: Entry) -> bool:
        return entry.state is State.PENDING or self.is_leased(entry) or bool(entry.pins)


@fault("PRT-4", on=UNLEASED)
class SoftPinsCountForNothing(PlainStore):
    """Soft-pinned objects go in the order of all others."""

    def rank(self, entry: Entry) -> tuple[int, int]:
        return 0 if entry.state is State.DEFERRED else 1, self.age(entry)


@fault("PRT-4", on=UNLEASED)
class SoftPinOfChildIgnored(PlainStore):
    """A soft pin counts for its object only: to evict an old root its soft-pinned child is thrown out before it."""

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        if super().choose_victims(offer) is None:
            return None
        need, victims = self.need(offer), list[Entry]()
        own = self.ancestors(offer)
        while sum(self.charge(victim.size) for victim in victims) < need:
            left = [e for e in self.present() if e not in victims and e not in own and not self.is_protected(e)]
            oldest = min(left, key=lambda e: (self.is_soft_pinned_itself(e), e.stored))
            below = [e for e in self.descendants(oldest) if e not in victims]
            victims.append(below[-1] if below else oldest)
        return victims


@fault("PRT-4", "B098", on=UNLEASED)
class ReadRevivesSoftPin(PlainStore):
    """A read moves the deadline of a soft pin, even of one that has ended."""

    def read(self, entry: Entry) -> bytes | None:
        if entry.options.soft_pin_ms is not None:
            entry.soft_until_ms = self.now() + entry.options.soft_pin_ms
        return entry.value


@fault("PRT-4", on=UNLEASED)
class SoftPinNeverEnds(PlainStore):
    """The deadline of a soft pin is stored and never looked at."""

    def is_soft_pinned_itself(self, entry: Entry) -> bool:
        entry.soft_until_ms = None
        return super().is_soft_pinned_itself(entry)


@fault("PRT-4", on=attrs.evolve(FLAT, pins=frozenset({Pin.HARD})))
class UndeclaredPinAccepted(PlainStore):
    """The backend declares hard pins only, and takes an object that asks for a soft one."""

    def unsupported(self, offer: Offer) -> Answer | None:
        return super().unsupported(attrs.evolve(offer, options=attrs.evolve(offer.options, pin=Pin.NONE)))


# ---- PRT-5


@fault("PRT-5", "B100")
class LeasesByWallClock(PlainStore):
    """Lease deadlines are wall time: a clock that is set forward ends them, one that is set back keeps them."""

    def lease_deadline(self, entry: Entry, ttl_ms: int) -> int:
        return max(entry.lease_until_ms, self.wall_ms + ttl_ms)

    def is_leased(self, entry: Entry) -> bool:
        return self.wall_ms < entry.lease_until_ms


# ---- PFX-5


@fault("PFX-5", on=UNLEASED)
class ProtectedChildIsOutOfTheWay(Careless):
    """Protected leaves are taken off the tree of candidates, and then their parent looks like a leaf."""

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return any(child not in gone and not self.is_spared(child) for child in self.children(entry))

    def may_evict(self, entry: Entry, offer: Offer, gone: list[Entry]) -> bool:
        if entry in gone or self.is_own_ancestor(entry, offer) or self.is_held_by(entry, gone):
            return False
        return not self.is_spared(entry)


@fault("PFX-5", on=attrs.evolve(AWARE, exists_leases=ExistsLeases.LAST_HIT, touch_calls=frozenset()))
class OnlyTheLeasedBlockIsKept(PlainStore):
    """A lookup leases the last block by declaration, and nothing keeps the blocks before it."""

    def is_protected(self, entry: Entry) -> bool:
        return self.is_protected_itself(entry)

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        return any(child not in gone and not self.is_leased(child) for child in self.children(entry))
