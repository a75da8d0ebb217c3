"""The store contract: answers, results, capabilities, and the protocols of a client and of a backend. Values only, no behaviour.

Everything speaks this language: the abstract model, the reference store, replay, the adapters and the suite. Meanings are those of
the requirements named beside them (STO, PRT, PFX, EVT). Sizes are bytes; times are milliseconds on the backend's own steady clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs

from kvprefix.errors import ConfigurationError

# --------------------------------------------------------------------------------------------------------------------------------
# Lineage


class Root(enum.Enum):
    """The object is declared to have no parent: it is the first block of its chain."""

    ROOT = "root"


class Unknown(enum.Enum):
    """The store was not told. An UNKNOWN object has no ancestors and is exempt from closure; it is not a root."""

    UNKNOWN = "unknown"


ROOT: Final = Root.ROOT
UNKNOWN: Final = Unknown.UNKNOWN

#: The parent of an object, as declared: the parent's object key, ROOT or UNKNOWN.
Parent: TypeAlias = str | Root | Unknown


class CacheGroup(enum.Enum):
    """The attention kind of the layers whose bytes an object holds (PFX-12). Only FULL objects have a parent for the store."""

    FULL = "full"
    WINDOW = "window"
    STATE = "state"
    BLOB = "blob"


# --------------------------------------------------------------------------------------------------------------------------------
# Answers


class Answer(enum.Enum):
    """What a store says. A put is decided in this order: INVALID, EXISTS, IN_PROGRESS, TOO_LARGE, PARENT_MISSING, NO_SPACE."""

    #: put, put_commit: readable from now on (STO-1).
    STORED = "STORED"
    #: remove, clear, pin, unpin, lease, put_begin, put_abort, register: done.
    OK = "OK"
    #: put: the key is resident; nothing changed (STO-2).
    EXISTS = "EXISTS"
    #: put, put_commit: kept, invisible until the parent is resident (PFX-3, admission ``defer``).
    DEFERRED = "DEFERRED"
    #: put, put_begin: another attempt on the key is open. remove: the key is PENDING (STO-9).
    IN_PROGRESS = "IN_PROGRESS"
    #: The arguments can never be accepted: hostile key, empty value where declared, a cyclic lineage, a wrong family.
    INVALID = "INVALID"
    #: The value is larger than the store can ever hold; nothing was evicted (STO-7).
    TOO_LARGE = "TOO_LARGE"
    #: put: the declared parent is not resident (PFX-3, admission ``reject``). put_commit: it was taken meanwhile.
    PARENT_MISSING = "PARENT_MISSING"
    #: Protected objects leave too little room (PFX-6), or the store never evicts and is full.
    NO_SPACE = "NO_SPACE"
    #: The store does not offer this call or this option.
    UNSUPPORTED = "UNSUPPORTED"
    #: remove, pin, lease: the key is a miss. unpin: the token is unknown or used (PRT-6).
    NOT_FOUND = "NOT_FOUND"
    #: remove, clear: a protected object stands in the way (STO-9, PFX-8).
    PROTECTED = "PROTECTED"
    #: put_commit, put_abort: the attempt was superseded, timed out or was forced away (STO-5).
    STALE = "STALE"


@attrs.frozen
class PutResult:
    """The answer of put, put_begin and put_commit."""

    answer: Answer
    #: Keys evicted on the way, in the order in which they went; None where the backend cannot tell.
    evicted: tuple[str, ...] | None = None
    #: put_begin answered OK: the attempt's token, to be given to put_commit or put_abort.
    token: str | None = None
    #: A refinement of the answer where there is one ("quota").
    reason: str = ""


@attrs.frozen
class RemoveResult:
    """The answer of remove."""

    answer: Answer
    #: Keys that went, deepest first (more than one under ``cascade``); None where the backend cannot tell.
    removed: tuple[str, ...] | None = None


@attrs.frozen
class PinResult:
    """The answer of pin. The token owns the pin: only unpin(token) gives it back (PRT-6)."""

    answer: Answer
    token: str | None = None


class Pin(enum.Enum):
    """A pin fixed at write: HARD is never evicted, SOFT goes only when nothing softer is left (PRT-4)."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"


