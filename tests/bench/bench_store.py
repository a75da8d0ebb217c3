"""What one operation of the reference store costs at 10^4, 10^5 and 10^6 resident blocks, beside a bare OrderedDict LRU.

The dictionary does the same number of key accesses in the same run, so its growth is the floor that cache misses set; ours may grow
at most 1.5 times as much. Blocks form chains of 16. Run: ``python tests/bench/bench_store.py [--sizes 10000 100000] [--rounds 5]``.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import sys
import time
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Sequence

import attrs

from kvprefix.api import ROOT, Answer, Geometry
from kvprefix.store import ReferenceStore, presets

DEPTH = 16
BLOCK = b"v" * 16
#: Ours may grow this many times as much as the dictionary does.
ALLOWED_GROWTH = 1.5
#: Bytes per resident block without value and key string.
ALLOWED_BYTES = 600

Chain = list[str]


def chain(number: int) -> Chain:
    """Keys of one chain of 16 blocks, as long as real ones are (64 hex digits)."""
    return [hashlib.sha256(f"{number}/{depth}".encode()).hexdigest() for depth in range(DEPTH)]


@attrs.define
class Pair:
    """Both contenders, filled with the same blocks."""

    store: ReferenceStore
    plain: OrderedDict[str, bytes]
    chains: list[Chain]
    fresh: int

    def new_chains(self, count: int) -> list[Chain]:
        """Chains that neither has seen."""
        self.fresh += count
        return [chain(number) for number in range(self.fresh - count, self.fresh)]


def put_chain(store: ReferenceStore, keys: Chain) -> None:
    """Root first, each block under the one before."""
    parent: str | None = None
    for key in keys:
        answer = store.put(key, BLOCK, parent=ROOT if parent is None else parent).answer
        assert answer is Answer.STORED, answer
        parent = key


def filled(blocks: int) -> Pair:
    """A full store, and a full dictionary."""
    store = ReferenceStore(presets.PREFIX_AWARE, Geometry(blocks * len(BLOCK)))
    plain: OrderedDict[str, bytes] = OrderedDict()
    chains = [chain(number) for number in range(blocks // DEPTH)]
    for keys in chains:
        put_chain(store, keys)
        plain.update(dict.fromkeys(keys, BLOCK))
    return Pair(store, plain, chains, len(chains))


# --------------------------------------------------------------------------------------------------------------------------------
# Operations: each returns (seconds ours, seconds of the dictionary) per key access


def timed(work: Callable[[], None]) -> float:
    """CPU seconds, with a collected heap."""
    gc.collect(0)
    begun = time.process_time()
    work()
    return time.process_time() - begun


def puts_with_eviction(pair: Pair, count: int) -> tuple[float, float]:
    """Put new chains into a full store: each put evicts one block."""
    fresh = pair.new_chains(count // DEPTH)

    def ours() -> None:
        for keys in fresh:
            put_chain(pair.store, keys)

    def plain() -> None:
        lru = pair.plain
        for keys in fresh:
            for key in keys:
                lru[key] = BLOCK
                lru.popitem(last=False)

    result = timed(ours), timed(plain)
    # Oldest chains went; keep the list of what is resident right.
    pair.chains = pair.chains[len(fresh) :] + fresh
    return result


def get_hits(pair: Pair, count: int) -> tuple[float, float]:
    """Random hits over the whole store."""
    rng = random.Random(count)
    keys = [rng.choice(pair.chains)[rng.randrange(DEPTH)] for _ in range(count)]

    def ours() -> None:
        get = pair.store.get
        for key in keys:
            assert get(key) is not None

    def plain() -> None:
        lru = pair.plain
        for key in keys:
            assert lru[key] is not None
            lru.move_to_end(key)

    return timed(ours), timed(plain)


def matches(pair: Pair, count: int) -> tuple[float, float]:
    """Match whole chains of 16 blocks, picked at random; the chain is touched and leased."""
    rng = random.Random(count + 1)
    chains = [rng.choice(pair.chains) for _ in range(count // DEPTH)]

    def ours() -> None:
        match = pair.store.match
        for keys in chains:
            assert match(keys) == DEPTH

    def plain() -> None:
        lru = pair.plain
        for keys in chains:
            for key in reversed(keys):
                if key in lru:
                    lru.move_to_end(key)

    return timed(ours), timed(plain)


def evictions(pair: Pair, count: int) -> tuple[float, float]:
    """Evict many blocks at once, by one big put; the hole is filled again outside the clock."""
    pair.store.advance(10_000)
    blocks = count // 4
    big = b"B" * (blocks * len(BLOCK))

    def ours() -> None:
        assert pair.store.put("big", big, parent=ROOT).answer is Answer.STORED

    def plain() -> None:
        for _ in range(blocks):
            pair.plain.popitem(last=False)

    result = timed(ours), timed(plain)
    pair.store.remove("big", force=True)
    for keys in pair.new_chains(blocks // DEPTH):
        put_chain(pair.store, keys)
        pair.plain.update(dict.fromkeys(keys, BLOCK))
        pair.chains.append(keys)
    resident = pair.store.probe
    pair.chains = [keys for keys in pair.chains if resident(keys[0]) and resident(keys[-1]) and keys[0] in pair.plain]
    return result


OPERATIONS: dict[str, tuple[Callable[[Pair, int], tuple[float, float]], Callable[[int], int]]] = {
    "put with eviction": (puts_with_eviction, lambda count: count),
    "get hit": (get_hits, lambda count: count),
    "match of 16": (matches, lambda count: count),
    "evict": (evictions, lambda count: count // 4),
}


# --------------------------------------------------------------------------------------------------------------------------------
# Reports


def measure(blocks: int, count: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Best of some rounds, in microseconds per key access: (ours, the dictionary)."""
    pair = filled(blocks)
    found: dict[str, tuple[float, float]] = {}
    for name, (operation, accesses) in OPERATIONS.items():
        runs = [operation(pair, count) for _ in range(rounds)]
        pair.store.advance(10_000)
        per_key = 1e6 / accesses(count)
        found[name] = min(run[0] for run in runs) * per_key, min(run[1] for run in runs) * per_key
    return found


