"""The Mooncake client behind the contract: each call is one call of Mooncake's Python API, its codes become answers.

STO and PRT are what it is held to. Where a code has no answer in the contract the call raises; where Mooncake answers success
without having done anything (a put of a key that is being written), the adapter says so too.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from kvprefix.api import (
    UNKNOWN,
    Answer,
    Geometry,
    Parent,
    Pin,
    PutItem,
    PutOptions,
    PutResult,
    RemoveResult,
    Stats,
)
from kvprefix.errors import AdapterError, ConfigurationError
from kvprefix_conformance.backends.mooncake_link import Admin, Refusal, Worker

# Mooncake's codes, as its types.h names them.
_OK: Final = 0
_NO_AVAILABLE_HANDLE: Final = -200
_INVALID_PARAMS: Final = -600
_REPLICA_IS_NOT_READY: Final = -703
_OBJECT_NOT_FOUND: Final = -704
_OBJECT_ALREADY_EXISTS: Final = -705
_OBJECT_HAS_LEASE: Final = -706
#: What ends an attempt that is no longer the writer's: wrong client, no write in progress, no object, no session.
_NOT_THE_WRITERS: Final = frozenset({-601, -700, _OBJECT_NOT_FOUND, _INVALID_PARAMS})

_REMOVE_ANSWERS: Final = {
    _OK: Answer.OK,
    _REPLICA_IS_NOT_READY: Answer.IN_PROGRESS,
    _OBJECT_NOT_FOUND: Answer.NOT_FOUND,
    _OBJECT_HAS_LEASE: Answer.PROTECTED,
}

#: The master's eviction thread looks every 10 ms.
_POLL_S: Final = 0.002
#: A pass that has no candidate at all is not counted and ends the search. So long without a count means that there was one.
_QUIET_S: Final = 0.1
_GET_ATTEMPTS: Final = 3
#: Fed to an eviction that is still wanted when the store is emptied.
_DECOY_KEY: Final = "kvprefix-reset"

_ATTEMPTED: Final = "master_attempted_evictions_total"
_SUCCESSFUL: Final = "master_successful_evictions_total"
_EVICTED: Final = "master_evicted_key_count"
_ALLOCATED: Final = "master_allocated_bytes"
#: Readable objects and those that are being written.
_OBJECTS: Final = "master_key_count"


@attrs.frozen
class Options:
    """How the server is set up. Times in milliseconds, sizes in bytes."""

    #: Life of a read lease. Long enough for a step or two on a loaded machine, short enough to be waited for.
    lease_ttl_ms: int = 100
    #: With 1.0 nothing is evicted before a put has failed, and with so small a ratio each failed put costs one object: the oldest.
    watermark: float = 1.0
    ratio: float = 1e-9
    #: The client's staging memory; bounds the largest value and the largest batch. None: by the capacity.
    local_buffer: int | None = None
    #: An attempt older than this may be superseded; whole seconds. Its bytes come back after ten minutes, Mooncake's default.
    pending_timeout_ms: int = 1000
    #: Longest wait for one answer.
    deadline_ms: int = 10_000

    def __attrs_post_init__(self) -> None:
        if self.lease_ttl_ms < 1 or self.pending_timeout_ms < 1000 or self.deadline_ms < 1:
            raise ConfigurationError("Mooncake needs lease_ttl_ms >= 1, pending_timeout_ms >= 1000 and deadline_ms >= 1.")

    @property
    def evicts(self) -> bool:
        """Without a ratio, and with a watermark that is never crossed, nothing is ever evicted."""
        return self.ratio > 0.0 or self.watermark < 1.0

    def flags(self) -> list[str]:
        """Flags of mooncake_master."""
        return [
            f"--default_kv_lease_ttl={self.lease_ttl_ms}",
            f"--eviction_high_watermark_ratio={self.watermark!r}",
            f"--eviction_ratio={self.ratio!r}",
            f"--put_start_discard_timeout_sec={self.pending_timeout_ms // 1000}",
            "--client_ttl=120",  # a loaded machine must not lose the segment to a late heartbeat
        ]


# --------------------------------------------------------------------------------------------------------------------------------
# Room


@attrs.frozen
class Passes:
    """Counters of the eviction thread."""

    attempted: int
    successful: int


def eviction_passes(admin: Admin) -> Passes:
    """The counters as they are now."""
    seen = admin.metrics([_ATTEMPTED, _SUCCESSFUL])
    return Passes(seen[_ATTEMPTED], seen[_SUCCESSFUL])


class Room:
    """Repeats what found no room until it fits or nothing more can go, by the server's own counters (PFX-6 ``eventual``).

    A failed allocation makes the eviction thread run, within 10 ms, and go on running until it has evicted something.
    """

    def __init__(
        self,
        read: Callable[[], Passes],
        evicts: bool,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = read
        self._clock = clock
        self._pause = pause
        self._evicts = evicts
        self._limit_s = limit_s
        self._seen = read()
        #: An eviction may still be wanted although nobody waits for it.
        self.wanted = False

    def make(self, attempt: Callable[[], int], hopeless: bool = False) -> int:
        """The code of the last attempt: NO_AVAILABLE_HANDLE once passes no longer evict, or after one pass if it is hopeless."""
        deadline = self._clock() + self._limit_s
        self._look()
        while (code := attempt()) == _NO_AVAILABLE_HANDLE:
            self.refused()
            if not self.settle() or hopeless or self._clock() > deadline:
                break
        return code

    def refused(self) -> None:
        """An allocation has failed: an eviction is wanted now."""
        self.wanted = self._evicts

    def settle(self) -> bool:
        """Wait for a whole pass of the eviction thread, if one is wanted; whether it evicted."""
        if not self.wanted:
            return False
        passes, changed = self._seen.attempted, self._clock()
        while self._clock() - changed < _QUIET_S:
            now = self._read()
            if now.successful > self._seen.successful:
                self._seen, self.wanted = now, False
                return True
            if now.attempted >= self._seen.attempted + 2:  # one may have been half way when the attempt failed
                self._seen = now
                return False
            if now.attempted > passes:
                passes, changed = now.attempted, self._clock()
            self._pause(_POLL_S)
        self.wanted = False
        return False

    def absorb(self, feed: Callable[[], None]) -> None:
        """Bring an eviction that is still wanted to its end: ``feed`` stores something that it can have."""
        self._look()
        if self.wanted:
            feed()
            self.settle()

    def _look(self) -> None:
        """Where an eviction is still wanted, passes go on by themselves: count from now."""
        if self.wanted:
            now = self._read()
            self.wanted = now.successful == self._seen.successful
            self._seen = now


# --------------------------------------------------------------------------------------------------------------------------------
# The client


@attrs.frozen
class Attempt:
    """An open two-phase put. Mooncake knows it by its key; the token is the adapter's."""

    key: str
    size: int


