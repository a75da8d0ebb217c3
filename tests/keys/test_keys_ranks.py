"""Ranks, replicas and namespaces of object keys (KEY-3, CON-4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.errors import KeyInputError
from kvprefix.keys import (
    LayerKind,
    Rank,
    SharedFormat,
    Split,
    StoreLayout,
    chunks,
    key_rank,
    lookup_ranks,
    lookup_shards,
    mqa_namespace,
    put_step_rank,
    rank_local_namespace,
    rank_of,
    replication_factor,
    resolve_store_tp,
    select_store_layout,
    shard_ranks,
    shared_namespace,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=100)

FULL, MLA, WINDOW_MLA, MAMBA = LayerKind.FULL, LayerKind.MLA, LayerKind.SLIDING_WINDOW_MLA, LayerKind.MAMBA


@st.composite
def splits(draw: Any) -> Split:
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    dcp = draw(st.sampled_from([size for size in (1, 2, 4) if tp % size == 0]))
    return Split(tp, draw(st.sampled_from([1, 2])), dcp, draw(st.sampled_from([1, 3])))


KINDS = st.sets(st.sampled_from(list(LayerKind)), min_size=1)
HEADS = st.sampled_from([1, 2, 4, 8, 16])


@pytest.mark.parametrize(
    ("kinds", "split", "heads", "factor"),
    [
        ([FULL], Split(tp=8), 4, 2),
        ([FULL], Split(tp=8), 1, 8),
        ([FULL], Split(tp=2), 8, 1),
        ([FULL], Split(tp=8), 3, 2),
        ([MLA], Split(tp=4), 1, 4),
        ([WINDOW_MLA, MLA], Split(tp=4), 1, 4),
        ([MLA, FULL], Split(tp=4), 2, 2),
        ([MAMBA], Split(tp=4), 1, 1),
        ([FULL, MAMBA], Split(tp=4), 1, 1),
        ([MLA], Split(tp=4, dcp=2), 1, 1),
    ],
)
def test_replication_factor(kinds: list[LayerKind], split: Split, heads: int, factor: int) -> None:
    assert replication_factor(kinds, split, heads) == factor


@FIXED
@given(splits(), KINDS, HEADS)
def test_a_lookup_asks_for_exactly_the_names_under_which_the_ranks_write(split: Split, kinds: set[LayerKind], heads: int) -> None:
    factor = replication_factor(kinds, split, heads)
    written = {
        key_rank(rank_of(split, tp, pcp=pcp, pp=pp), factor)
        for tp in range(split.tp)
        for pcp in range(split.pcp)
        for pp in range(split.pp)
    }
    asked = lookup_ranks(split, factor)
    assert set(asked) == written
    assert len(asked) == len(written)


@FIXED
@given(splits(), KINDS, HEADS, st.integers(0, 3), st.integers(1, 9))
def test_every_block_is_written_by_exactly_one_of_the_ranks_that_share_a_name(
    split: Split, kinds: set[LayerKind], heads: int, group: int, count: int
) -> None:
    factor = replication_factor(kinds, split, heads)
    hashes = [bytes([number]) for number in range(count)]
    writers: dict[tuple[Rank, int], int] = {}
    for tp in range(split.tp // factor * factor):
        step_rank = put_step_rank(tp, group, factor)
        for chunk in chunks(4 * count, hashes, block_size=4, put_step=factor, put_step_rank=step_rank):
            place = (key_rank(Rank(tp=tp), factor), chunk.start)
            writers[place] = writers.get(place, 0) + 1
    assert set(writers.values()) == {1}
    assert len(writers) == count * (split.tp // factor)


def test_cache_groups_begin_their_stride_at_different_ranks() -> None:
    assert [put_step_rank(tp, 0, 4) for tp in range(4)] == [0, 1, 2, 3]
    assert [put_step_rank(tp, 1, 4) for tp in range(4)] == [1, 2, 3, 0]


def test_dcp_rank_follows_from_the_tp_rank() -> None:
    split = Split(tp=4, dcp=2)
    assert [rank_of(split, tp) for tp in range(4)] == [Rank(0), Rank(1, dcp=1), Rank(2), Rank(3, dcp=1)]
    assert lookup_ranks(split, 1) == tuple(rank_of(split, tp) for tp in range(4))


# --------------------------------------------------------------------------------------------------------------------------------
# Shared layouts

LBHNC, LBNHC = SharedFormat.LBHNC, SharedFormat.LBNHC


@pytest.mark.parametrize(
    ("config", "changes", "layout"),
    [
        ({}, {}, StoreLayout()),
        ({"prefill_tp_sizes": [2]}, {}, StoreLayout()),
        ({"enable_store_tp_lcm": "true"}, {}, StoreLayout()),
        ({"store_tp_size": 4}, {}, StoreLayout(4, shared_namespace(LBHNC, 4, 1))),
        ({"store_tp_size": 4}, {"layout": "LBNHC"}, StoreLayout(4, shared_namespace(LBNHC, 4, 1))),
        ({"enable_store_tp_lcm": True, "prefill_tp_sizes": [2, 8]}, {}, StoreLayout(8, shared_namespace(LBHNC, 8, 1))),
        ({"store_tp_size": 4}, {"num_kv_heads": 1}, StoreLayout(None, mqa_namespace(1))),
        ({"store_tp_size": 3}, {}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 1}, {}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 16}, {}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": "4"}, {}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 4}, {"layout": "NLHC"}, StoreLayout(None, rank_local_namespace(2, 1, "NLHC"))),
        ({"store_tp_size": 4}, {"groups": [frozenset({MLA})]}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 4}, {"groups": [frozenset({FULL})] * 2}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 4}, {"split": Split(tp=2, pcp=2)}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 4}, {"split": Split(tp=2, dcp=2)}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
        ({"store_tp_size": 4, "enable_cross_layers_blocks": "TRUE"}, {}, StoreLayout(None, rank_local_namespace(2, 1, "LBHNC"))),
    ],
)
def test_which_layout_a_configuration_gets(config: dict[str, Any], changes: dict[str, Any], layout: StoreLayout) -> None:
    deployment: dict[str, Any] = {"split": Split(tp=2), "num_kv_heads": 8, "layout": "LBHNC", "groups": [frozenset({FULL})]}
    assert select_store_layout(config, **{**deployment, **changes}) == layout


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"store_tp_size": True}, None),
        ({"store_tp_size": -2}, None),
        ({"store_tp_size": 2.0}, None),
        ({"enable_store_tp_lcm": True, "store_tp_size": 8}, None),
        ({"enable_store_tp_lcm": True, "prefill_tp_sizes": []}, None),
        ({"enable_store_tp_lcm": True, "prefill_tp_sizes": (2, 3)}, None),
        ({"enable_store_tp_lcm": True, "prefill_tp_sizes": [True]}, None),
        ({"enable_store_tp_lcm": True, "prefill_tp_sizes": [4, 6]}, 12),
    ],
)
def test_a_store_tp_size_counts_only_as_a_positive_integer(config: dict[str, Any], size: int | None) -> None:
    assert resolve_store_tp(config) == size


def test_shards_of_the_ranks_are_those_that_a_lookup_asks_for() -> None:
    split = Split(tp=2, pp=3)
    written = {shard for tp in range(2) for pp in range(3) for shard in shard_ranks(rank_of(split, tp, pp=pp), split, 8)}
    assert set(lookup_shards(split, 8)) == written
    assert len(written) == 8 * 3
    assert lookup_shards(split, 8)[:2] == (Rank(tp=0, pp=0), Rank(tp=0, pp=1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: rank_of(Split(tp=2), 2),
        lambda: rank_of(Split(), 0, pp=1),
        lambda: rank_of(Split(), 0, pcp=-1),
        lambda: replication_factor([], Split(), 1),
        lambda: replication_factor([FULL], Split(), 0),
        lambda: key_rank(Rank(), 0),
        lambda: put_step_rank(0, 0, 0),
        lambda: lookup_ranks(Split(), 0),
        lambda: shard_ranks(Rank(), Split(tp=2), 3),
        lambda: shard_ranks(Rank(), Split(tp=2), 1),
        lambda: lookup_shards(Split(), 0),
        lambda: shared_namespace(LBHNC, 0, 1),
        lambda: mqa_namespace(0),
        lambda: rank_local_namespace(0, 1, "LBHNC"),
    ],
)
def test_bad_input_is_a_typed_error(make: Any) -> None:
    with pytest.raises(KeyInputError):
        make()
