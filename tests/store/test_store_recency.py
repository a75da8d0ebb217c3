"""PFX-9: the victim is the evictable leaf that the declared policy names, by a brute force that stamps all ancestors at once.

The abstract model has no policy, so this is not part of the refinement test. The store hands stamps up only when a child leaves;
the brute force below knows nothing of that.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.api import ROOT, UNKNOWN, Answer, Capabilities, EvictionOrder, Geometry, Parent, Transport, VictimPolicy
from kvprefix.store import ReferenceStore, presets
from kvprefix.store.eviction import LeafFirstLru, Lru
from kvprefix.store.node import Node

KEYS = "abcdefghijkl"


@attrs.define
class BruteForce:
    """A store of objects of one byte each that finds its victim by looking at all of them."""

    caps: Capabilities
    capacity: int
    parents: dict[str, Parent] = attrs.field(factory=dict)
    stamps: dict[str, int] = attrs.field(factory=dict)
    registered: dict[str, Parent] = attrs.field(factory=dict)
    tick: int = 0

    def line(self, key: Parent) -> list[str]:
        """The object and its ancestors, as far as they are present."""
        line: list[str] = []
        while isinstance(key, str) and key in self.parents:
            line.append(key)
            key = self.parents[key]
        return line

    def stamp(self, key: str) -> None:
        self.tick += 1
        for each in self.line(key) if self.caps.lineage_recency else [key]:
            self.stamps[each] = self.tick

    def touch(self, key: str, call: str) -> None:
        if key in self.parents and call in self.caps.touch_calls and self.caps.policy is not VictimPolicy.FIFO:
            self.stamp(key)

    def match(self, chain: str) -> None:
        for key in chain:
            if key not in self.parents:
                break
            self.touch(key, "match")

    def drop(self, key: str) -> None:
        del self.parents[key], self.stamps[key]

    def put(self, key: str, parent: Parent) -> tuple[str, ...]:
        """The victims of a put that is accepted."""
        if key in self.parents:
            self.touch(key, "duplicate_put")
            return ()
        parent = self.registered.pop(key, parent)
        victims: list[str] = []
        while len(self.parents) >= self.capacity:
            leaves = set(self.parents) - set(self.parents.values()) - set(self.line(parent))
            if self.caps.eviction_order is EvictionOrder.ANY:
                leaves = set(self.parents)
            victims.append(min(leaves, key=self.stamps.__getitem__))
            self.drop(victims[-1])
        self.parents[key] = parent
        if self.caps.policy is VictimPolicy.FIFO:
            self.tick += 1
            self.stamps[key] = self.tick
        else:
            self.stamp(key)
        return tuple(victims)


def _without_leases(caps: Capabilities, **changes: Any) -> Capabilities:
    return attrs.evolve(caps, lease_ttl_ms=0, lease_calls=frozenset(), **changes)


ALL_TOUCHES = frozenset({"get", "exists", "match", "duplicate_put"})
STORES = {
    "leaf-first LRU": _without_leases(presets.PREFIX_AWARE, touch_calls=ALL_TOUCHES),
    "leaf-first LRU over holes": _without_leases(presets.PLACEHOLDER, touch_calls=ALL_TOUCHES),
    "leaf-first LRU, lineage told late": _without_leases(presets.EVENT_TRANSPORT, touch_calls=ALL_TOUCHES),
    "LRU among leaves": _without_leases(presets.PREFIX_AWARE, touch_calls=ALL_TOUCHES, lineage_recency=False),
    "FIFO among leaves": _without_leases(
        presets.PREFIX_AWARE, touch_calls=ALL_TOUCHES, policy=VictimPolicy.FIFO, lineage_recency=False
    ),
    "flat LRU": _without_leases(presets.FLAT_LRU, touch_calls=ALL_TOUCHES),
    "flat FIFO": _without_leases(presets.FLAT_FIFO),
}


def compare(caps: Capabilities, rng: Random) -> None:
    """One random history through both; every put names the same victims, in the same order."""
    told_late = Transport.EVENT in caps.lineage
    tree: dict[str, Parent] = {key: rng.choice([*KEYS[max(0, i - 3) : i], ROOT]) if i else ROOT for i, key in enumerate(KEYS)}
    capacity = rng.randint(4, 7)
    store, brute = ReferenceStore(caps, Geometry(capacity)), BruteForce(caps, capacity)
    for _ in range(300):
        key = rng.choice(KEYS)
        op = rng.choice(["put", "put", "put", "get", "get", "exists", "match", "remove", "remove", "register"])
        if op == "put":
            parent = tree[key] if Transport.ARGUMENT in caps.lineage else UNKNOWN
            result = store.put(key, b"v", parent=parent)
            if result.answer in (Answer.STORED, Answer.EXISTS):
                assert result.evicted == brute.put(key, parent)
        elif op == "get":
            store.get(key)
            brute.touch(key, "get")
        elif op == "exists":
            store.exists(key)
            brute.touch(key, "exists")
        elif op == "match":
            chain = "".join(rng.sample(KEYS, 3))
            store.match(chain)
            brute.match(chain)
        elif op == "remove":
            for gone in store.remove(key).removed or ():
                brute.drop(gone)
        elif told_late and store.register(key, tree[key]) is Answer.OK:
            (brute.parents if key in brute.parents else brute.registered)[key] = tree[key]
        assert set(store.snapshot().objects) == set(brute.parents)


def compare_many(caps: Capabilities, count: int) -> None:
    for seed in range(count):
        compare(caps, Random(seed))


@pytest.mark.parametrize("name", STORES)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_victims_are_always_those_of_brute_force(name: str, seed: int) -> None:
    compare(STORES[name], Random(seed))


def _hand_up_all(self: LeafFirstLru, node: Node, parent: Node) -> None:
    parent.stamp = max(parent.stamp, node.stamp)


@pytest.mark.parametrize(
    ("name", "left"),
    [("leaf-first LRU", Lru.left), ("leaf-first LRU, lineage told late", _hand_up_all)],
    ids=["touches that die with the child", "touches from before the link"],
)
def test_brute_force_tells_a_store_with(name: str, left: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeafFirstLru, "left", left)
    with pytest.raises(AssertionError):
        compare_many(STORES[name], 200)


def test_head_outlives_suffix_traffic() -> None:
    """A device cache takes every hit on the head: the store sees the tail only, and keeps the head for it (D19)."""
    store = ReferenceStore(STORES["leaf-first LRU"], Geometry(4))
    for key, parent in (("a", ROOT), ("b", "a"), ("x", ROOT), ("y", "x")):
        store.put(key, b"v", parent=parent)
    store.get("b")
    assert store.put("z", b"v", parent=ROOT).evicted == ("y",)
    assert store.put("w", b"v", parent=ROOT).evicted == ("x",)
    assert store.match(["a", "b"]) == 2


def test_touch_outlives_the_child() -> None:
    store = ReferenceStore(STORES["leaf-first LRU"], Geometry(3))
    for key, parent in (("a", ROOT), ("b", "a"), ("x", ROOT)):
        store.put(key, b"v", parent=parent)
    store.get("b")
    store.remove("b")
    assert store.put("y", b"v", parent=ROOT).evicted == ()
    assert store.put("z", b"v", parent=ROOT).evicted == ("x",), "a was touched through b, after x was stored"


def test_probe_never_touches() -> None:
    store = ReferenceStore(STORES["flat LRU"], Geometry(2))
    store.put("a", b"v")
    store.put("b", b"v")
    store.probe("a")
    assert store.put("c", b"v").evicted == ("a",)