@attrs.frozen
class PutOptions:
    """What a put may say beside key, value and parent. A store that cannot honour a non-default field answers UNSUPPORTED."""

    cache_group: CacheGroup = CacheGroup.FULL
    #: Name of the logical block whose shards form one family (GRP-1); empty: the object is a family of its own.
    family: str = ""
    #: Number of shards that make the family whole, where completeness is claimed (GRP-3).
    family_size: int | None = None
    #: Mooncake's object group: members share one lease; empty: none (GRP-2).
    object_group: str = ""
    #: A parent in another namespace is as if absent (PFX-3).
    namespace: str = ""
    pin: Pin = Pin.NONE
    #: Life of a soft pin, fixed at write; reads never move it unless ``reads_extend_soft_pin``.
    soft_pin_ms: int | None = None
    #: Lease granted by the put itself; 0: none.
    lease_ms: int = 0


@attrs.frozen
class PutItem:
    """One member of a native batch put."""

    key: str
    value: bytes
    parent: Parent = UNKNOWN
    options: PutOptions = PutOptions()


# --------------------------------------------------------------------------------------------------------------------------------
# Events and statistics


class EventKind(enum.Enum):
    """What happened to an object (EVT-1)."""

    STORED = "stored"
    REMOVED = "removed"
    CLEARED = "cleared"


@attrs.frozen
class Event:
    """One change of the resident set. Sequence numbers rise by one, so that a consumer can detect loss (EVT-1)."""

    sequence: int
    kind: EventKind
    #: Empty for CLEARED.
    key: str = ""
    #: STORED: the declared parent (EVT-2).
    parent: Parent = UNKNOWN


@attrs.frozen
class Snapshot:
    """The resident set right after the event with this sequence number: where a consumer that lost events starts again (EVT-1)."""

    sequence: int
    #: Resident key -> declared parent.
    objects: Mapping[str, Parent]


@attrs.frozen
class Stats:
    """Accounting (STO-6)."""

    #: Bytes in use: resident, pending and deferred, in the units of :class:`Geometry`.
    used_bytes: int
    resident_objects: int
    #: Objects evicted since start or reset; None where the backend does not count.
    evicted_objects: int | None = None


