"""Pressure as Mooncake Store feels it: a full store refuses, and passes between the calls evict a share of it in lease order.

Measured on the real server and read in its source, not taken from it: a read at t ranks as t + TTL and a write as t; the share is
counted in objects, not bytes; a batch visits its keys by hash shard from a random start, so ranks inside a batch follow the hash
and not the request; an object group goes as a whole. There is no lineage anywhere, and PFX is not claimed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import xxhash

from kvprefix.store.node import GONE, Node

if TYPE_CHECKING:
    from kvprefix.store.core import Core

#: Metadata shards; a batch visits them in descending order.
SHARDS = 1024
#: Ranks are deadlines in milliseconds, told apart below that by the order of calls (the real clock has nanoseconds).
_CALLS_PER_MS = 1 << 40


class LeaseOrder:
    """The policy: objects rank by their lease deadline, the one of 0 ms that a put grants included."""

    def __init__(self, lease_ttl_ms: int) -> None:
        self._ttl_ms = lease_ttl_ms
        #: The store's clock, told whenever time passes.
        self.now = 0

    def stored(self, node: Node, tick: int) -> None:
        """A write at t ranks as t."""
        node.stamp = max(node.stamp, self.now * _CALLS_PER_MS + tick)

    def touched(self, node: Node, tick: int) -> None:
        """A read at t ranks as t + TTL, with all of its object group (GRP-2): O(members)."""
        stamp = (self.now + self._ttl_ms) * _CALLS_PER_MS + tick
        for each in (node,) if node.group is None else node.group.members:
            each.stamp = stamp

    def left(self, node: Node, parent: Node) -> None:
        """There are no parents."""


class BatchEvict:
    """Passes of one share of all objects each, while the store is above its watermark or just refused a put."""

    def __init__(self, policy: LeaseOrder, seed: int = 0) -> None:
        self._policy = policy
        self._rng = random.Random(seed)

    def fits(self, core: Core, charge: int, above: Node | None = None, kept: int = 0) -> bool:  # noqa: ARG002 - nothing is spared
        """Whether it fits as it is: a put never evicts for itself."""
        return core.used + charge <= core.geometry.capacity_bytes

    def make(self, core: Core, charge: int, above: Node | None = None) -> tuple[str, ...]:  # noqa: ARG002 - it fits
        """Nothing: it fits."""
        return ()

    def relieve(self, core: Core, *, refused: bool = False) -> None:
        """Run passes until the store is below its watermark or nothing can go."""
        self._policy.now = core.now
        watermark = core.capabilities.watermark * core.geometry.capacity_bytes
        while refused or core.used > watermark:
            if not self._evict_share(core):
                return
            refused = False

    def visits(self, core: Core, keys: Sequence[str]) -> Sequence[int]:
        """By shard, descending from a random one, and around. The members of an object group are in one shard."""
        start = self._rng.randrange(SHARDS)
        shards = [shard_of(node.options.object_group or key if (node := core.objects.get(key)) else key) for key in keys]
        return sorted(range(len(keys)), key=lambda i: (start - shards[i]) % SHARDS)

    def _evict_share(self, core: Core) -> int:
        """One pass; how many objects went. Amortised O(log n) per object."""
        caps = core.capabilities
        above = core.used / core.geometry.capacity_bytes - caps.watermark
        share = max(caps.evict_ratio, above + caps.evict_ratio)
        base = core.resident_objects - core.protection.hard_pinned
        evicted = self._evict_first(core, math.ceil(base * share), soft=False)
        at_least = math.ceil(base * max(share / 2, above))
        if evicted < at_least:
            evicted += self._evict_first(core, at_least - evicted, soft=True)
        return evicted

    def _evict_first(self, core: Core, wanted: int, *, soft: bool) -> int:
        """The first ``wanted`` in lease order, each with its object group, even where the count is met before the last of them;
        then more, where some had gone with their group.
        """
        first: list[Node] = []
        while len(first) < wanted and (node := _take(core, soft=soft)) is not None:
            first.append(node)
        evicted = 0
        for node in first:
            if node.state is not GONE:
                evicted += _evict_with_group(core, node, soft=soft)
        while evicted < wanted and (node := _take(core, soft=soft)) is not None:
            evicted += _evict_with_group(core, node, soft=soft)
        return evicted


def _take(core: Core, *, soft: bool) -> Node | None:
    unit = core.victims.take_from(soft=soft)
    assert unit is None or isinstance(unit, Node), "no families here"
    return unit


def _evict_with_group(core: Core, node: Node, *, soft: bool) -> int:
    """Members that are pinned stay; none is leased, for they share one lease."""
    members = [node] if node.group is None else list(node.group.members)
    leaving = [member for member in members if not member.guards and (soft or not member.soft)]
    for member in leaving:
        core.evict(member)
    return len(leaving)


def shard_of(key: str) -> int:
    """The metadata shard of a key: its hash, the same in every process."""
    return xxhash.xxh3_64_intdigest(key.encode("utf-8", "surrogatepass")) % SHARDS
