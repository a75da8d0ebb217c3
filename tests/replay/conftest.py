"""A plain store for replays, independent of the reference: an OrderedDict, in the shape that a test asks for."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from kvprefix.api import UNKNOWN, Answer, Capabilities, Geometry, Parent, PutOptions, PutResult, Stats, VictimPolicy
from kvprefix.errors import AdapterError

CONVERSATION = Path(__file__).parents[2].parent / "shared" / "traces" / "mooncake_fast25_conversation.jsonl"


class PlainClient:
    """A flat store of equal blocks. Every decision is a method of its own, so that a test can replace one."""

    def __init__(self, capacity: int, victim: str, reports: bool, seed: int) -> None:
        self.capacity = capacity
        self.victim = victim
        self.reports = reports
        self.rng = random.Random(seed)
        self.blocks: OrderedDict[str, bytes] = OrderedDict()
        self.parents: dict[str, Parent] = {}
        self.evicted = 0
        self.calls = 0
        self.dies_at: int | None = None
        #: What was resident at the begin of each request, noted at its first lookup.
        self.seen: list[frozenset[str]] = []

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        self._count()
        if key in self.blocks:
            return PutResult(Answer.EXISTS, () if self.reports else None)
        if len(value) > self.capacity:
            return PutResult(Answer.TOO_LARGE, () if self.reports else None)
        gone = []
        while self.used() + len(value) > self.capacity:
            gone.append(self.choose())
            del self.blocks[gone[-1]]
        self.evicted += len(gone)
        self.blocks[key] = value
        self.parents[key] = parent
        return PutResult(Answer.STORED, tuple(gone) if self.reports else None)

    def get(self, key: str) -> bytes | None:
        self._count()
        value = self.blocks.get(key)
        if value is not None and self.victim == "lru":
            self.blocks.move_to_end(key)
        return value

    def exists(self, key: str) -> bool:
        self._count()
        return key in self.blocks

    def used(self) -> int:
        return sum(map(len, self.blocks.values()))

    def choose(self) -> str:
        return self.rng.choice(list(self.blocks)) if self.victim == "random" else next(iter(self.blocks))

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.dies_at:
            raise AdapterError("died", "it was told to")

    # what a test may ask for beside

    def match(self, chain: Sequence[str]) -> int:
        self._count()
        return next((n for n, key in enumerate(chain) if key not in self.blocks), len(chain))

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        self._count()
        return [key in self.blocks for key in keys]

    def stats(self) -> Stats:
        return Stats(self.used(), len(self.blocks), self.evicted)


class PlainBackend:
    """The backend around it. ``offers`` names the optional calls and hooks; ``change`` may replace methods of the client."""

    def __init__(
        self,
        capabilities: Capabilities,
        *,
        victim: str = "lru",
        offers: Collection[str] = ("match", "stats", "resident"),
        seed: int = 0,
        change: Callable[[Any], None] | None = None,
    ) -> None:
        self._capabilities = capabilities
        self._victim = victim
        self._offers = offers
        self._seed = seed
        self._change = change
        self.plain: Any
        self.advanced: list[int] = []
        self.closed = False
        if "resident" in offers:
            self.resident = lambda: frozenset(self.plain.blocks)
        if "advance" in offers:
            self.advance = self.advanced.append

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, capacity: int) -> Geometry:
        self.plain = PlainClient(capacity, self._victim, self._capabilities.reports_evictions, self._seed)
        for call in ("match", "exists_many", "stats"):
            if call not in self._offers:
                setattr(self.plain, call, None)
        if self._change is not None:
            self._change(self.plain)
        return Geometry(capacity)

    def client(self, index: int = 0, tenant: str = "") -> Any:
        return self.plain

    def reset(self) -> None:
        self.plain.blocks.clear()

    def close(self) -> None:
        self.closed = True


@pytest.fixture(scope="session")
def plain() -> Callable[..., PlainBackend]:
    """Make a plain backend: ``declares`` are fields of its capabilities, the rest is as in PlainBackend."""

    def make(declares: dict[str, Any] | None = None, **shape: Any) -> PlainBackend:
        lru = shape.get("victim", "lru") == "lru"
        policy = VictimPolicy.LRU if lru else VictimPolicy.UNSPECIFIED
        touched = frozenset({"get"}) if lru else frozenset[str]()
        capabilities = Capabilities(name="plain", policy=policy, touch_calls=touched)
        return PlainBackend(attrs.evolve(capabilities, **(declares or {})), **shape)

    return make


@pytest.fixture(scope="session")
def conversation() -> Path:
    """The real trace, where the folder is there."""
    if not CONVERSATION.is_file():
        pytest.skip(f"no trace at ../shared/traces/{CONVERSATION.name}")
    return CONVERSATION