def bytes_per_block(blocks: int) -> float:
    """Memory that the store itself takes per resident block; keys and values exist before and are not counted."""
    chains = [chain(number) for number in range(blocks // DEPTH)]
    store = ReferenceStore(presets.PREFIX_AWARE, Geometry(blocks * len(BLOCK)))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for keys in chains:
        put_chain(store, keys)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / (len(chains) * DEPTH)


def report(sizes: Sequence[int], results: Sequence[dict[str, tuple[float, float]]]) -> bool:
    """Print costs and growth; whether all targets are met."""
    good = True
    print(f"{'microseconds per key access':28}" + "".join(f"{size:>12,}" for size in sizes) + f"{'growth':>10}{'ours/dict':>11}")
    for name in OPERATIONS:
        growths = []
        for side, label in enumerate((name, "  OrderedDict")):
            costs = [result[name][side] for result in results]
            growths.append(costs[-1] / costs[0])
            ratio = growths[0] / growths[-1]
            print(f"{label:28}" + "".join(f"{cost:12.2f}" for cost in costs) + f"{growths[-1]:9.2f}x", end="")
            print(f"{ratio:10.2f}x" if side else "")
        good &= growths[0] / growths[1] <= ALLOWED_GROWTH
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and answer 0 where the targets hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="resident blocks")
    parser.add_argument("--count", type=int, default=40_000, help="key accesses per round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    results = [measure(size, min(options.count, size // 2), options.rounds) for size in options.sizes]
    good = report(options.sizes, results)
    size = options.sizes[-1]
    memory = bytes_per_block(min(size, 200_000))
    print(f"memory per resident block, without value and key string: {memory:.0f} bytes (goal: under {ALLOWED_BYTES})")
    good &= memory <= ALLOWED_BYTES
    print("targets met" if good else f"a target is missed: growth at most {ALLOWED_GROWTH} times the dictionary's")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
