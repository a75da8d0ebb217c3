"""The decisions of the plain store, one method each: what is protected, who may go, who goes first, what refuses a put.

Slow and obvious on purpose: everything is looked up by scanning. Independent of the reference store and of the abstract model.
"""

from __future__ import annotations

from kvprefix.api import (
    UNKNOWN,
    Admission,
    Answer,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EmptyValue,
    Event,
    EventKind,
    EvictionOrder,
    Geometry,
    Parent,
    Pin,
    PutOptions,
    Transport,
    VictimPolicy,
)
from kvprefix_conformance.faulty.entry import Entry, Offer, Shelf, State


class PlainRules:
    """The decisions of one store. ``steady_ms`` is driven by :meth:`advance`; ``wall_ms`` may jump and is looked at by nobody."""

    def __init__(self, capabilities: Capabilities, geometry: Geometry) -> None:
        self.capabilities = capabilities
        self.geometry = geometry
        self.shelf = Shelf()
        self.steady_ms = 0
        self.wall_ms = 0

    # ---- time ---------------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The time by which deadlines are set and judged (PRT-5)."""
        return self.steady_ms

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.steady_ms += ms
        self.wall_ms += ms
        self.settle()

    def settle(self) -> None:
        """Let happen what fell due. Every call that changes something does this first."""
        for entry in self.present():
            if self.is_overdue(entry):
                self.leave(entry)

    def is_overdue(self, entry: Entry) -> bool:
        """An attempt times out (STO-5), a deferred object is dropped (PFX-3)."""
        caps = self.capabilities
        life = {State.PENDING: caps.pending_timeout_ms, State.DEFERRED: caps.defer_deadline_ms}.get(entry.state)
        return life is not None and self.now() >= entry.begun_ms + life

    # ---- looking up ---------------------------------------------------------------------------------------------------------

    def present(self) -> list[Entry]:
        """All objects: resident, pending and deferred."""
        return list(self.shelf.entries.values())

    def slot(self, key: str) -> str:
        """Where the object of this key lies (STO-10: each key has its own place)."""
        return key

    def find(self, key: str) -> Entry | None:
        """The object of this key, if it is present."""
        return self.shelf.entries.get(self.slot(key))

    def is_visible(self, entry: Entry) -> bool:
        """Whether reads see it (STO-5, PFX-3)."""
        return entry.state is State.RESIDENT

    def hit(self, key: str) -> Entry | None:
        """The object of this key, if it can be read (STO-4)."""
        entry = self.find(key)
        return entry if entry is not None and self.is_visible(entry) else None

    # ---- lineage ------------------------------------------------------------------------------------------------------------

    def lineage(self, key: str, parent: Parent, options: PutOptions) -> tuple[str, Parent]:
        """The name by which children call the object, and its declared parent, by the transports that are declared."""
        name, declared = key, UNKNOWN if Transport.ARGUMENT not in self.capabilities.lineage else parent
        if Transport.KEY in self.capabilities.lineage:
            from kvprefix.keys import lineage_of

            told = lineage_of(key)
            if told is not None:
                name = told.identity
                if declared is UNKNOWN and options.cache_group is CacheGroup.FULL:
                    declared = told.parent
        if declared is UNKNOWN:
            declared = self.shelf.registered.get(name, UNKNOWN)
        return name, declared

    def can_be_parent(self, above: Entry, options: PutOptions) -> bool:
        """Only a FULL object of the same namespace is a parent (PFX-3, PFX-12)."""
        full = above.options.cache_group is CacheGroup.FULL and options.cache_group is CacheGroup.FULL
        return full and above.options.namespace == options.namespace

    def parent_of(self, child: Entry | Offer) -> Entry | None:
        """The present object that is the declared parent."""
        for entry in self.present():
            if entry.name == child.parent and self.can_be_parent(entry, child.options):
                return entry
        return None

    def ancestors(self, child: Entry | Offer) -> list[Entry]:
        """The present ancestors, nearest first."""
        found: list[Entry] = []
        above = self.parent_of(child)
        while above is not None and above not in found and above is not child:
            found.append(above)
            above = self.parent_of(above)
        return found

    def children(self, entry: Entry) -> list[Entry]:
        """The present objects whose parent this one is."""
        return [other for other in self.present() if self.parent_of(other) is entry]

    def descendants(self, entry: Entry) -> list[Entry]:
        """The present descendants, nearest first."""
        found = self.children(entry)
        for each in found:
            found.extend(child for child in self.children(each) if child not in found)
        return found

    def closes_cycle(self, name: str, parent: Parent) -> bool:
        """Whether the object would be its own ancestor by what is declared, fit to be parents or not (PFX-3)."""
        seen = {name}
        while isinstance(parent, str):
            if parent in seen:
                return True
            seen.add(parent)
            above = next((entry for entry in self.present() if entry.name == parent), None)
            parent = above.parent if above is not None else self.shelf.registered.get(parent, UNKNOWN)
        return False

    # ---- protection ---------------------------------------------------------------------------------------------------------

    def lease_deadline(self, entry: Entry, ttl_ms: int) -> int:
        """The deadline after a grant (PRT-2)."""
        return max(entry.lease_until_ms, self.now() + ttl_ms)

    def grant(self, entry: Entry, ttl_ms: int) -> None:
        """Lease the object."""
        entry.lease_until_ms = self.lease_deadline(entry, ttl_ms)

    def is_leased(self, entry: Entry) -> bool:
        """At now == deadline a lease is over (PRT-2)."""
        return self.now() < entry.lease_until_ms

    def is_hard_pinned(self, entry: Entry) -> bool:
        """PRT-4; a deferred object holds no pin yet (PFX-3)."""
        return entry.options.pin is Pin.HARD and entry.state is State.RESIDENT

    def is_protected_itself(self, entry: Entry) -> bool:
        """A reason of its own (PRT-1)."""
        return entry.state is State.PENDING or self.is_leased(entry) or self.is_hard_pinned(entry) or bool(entry.pins)

    def is_protected(self, entry: Entry) -> bool:
        """A reason of its own or of a descendant (PFX-5). Derived on every question, never stored."""
        return any(self.is_protected_itself(each) for each in [entry, *self.descendants(entry)])

    def is_soft_pinned_itself(self, entry: Entry) -> bool:
        """Holds a soft pin that has not ended (PRT-4)."""
        if entry.options.pin is not Pin.SOFT or entry.state is not State.RESIDENT:
            return False
        return entry.soft_until_ms is None or self.now() < entry.soft_until_ms

    def is_soft_pinned(self, entry: Entry) -> bool:
        """Counts as soft-pinned: itself or a descendant (PRT-4)."""
        return any(self.is_soft_pinned_itself(each) for each in [entry, *self.descendants(entry)])

    # ---- recency ------------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """The next instant in the order of what happened; finer than milliseconds."""
        self.shelf.ticks += 1
        return self.shelf.ticks

    def stamped(self, entry: Entry) -> list[Entry]:
        """What a touch of this object stamps (PFX-9)."""
        return [entry, *(self.ancestors(entry) if self.capabilities.lineage_recency else [])]

    def touch(self, entry: Entry) -> None:
        """Stamp the object, and its ancestors where declared."""
        instant = self.tick()
        for each in self.stamped(entry):
            each.touched = instant

    def on_read(self, entry: Entry, call: str) -> None:
        """What a read does beside answering (PRT-3, PFX-9)."""
        if call in self.capabilities.touch_calls:
            self.touch(entry)
        if call in self.capabilities.lease_calls:
            self.grant(entry, self.capabilities.lease_ttl_ms)

    # ---- room ---------------------------------------------------------------------------------------------------------------

    def charge(self, size: int) -> int:
        """Bytes that an object costs (STO-6)."""
        return self.geometry.charge(size)

    def used(self) -> int:
        """Bytes in use: all present objects, and what force took from under a transfer (STO-6, STO-9)."""
        return sum(self.charge(entry.size) for entry in self.present()) + sum(b for b, _ in self.shelf.lingering)

    def need(self, offer: Offer) -> int:
        """Bytes that must be freed before the offer fits; zero or less: none."""
        return self.used() + self.charge(offer.size) - self.geometry.capacity_bytes

    def ordered(self) -> bool:
        """Whether descendants go before their ancestors (PFX-1)."""
        return self.capabilities.eviction_order is EvictionOrder.DESCENDANTS_FIRST

    def is_held_by(self, entry: Entry, gone: list[Entry]) -> bool:
        """Whether a descendant that is still there keeps it (PFX-1)."""
        return self.ordered() and any(child not in gone for child in self.children(entry))

    def is_own_ancestor(self, entry: Entry, offer: Offer) -> bool:
        """Whether the offer needs it (PFX-6)."""
        return self.ordered() and entry in self.ancestors(offer)

    def may_evict(self, entry: Entry, offer: Offer, gone: list[Entry]) -> bool:
        """Whether it may go next for this offer, once these are gone (PRT-1, PFX-1, PFX-5, PFX-6)."""
        if entry in gone or self.is_own_ancestor(entry, offer):
            return False
        return not self.is_protected(entry) and not self.is_held_by(entry, gone)

    def age(self, entry: Entry) -> int:
        """The lowest goes first (PFX-9)."""
        return entry.stored if self.capabilities.policy is VictimPolicy.FIFO else entry.touched

    def rank(self, entry: Entry) -> tuple[int, int]:
        """Deferred objects first (PFX-3), soft-pinned ones last (PRT-4), then by age."""
        return (0 if entry.state is State.DEFERRED else 2 if self.is_soft_pinned(entry) else 1), self.age(entry)

    def choose_victims(self, offer: Offer) -> list[Entry] | None:
        """What goes for this offer, in order; None: it cannot be helped (PFX-6, PFX-7)."""
        need, victims = self.need(offer), list[Entry]()
        while sum(self.charge(victim.size) for victim in victims) < need:
            candidates = [entry for entry in self.present() if self.may_evict(entry, offer, victims)]
            if not candidates or not self.capabilities.evicts:
                return None
            victims.append(min(candidates, key=self.rank))
        return victims

    def evict(self, victims: list[Entry]) -> tuple[str, ...]:
        """Let the victims go; what is reported."""
        for victim in victims:
            self.shelf.evicted += 1
            self.leave(victim)
        return tuple(victim.key for victim in victims)

    def leave(self, entry: Entry) -> None:
        """The object goes, whatever the reason."""
        del self.shelf.entries[self.slot(entry.key)]
        if entry.pins:
            self.shelf.lingering.append((self.charge(entry.size), entry.pins))
        if entry.state is State.RESIDENT:
            self.emit(EventKind.REMOVED, entry)

    # ---- events -------------------------------------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        """The number of the next event (EVT-1)."""
        return len(self.shelf.log) + 1

    def event_parent(self, entry: Entry) -> Parent:
        """The parent that a stored event carries (EVT-2)."""
        return entry.parent if self.capabilities.event_parents else UNKNOWN

    def emit(self, kind: EventKind, entry: Entry | None) -> None:
        """Write an event (EVT-1)."""
        parent = self.event_parent(entry) if entry is not None and kind is EventKind.STORED else UNKNOWN
        self.shelf.log.append(Event(self.next_sequence(), kind, "" if entry is None else entry.key, parent))

    # ---- what refuses a put, in the order of decision -------------------------------------------------------------------------

    def unsupported(self, offer: Offer) -> Answer | None:
        """An option that is not declared."""
        caps, options = self.capabilities, offer.options
        declared = (
            options.cache_group in caps.cache_groups
            and (options.pin is Pin.NONE or options.pin in caps.pins)
            and (not options.namespace or caps.namespaces)
            and not options.family
            and options.family_size is None
            and not options.object_group
        )
        return None if declared else Answer.UNSUPPORTED

    def refuses_key(self, key: str) -> bool:
        """Empty, or too long (STO-10)."""
        limit = self.geometry.max_key_bytes
        return not key or (limit is not None and len(key.encode("utf-8", "surrogatepass")) > limit)

    def refuses_size(self, size: int) -> bool:
        """Empty where that is declared (STO-3), or too small."""
        empty = size == 0 and self.capabilities.empty_value is EmptyValue.INVALID
        return empty or size < self.geometry.min_value_bytes or size < 0

    def invalid(self, offer: Offer) -> Answer | None:
        """What can never be accepted (STO-3, STO-10, PFX-3, PFX-12)."""
        options = offer.options
        bound = options.cache_group is not CacheGroup.FULL and offer.parent is not UNKNOWN
        times = options.lease_ms < 0 or (
            options.soft_pin_ms is not None and (options.pin is not Pin.SOFT or options.soft_pin_ms < 0)
        )
        wrong = self.refuses_key(offer.key) or self.refuses_size(offer.size) or bound or times
        return Answer.INVALID if wrong or self.closes_cycle(offer.name, offer.parent) else None

    def duplicate(self, offer: Offer) -> Answer | None:
        """The key is there already, in whatever state (STO-2, STO-5, PFX-3)."""
        entry = self.find(offer.key)
        if entry is None:
            return None
        if entry.state is not State.RESIDENT:
            return Answer.IN_PROGRESS if entry.state is State.PENDING else Answer.DEFERRED
        self.on_duplicate(entry, offer)
        silent = self.capabilities.duplicate_put is DuplicatePut.SILENT and not offer.two_phase
        return Answer.STORED if silent else Answer.EXISTS

    def on_duplicate(self, entry: Entry, offer: Offer) -> None:  # noqa: ARG002 - faults look at the offer
        """What a put of a resident key changes: recency, where declared (STO-2)."""
        if "duplicate_put" in self.capabilities.touch_calls:
            self.touch(entry)

    def too_large(self, offer: Offer) -> Answer | None:
        """Can never fit (STO-7)."""
        limit = self.geometry.max_value_bytes
        over = self.charge(offer.size) > self.geometry.capacity_bytes or (limit is not None and offer.size > limit)
        return Answer.TOO_LARGE if over else None

    def lacks_parent(self, child: Entry | Offer) -> bool:
        """Whether the declared parent is not resident (PFX-3)."""
        above = self.parent_of(child)
        return isinstance(child.parent, str) and (above is None or above.state is not State.RESIDENT)

    def orphaned(self, offer: Offer) -> Answer | None:
        """Admission ``reject`` (PFX-3)."""
        reject = self.capabilities.admission is Admission.REJECT
        return Answer.PARENT_MISSING if reject and self.lacks_parent(offer) else None

    def refusal(self, offer: Offer) -> Answer | None:
        """The first decision that applies; None: only room is left to be found."""
        for decide in (self.unsupported, self.invalid, self.duplicate, self.too_large, self.orphaned):
            answer = decide(offer)
            if answer is not None:
                return answer
        return None
