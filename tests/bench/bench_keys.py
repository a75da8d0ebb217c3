"""Blocks hashed per second against the bare serialise-and-digest loop, in the same run; and object keys per second.

    python tests/bench/bench_keys.py [--tokens 262144] [--rounds 5]

Ratios are to be trusted, absolute figures are not: the clock of a shared machine swings. The bare loop does no check and has no
extra keys; it is the ceiling of any byte-exact implementation of the recipe.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable

from kvprefix.api import ROOT
from kvprefix.keys import (
    Algorithm,
    BlockKey,
    Compatibility,
    Extras,
    HashScheme,
    Lora,
    Span,
    format_lineage,
    format_strict,
    hash_chain,
    key_space,
    lineage_of,
    parse,
)
from kvprefix.keys.recipes import codec


def bare(algorithm: Algorithm, tokens: list[int], size: int) -> None:
    """The loop that nothing can beat: slice, serialise, digest."""
    serialise, digest = codec(algorithm)
    parent = HashScheme(algorithm, size, "0").root
    for start in range(0, len(tokens), size):
        parent = digest(serialise((parent, tuple(tokens[start : start + size]), None)))


def best_of(rounds: int, *works: Callable[[], object]) -> list[float]:
    """The least CPU seconds of each work; rounds interleave them, so that all see the same swings."""
    seconds = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, work in enumerate(works):
            begun = time.process_time()
            work()
            seconds[index] = min(seconds[index], time.process_time() - begun)
    return seconds


def bench_hashing(tokens: list[int], rounds: int) -> Iterable[str]:
    """One line for each recipe and block size."""
    lora = Extras(lora=Lora("sql-lora", "/adapters/sql"))
    yield f"{'recipe':<12} {'block':>5} {'bare kblk/s':>12} {'plain':>7} {'lora':>7}   (ours as a share of bare)"
    for algorithm in Algorithm:
        for size in (16, 128):
            scheme = HashScheme(algorithm, size, "0")
            floor, plain, with_lora = best_of(
                rounds,
                lambda a=algorithm, s=size: bare(a, tokens, s),  # type: ignore[misc]
                lambda s=scheme: hash_chain(s, tokens),  # type: ignore[misc]
                lambda s=scheme: hash_chain(s, tokens, lora),  # type: ignore[misc]
            )
            rate = len(tokens) / size / floor / 1000
            yield f"{algorithm.value:<12} {size:>5} {rate:>12.0f} {floor / plain:>7.2f} {floor / with_lora:>7.2f}"


def bench_object_keys(count: int, rounds: int) -> Iterable[str]:
    """Object keys per second."""
    space = key_space(Compatibility("org/model", "bfloat16", "LBHNC"))
    blocks = [BlockKey(space, Span.of(16, 16), number.to_bytes(32, "big")) for number in range(count)]
    strict = [format_strict(block) for block in blocks]
    lineage = [format_lineage(block, ROOT if not number else blocks[number - 1].hash) for number, block in enumerate(blocks)]
    works: dict[str, Callable[[], object]] = {
        "format_strict": lambda: [format_strict(block) for block in blocks],
        "parse": lambda: [parse(text) for text in strict],
        "lineage_of, lineage key": lambda: [lineage_of(text) for text in lineage],
        "lineage_of, other key": lambda: [lineage_of(text) for text in strict],
    }
    for name, seconds in zip(works, best_of(rounds, *works.values()), strict=True):
        yield f"{name:<26} {count / seconds / 1000:>8.0f} k/s"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1 << 18)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tokens = [(7919 * number + 13) % 128256 for number in range(options.tokens)]
    for line in bench_hashing(tokens, options.rounds):
        print(line)
    for line in bench_object_keys(20_000, options.rounds):
        print(line)


if __name__ == "__main__":
    main()
