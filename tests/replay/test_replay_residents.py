"""Orphans, counted as changes come and in a snapshot: both equal the definition, looked up for each block on its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvprefix.replay.residents import ResidentForest, count_orphans, leading

#: Parents by block: two trees, one of them with a fork.
PARENTS: Mapping[str, str | None] = {"a": None, "b": "a", "c": "b", "d": "c", "e": "b", "f": "e", "g": None, "h": "g"}


def by_definition(resident: Collection[str]) -> int:
    """Resident blocks with a missing ancestor."""

    def ancestors(key: str) -> list[str]:
        parent = PARENTS[key]
        return [] if parent is None else [parent, *ancestors(parent)]

    return sum(any(above not in resident for above in ancestors(key)) for key in resident)


@given(st.lists(st.sampled_from(sorted(PARENTS)), max_size=40))
def test_the_forest_always_knows_its_orphans(flips: list[str]) -> None:
    """Each flip stores a block that is absent, or evicts it."""
    forest, resident = ResidentForest(), set[str]()
    for key in flips:
        if key in resident:
            forest.evicted(key)
        else:
            forest.stored(key, PARENTS[key])
        resident ^= {key}
        assert forest.orphans == by_definition(resident) == count_orphans(resident, PARENTS)
        assert set(forest) == resident
        assert len(forest) == len(resident)
        assert set(forest.children("b")) == {"c", "e"} & resident
        assert ("b" in forest) is ("b" in resident)


@given(st.frozensets(st.sampled_from(sorted(PARENTS))))
def test_a_snapshot_tells_its_orphans(resident: frozenset[str]) -> None:
    assert count_orphans(resident, PARENTS) == by_definition(resident)


def test_storing_a_resident_block_again_changes_nothing() -> None:
    forest = ResidentForest()
    forest.stored("a", None)
    forest.stored("b", "a")
    forest.stored("b", None)
    forest.evicted("a")
    assert forest.orphans == 1


def test_evicting_what_is_not_resident_is_an_error() -> None:
    with pytest.raises(KeyError):
        ResidentForest().evicted("a")


def test_deep_chains_need_no_deep_stack() -> None:
    parents = {f"{n}": f"{n - 1}" if n else None for n in range(5000)}
    forest = ResidentForest()
    for key in reversed(parents):
        forest.stored(key, parents[key])
    assert forest.orphans == 0
    forest.evicted("0")
    assert forest.orphans == 4999 == count_orphans(set(parents) - {"0"}, parents)


def test_leading_looks_no_further_than_the_first_miss() -> None:
    flags = iter([True, True, False, True])
    assert leading(flags) == 2
    assert list(flags) == [True]
    assert leading([]) == 0
