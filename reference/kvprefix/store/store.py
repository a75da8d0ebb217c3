"""The reference store: every call of the contract, prefix-aware or flat as its capabilities say, and no scan of what is stored.

Carries STO-1 to STO-10, PRT, PFX, GRP and EVT. Each call says what it answers and what it costs; how is in core.py (transitions),
lineage.py (the forest), protection.py (leases, pins) and eviction.py (victims).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvprefix.api import (
    UNKNOWN,
    Admission,
    Answer,
    Batch,
    Capabilities,
    DuplicatePut,
    Event,
    ExistsLeases,
    Geometry,
    Parent,
    PinResult,
    Progress,
    PutItem,
    PutOptions,
    PutResult,
    Removal,
    RemoveResult,
    Snapshot,
    Stats,
    Transport,
)
from kvprefix.errors import ConfigurationError
from kvprefix.store.admission import waits
from kvprefix.store.batches import put_all
from kvprefix.store.core import Core
from kvprefix.store.eviction import Policy, policy_of
from kvprefix.store.families import unit_of
from kvprefix.store.lineage import descendants
from kvprefix.store.mooncake_like import BatchEvict, LeaseOrder
from kvprefix.store.node import PENDING, PLAIN_OPTIONS, RESIDENT, Node
from kvprefix.store.offered import check_offered
from kvprefix.store.room import ExactRoom, Room


class ReferenceStore:
    """One store, for any number of clients that take turns (it has no locks). Time is driven by :meth:`advance`.

    ``progress = EVENTUAL`` makes it evict as Mooncake Store does, between the calls (mooncake_like.py). ``seed`` is for the random
    start of its batch calls; ``policy`` replaces the declared one.
    """

    def __init__(self, capabilities: Capabilities, geometry: Geometry, *, policy: Policy | None = None, seed: int = 0) -> None:
        check_offered(capabilities)
        self.capabilities = capabilities
        self.geometry = geometry
        room: Room = ExactRoom()
        if capabilities.progress is Progress.EVENTUAL:
            order = LeaseOrder(capabilities.lease_ttl_ms)
            room, policy = BatchEvict(order, seed), policy or order
        self._core = Core(capabilities, geometry, policy or policy_of(capabilities), room)
        self._tokens = 0
        # What is asked on every call, looked up once.
        self._touches = capabilities.touch_calls
        self._leases = capabilities.lease_calls
        self._exists_leases = capabilities.exists_leases
        self._extends = capabilities.reads_extend_soft_pin
        self._reports = capabilities.reports_evictions

    # ---- time

    @property
    def now(self) -> int:
        """Steady time in milliseconds since start."""
        return self._core.now

    def advance(self, ms: int) -> None:
        """Let time pass, and let happen what fell due."""
        if ms < 0:
            raise ConfigurationError(f"steady time cannot go back by {-ms} ms")
        self._core.advance(ms)
        self._core.room.relieve(self._core)

    # ---- writing

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PLAIN_OPTIONS) -> PutResult:
        """Store the value (STO-1, STO-2, PFX-3, PFX-6). Amortised O(log n), and as much for each evicted object."""
        result = self._put(key, value, parent, options)
        self._core.room.relieve(self._core, refused=result.answer is Answer.NO_SPACE)
        return result

    def put_begin(self, key: str, size: int, *, parent: Parent = UNKNOWN, options: PutOptions = PLAIN_OPTIONS) -> PutResult:
        """Reserve room (STO-5): evicts as a put does. The cost of a put, and O(depth) to protect the ancestors while it is open."""
        core = self._core
        draft = core.judge(key, size, parent, options)
        if isinstance(draft, Answer):
            return self._told(draft, key, begun=True)
        if not core.fits(draft):
            core.room.relieve(core, refused=True)
            return self._result(Answer.NO_SPACE)
        evicted = core.place(draft)
        token = self._token("attempt")
        core.open(draft, size, token)
        core.room.relieve(core)
        return self._result(Answer.OK, evicted, token)

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        """Make the value visible (STO-5); the parent is looked at again (PFX-3). O(depth)."""
        core = self._core
        attempt = core.attempts.get(token)
        if attempt is None or attempt.node.key != key:
            return self._result(Answer.STALE)
        if len(value) != attempt.size:
            return self._result(Answer.INVALID)
        if self.capabilities.admission is Admission.REJECT and waits(attempt.node):
            core.give_up(token)
            return self._result(Answer.PARENT_MISSING)
        if self.capabilities.values:
            attempt.node.value = bytes(value)
        answer = core.finish(core.close(token))
        return self._result(answer)

    def put_abort(self, key: str, token: str) -> Answer:
        """Give the attempt up (STO-5). O(depth)."""
        attempt = self._core.attempts.get(token)
        if attempt is None or attempt.node.key != key:
            return Answer.STALE
        self._core.give_up(token)
        return Answer.OK

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        """Native batch, one answer per item in order (STO-8): as the single puts, or all or nothing. The costs of the single puts;
        an atomic one also O(depth) for each, to protect the ancestors of all while room is made.
        """
        if self.capabilities.batch is Batch.SINGLES:
            results = [self._put(item.key, item.value, item.parent, item.options) for item in items]
        else:
            answers, evicted = put_all(self._core, items)
            results = [self._told(answer, item.key) for item, answer in zip(items, answers, strict=True)]
            results[:1] = [self._result(result.answer, evicted) for result in results[:1]]
        self._core.room.relieve(self._core, refused=any(result.answer is Answer.NO_SPACE for result in results))
        return results

    def _put(self, key: str, value: bytes, parent: Parent, options: PutOptions) -> PutResult:
        core = self._core
        draft = core.judge(key, len(value), parent, options)
        if isinstance(draft, Answer):
            return self._told(draft, key)
        if not core.fits(draft):
            return self._result(Answer.NO_SPACE)
        evicted = core.place(draft)
        if self.capabilities.values:
            draft.value = bytes(value)
        return self._result(core.finish(draft), evicted)

    def _told(self, answer: Answer, key: str, *, begun: bool = False) -> PutResult:
        """The result of a put that space had no part in. An existing object may be touched, and the answer dressed up (STO-2)."""
        if answer is Answer.EXISTS:
            if "duplicate_put" in self._touches:
                self._core.touch(self._core.objects[key])
            if not begun and self.capabilities.duplicate_put is DuplicatePut.SILENT:
                answer = Answer.STORED
        return self._result(answer)

    def _result(self, answer: Answer, evicted: tuple[str, ...] = (), token: str | None = None) -> PutResult:
        return PutResult(answer, evicted if self._reports else None, token)

    def _token(self, kind: str) -> str:
        self._tokens += 1
        return f"{kind}-{self._tokens}"

    # ---- reading

    def get(self, key: str) -> bytes | None:
        """The value, or None for a miss (STO-3). O(1)."""
        node = self._resident(key)
        if node is None:
            return None
        self._seen(node, "get", leased=True)
        return node.value

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Native batch (STO-8). O(1) per key."""
        nodes = [self._resident(key) for key in keys]
        for i in self._core.room.visits(self._core, keys):
            node = nodes[i]
            if node is not None:
                self._seen(node, "get_many", leased=True)
        return [None if node is None else node.value for node in nodes]

    def exists(self, key: str) -> bool:
        """Whether get would hit; leases where declared (PRT-3). O(1)."""
        node = self._resident(key)
        if node is None:
            return False
        self._seen(node, "exists", leased=self._exists_leases is not ExistsLeases.NONE)
        return True

    def probe(self, key: str) -> bool:
        """exists without any side effect (PRT-3). O(1)."""
        return self._resident(key) is not None

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        """Native batch (STO-8); leases the hits that ``exists_leases`` names (PRT-3). O(1) per key."""
        nodes = [self._resident(key) for key in keys]
        matched = next((i for i, node in enumerate(nodes) if node is None), len(nodes))
        first, last = self._leased_range(matched, len(nodes))
        for i in self._core.room.visits(self._core, keys):
            node = nodes[i]
            if node is not None:
                self._seen(node, "exists_many", leased=first <= i < last)
        return [node is not None for node in nodes]

    def match(self, chain: Sequence[str], start: int = 0) -> int:
        """The length of the longest resident prefix, walked from ``start`` (PFX-4). O(1) per matched key; O(1) per key of the chain
        where keys behind a hole are leased.
        """
        if start and "resume" not in self.capabilities.walk:
            raise ConfigurationError("match with start > 0 is not offered", "Declare walk with 'resume'.")
        nodes: list[Node] = []
        for key in chain[start:]:
            node = self._resident(key)
            if node is None:
                break
            nodes.append(node)
        first, last = self._leased_range(len(nodes), len(nodes))
        for i, node in enumerate(nodes):
            self._seen(node, "match", leased=first <= i < last)
        if self._exists_leases is ExistsLeases.HITS or self._extends:
            self._see_behind_hole(chain[start + len(nodes) :])
        return start + len(nodes)

    def _see_behind_hole(self, keys: Sequence[str]) -> None:
        """What match does to resident keys behind its first miss, which are hits but not matched: they are not touched."""
        for key in keys:
            node = self._resident(key)
            if node is not None:
                if self._exists_leases is ExistsLeases.HITS and "match" in self._leases:
                    self._core.protection.lease(node, self._core.now, self.capabilities.lease_ttl_ms)
                if self._extends:
                    self._core.protection.extend_soft_pin(node, self._core.now)

    def _resident(self, key: str) -> Node | None:
        node = self._core.objects.get(key)
        return node if node is not None and node.state is RESIDENT else None

    def _seen(self, node: Node, call: str, *, leased: bool) -> None:
        """What a hit does: touch (PFX-9), lease (PRT-3), extend a soft pin (D9), each where declared."""
        core = self._core
        if call in self._touches:
            core.touch(node)
        if leased and call in self._leases:
            core.protection.lease(node, core.now, self.capabilities.lease_ttl_ms)
        if self._extends:
            core.protection.extend_soft_pin(node, core.now)

    def _leased_range(self, matched: int, hits: int) -> tuple[int, int]:
        """Between which indexes ``exists_leases`` leases: all hits, those before the first miss, or the last of these."""
        kind = self._exists_leases
        if kind is ExistsLeases.HITS:
            return 0, hits
        if kind is ExistsLeases.LONGEST_PREFIX:
            return 0, matched
        return (matched - 1, matched) if kind is ExistsLeases.LAST_HIT else (0, 0)

    # ---- removing

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        """Remove the object, under ``cascade`` with all its descendants, deepest first (STO-9, PFX-8). O(removed objects)."""
        core = self._core
        node = core.objects.get(key)
        if node is None:
            return RemoveResult(Answer.NOT_FOUND, ())
        if node.state is PENDING and not force:
            return RemoveResult(Answer.IN_PROGRESS, ())
        removal = self.capabilities.removal
        if removal is Removal.REFUSE and node.kids:
            return RemoveResult(Answer.PROTECTED, ())
        going = descendants(node) if removal is Removal.CASCADE else [node]
        if not force and any(unit_of(each).guards for each in going):
            return RemoveResult(Answer.PROTECTED, ())
        for each in going:
            core.remove(each)
        return RemoveResult(Answer.OK, tuple(each.key for each in going))

    def clear(self, *, force: bool = False) -> Answer:
        """Remove everything in one step (STO-9)."""
        if self._core.protection.units and not force:
            return Answer.PROTECTED
        self._core.clear()
        return Answer.OK

    # ---- protecting

    def pin(self, key: str) -> PinResult:
        """Hold the object in use (PRT-1, PRT-6). O(1), O(depth) where nothing above is protected yet."""
        node = self._resident(key)
        if node is None:
            return PinResult(Answer.NOT_FOUND)
        if "pin" in self._touches:
            self._core.touch(node)
        token = self._token("pin")
        self._core.pin(node, token)
        return PinResult(Answer.OK, token)

    def unpin(self, token: str) -> Answer:
        """Give a pin back, once (PRT-6). O(1), O(depth) where nothing above stays protected."""
        return Answer.OK if self._core.unpin(token) else Answer.NOT_FOUND

    def lease(self, key: str, ttl_ms: int) -> Answer:
        """Protect the object until max(own deadline, now + ttl_ms) (PRT-2). O(log n), O(depth) where nothing above is protected."""
        node = self._resident(key)
        if node is None:
            return Answer.NOT_FOUND
        if "lease" in self._touches:
            self._core.touch(node)
        self._core.protection.lease(node, self._core.now, ttl_ms)
        return Answer.OK

    # ---- lineage beside the data path

    def register(self, key: str, parent: Parent) -> Answer:
        """Declare the parent of an object that is, or will be, stored (transport ``event``). O(depth)."""
        if Transport.EVENT not in self.capabilities.lineage:
            return Answer.UNSUPPORTED
        return self._core.register(key, parent)

    # ---- watching

    def events(self, after: int = 0) -> list[Event]:
        """Events with a sequence number above ``after``, oldest first (EVT-1). O(their number)."""
        return self._core.log.after(after, parents=self.capabilities.event_parents)

    def snapshot(self) -> Snapshot:
        """The resident set and its sequence number (EVT-1). O(n): for consumers that lost events, no part of serving."""
        objects = {key: node.parent for key, node in self._core.objects.items() if node.state is RESIDENT}
        return Snapshot(self._core.log.sequence, objects)

    def stats(self) -> Stats:
        """Accounting (STO-6). O(1)."""
        core = self._core
        return Stats(core.used, core.resident_objects, core.evicted_objects)
