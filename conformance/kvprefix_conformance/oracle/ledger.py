"""The ledger: what a black box can know about a store, from what was declared and what was answered. Values only.

Knowledge is three-valued: each object has the set of phases it *may* be in, and an answer that leaves no phase is a contradiction.
Times are spans, because not every clock is ours. Carries no requirement itself; every rule reads it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

import attrs

from kvprefix.api import CacheGroup, Capabilities, Event, EventKind, EvictionOrder, Geometry, Parent, PutOptions


class Phase(enum.Enum):
    """Where an object stands. Exactly one is true; the ledger may not know which."""

    ABSENT = "absent"
    PENDING = "pending"
    DEFERRED = "deferred"
    RESIDENT = "resident"

    __hash__ = object.__hash__  # sets of phases are compared at every step


Phases = frozenset[Phase]
ABSENT: Phases = frozenset({Phase.ABSENT})
PENDING: Phases = frozenset({Phase.PENDING})
DEFERRED: Phases = frozenset({Phase.DEFERRED})
RESIDENT: Phases = frozenset({Phase.RESIDENT})


@attrs.frozen(order=False)
class Span:
    """An instant known to lie between two, in milliseconds."""

    lo: int
    hi: int

    def plus(self, ms: int) -> Span:
        """The instant this much later."""
        return Span(self.lo + ms, self.hi + ms)

    def reached(self, now: Span) -> bool:
        """Surely now or past: ``now`` is at or behind it."""
        return now.lo >= self.hi

    def ahead(self, now: Span) -> bool:
        """Surely still to come."""
        return now.hi < self.lo

    def latest(self, other: Span | None) -> Span:
        """The later of two instants."""
        return self if other is None else Span(max(self.lo, other.lo), max(self.hi, other.hi))

    def since(self, other: Span | None) -> Span:
        """Either this instant or the other, not known which."""
        return self if other is None else Span(min(self.lo, other.lo), max(self.hi, other.hi))


@attrs.frozen
class Copy:
    """What an object is: the value by (fill, size), its declared parent and its options."""

    fill: int
    size: int
    parent: Parent
    options: PutOptions = PutOptions()


@attrs.frozen
class Grant:
    """A lease: until when, and by which call it was last granted."""

    until: Span
    #: Deadline of the latest grant alone; earlier than ``until`` if a shorter grant followed a longer one.
    last: Span
    #: The call that granted it ("lease", "put", "get", ...), and at which step.
    call: str
    step: int


@attrs.frozen
class Departure:
    """How an object left, and when that was seen."""

    #: "evicted" (reported or seen), "removed", "cleared", "timed out", "aborted", "dropped".
    how: str
    step: int
    at: Span
    evidence: str


@attrs.frozen
class Shield:
    """Why an object is protected, if it is present (spec section 2; PRT-1, PFX-5)."""

    #: Reasons of its own, without doubt.
    own: tuple[str, ...]
    #: Reasons that a descendant gives it, without doubt.
    derived: tuple[str, ...]
    #: Whether a reason of its own, or of a descendant, may hold.
    maybe_own: bool
    maybe_derived: bool

    @property
    def sure(self) -> bool:
        """Protected, without doubt."""
        return bool(self.own or self.derived)

    @property
    def possible(self) -> bool:
        """Not surely unprotected."""
        return self.maybe_own or self.maybe_derived

    @property
    def reasons(self) -> tuple[str, ...]:
        """All sure reasons, its own first."""
        return self.own + self.derived


@attrs.frozen
class Known:
    """All that is known of one key. The defaults are a key of which nothing was ever heard."""

    key: str
    may: Phases = ABSENT
    #: What it is, while it is present; more than one where it is not known which put was kept.
    copies: tuple[Copy, ...] = ()
    #: The step with which this life of the object began (the begin of a two-phase put; for a deferred object its promotion).
    since: int = -1
    #: The last step after which it was surely resident, if it no longer is.
    seen: int = -1
    #: The same two on the finer scale of :attr:`Ledger.tick`.
    born: int = -1
    last: int = -1
    gone: Departure | None = None
    grant: Grant | None = None
    #: Labels of the pins that hold it in use.
    pins: frozenset[str] = frozenset()
    #: End of its soft pin; None: it never ends.
    soft_until: Span | None = None
    #: Recency: the instant of the last touch (LRU), and of its storing (FIFO).
    touched: Span = Span(0, 0)
    stored: Span = Span(0, 0)
    #: Label and begin of the open attempt, while PENDING; instant of the deferral, while DEFERRED.
    attempt: str | None = None
    begun: Span = Span(0, 0)
    #: Every value ever offered under this key, to name the one that came back.
    offered: frozenset[tuple[int, int]] = frozenset()
    #: Why it must have outlived the last eviction pass that might have taken it, and the grant of that time; None: no such pass
    #: since it was last seen.
    kept: Shield | None = None
    kept_at: int = -1
    #: The step of the last pass that reported its victims and did not name it; -1: none since it was last seen.
    passed: int = -1
    #: It became resident by promotion and was not seen since (PFX-3).
    promoted: bool = False
    #: Read calls that met it since it was stored, for telling an undeclared lease from an undeclared protection.
    read_by: frozenset[str] = frozenset()
    #: The step at which a put of it was refused, if it was not stored since.
    refused: int = -1

    @property
    def surely_resident(self) -> bool:
        """Readable, without doubt."""
        return self.may == RESIDENT

    @property
    def surely_unreadable(self) -> bool:
        """A miss for every read, without doubt."""
        return Phase.RESIDENT not in self.may

    @property
    def surely_present(self) -> bool:
        """Resident, PENDING or DEFERRED, without doubt."""
        return Phase.ABSENT not in self.may

    @property
    def maybe_present(self) -> bool:
        """Not surely absent."""
        return self.may != ABSENT

    @property
    def copy(self) -> Copy | None:
        """What it is, if that is known."""
        return self.copies[0] if len(self.copies) == 1 else None

    def sizes(self) -> tuple[int, int]:
        """Smallest and largest size that it may have."""
        sizes = [copy.size for copy in self.copies] or [0]
        return min(sizes), max(sizes)


@attrs.frozen
class Attempt:
    """One two-phase put, by the label of its token."""

    label: str
    key: str
    size: int
    copy: Copy
    begun: Span
    #: Surely ended: committed, aborted, superseded, timed out or forced away.
    ended: str = ""
    #: May have ended (its deadline is near).
    doubtful: bool = False


@attrs.frozen
class Refusal:
    """A put that an eventual store refused for space though room could be made (PFX-6)."""

    key: str
    size: int
    at: Span
    step: int
    quiesced: bool = False


@attrs.frozen
class Mirror:
    """What a consumer of the events knows: the resident set that they rebuild (EVT-1)."""

    #: Number of the last event; None before the first.
    sequence: int | None = None
    #: Resident key -> parent as the event carried it.
    objects: Mapping[str, Parent] = attrs.field(factory=dict)
    #: All events so far.
    log: tuple[Event, ...] = ()

    def plus(self, event: Event) -> Mirror:
        """After one more event."""
        objects = dict(self.objects)
        if event.kind is EventKind.STORED:
            objects[event.key] = event.parent
        elif event.kind is EventKind.REMOVED:
            objects.pop(event.key, None)
        else:
            objects.clear()
        return Mirror(event.sequence, objects, (*self.log, event))


@attrs.frozen
class Terms:
    """Under what the backend is judged: what it declares, what it obtained, and which calls and hooks it offers."""

    capabilities: Capabilities
    geometry: Geometry
    offered: frozenset[str]

    @property
    def orders_evictions(self) -> bool:
        """Whether descendants protect their ancestors and go first (PFX-1, PFX-5)."""
        return self.capabilities.eviction_order is EvictionOrder.DESCENDANTS_FIRST

    def charge(self, size: int) -> int:
        """Bytes that an object of this size costs."""
        return self.geometry.charge(size)


@attrs.frozen
class Ledger:
    """Everything known at one instant. Never changed; a step makes the next one."""

    #: Number of steps seen, and of calls: the members of a batch are one step and several calls.
    step: int = 0
    tick: int = 0
    now: Span = Span(0, 0)
    objects: Mapping[str, Known] = attrs.field(factory=dict)
    attempts: Mapping[str, Attempt] = attrs.field(factory=dict)
    #: Pin label -> key, while held.
    pins: Mapping[str, str] = attrs.field(factory=dict)
    #: Lineage registered beside the data path.
    registered: Mapping[str, Parent] = attrs.field(factory=dict)
    #: An eviction pass may be under way in the background.
    unsettled: bool = False
    #: Charges that may still be in use though their object is gone: freed under a transfer (STO-9).
    lingering: Mapping[str, int] = attrs.field(factory=dict)
    #: Charges of what left, and when at the latest they are given back (``reclaim_ms``).
    reclaiming: tuple[tuple[Span, int], ...] = ()
    refusal: Refusal | None = None
    #: Steps at which wall time jumped.
    jumps: tuple[int, ...] = ()
    #: The last declared parent of every key ever offered, for telling and drawing; rules use :meth:`parent`.
    lineage: Mapping[str, Parent] = attrs.field(factory=dict)
    mirror: Mirror = Mirror()

    @property
    def exact(self) -> bool:
        """Nothing is in doubt: one phase and one copy per object."""
        return all(len(known.may) == 1 and len(known.copies) <= 1 for known in self) and not self.unsettled

    def __getitem__(self, key: str) -> Known:
        return self.objects.get(key) or Known(key)

    def __iter__(self) -> Iterator[Known]:
        return iter(self.objects.values())

    # -- lineage ----------------------------------------------------------------------------------------------------------------

    def parent(self, key: str) -> Parent | None:
        """The declared parent of a present object; None if it is not known which of several puts was kept."""
        known = self[key]
        if not known.copies:
            return self.registered.get(key)
        first = self._declared(key, known.copies[0])
        return first if all(self._declared(key, copy) == first for copy in known.copies[1:]) else None

    def _declared(self, key: str, copy: Copy) -> Parent:
        return copy.parent if isinstance(copy.parent, str) or key not in self.registered else self.registered[key]

    def chained_to(self, child: Known, parent: Known) -> bool:
        """Whether a present object may serve as parent: a FULL object of the same namespace (PFX-3, PFX-12)."""
        if child.copy is None or parent.copy is None:
            return True
        full = parent.copy.options.cache_group is CacheGroup.FULL and child.copy.options.cache_group is CacheGroup.FULL
        return full and parent.copy.options.namespace == child.copy.options.namespace

    def above(self, key: str) -> Iterator[Known]:
        """The ancestors that are surely present, nearest first; stops at the first hole or doubt."""
        seen = {key}
        child = self[key]
        while True:
            parent = self.parent(child.key)
            if not isinstance(parent, str) or parent in seen:
                return
            above = self[parent]
            if not above.surely_present or not self.chained_to(child, above):
                return
            seen.add(parent)
            yield above
            child = above

    def children(self, key: str, *, surely: bool) -> list[Known]:
        """Present objects whose declared parent is this one: without doubt, or possibly."""
        mine = self[key]
        if surely:
            return [k for k in self if k.surely_present and self.parent(k.key) == key and self.chained_to(k, mine)]
        return [k for k in self if k.maybe_present and self._possible_child(k, key) and self.chained_to(k, mine)]

    def _possible_child(self, known: Known, key: str) -> bool:
        return any(self._declared(known.key, copy) == key for copy in known.copies)

    def below(self, key: str, *, surely: bool) -> list[Known]:
        """All descendants along present objects, nearest first."""
        found: dict[str, Known] = {}
        edge = [key]
        while edge:
            for child in self.children(edge.pop(0), surely=surely):
                if child.key not in found and child.key != key:
                    found[child.key] = child
                    edge.append(child.key)
        return list(found.values())

    def depth(self, key: str) -> int:
        """Number of present ancestors."""
        return sum(1 for _ in self.above(key))