@attrs.frozen
class Geometry:
    """What a backend really obtained at start. Suites size values by it so that 4 to 16 objects fill the store."""

    capacity_bytes: int
    #: Bytes that each object costs beside its value.
    overhead_bytes: int = 0
    #: Allocation granularity: the charge of an object is rounded up to a multiple of it.
    quantum_bytes: int = 1
    min_value_bytes: int = 0
    #: Largest value ever accepted; None: capacity decides.
    max_value_bytes: int | None = None
    #: Longest key accepted, in UTF-8 bytes; None: no limit known.
    max_key_bytes: int | None = None

    def charge(self, value_bytes: int) -> int:
        """Bytes that an object with a value of this size takes from the capacity (STO-6)."""
        return -(-(value_bytes + self.overhead_bytes) // self.quantum_bytes) * self.quantum_bytes


# --------------------------------------------------------------------------------------------------------------------------------
# Capabilities: each field is one decision that a backend declares; the suite holds it to what it declares


class Transport(enum.Enum):
    """How lineage reaches the store (spec section 4)."""

    #: put names the parent.
    ARGUMENT = "argument"
    #: The object key carries the parent's hash (KEY-8).
    KEY = "key"
    #: Registered beside the data path; PFX-1 holds from registration on, PFX-2 is not claimed.
    EVENT = "event"


class EvictionOrder(enum.Enum):
    """D1: does an ancestor ever leave before its descendants?"""

    ANY = "any"
    DESCENDANTS_FIRST = "descendants-first"


class Admission(enum.Enum):
    """D2: what happens to a put whose declared parent is not resident (PFX-3)."""

    #: Parents are not looked at (a flat store).
    ANY = "any"
    REJECT = "reject"
    DEFER = "defer"
    PLACEHOLDER = "placeholder"


class Removal(enum.Enum):
    """What remove does to an object with resident descendants (PFX-8)."""

    #: Descendants are not looked at (a flat store).
    ANY = "any"
    REFUSE = "refuse"
    CASCADE = "cascade"


class ClosureScope(enum.Enum):
    """D3: closure within each tier, or over the union of the tiers (PFX-11)."""

    EACH = "each"
    UNION = "union"


class FamilyMode(enum.Enum):
    """D5: how shards of one logical block are evicted (GRP-1)."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    ALL_OR_NONE = "all-or-none"


class ExistsLeases(enum.Enum):
    """D7 and D8: which matched keys exists, exists_many and match lease (PRT-3)."""

    NONE = "none"
    HITS = "hits"
    LONGEST_PREFIX = "longest-prefix"
    LAST_HIT = "last-hit"


class DuplicatePut(enum.Enum):
    """D10: the answer of a put of a resident key (STO-2)."""

    EXISTS = "exists"
    SILENT = "silent"


class Progress(enum.Enum):
    """PFX-6 and D12: when a put is refused for space."""

    EXACT = "exact"
    EVENTUAL = "eventual"
    REJECT = "reject"
    NONE = "none"


class Batch(enum.Enum):
    """STO-8: what a native batch means."""

    SINGLES = "singles"
    ATOMIC = "atomic"


class Accounting(enum.Enum):
    """How exactly stats().used_bytes follows the objects (STO-6)."""

    EXACT = "exact"
    #: Never above capacity, equal to the sum within one quantum per object after quiesce.
    BOUNDED = "bounded"
    NONE = "none"


class VictimPolicy(enum.Enum):
    """PFX-9: which evictable leaf goes first."""

    UNSPECIFIED = "unspecified"
    FIFO = "fifo"
    LRU = "lru"


class EvictUnit(enum.Enum):
    """PFX-7: what goes together in one eviction."""

    OBJECT = "object"
    FAMILY = "family"
    NODE = "node"


class Clock(enum.Enum):
    """Whether the suite drives time with advance(ms), or time is real and advance really waits."""

    DRIVEN = "driven"
    REAL = "real"


class EmptyValue(enum.Enum):
    """STO-3: an empty value is refused, or stored and told apart from a miss."""

    INVALID = "invalid"
    STORED = "stored"


def _declared(default: Any, doc: str, point: str = "") -> Any:
    """One field of Capabilities with its definition; ``point`` names the disputed point D1 to D19 that it settles."""
    return attrs.field(default=default, metadata={"doc": doc, "point": point}, kw_only=True)


#: The calls that may grant a lease or touch recency, as named in ``lease_calls`` and ``touch_calls``.
LEASE_CALLS: Final = frozenset({"get", "get_many", "exists", "exists_many", "match"})
TOUCH_CALLS: Final = LEASE_CALLS | {"duplicate_put", "lease", "pin"}

#: Store-side profiles that a backend can declare; each is a set of requirements (spec/requirements.toml).
PROFILES: Final = (
    "object-store", "protected-store", "eviction-safe", "prefix-aware", "prefix-index",
    "grouped", "multi-tenant", "events", "keys", "keys-vllm", "connector", "encoder-cache",
)  # fmt: skip


@attrs.frozen
class Capabilities:
    """What a backend declares. The suite holds it to this; a point under public dispute is a field here, not a verdict."""

    name: str = _declared("unnamed", "Name of the backend, shown in reports.")
    version: str = _declared("", "Version of the backend, shown in reports.")
    profiles: frozenset[str] = _declared(frozenset({"object-store"}), "Profiles claimed; see PROFILES.")

    # What kind of store it is
    deterministic: bool = _declared(True, "The same calls give the same answers after reset.")
    clients: int = _declared(1, "How many clients may be open at a time.")
    exclusive: bool = _declared(True, "The suite may fill and empty the store; nobody else uses it.")
    values: bool = _declared(True, "Keeps bytes. False: an index only; STO-1, 2, 3 and 10 are not claimed.")
    clock: Clock = _declared(Clock.DRIVEN, "Whose time it is; DRIVEN needs the hook advance(ms).")
    durability: frozenset[str] = _declared(frozenset(), "What an acknowledged put survives: 'client-crash', 'restart'.", "D11")
    empty_value: EmptyValue = _declared(EmptyValue.INVALID, "An empty value is INVALID, or stored, no miss (STO-3).")
    accounting: Accounting = _declared(Accounting.EXACT, "How exactly stats().used_bytes follows the objects (STO-6).")
    reclaim_ms: int = _declared(0, "Bytes of what left are back in stats() within this time (STO-6).")
    pending_timeout_ms: int = _declared(60_000, "An uncommitted attempt frees its key within this time (STO-5).")
    duplicate_put: DuplicatePut = _declared(DuplicatePut.EXISTS, "A put of a resident key answers EXISTS, or STORED.", "D10")
    batch: Batch = _declared(Batch.SINGLES, "What put_many, get_many and exists_many mean, where offered (STO-8).")

    # Eviction and lineage
    evicts: bool = _declared(True, "Evicts under pressure. False: a full store answers NO_SPACE.", "D12")
    expires: bool = _declared(False, "Objects also leave by a time to live; that counts as eviction.")
    lineage: frozenset[Transport] = _declared(frozenset(), "How lineage reaches the store; empty: a flat store.")
    eviction_order: EvictionOrder = _declared(EvictionOrder.ANY, "DESCENDANTS_FIRST claims PFX-1.", "D1")
    admission: Admission = _declared(Admission.ANY, "A put whose parent is not resident (PFX-3).", "D2")
    defer_deadline_ms: int = _declared(60_000, "A deferred object is dropped after this time (PFX-3).")
    removal: Removal = _declared(Removal.ANY, "remove of an object with resident descendants (PFX-8).")
    closure_scope: ClosureScope = _declared(ClosureScope.EACH, "Over which tiers closure is meant (PFX-11).", "D3")
    cache_groups: frozenset[CacheGroup] = _declared(
        frozenset({CacheGroup.FULL}), "Cache-group kinds told apart; only FULL objects are bound by PFX (PFX-12).", "D4"
    )
    progress: Progress = _declared(Progress.EXACT, "When a put is refused for space (PFX-6).", "D12")
    progress_ms: int = _declared(0, "EVENTUAL: retries of such a put succeed within this time.")
    refused_put_evicts: bool = _declared(False, "A put that is refused may have evicted (STO-7).")
    contiguous: bool = _declared(False, "An object needs one free range: a put may have to evict though enough is free in pieces.")
    reports_evictions: bool = _declared(True, "PutResult.evicted is filled.")
    policy: VictimPolicy = _declared(VictimPolicy.UNSPECIFIED, "Which evictable object goes first (PFX-9).")
    touch_calls: frozenset[str] = _declared(frozenset({"get", "get_many"}), "Calls that touch recency (PFX-9); see TOUCH_CALLS.")
    lineage_recency: bool = _declared(False, "A touch stamps all ancestors too: the head that a device cache hides stays.", "D19")
    evict_unit: EvictUnit = _declared(EvictUnit.OBJECT, "What goes together in one eviction (PFX-7).")
    watermark: float = _declared(1.0, "Above this share of capacity an eviction pass starts on its own (PFX-7).")
    evict_ratio: float = _declared(0.0, "Such a pass frees down to watermark minus this share of capacity (PFX-7).")
    walk: frozenset[str] = _declared(frozenset({"root"}), "match walks from the 'root', and may 'resume' at start=k.", "D18")
    match_atomic: bool = _declared(True, "match is one snapshot; False: valid at some instant per key (PFX-4).")
    hit_extension: str = _declared(
        "exact", "'exact': only stored boundaries hit; 'implied': a later hit implies all before.", "D17"
    )
    hit_reserves: bool = _declared(False, "A match is a promise until its lease ends, not a hint.", "D15")

    # Protection
    lease_ttl_ms: int = _declared(0, "Life of the lease that lease_calls grant; 0: they grant none.")
    lease_calls: frozenset[str] = _declared(frozenset(), "Read calls that grant a lease (PRT-3); see LEASE_CALLS.")
    exists_leases: ExistsLeases = _declared(
        ExistsLeases.NONE, "Which matched keys exists, exists_many, match lease (PRT-3).", "D7 D8"
    )
    pins: frozenset[Pin] = _declared(frozenset(), "Kinds of pin that PutOptions.pin may ask for (PRT-4).")
    reads_extend_soft_pin: bool = _declared(False, "A read moves the deadline of a live soft pin; waives the end of PRT-4.", "D9")
    get_after_lease: str = _declared("serve", "'serve' or 'fail': a get that outlives its lease while the data is intact.", "D13")
    steady_clock: bool = _declared(True, "Deadlines follow steady time only (PRT-5); judged through the hook jump_wall_clock.")

    # Families, object groups, tenants, namespaces
    families: FamilyMode = _declared(FamilyMode.NONE, "Eviction of the shards of one logical block (GRP-1).", "D5")
    family_size: bool = _declared(False, "The expected number of shards is told and kept (GRP-3).", "D6")
    object_groups: bool = _declared(False, "PutOptions.object_group is honoured (GRP-2).")
    tenants: frozenset[str] = _declared(frozenset(), "Names of tenants that client(tenant=...) accepts (TEN-1).")
    shared_pool: bool = _declared(False, "Tenants may evict each other's unprotected objects (TEN-1).")
    namespaces: bool = _declared(False, "PutOptions.namespace is honoured (PFX-3).")
    adapter_identity: str = _declared("name-and-path", "What of a LoRA is in the key: 'name', 'name-and-path', 'content'.", "D16")

    # Events
    event_parents: bool = _declared(False, "Stored events carry the declared parent (EVT-2).")
    removed_event: str = _declared("last-copy", "'last-copy', 'each-copy' or 'none': when a removed event is sent (EVT-2).", "D14")

    def __attrs_post_init__(self) -> None:
        problem = next(_contradictions(self), None)
        if problem is not None:
            raise ConfigurationError(f"capabilities of {self.name!r}: {problem[0]}", problem[1])

    @property
    def prefix_closed(self) -> bool:
        """Whether PFX-2 is meant to hold: lineage arrives before the bytes, and admission and eviction both respect it."""
        return self.admission in (Admission.REJECT, Admission.DEFER) and self.eviction_order is EvictionOrder.DESCENDANTS_FIRST


def _contradictions(caps: Capabilities) -> Any:
    """Yield (problem, remedy) for each pair of fields that cannot both be meant."""
    unknown = caps.profiles - set(PROFILES)
    if unknown:
        yield f"unknown profiles {sorted(unknown)}", f"Known are: {', '.join(PROFILES)}."
    if caps.lease_calls - LEASE_CALLS:
        yield f"lease_calls names {sorted(caps.lease_calls - LEASE_CALLS)}", f"Known are: {sorted(LEASE_CALLS)}."
    if caps.touch_calls - TOUCH_CALLS:
        yield f"touch_calls names {sorted(caps.touch_calls - TOUCH_CALLS)}", f"Known are: {sorted(TOUCH_CALLS)}."
    if caps.eviction_order is EvictionOrder.DESCENDANTS_FIRST and not caps.lineage:
        yield "eviction_order descendants-first needs lineage", "Declare at least one transport in lineage."
    if caps.admission is not Admission.ANY and not caps.lineage & {Transport.ARGUMENT, Transport.KEY}:
        yield f"admission {caps.admission.value} needs lineage at put", "Declare the argument or key transport."
    if caps.lease_calls and caps.lease_ttl_ms <= 0:
        yield "lease_calls grant a lease of 0 ms", "Set lease_ttl_ms, or empty lease_calls."
    if not caps.evicts and caps.progress is not Progress.REJECT:
        yield f"a store that never evicts cannot promise progress {caps.progress.value!r}", "Declare progress=REJECT."
    if not 0.0 < caps.watermark <= 1.0 or not 0.0 <= caps.evict_ratio < 1.0:
        yield "watermark must lie in (0, 1] and evict_ratio in [0, 1)", "Both are shares of capacity."
    if caps.clients < 1:
        yield "clients must be at least 1", ""


# --------------------------------------------------------------------------------------------------------------------------------
# Protocols


class StoreClient(Protocol):
    """What every backend offers: three calls. Further calls are in :class:`FullClient`; a method that is absent is unsupported."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """Store the value under the key (STO-1, STO-2)."""
        ...

    def get(self, key: str) -> bytes | None:
        """The whole value, or None for a miss (STO-3)."""
        ...

    def exists(self, key: str) -> bool:
        """Whether get would hit; may grant a lease where declared (PRT-3)."""
        ...


class FullClient(StoreClient, Protocol):
    """All optional calls. A backend offers any of them by having the method; the suite asks :func:`offers`."""

    def probe(self, key: str) -> bool:
        """exists without any side effect: no lease, no touch (PRT-3)."""
        ...

    def match(self, chain: Sequence[str], start: int = 0) -> int:
        """The greatest n such that chain[start:n] are all resident, ``start`` if none is (PFX-4). start > 0 needs ``resume``."""
        ...

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        """Remove the object (STO-9, PFX-8)."""
        ...

    def clear(self, *, force: bool = False) -> Answer:
        """Remove everything; PROTECTED while anything is protected, unless forced (STO-9)."""
        ...

    def put_begin(self, key: str, size: int, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """Reserve room for a value of this many bytes; OK with a token, or a refusal as put gives (STO-5)."""
        ...

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        """Make the value visible; its length must be the size begun, else INVALID and the attempt stays open (STO-5)."""
        ...

    def put_abort(self, key: str, token: str) -> Answer:
        """Give the attempt up; leaves nothing (STO-5)."""
        ...

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        """Native batch (STO-8)."""
        ...

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Native batch (STO-8)."""
        ...

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        """Native batch (STO-8)."""
        ...

    def pin(self, key: str) -> PinResult:
        """Hold a resident object in use until unpin(token) (PRT-1, PRT-6)."""
        ...

    def unpin(self, token: str) -> Answer:
        """Give a pin back; NOT_FOUND for an unknown or used token, with no effect (PRT-6)."""
        ...

    def lease(self, key: str, ttl_ms: int) -> Answer:
        """Protect a resident object until max(own deadline, now + ttl_ms) (PRT-2)."""
        ...

    def register(self, key: str, parent: Parent) -> Answer:
        """Lineage by event: declare the parent beside the data path (transport ``event``)."""
        ...

    def events(self, after: int = 0) -> list[Event]:
        """All events with a sequence number above ``after``, oldest first (EVT-1)."""
        ...

    def snapshot(self) -> Snapshot:
        """The resident set and the sequence number it belongs to (EVT-1)."""
        ...

    def stats(self) -> Stats:
        """Accounting (STO-6)."""
        ...


class Backend(Protocol):
    """One server or process under test. ``client`` takes ``tenant`` only where tenants are declared."""

    @property
    def capabilities(self) -> Capabilities:
        """What is declared; constant over the life of the backend."""
        ...

    def start(self, capacity: int) -> Geometry:
        """Start with about this many bytes; the geometry really obtained. Called once, first."""
        ...

    def client(self, index: int = 0, tenant: str = "") -> StoreClient:
        """Client number ``index``, below ``capabilities.clients``."""
        ...

    def reset(self) -> None:
        """Empty again: no object, no attempt, no pin, no lease, statistics at zero."""
        ...

    def close(self) -> None:
        """Stop and leave nothing running. Safe to call twice."""
        ...


class HookedBackend(Backend, Protocol):
    """Optional hooks: each lets the suite see or force what a client cannot. Absent: the requirements that need it are skipped."""

    def quiesce(self) -> None:
        """Return when no background work (eviction, reclaim) is left."""
        ...

    def now(self) -> int:
        """The backend's steady clock, in milliseconds."""
        ...

    def advance(self, ms: int) -> None:
        """Let this much time pass (driven: at once; real: wait) and let what fell due happen."""
        ...

    def jump_wall_clock(self, ms: int) -> None:
        """Move wall time, forward or back, while steady time stands still (PRT-5)."""
        ...

    def resident(self) -> frozenset[str]:
        """All resident keys, at one instant, without any side effect: the strongest evidence but for events."""
        ...

    def crash(self, part: str) -> None:
        """Kill 'client' or 'store' without warning (STO-12)."""
        ...

    def restart(self) -> Geometry:
        """Start again after crash('store') (STO-12)."""
        ...

    def fail_next(self, op: str, key: str, kind: str) -> None:
        """Make the next call of ``op`` on ``key`` fail inside the store (STO-5, STO-12)."""
        ...


#: Optional calls and hooks by name.
OPTIONAL_CALLS: Final = (
    "probe", "match", "remove", "clear", "put_begin", "put_commit", "put_abort", "put_many", "get_many", "exists_many",
    "pin", "unpin", "lease", "register", "events", "snapshot", "stats",
)  # fmt: skip
HOOKS: Final = ("quiesce", "now", "advance", "jump_wall_clock", "resident", "crash", "restart", "fail_next")


def offers(thing: object, call: str) -> bool:
    """Whether a client or backend offers an optional call or hook: it has a method of that name."""
    return callable(getattr(thing, call, None))
