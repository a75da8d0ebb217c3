"""Block accesses a second of a replay through the prefix-aware reference store, beside what a bare OrderedDict could do.

The dictionary runs the same requests in the same process: longest prefix, then the path touched from its leaf, evict the oldest. It
keeps no bytes, checks nothing and knows no parents, so it is the ceiling of a replay in pure Python. Hits must be equal.
Run: ``python tests/bench/bench_replay.py [TRACE] [--capacity 10000] [--requests 4000] [--rounds 3]``; without TRACE, a made one.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import attrs

from kvprefix.replay import Request, TraceReader
from kvprefix.replay.generate import Workload, generate
from kvprefix.replay.run import Options, Order, replay
from kvprefix.store import ReferenceBackend, presets


def bare(requests: Sequence[Request], capacity: int) -> int:
    """Hits by prefix of an LRU that touches from the leaf to the root."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for request in requests:
        path = request.hash_ids
        for block in path:
            if block not in cache:
                break
            hits += 1
        for block in reversed(path):
            if block in cache:
                cache.move_to_end(block)
            else:
                cache[block] = None
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


def store(name: str, requests: Sequence[Request], capacity: int) -> int:
    """Hits of the reference store under replay, leases off so that recency alone decides; leaf first where it knows no parents."""
    capabilities = attrs.evolve(presets.PRESETS[name], lease_ttl_ms=0, lease_calls=frozenset())
    order = Order.ROOT_FIRST if capabilities.lineage else Order.LEAF_FIRST
    outcome = replay(requests, ReferenceBackend(capabilities), Options(capacity, order=order))
    assert outcome.stop is None, outcome.stop
    return outcome.counters.hits


def timed(run: Callable[[], int]) -> tuple[int, float]:
    """The hits, and processor seconds."""
    gc.collect()
    begun = time.process_time()
    return run(), time.process_time() - begun


def main() -> None:
    """Run all in turns and print the best of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--capacity", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    source = TraceReader(options.trace) if options.trace else generate(Workload(sessions=options.requests))
    requests = list(itertools.islice(source, options.requests))
    accesses = sum(len(request.hash_ids) for request in requests)
    contenders: dict[str, Callable[[], int]] = {
        "bare OrderedDict": lambda: bare(requests, options.capacity),
        "reference PREFIX_AWARE": lambda: store("PREFIX_AWARE", requests, options.capacity),
        "reference FLAT_LRU": lambda: store("FLAT_LRU", requests, options.capacity),
    }
    hits: dict[str, int] = {}
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(options.rounds):
        for name, run in contenders.items():
            hits[name], seconds = timed(run)
            best[name] = min(best[name], seconds)
    print(
        f"{len(requests):,} requests, {accesses:,} block accesses, capacity {options.capacity:,} blocks, best of {options.rounds}"
    )
    floor = best["bare OrderedDict"]
    for name, seconds in best.items():
        rate, ratio = accesses / seconds, hits[name] / accesses
        print(f"{name:24}{rate:12,.0f} accesses/s   {seconds / floor:6.1f} times the bare time   hit ratio {ratio:.4f}")
    assert len(set(hits.values())) == 1, hits


if __name__ == "__main__":
    main()
