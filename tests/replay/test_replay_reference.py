"""The reference store under replay: hit ratios that independent stores agree on, and no orphan where it knows parents."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs
import pytest

from kvprefix.api import Capabilities
from kvprefix.replay import SHIPPED, TraceReader
from kvprefix.replay.outcome import Outcome
from kvprefix.replay.run import Options, Order, replay
from kvprefix.store import ReferenceBackend, presets


def unleased(capabilities: Capabilities) -> Capabilities:
    """The same store without leases: what follows from recency alone."""
    return attrs.evolve(capabilities, lease_ttl_ms=0, lease_calls=frozenset())


def run(
    path: Path, capabilities: Capabilities, capacity: int, order: Order = Order.ROOT_FIRST, limit: int | None = None
) -> Outcome:
    outcome = replay(itertools.islice(TraceReader(path), limit), ReferenceBackend(capabilities), Options(capacity, order=order))
    assert outcome.stop is None
    return outcome


FLAT_LRU = unleased(presets.FLAT_LRU)
FLAT_FIFO = unleased(presets.FLAT_FIFO)


# Ratios over the whole conversation trace that several stores by others agree on, to four digits.
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("capabilities", "order", "capacity", "ratio"),
    [
        (FLAT_LRU, Order.LEAF_FIRST, 1000, 0.0445),
        (FLAT_LRU, Order.LEAF_FIRST, 10_000, 0.2116),
        (FLAT_LRU, Order.ROOT_FIRST, 10_000, 0.2112),
        (FLAT_FIFO, Order.ROOT_FIRST, 10_000, 0.1815),
        (presets.PREFIX_AWARE, Order.ROOT_FIRST, 10_000, 0.2116),
        (presets.PREFIX_AWARE, Order.ROOT_FIRST, 50_000, 0.3546),
    ],
    ids=lambda value: value.name if isinstance(value, Capabilities) else getattr(value, "value", str(value)),
)
def test_the_real_trace_gives_the_known_hit_ratio(
    conversation: Path, capabilities: Capabilities, order: Order, capacity: int, ratio: float
) -> None:
    outcome = run(conversation, capabilities, capacity, order)
    assert (outcome.counters.requests, outcome.counters.accesses) == (12_031, 288_500)
    assert round(outcome.counters.hit_ratio, 4) == ratio
    if capabilities.prefix_closed:
        assert (outcome.counters.orphans_max, outcome.counters.unreachable_hits) == (0, 0)


@pytest.mark.shared
def test_the_beginning_of_the_real_trace_has_no_orphan(conversation: Path) -> None:
    """The first thousand requests, in an ordinary test run."""
    outcome = run(conversation, presets.PREFIX_AWARE, 1000, limit=1000)
    assert (outcome.counters.accesses, outcome.counters.hits) == (27_305, 1038)
    assert outcome.counters.orphans_max == 0


AWARE = ["PREFIX_AWARE", "CASCADE", "DEFER", "KEY_TRANSPORT", "FAMILIES", "INDEX_ONLY"]


@pytest.mark.parametrize("name", AWARE)
def test_a_store_that_knows_parents_never_has_an_orphan(name: str) -> None:
    outcome = run(SHIPPED["small"], presets.PRESETS[name], 200)
    assert outcome.counters.orphans_max == 0
    assert outcome.counters.evictions


@pytest.mark.parametrize("name", ["PLACEHOLDER", "EVENT_TRANSPORT"])
def test_eviction_by_descendants_first_alone_leaves_none_in_root_first_traffic(name: str) -> None:
    assert run(SHIPPED["small"], presets.PRESETS[name], 200).counters.orphans_max == 0


def test_a_flat_store_has_orphans_on_the_same_trace() -> None:
    assert (run(SHIPPED["small"], FLAT_FIFO, 200).counters.orphans_max or 0) > 0
    assert (run(SHIPPED["small"], FLAT_LRU, 200).counters.orphans_max or 0) > 0


def test_a_store_that_never_evicts_fills_up_and_says_so() -> None:
    counters = run(SHIPPED["small"], presets.NEVER_EVICTS, 200).counters
    assert (counters.stored, counters.evictions) == (200, 0)
    assert set(counters.refused) == {"NO_SPACE"}


@pytest.mark.parametrize("name", ["PREFIX_AWARE", "KEY_TRANSPORT", "FAMILIES", "INDEX_ONLY"])
@pytest.mark.parametrize("capacity", [150, 400])
def test_lineage_recency_hits_as_often_as_touching_whole_paths(name: str, capacity: int) -> None:
    """A store that knows parents needs no client that touches from leaf to root."""
    aware = run(SHIPPED["small"], unleased(presets.PRESETS[name]), capacity)
    flat = run(SHIPPED["small"], FLAT_LRU, capacity, Order.LEAF_FIRST)
    assert aware.counters.hits == flat.counters.hits