class MooncakeClient:
    """The contract's calls, each one call of Mooncake's Python API; parents are accepted and not passed on."""

    def __init__(self, worker: Worker, room: Room, admin: Admin, geometry: Geometry, options: Options) -> None:
        self._worker = worker
        self._room = room
        self._admin = admin
        self._capacity = geometry.capacity_bytes
        self._options = options
        self._tokens = itertools.count(1)
        self._evicted_before = 0
        self._attempts: dict[str, Attempt] = {}
        #: Keys with a put session that Mooncake's client still knows; it refuses another one on them.
        self._sessions: set[str] = set()
        #: Keys that the list of keys, which is separated by newlines, cannot show.
        self._multiline: set[str] = set()

    # -- writing ----------------------------------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """A put of a resident key answers STORED and changes nothing. So does one of a key that is being written."""
        del parent
        if not _supported(options):
            return PutResult(Answer.UNSUPPORTED)
        self._note(key)
        size = len(value)
        code = self._writing(lambda: self._call("put", key, value, options.pin.value, options.soft_pin_ms), size)
        return PutResult(self._written("put", code, size))

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        """Native (batch_put_from), one call for each run of items with equal options; what found no room is put again singly."""
        results: list[PutResult] = []
        for options, run in itertools.groupby(items, key=lambda item: item.options):
            members = list(run)
            results += self._put_run(members, options) if _supported(options) else [PutResult(Answer.UNSUPPORTED)] * len(members)
        return results

    def _put_run(self, members: Sequence[PutItem], options: PutOptions) -> list[PutResult]:
        for item in members:
            self._note(item.key)
        keys, values = [item.key for item in members], [item.value for item in members]
        try:
            codes = self._call("put_many", keys, values, options.pin.value, options.soft_pin_ms)
        except Refusal:  # one key is no UTF-8: the binding takes all or none
            return [self.put(item.key, item.value, options=options) for item in members]
        if _NO_AVAILABLE_HANDLE in codes:
            self._room.refused()
        return [self._after_batch(item, code) for item, code in zip(members, codes, strict=True)]

    def _after_batch(self, item: PutItem, code: int) -> PutResult:
        """The answer for one member; one that found no room but can fit is put again, now that there is eviction."""
        if code == _NO_AVAILABLE_HANDLE and len(item.value) <= self._capacity:
            return self.put(item.key, item.value, options=item.options)
        return PutResult(self._written("put_many", code, len(item.value)))

    def put_begin(self, key: str, size: int, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        """A put session of one object (batch_put_session_start)."""
        del parent
        if not _supported(options):
            return PutResult(Answer.UNSUPPORTED)
        self._note(key)
        code = self._writing(lambda: self._call("begin", key, size, options.pin.value, options.soft_pin_ms), size)
        if code == _OK:
            token = f"attempt-{next(self._tokens)}"
            self._attempts[token] = Attempt(key, size)
            self._sessions.add(key)
            return PutResult(Answer.OK, token=token)
        if key in self._sessions:
            return PutResult(Answer.IN_PROGRESS)
        if code == _OBJECT_ALREADY_EXISTS:
            return PutResult(Answer.EXISTS)
        return PutResult(self._written("put_begin", code, size))

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        """Writes the bytes, then ends the session (batch_put_session_end)."""
        attempt = self._attempts.get(token)
        if attempt is None or attempt.key != key:
            return PutResult(Answer.STALE)
        if len(value) != attempt.size:
            return PutResult(Answer.INVALID)
        del self._attempts[token]
        code = self._call("commit", key, value)
        if code in _NOT_THE_WRITERS:
            self._revoke(key)  # else the client would refuse the next attempt on the key
            return PutResult(Answer.STALE)
        self._sessions.discard(key)
        return PutResult(self._written("put_commit", code, len(value)))

    def put_abort(self, key: str, token: str) -> Answer:
        """Gives the session up (batch_put_session_revoke)."""
        attempt = self._attempts.get(token)
        if attempt is None or attempt.key != key:
            return Answer.STALE
        del self._attempts[token]
        code = self._revoke(key)
        if code != _OK and code not in _NOT_THE_WRITERS:
            raise _unexpected("put_abort", code)
        return Answer.OK if code == _OK else Answer.STALE

    def _revoke(self, key: str) -> int:
        code: int = self._call("revoke", key)
        if code == _OK:
            self._sessions.discard(key)
        return code

    # -- reading ----------------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """A miss and a failed transfer look alike. One that took longer than its own lease is tried again."""
        try:
            return self._read(lambda: [self._call("get", key)])[0]
        except Refusal:  # a key that cannot be stored
            return None

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Native (get_batch)."""
        try:
            return self._read(lambda: self._call("get_many", list(keys)))
        except Refusal:  # one key is no UTF-8: the binding takes all or none
            return [self.get(key) for key in keys]

    def _read(self, call: Callable[[], list[bytes]]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for _attempt in range(_GET_ATTEMPTS):
            begun = time.monotonic()
            found = [value or None for value in call()]
            if all(found) or (time.monotonic() - begun) * 1000 < self._options.lease_ttl_ms:
                break
        return found

    def exists(self, key: str) -> bool:
        """Leases the key if it is there (is_exist)."""
        try:
            return _there("exists", self._call("exists", key))
        except Refusal:
            return False

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        """Native (batch_is_exist); leases every hit."""
        try:
            return [_there("exists_many", code) for code in self._call("exists_many", list(keys))]
        except Refusal:
            return [self.exists(key) for key in keys]

    def stats(self) -> Stats:
        """From /metrics; the size of a value is all that it is charged."""
        seen = self._admin.metrics([_ALLOCATED, _EVICTED])
        return Stats(seen[_ALLOCATED], len(self.resident()), seen[_EVICTED] - self._evicted_before)

    # -- removing ---------------------------------------------------------------------------------------------------------------

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        """Does not ask for pins."""
        try:
            code = self._call("remove", key, force)
        except Refusal:
            return RemoveResult(Answer.NOT_FOUND, ())
        answer = _REMOVE_ANSWERS.get(code)
        if answer is None:
            raise _unexpected("remove", code)
        return RemoveResult(answer, (key,) if answer is Answer.OK else ())

    def clear(self, *, force: bool = False) -> Answer:
        """remove_all skips what is leased or being written and counts the rest: PROTECTED if anything was skipped."""
        count = self._call("remove_all", force)
        if count < 0:
            raise _unexpected("clear", count)
        return Answer.OK if force or not self._admin.metrics([_OBJECTS])[_OBJECTS] else Answer.PROTECTED

    # -- for the backend --------------------------------------------------------------------------------------------------------

    def resident(self) -> frozenset[str]:
        """The readable keys, from the admin port: no lease, no touch."""
        lines = self._admin.all_keys().decode("utf-8", "replace").split("\n")[:-1]
        if not self._multiline:
            return frozenset(lines)
        return split_keys(lines, frozenset(self._multiline), self._admin.resident)

    def empty(self) -> bool:
        """Give up attempts and pending evictions and remove everything; whether nothing is left."""
        self._attempts.clear()
        self._multiline.clear()
        for key in list(self._sessions):
            self._revoke(key)
        self._room.absorb(self._feed)  # else it would take the first object that is put next
        self._call("remove_all", True)
        for key in list(self._sessions):  # a superseded session can only be given up once its object is gone
            self._revoke(key)
        seen = self._admin.metrics([_ALLOCATED, _OBJECTS, _EVICTED])
        self._evicted_before = seen[_EVICTED]
        return not (seen[_ALLOCATED] or seen[_OBJECTS] or self._sessions or self._room.wanted)

    def _feed(self) -> None:
        self._call("remove_all", True)
        self._call("put", _DECOY_KEY, b"x", Pin.NONE.value, None)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._worker.call(name, *arguments, deadline_s=self._options.deadline_ms / 1000)

    def _writing(self, attempt: Callable[[], int], size: int) -> int:
        try:
            return self._room.make(attempt, hopeless=size > self._capacity)
        except Refusal:
            return _INVALID_PARAMS

    def _written(self, call: str, code: int, size: int) -> Answer:
        """The answer for a code of a put; a value above capacity is refused with one code or another."""
        if code == _OK:
            return Answer.STORED
        if code in (_NO_AVAILABLE_HANDLE, _INVALID_PARAMS) and size > self._capacity:
            return Answer.TOO_LARGE
        if code == _NO_AVAILABLE_HANDLE:
            return Answer.NO_SPACE
        if code == _INVALID_PARAMS:
            return Answer.INVALID
        raise _unexpected(call, code)

    def _note(self, key: str) -> None:
        if "\n" in key:
            self._multiline.add(key)


def _supported(options: PutOptions) -> bool:
    """Pins are all that a put can ask for."""
    return attrs.evolve(options, pin=Pin.NONE, soft_pin_ms=None) == PutOptions()


def _unexpected(call: str, code: int) -> AdapterError:
    return AdapterError("raised", f"{call}: Mooncake answered code {code}")


def _there(call: str, code: int) -> bool:
    if code < 0:
        raise _unexpected(call, code)
    return code == 1


def split_keys(lines: Sequence[str], multiline: frozenset[str], ask: Callable[[str], bool | None]) -> frozenset[str]:
    """The keys behind a list that separates them by newlines, though some of the keys that may be there contain one.

    ``ask`` settles single keys; where it cannot, the lines must. AdapterError if the list has more than one reading.
    """
    left = Counter(lines)
    parts = {line for key in multiline for line in key.split("\n")}
    present: set[str] = set()
    open_keys: list[str] = []
    for key in sorted(multiline | {line for line in lines if line in parts}):
        there = ask(key)
        if there:
            present.add(key)
            left -= Counter(key.split("\n"))
        elif there is None:
            open_keys.append(key)
    certain = {line for line in left if line not in parts}
    rest = Counter({line: count for line, count in left.items() if line in parts})
    readings = [
        chosen
        for size in range(len(open_keys) + 1)
        for chosen in itertools.combinations(open_keys, size)
        if sum((Counter(key.split("\n")) for key in chosen), Counter()) == rest
    ]
    if len(readings) != 1:
        raise AdapterError("protocol", "the list of keys cannot be told apart: keys with a newline and a comma are among them")
    return frozenset(present | certain | set(readings[0]))
