"""No operation scans what is stored. Costs are counted in function calls, so nothing here depends on a clock.

A heap operation is one call whatever its size; what these tests rule out is a walk over objects, queues, waiting lists or logs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kvprefix.api import ROOT, UNKNOWN, Answer, Capabilities, Geometry, Parent, Pin, PutItem, PutOptions
from kvprefix.store import ReferenceStore, presets
from kvprefix.store.lazyheap import LazyHeap

DEPTH = 8


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions, Python's own included, this calls."""
    count = 0

    def counter(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def chains(count: int) -> list[list[str]]:
    return [[f"{number}/{depth}" for depth in range(DEPTH)] for number in range(count)]


def put_chain(store: ReferenceStore, keys: list[str], options: PutOptions = PutOptions()) -> None:
    parent: Parent = ROOT
    for key in keys:
        assert store.put(key, b"v", parent=parent, options=options).answer in (Answer.STORED, Answer.DEFERRED)
        parent = key


def full_store(caps: Capabilities, objects: int) -> ReferenceStore:
    store = ReferenceStore(caps, Geometry(objects))
    for keys in chains(objects // DEPTH):
        put_chain(store, keys)
    return store


OPERATIONS: dict[str, Callable[[ReferenceStore], Any]] = {
    "put that evicts": lambda store: store.put("new", b"v", parent=ROOT),
    "put that is refused": lambda store: store.put("new", b"v" * 1_000_000, parent=ROOT),
    "put of a resident key": lambda store: store.put("9/0", b"v", parent=ROOT),
    "put without its parent": lambda store: store.put("new", b"v", parent="nobody"),
    "put_begin and put_abort": lambda store: store.put_abort("new", str(store.put_begin("new", 1, parent="9/7").token)),
    "put_many": lambda store: store.put_many([PutItem("new", b"v", ROOT), PutItem("newer", b"v", "new")]),
    "get": lambda store: store.get("9/3"),
    "get of a missing key": lambda store: store.get("nobody"),
    "exists": lambda store: store.exists("9/3"),
    "match": lambda store: store.match(chains(10)[9]),
    "remove": lambda store: store.remove("9/7"),
    "pin and unpin": lambda store: store.unpin(str(store.pin("9/7").token)),
    "lease": lambda store: store.lease("9/7", 5),
    "advance": lambda store: store.advance(1),
    "stats": lambda store: store.stats(),
    "clear": lambda store: store.clear(force=True),
}


@pytest.mark.parametrize("preset", ["PREFIX_AWARE", "CASCADE", "DEFER", "PLACEHOLDER", "FLAT_LRU", "FLAT_FIFO", "FAMILIES"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_cost_does_not_grow_with_what_is_stored(operation: str, preset: str) -> None:
    caps = presets.PRESETS[preset]
    small, large = full_store(caps, 160), full_store(caps, 1600)
    few = calls_of(lambda: OPERATIONS[operation](small))
    assert calls_of(lambda: OPERATIONS[operation](large)) <= few + 20


def test_thousand_pinned_heads_cost_nothing() -> None:
    """The oldest objects are all in use: finding a victim behind them costs what it costs without them."""
    store = full_store(presets.PREFIX_AWARE, 16_000)
    for keys in chains(1_000):
        store.pin(keys[-1])
    store.put("first", b"v", parent=ROOT)
    assert calls_of(lambda: store.put("second", b"v", parent=ROOT)) < 150


def test_thousand_leased_heads_cost_nothing() -> None:
    store = full_store(presets.PREFIX_AWARE, 16_000)
    for keys in chains(1_000):
        store.match(keys)
    store.put("first", b"v", parent=ROOT)
    assert calls_of(lambda: store.put("second", b"v", parent=ROOT)) < 150


def test_thousand_touched_heads_cost_nothing() -> None:
    """A touch repairs the head of the queue as it goes, so no later put pays for a thousand touches at once."""
    caps = attrs.evolve(presets.PREFIX_AWARE, lease_ttl_ms=0, lease_calls=frozenset())
    store = full_store(caps, 16_000)
    for keys in chains(1_000):
        store.match(keys)
    assert calls_of(lambda: store.put("first", b"v", parent=ROOT)) < 150


@pytest.mark.parametrize("preset", ["FLAT_LRU", "PREFIX_AWARE"])
def test_queues_stay_as_small_as_what_is_stored(preset: str) -> None:
    """Store, lease and force away for ever, with no eviction and a clock that stands: no entry is left behind for each."""
    store = ReferenceStore(presets.PRESETS[preset], Geometry(1_000))
    for number in range(5_000):
        store.put(f"{number}", b"v", parent=ROOT, options=PutOptions(lease_ms=50, pin=Pin.SOFT, soft_pin_ms=50))
        store.remove(f"{number}", force=True)
    core = store._core
    queues: list[LazyHeap[Any]] = [core.victims._plain, core.victims._soft, core.protection._leases, core.protection._soft_pins]
    assert max(len(queue) for queue in queues) < 500


def test_deep_chain_costs_as_much_per_block_as_a_short_one() -> None:
    """Room for a put under a long chain is decided without walking it: that would make long prompts quadratic."""
    caps = attrs.evolve(presets.PREFIX_AWARE, lease_ttl_ms=0, lease_calls=frozenset())
    store = ReferenceStore(caps, Geometry(4_000))
    for number in range(1_000):
        store.put(f"old{number}", b"v", parent=ROOT)
    put_chain(store, [f"{depth}" for depth in range(3_000)])
    assert calls_of(lambda: store.put("3000", b"v", parent="2999")) < 150


def test_registration_costs_no_more_than_its_own_line() -> None:
    small, large = (full_store(presets.EVENT_TRANSPORT, size) for size in (160, 1600))
    assert small.put("new", b"v", parent=UNKNOWN).answer is Answer.STORED
    assert large.put("new", b"v", parent=UNKNOWN).answer is Answer.STORED
    few = calls_of(lambda: small.register("new", "9/7"))
    assert calls_of(lambda: large.register("new", "9/7")) <= few + 5
