"""The lazy heap: exact in spite of entries that are out of date, and never rebuilt in one piece."""

from __future__ import annotations

from random import Random

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.store.lazyheap import LazyHeap


@attrs.define(eq=False)
class Item:
    rank: int
    alive: bool = True
    queued: bool = False

    def __lt__(self, other: Item) -> bool:
        return False


def heap_of_items() -> LazyHeap[Item]:
    def revise(item: Item) -> int | None:
        if item.alive:
            return item.rank
        item.queued = False
        return None

    return LazyHeap(revise)


def enter(heap: LazyHeap[Item], item: Item) -> None:
    if not item.queued:
        item.queued = True
        heap.push(item)
    elif not item.alive:
        heap.regain()
    item.alive = True


def kill(heap: LazyHeap[Item], item: Item) -> None:
    item.alive = False
    heap.lose()


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_pop_is_always_the_lowest_true_rank(seed: int) -> None:
    rng, heap = Random(seed), heap_of_items()
    items: list[Item] = []
    live: dict[Item, None] = {}
    for tick in range(400):
        op = rng.choice(["push", "push", "push", "raise", "raise", "kill", "kill", "revive", "pop"])
        if op == "push":
            items.append(Item(rng.choice([tick, rng.randrange(500)])))
            enter(heap, items[-1])
            live[items[-1]] = None
        elif op == "raise" and live:
            rng.choice(list(live)).rank += rng.randrange(200)
            heap.tidy()
        elif op == "kill" and live:
            item = rng.choice(list(live))
            del live[item]
            kill(heap, item)
        elif op == "revive" and items:
            item = rng.choice(items)
            if item not in live:
                enter(heap, item)
                live[item] = None
        elif op == "pop":
            popped = heap.pop()
            assert (popped is None) == (not live)
            if popped is not None:
                assert popped.rank == min(item.rank for item in live)
                del live[popped]
                popped.queued = popped.alive = False
    rest = []
    while (popped := heap.pop()) is not None:
        rest.append(popped.rank)
    assert rest == sorted(item.rank for item in live)
    assert len(heap) == 0


def test_dead_entries_never_outnumber_the_live_ones_for_long() -> None:
    """Store and remove for ever: the heap stays as small as what is stored."""
    heap = heap_of_items()
    longest = 0
    for rank in range(20_000):
        item = Item(rank)
        enter(heap, item)
        if rank >= 100:
            kill(heap, item)
        longest = max(longest, len(heap))
    assert longest < 500


def test_a_touched_head_is_put_back_at_once() -> None:
    """Touches in the order of the queue leave nothing for the next pop to repair."""
    calls = 0
    items = [Item(rank) for rank in range(1000)]

    def revise(item: Item) -> int | None:
        nonlocal calls
        calls += 1
        return item.rank

    heap: LazyHeap[Item] = LazyHeap(revise)
    for item in items:
        heap.push(item)
    for item in items[:-1]:
        item.rank += 10_000
        heap.tidy()
    calls = 0
    assert heap.pop() is items[-1]
    assert calls < 5


def test_no_single_call_rebuilds_the_heap() -> None:
    calls = 0
    items = [Item(rank) for rank in range(4000)]

    def counted(item: Item) -> int | None:
        nonlocal calls
        calls += 1
        return item.rank if item.alive else None

    heap: LazyHeap[Item] = LazyHeap(counted)
    for item in items:
        heap.push(item)
    most = 0
    for item in reversed(items[1:]):
        calls = 0
        kill(heap, item)
        most = max(most, calls)
    assert most <= 8
    assert heap.pop() is items[0]
