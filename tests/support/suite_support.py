"""A tiny store that is easy to see through, and a way to write histories down by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kvprefix.api import (
    UNKNOWN,
    Answer,
    Capabilities,
    Event,
    Geometry,
    Parent,
    PutOptions,
    PutResult,
    RemoveResult,
    Stats,
    VictimPolicy,
)
from kvprefix_conformance.oracle.judge import judge
from kvprefix_conformance.oracle.ledger import Terms
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Recorded, Seen
from kvprefix_conformance.target import Target

FLAT = Capabilities(name="tiny", profiles=frozenset({"object-store"}), policy=VictimPolicy.FIFO)


class TinyStore:
    """A dict that evicts the oldest: client and backend in one. Tests override a method to break it."""

    capabilities = FLAT

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.geometry = Geometry(0)

    # the backend

    def start(self, capacity: int) -> Geometry:
        self.geometry = Geometry(capacity)
        return self.geometry

    def client(self, index: int = 0, tenant: str = "") -> TinyStore:
        return self

    def reset(self) -> None:
        self.objects.clear()

    def close(self) -> None:
        self.objects.clear()

    def resident(self) -> frozenset[str]:
        return frozenset(self.objects)

    # the client

    def used(self) -> int:
        return sum(map(len, self.objects.values()))

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        if options != PutOptions():
            return PutResult(Answer.UNSUPPORTED, ())
        if not key or not value:
            return PutResult(Answer.INVALID, ())
        if key in self.objects:
            return PutResult(Answer.EXISTS, ())
        if len(value) > self.geometry.capacity_bytes:
            return PutResult(Answer.TOO_LARGE, ())
        evicted = []
        while self.used() + len(value) > self.geometry.capacity_bytes:
            evicted.append(next(iter(self.objects)))
            del self.objects[evicted[-1]]
        self.objects[key] = value
        return PutResult(Answer.STORED, tuple(evicted))

    def get(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def exists(self, key: str) -> bool:
        return key in self.objects

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        if self.objects.pop(key, None) is None:
            return RemoveResult(Answer.NOT_FOUND, ())
        return RemoveResult(Answer.OK, (key,))

    def stats(self) -> Stats:
        return Stats(self.used(), len(self.objects))


# --------------------------------------------------------------------------------------------------------------------------------
# Histories by hand

ALL_CALLS = frozenset(
    {
        "put", "get", "exists", "probe", "match", "remove", "clear", "put_begin", "put_commit", "put_abort", "put_many", "get_many",
        "exists_many", "pin", "unpin", "lease", "stats", "advance", "quiesce", "jump_wall_clock",
    }
)  # fmt: skip


@attrs.define
class History:
    """Writes steps with their answers; asks the oracle what it says of them."""

    terms: Terms
    records: list[Recorded] = attrs.field(factory=list)
    now: int = 0

    def step(
        self,
        op: str,
        answer: Any = None,
        resident: str | None = None,
        events: tuple[Event, ...] | None = None,
        **args: Any,
    ) -> History:
        """One step. ``resident``: the keys of a snapshot after it, separated by spaces."""
        if op == "advance":
            self.now += args["ms"]
        seen = Seen((self.now, self.now), None if resident is None else frozenset(resident.split()), events)
        self.records.append(Recorded(Step(op, args, answer), seen))
        return self

    def put(
        self, key: str, answer: str = "STORED", *, size: int = 100, fill: int = 1, evicted: str | None = "", **more: Any
    ) -> History:
        """A put; ``evicted``: the reported victims separated by spaces, None where nothing is reported."""
        args = {name: more.pop(name) for name in ("parent", "options") if name in more}
        result = {"answer": answer, "evicted": None if evicted is None else evicted.split()}
        return self.step("put", result, key=key, value={"fill": fill, "size": size}, **args, **more)

    def get(self, key: str, of: str | None = "", *, fill: int = 1, size: int = 100, **more: Any) -> History:
        """A get that returns the value of ``of`` (by default its own); None: a miss."""
        value = None if of is None else {"of": of or key, "fill": fill, "size": size}
        return self.step("get", value, key=key, **more)

    def violations(self) -> list[Violation]:
        """What the oracle finds."""
        return judge(self.records, self.terms)

    def kinds(self) -> set[str]:
        """The same as REQUIREMENT kind."""
        return {f"{violation.requirement} {violation.kind}" for violation in self.violations()}


def history(capacity: int = 400, offered: frozenset[str] = ALL_CALLS, **declared: Any) -> History:
    """A history on a store of this many bytes that declares these capabilities."""
    fields: Mapping[str, Any] = {"name": "written", **declared}
    return History(Terms(Capabilities(**fields), Geometry(capacity), offered))


def target(store: Callable[[], Any], name: str = "tiny") -> Target:
    """A target of a store class."""
    return Target(name, store, name)
