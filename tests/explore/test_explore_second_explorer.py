"""A second explorer, written from the spec alone, counts what the first one counts.

A state is the set of resident blocks, nothing else. Reject, refuse, leaves first, exact progress: spec PFX-1, 3, 6, 7, 8.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvprefix.api import Removal
from kvprefix.explore.bounds import Bounds, World, worlds
from kvprefix.explore.configurations import PREFIX_AWARE, but
from kvprefix.explore.walk import walk

Resident = frozenset[int]


class Tiny:
    """Blocks by number: parents, sizes, a capacity, and whether removal takes the branch."""

    def __init__(self, parents: tuple[int, ...], sizes: tuple[int, ...], capacity: int, *, cascade: bool) -> None:
        self.parents, self.sizes, self.capacity, self.cascade = parents, sizes, capacity, cascade

    def above(self, block: int) -> set[int]:
        line = set()
        while self.parents[block] >= 0:
            block = self.parents[block]
            line.add(block)
        return line

    def branch(self, there: Resident, block: int) -> set[int]:
        return {each for each in there if each == block or block in self.above(each)}

    def evictions(self, there: Resident, need: int, keep: set[int]) -> Iterator[Resident]:
        """What is left after each order of evictions that stops as soon as there is room."""
        if self.capacity - sum(self.sizes[each] for each in there) >= need:
            yield there
            return
        for block in there - keep:
            if self.branch(there, block) == {block}:
                yield from self.evictions(there - {block}, need, keep)

    def puts(self, there: Resident, block: int) -> list[Resident]:
        missing = self.parents[block] >= 0 and self.parents[block] not in there
        if block in there or self.sizes[block] > self.capacity or missing:
            return [there]
        return [left | {block} for left in self.evictions(there, self.sizes[block], self.above(block))] or [there]

    def removal(self, there: Resident, block: int) -> Resident:
        branch = self.branch(there, block)
        return there - branch if self.cascade or len(branch) == 1 else there

    def count(self) -> tuple[int, int]:
        """Reachable states, and steps out of them."""
        seen: set[Resident] = {frozenset()}
        open_, steps = [frozenset[int]()], 0
        while open_:
            there = open_.pop()
            for block in range(len(self.parents)):
                reached = [*self.puts(there, block), self.removal(there, block)]
                steps += len(reached)
                open_ += [new for new in set(reached) if new not in seen]
                seen |= set(reached)
        return len(seen), steps


def tiny(world: World, *, cascade: bool) -> Tiny:
    sizes = tuple(block.size for block in world.blocks)
    return Tiny(world.forest, sizes, world.rules.geometry.capacity_bytes, cascade=cascade)


@pytest.mark.parametrize("removal", [Removal.REFUSE, Removal.CASCADE])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_it_counts_the_same_states_and_steps(blocks: int, removal: Removal) -> None:
    bounds = Bounds("both", but(removal=removal), blocks=blocks, sizes=(1, 2), capacities=(2, 3, 4), remove=True)
    for world in worlds(bounds):
        seen = walk(world, symmetry=False)
        assert seen.counterexample is None
        assert (seen.states, seen.transitions) == tiny(world, cascade=removal is Removal.CASCADE).count(), world.name


def test_the_counts_are_not_trivial() -> None:
    """A fork of one root and two leaves in a store of two: nothing, the root, the root with either leaf."""
    (world,) = [w for w in worlds(Bounds("fork", PREFIX_AWARE, blocks=3, capacities=(2,), remove=True)) if w.forest == (-1, 0, 0)]
    assert walk(world, symmetry=False).states == 4
    assert walk(world).states == 3
