"""Forest shapes up to isomorphism: the lineages that a set of blocks can have.

A forest is the tuple of its blocks' parents by index, -1 for a root; a parent stands before its children. A forest of n blocks has
every smaller one as a part, so that worlds of n blocks also show all that fewer blocks can do. Carries no requirement of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

#: Index of each block's parent, or NO_PARENT.
Forest: TypeAlias = tuple[int, ...]
NO_PARENT: Final = -1


def children_of(forest: Forest) -> tuple[tuple[int, ...], ...]:
    """The children of each block."""
    return tuple(tuple(i for i, parent in enumerate(forest) if parent == above) for above in range(len(forest)))


def shape(forest: Forest, labels: Sequence[Any]) -> Hashable:
    """What two labelled forests have in common exactly when they are isomorphic. Labels must be comparable with each other."""
    below = children_of(forest)
    built: list[Any] = [None] * len(forest)
    for i in reversed(range(len(forest))):
        built[i] = (labels[i], tuple(sorted(built[child] for child in below[i])))
    return tuple(sorted(built[i] for i, parent in enumerate(forest) if parent == NO_PARENT))


def forests(blocks: int) -> tuple[Forest, ...]:
    """One forest of exactly so many blocks per isomorphism class: 1, 2, 4, 9, 20, 48 of them for 1 to 6 blocks."""
    plain = (0,) * blocks
    candidates: Iterator[Forest] = product(*(range(NO_PARENT, i) for i in range(blocks)))
    return tuple({shape(forest, plain): forest for forest in candidates}.values())
