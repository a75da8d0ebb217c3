"""Forest shapes: as many as there are, and no two alike."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import pytest

from kvprefix.errors import ConfigurationError
from kvprefix.explore.bounds import Bounds, worlds
from kvprefix.explore.configurations import FAMILY, PLAIN, PREFIX_AWARE
from kvprefix.explore.forests import NO_PARENT, Forest, forests, shape


def test_there_are_as_many_rooted_forests_as_is_known() -> None:
    assert [len(forests(n)) for n in range(1, 7)] == [1, 2, 4, 9, 20, 48]


def automorphisms(forest: Forest) -> int:
    orders = permutations(range(len(forest)))
    return sum(all((order[p] if p >= 0 else p) == forest[order[i]] for i, p in enumerate(forest)) for order in orders)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5])
def test_named_in_every_way_they_are_all_labelled_forests(blocks: int) -> None:
    """There are (n + 1) ** (n - 1) labelled rooted forests; each shape stands for n! / automorphisms of them."""
    assert sum(factorial(blocks) // automorphisms(forest) for forest in forests(blocks)) == (blocks + 1) ** (blocks - 1)


def test_parents_stand_before_their_children() -> None:
    assert all(NO_PARENT <= parent < i for forest in forests(5) for i, parent in enumerate(forest))


def test_labels_tell_shapes_apart() -> None:
    chain, fork = (NO_PARENT, 0), (NO_PARENT, NO_PARENT)
    assert shape(chain, (1, 2)) != shape(chain, (2, 1))
    assert shape(fork, (1, 2)) == shape(fork, (2, 1))


def test_worlds_are_one_per_class() -> None:
    """Two blocks: a chain with 4 assignments of two sizes, two roots with 3; twice the capacities, and labels as sizes."""
    sized = Bounds("sized", PREFIX_AWARE, blocks=2, sizes=(1, 2), capacities=(2, 3))
    labelled = Bounds("labelled", PREFIX_AWARE, blocks=2, labels=(PLAIN, FAMILY))
    assert len(list(worlds(sized))) == 2 * (4 + 3)
    assert len({world.name for world in worlds(labelled)}) == 4 + 3


def test_too_many_blocks_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="9 blocks"):
        Bounds("too-many", PREFIX_AWARE, blocks=9)
