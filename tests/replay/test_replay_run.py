"""The driver: what it counts is what happened, on any store; and each way in which a store can break is caught."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.api import (
    ROOT,
    Accounting,
    Admission,
    Answer,
    Capabilities,
    Clock,
    EvictionOrder,
    PutResult,
    Stats,
    Transport,
    VictimPolicy,
)
from kvprefix.errors import ConfigurationError, TraceError
from kvprefix.keys import lineage_of
from kvprefix.replay import SHIPPED, Request, TraceReader
from kvprefix.replay.blocks import value_of
from kvprefix.replay.generate import Spread, Workload, generate
from kvprefix.replay.outcome import Evidence, Outcome, Step, StopKind, to_json
from kvprefix.replay.run import Lookup, Options, Order, Replay, replay

Plain = Callable[..., Any]
AWARE = {
    "lineage": frozenset({Transport.ARGUMENT}),
    "eviction_order": EvictionOrder.DESCENDANTS_FIRST,
    "admission": Admission.REJECT,
}


def requests(*chains: Sequence[int]) -> list[Request]:
    """One request for each chain, a second apart."""
    return [Request(1000 * n, 512 * len(chain), 1, tuple(chain)) for n, chain in enumerate(chains)]


def small() -> TraceReader:
    return TraceReader(SHIPPED["small"])


def run(backend: Any, trace: Iterable[Request], capacity: int, **options: Any) -> Outcome:
    return replay(trace, backend, Options(capacity, **options))


# -- what is counted -------------------------------------------------------------------------------------------------------------


def test_one_request_after_the_other_is_counted(plain: Plain) -> None:
    outcome = run(plain(), requests([1, 2, 3], [1, 2, 4], [5, 6], [1, 2, 3]), 5)
    counters = outcome.counters
    # Oldest first: 3 1 2 4 after the second request; 5 fits, 6 evicts 3; the last one hits [1, 2], and its 3 evicts 4.
    assert (counters.requests, counters.accesses) == (4, 11)
    assert (counters.hits, counters.matched, counters.key_hits) == (4, 4, 4)
    assert (counters.stored, counters.evictions, counters.duplicates) == (7, 2, 0)
    assert counters.hit_ratio == 4 / 11
    assert (outcome.stop, outcome.capacity_blocks, outcome.evidence) == (None, 5, Evidence.EVICTIONS)


def test_a_hit_behind_a_hole_is_unreachable(plain: Plain) -> None:
    """First in, first out with room for three: block 4 takes the place of the root 1; 2 and 3 are orphans."""
    outcome = run(plain(victim="fifo"), requests([1, 2, 3], [4], [1, 2, 3]), 3)
    counters = outcome.counters
    assert (counters.hits, counters.key_hits, counters.unreachable_hits) == (0, 2, 2)
    assert counters.orphans_max == 2


def test_every_byte_that_was_read_is_verified(plain: Plain) -> None:
    counters = run(plain(), requests([1, 2], [1, 2], [1, 2]), 9, block_bytes=100).counters
    assert (counters.gets, counters.bytes_verified, counters.wrong_bytes) == (4, 400, 0)


def test_refused_puts_end_the_saving_of_their_request(plain: Plain) -> None:
    def refuse_block_2(client: Any) -> None:
        put = client.put
        client.put = lambda key, value, **more: PutResult(Answer.NO_SPACE, ()) if key.endswith("/2") else put(key, value, **more)

    counters = run(plain(change=refuse_block_2), requests([1, 2, 3, 4], [1, 2], [1, 5]), 9).counters
    assert counters.refused == {"NO_SPACE": 2}
    assert (counters.not_tried, counters.stored, counters.hits) == (2, 2, 2)


def test_values_depend_on_the_key_in_every_byte() -> None:
    one, other = value_of("replay/1", 4096), value_of("replay/2", 4096)
    assert len(one) == 4096
    assert one[:64] != one[64:128]
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 64
    assert value_of("replay/1", 10) == one[:10]


def test_the_observer_sees_each_step(plain: Plain) -> None:
    steps: list[Step] = []
    replay(requests([1, 2], [1, 2, 3]), plain(), Options(9), steps.append)
    assert steps == [Step(1, 2, 0, 0, 0), Step(2, 3, 2, 2, 0)]


def test_samples_follow_the_trace(plain: Plain) -> None:
    outcome = run(plain(), itertools.islice(small(), 250), 200, sample_every=100)
    assert [sample.request for sample in outcome.samples] == [100, 200, 250]
    last = outcome.samples[-1]
    assert (last.hits, last.accesses) == (outcome.counters.hits, outcome.counters.accesses)
    assert (last.resident, last.used_bytes) == (200, 200 * 64)
    assert last.timestamp == list(itertools.islice(small(), 250))[-1].timestamp


def test_the_outcome_is_plain_json(plain: Plain) -> None:
    outcome = run(plain(), small(), 100)
    document = to_json(outcome)
    assert document["counters"]["hits"] == outcome.counters.hits
    assert document["counters"]["hit_ratio"] == outcome.counters.hit_ratio
    assert len(document["samples"]) == len(outcome.samples)
    assert document["stop"] is None


def test_a_replay_repeats(plain: Plain) -> None:
    first, second = (run(plain(victim="random", seed=7), small(), 300) for _ in range(2))
    assert to_json(first) == to_json(second)


# -- brute force -----------------------------------------------------------------------------------------------------------------


def leaf_first_lru(trace: Iterable[Request], capacity: int) -> int:
    """Hits of an LRU that touches whole paths from the leaf to the root, in the fewest words."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for request in trace:
        hits += len(list(itertools.takewhile(cache.__contains__, request.hash_ids)))
        for block in reversed(request.hash_ids):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@pytest.mark.parametrize("capacity", [100, 300, 1000, 5000])
def test_leaf_first_order_gives_the_hits_of_a_leaf_first_lru(plain: Plain, capacity: int) -> None:
    outcome = run(plain(), small(), capacity, order=Order.LEAF_FIRST)
    assert outcome.counters.hits == leaf_first_lru(small(), capacity)
    assert outcome.orphans == 0


def test_an_endless_store_hits_all_that_was_seen_before(plain: Plain) -> None:
    reader = small()
    counters = run(plain(), reader, 5000).counters
    assert counters.hits == counters.accesses - len(reader.parents)


traces = st.builds(
    lambda seed, sessions, branching: list(
        generate(
            Workload(
                seed=seed,
                sessions=sessions,
                branching=branching,
                system_tokens=Spread.parse("1100"),
                prompt_tokens=Spread(1, 400, 900, 2000),
            )
        )
    ),
    st.integers(0, 1000),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.4]),
)


@given(
    trace=traces,
    capacity=st.integers(1, 60),
    victim=st.sampled_from(["lru", "fifo", "random"]),
    lookup=st.sampled_from(list(Lookup)),
    order=st.sampled_from(list(Order)),
    store_order=st.sampled_from(list(Order)),
    reports=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_hits_and_orphans_always_equal_a_recount_from_the_resident_sets(
    plain: Plain,
    trace: list[Request],
    capacity: int,
    victim: str,
    lookup: Lookup,
    order: Order,
    store_order: Order,
    reports: bool,
    seed: int,
) -> None:
    backend = plain({"reports_evictions": reports}, victim=victim, seed=seed, offers=("match", "exists_many", "stats", "resident"))
    replayed = Replay(
        backend, Options(capacity, lookup=lookup, order=order, store_order=store_order, sample_every=1, namespace="x")
    )
    parents = {block: above for request in trace for above, block in zip((None, *request.hash_ids), request.hash_ids, strict=False)}

    def reachable(block: int | None, resident: frozenset[str]) -> bool:
        return block is None or (f"x/{block}" in resident and reachable(parents[block], resident))

    for request in trace:
        resident = backend.resident()
        flags = [f"x/{block}" in resident for block in request.hash_ids]
        step = replayed.step(request)
        assert step.hits == len(list(itertools.takewhile(bool, flags)))
        if reports or lookup is Lookup.BATCH:
            assert step.key_hits == sum(flags)
        after = backend.resident()
        sample = replayed.outcome().samples[-1]
        assert sample.orphans == sum(not reachable(int(key[2:]), after) for key in after)
        assert sample.resident == len(after)
    replayed.finish()
    counters = replayed.outcome().counters
    assert counters.evictions == backend.plain.evicted == counters.stored - len(backend.resident())
    assert counters.accesses == sum(len(request.hash_ids) for request in trace)
    assert counters.accesses == counters.hits + counters.stored + counters.duplicates


# -- how it talks to a store -----------------------------------------------------------------------------------------------------


def recorded(client: Any, calls: list[tuple[str, str]]) -> None:
    """Note the single calls in their order."""
    for name in ("put", "get", "exists"):

        def call(key: str, *rest: Any, _name: str = name, _real: Any = getattr(client, name), **more: Any) -> Any:
            calls.append((_name, key.partition("/")[2]))
            return _real(key, *rest, **more)

        setattr(client, name, call)


def calls_of(plain: Plain, second: Sequence[int], **options: Any) -> str:
    """The single calls that a second request makes after [1, 2], in their order."""
    calls: list[tuple[str, str]] = []
    run(plain(change=lambda client: recorded(client, calls)), requests([1, 2], second), 9, **options)
    assert calls[:2] in ([("put", "1"), ("put", "2")], [("put", "2"), ("put", "1")])
    return " ".join(f"{name} {key}" for name, key in calls[2:])


def test_root_first_reads_and_stores_from_the_root(plain: Plain) -> None:
    assert calls_of(plain, [1, 2, 3, 4]) == "get 1 get 2 put 3 put 4"


def test_leaf_first_touches_the_whole_path_after_a_save(plain: Plain) -> None:
    calls: list[tuple[str, str]] = []
    backend = plain(change=lambda client: recorded(client, calls))
    run(backend, requests([1, 2], [1, 2, 3], [1, 2, 3]), 9, order=Order.LEAF_FIRST)
    told = " ".join(f"{name} {key}" for name, key in calls)
    assert told == (
        "put 1 put 2 get 2 get 1 "  # request 1: stored, touched from the leaf
        "get 2 get 1 put 3 get 3 get 2 get 1 "  # request 2: read, stored, touched
        "get 3 get 2 get 1"  # request 3: reading was touching
    )


def test_touching_takes_the_cheapest_call_that_touches(plain: Plain) -> None:
    calls: list[tuple[str, str]] = []
    backend = plain({"touch_calls": frozenset({"get", "exists"})}, change=lambda client: recorded(client, calls))
    run(backend, requests([1, 2]), 9, order=Order.LEAF_FIRST)
    assert calls == [("put", "1"), ("put", "2"), ("exists", "2"), ("exists", "1")]


@pytest.mark.parametrize("declares", [{"touch_calls": frozenset()}, {"lineage_recency": True}], ids=["no touch", "lineage recency"])
def test_nothing_is_touched_where_it_would_change_nothing(plain: Plain, declares: dict[str, Any]) -> None:
    calls: list[tuple[str, str]] = []
    run(plain(declares, change=lambda client: recorded(client, calls)), requests([1, 2]), 9, order=Order.LEAF_FIRST)
    assert calls == [("put", "1"), ("put", "2")]


def test_the_suffix_can_be_stored_from_its_leaf(plain: Plain) -> None:
    assert calls_of(plain, [1, 2, 3, 4], store_order=Order.LEAF_FIRST) == "get 1 get 2 put 4 put 3"


def test_lookup_block_by_block_stops_at_the_first_miss(plain: Plain) -> None:
    calls: list[tuple[str, str]] = []
    run(plain(change=lambda client: recorded(client, calls)), requests([1, 2, 3]), 9, lookup=Lookup.SINGLE)
    assert calls[0] == ("exists", "1")
    assert [name for name, _key in calls].count("exists") == 1


@pytest.mark.parametrize(
    ("offers", "chosen"), [(("match", "exists_many"), "match"), (("exists_many",), "batch"), ((), "single")], ids=str
)
def test_the_lookup_is_the_best_that_is_offered(plain: Plain, offers: tuple[str, ...], chosen: str) -> None:
    outcome = run(plain(offers=(*offers, "resident")), requests([1, 2], [1, 2]), 9)
    assert outcome.settings["lookup"] == chosen
    assert outcome.counters.hits == 2


@pytest.mark.parametrize("lookup", [Lookup.MATCH, Lookup.BATCH])
def test_a_lookup_that_is_not_offered_is_refused(plain: Plain, lookup: Lookup) -> None:
    with pytest.raises(ConfigurationError, match=f"lookup {lookup.value}: this store has no"):
        run(plain(offers=()), requests([1]), 9, lookup=lookup)


def test_parents_are_named_by_argument(plain: Plain) -> None:
    backend = plain()
    run(backend, requests([1, 2, 3]), 9)
    assert backend.plain.parents == {"replay/1": ROOT, "replay/2": "replay/1", "replay/3": "replay/2"}


def test_a_store_that_learns_parents_from_keys_gets_lineage_keys(plain: Plain) -> None:
    backend = plain({"lineage": frozenset({Transport.KEY})})
    outcome = run(backend, requests([1, 2, 3], [1, 2, 3]), 9)
    assert outcome.counters.hits == 3
    said = [lineage_of(key) for key in backend.plain.blocks]
    assert [lineage.parent for lineage in said if lineage] == [ROOT, said[0] and said[0].identity, said[1] and said[1].identity]


def test_a_store_that_learns_parents_by_event_is_told_before_the_put(plain: Plain) -> None:
    calls: list[tuple[str, Any]] = []

    def listen(client: Any) -> None:
        client.register = lambda key, parent: calls.append((key, parent))
        put = client.put

        def noted(key: str, value: bytes, **more: Any) -> Any:
            calls.append((key, "put"))
            return put(key, value, **more)

        client.put = noted

    run(plain({"lineage": frozenset({Transport.EVENT})}, change=listen), requests([1, 2]), 9)
    assert calls == [("replay/1", ROOT), ("replay/1", "put"), ("replay/2", "replay/1"), ("replay/2", "put")]


def test_a_driven_clock_follows_the_trace(plain: Plain) -> None:
    backend = plain(offers=("match", "advance"))
    run(backend, [Request(5, 1, 1, (1,)), Request(5, 1, 1, (1,)), Request(25, 1, 1, (1,))], 9)
    assert backend.advanced == [20]


def test_real_time_is_not_waited_for(plain: Plain) -> None:
    backend = plain({"clock": Clock.REAL}, offers=("match", "advance"))
    run(backend, requests([1], [1]), 9)
    assert backend.advanced == []


def test_an_index_without_bytes_is_not_read(plain: Plain) -> None:
    counters = run(plain({"values": False}), requests([1, 2], [1, 2]), 9).counters
    assert (counters.hits, counters.gets, counters.bytes_verified) == (2, 0, 0)


@pytest.mark.parametrize("name", ["capacity_blocks", "block_bytes", "sample_every"])
def test_options_without_sense_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is 0"):
        Options(**{"capacity_blocks": 1, name: 0})  # type: ignore[arg-type] # of the right type, but not for all fields


# -- evidence --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declares", "offers", "evidence"),
    [
        ({}, (), Evidence.EVICTIONS),
        ({"reports_evictions": False}, ("resident",), Evidence.SNAPSHOTS),
        ({"reports_evictions": False}, (), Evidence.NONE),
        ({"expires": True}, ("resident",), Evidence.SNAPSHOTS),
        ({"watermark": 0.9}, ("resident",), Evidence.SNAPSHOTS),
        ({**AWARE, "admission": Admission.DEFER}, ("resident",), Evidence.SNAPSHOTS),
    ],
    ids=str,
)
def test_what_an_outcome_rests_on_is_told(plain: Plain, declares: Any, offers: Any, evidence: Evidence) -> None:
    outcome = run(plain(declares, offers=offers), requests([1, 2], [1, 2]), 9)
    assert outcome.evidence is evidence
    assert (outcome.orphans is None) is (evidence is Evidence.NONE)
    assert (outcome.counters.orphans_max is None) is (evidence is Evidence.NONE)
    assert outcome.counters.hits == 2


def test_snapshots_find_the_orphans(plain: Plain) -> None:
    backend = plain({"reports_evictions": False}, victim="fifo")
    outcome = run(backend, requests([1, 2, 3], [4], [5, 6]), 3, sample_every=1)
    assert [sample.orphans for sample in outcome.samples] == [0, 2, 0]
    assert (outcome.counters.orphans_max, outcome.orphans_mean) == (2, 2 / 3)
    assert (outcome.counters.key_hits, outcome.counters.evictions) == (None, 3)


def test_keys_of_others_are_no_concern_of_the_replay(plain: Plain) -> None:
    def share(client: Any) -> None:
        client.blocks["of-others"] = b"x"

    outcome = run(plain({"reports_evictions": False}, change=share), requests([1]), 9)
    assert outcome.samples[-1].resident == 1


# -- breaches --------------------------------------------------------------------------------------------------------------------


def replace(name: str, make: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """Put ``make(client, real method)`` in the place of a method."""

    def change(client: Any) -> None:
        setattr(client, name, make(client, getattr(client, name)))

    return change


def wrong_byte(_client: Any, get: Any) -> Any:
    def changed(key: str) -> bytes | None:
        value: bytes | None = get(key)
        return value and value[:9] + bytes([value[9] ^ 1]) + value[10:]

    return changed


def loses(client: Any, put: Any) -> Any:
    """Every put takes block 1 away without a word."""

    def losing(key: str, value: bytes, **more: Any) -> PutResult:
        result: PutResult = put(key, value, **more)
        if not key.endswith("/1"):
            client.blocks.pop("replay/1", None)
        return result

    return losing


def answers(answer: Any) -> Callable[[Any, Any], Any]:
    return lambda _client, _real: lambda *_arguments, **_more: answer


def also_evicts(victim: str) -> Callable[[Any, Any], Any]:
    """The put of block 3 also evicts the victim, and says so."""

    def make(client: Any, put: Any) -> Any:
        def evicting(key: str, value: bytes, **more: Any) -> PutResult:
            result: PutResult = put(key, value, **more)
            if not key.endswith("/3"):
                return result
            client.blocks.pop(victim, None)
            return attrs.evolve(result, evicted=(*(result.evicted or ()), victim))

        return evicting

    return make


BREACHES: dict[str, tuple[dict[str, Any], Callable[[Any], None], str, str]] = {
    "a wrong byte": ({}, replace("get", wrong_byte), "STO-1", "get of 'replay/1' returns 64 bytes; 1 of 64 are wrong"),
    "a short value": (
        {},
        replace("get", lambda _client, get: lambda key: (get(key) or b"")[:-3]),
        "STO-1",
        "returns 61 bytes; 3 of 64 are wrong, missing or too many",
    ),
    "a foreign value": ({}, replace("get", lambda _client, get: lambda _key: get("replay/2")), "STO-1", "get of 'replay/1'"),
    "a read that misses": ({}, replace("get", answers(None)), "STO-1", "get of 'replay/1' misses"),
    "a block lost in silence": (
        {"accounting": Accounting.NONE},
        replace("put", loses),
        "PFX-4",
        "match finds 0 leading blocks instead of 2",
    ),
    "a phantom": ({}, replace("match", lambda _c, _m: len), "PFX-4", "match finds 2 leading blocks instead of 0"),
    "a negative match": ({}, replace("match", answers(-1)), "PFX-4", "match of 2 blocks finds -1"),
    "a match beyond the chain": ({}, replace("match", answers(9)), "PFX-4", "match of 2 blocks finds 9"),
    "a put that was there before": (
        {},
        replace("put", answers(PutResult(Answer.EXISTS, ()))),
        "STO-4",
        "the put of 'replay/1' answers EXISTS, but it was never stored",
    ),
    "evictions kept back": ({}, replace("put", answers(PutResult(Answer.STORED))), "STO-7", "does not say what it evicted"),
    "an impossible eviction": ({}, replace("put", also_evicts("replay/77")), "STO-7", "'replay/77', which was not resident"),
    "an ancestor before its descendant": (
        AWARE,
        replace("put", also_evicts("replay/1")),
        "PFX-1",
        "the put of 'replay/3' evicts 'replay/1' while its child 'replay/2' is resident",
    ),
    "a parent for its child": (
        AWARE,
        replace("put", also_evicts("replay/2")),
        "PFX-2",
        "1 resident blocks have a missing ancestor after the put of 'replay/3'",
    ),
    "more bytes than capacity": ({}, replace("stats", answers(Stats(10_000, 1))), "STO-6", "10000 bytes are in use, of 576"),
    "drifting bytes": ({}, replace("stats", answers(Stats(65, 1))), "STO-6", "65 bytes are in use by 2 blocks of 64 bytes"),
}


@pytest.mark.parametrize("case", BREACHES)
def test_a_breach_stops_the_replay_with_its_requirement(plain: Plain, case: str) -> None:
    declares, change, requirement, says = BREACHES[case]
    outcome = run(plain(declares, change=change), requests([1, 2], [1, 2, 3], [1, 2, 3]), 9)
    assert outcome.stop is not None
    assert (outcome.stop.kind, outcome.stop.requirement) == (StopKind.BREACH, requirement)
    assert says in outcome.stop.message
    assert outcome.stop.request == outcome.counters.requests <= 3
    assert to_json(outcome)["stop"]["kind"] == "breach"


def test_wrong_bytes_are_counted(plain: Plain) -> None:
    assert run(plain(change=replace("get", wrong_byte)), requests([1], [1]), 9).counters.wrong_bytes == 1


def test_exists_that_lies_is_a_phantom_or_a_loss(plain: Plain) -> None:
    for answer, requirement in [(True, "STO-4"), (False, "STO-1")]:
        outcome = run(plain(offers=(), change=replace("exists", answers(answer))), requests([1], [1]), 9)
        assert outcome.stop is not None
        assert outcome.stop.requirement == requirement


def test_a_batch_that_forgets_a_key_is_a_breach(plain: Plain) -> None:
    outcome = run(plain(offers=("exists_many",), change=replace("exists_many", answers([False]))), requests([1, 2]), 9)
    assert outcome.stop is not None
    assert outcome.stop.requirement == "STO-8"


def test_what_is_resident_must_be_what_was_reported(plain: Plain) -> None:
    """Block 2 leaves in silence and is never asked for again: the last look finds it."""

    def lose_2(client: Any, put: Any) -> Any:
        def losing(key: str, value: bytes, **more: Any) -> PutResult:
            result: PutResult = put(key, value, **more)
            client.blocks.pop("replay/2", None)
            return result

        return losing

    outcome = run(plain({"accounting": Accounting.NONE}, change=replace("put", lose_2)), requests([1, 2], [3]), 9)
    assert outcome.stop is not None
    assert (outcome.stop.requirement, outcome.stop.message) == ("STO-7", "1 blocks left without a report, 'replay/2' among them")


def test_closure_is_held_by_snapshots_too(plain: Plain) -> None:
    backend = plain({**AWARE, "reports_evictions": False}, victim="fifo")
    outcome = run(backend, requests([1, 2, 3], [4], [5]), 3, sample_every=1)
    assert outcome.stop is not None
    assert (outcome.stop.requirement, outcome.stop.request) == ("PFX-2", 2)


def test_a_store_that_claims_nothing_may_have_orphans(plain: Plain) -> None:
    assert run(plain(victim="fifo"), requests([1, 2, 3], [4], [5]), 3).stop is None


# -- other ends ------------------------------------------------------------------------------------------------------------------


def test_a_store_that_dies_midway_leaves_what_ran(plain: Plain) -> None:
    def die_late(client: Any) -> None:
        client.dies_at = 3000

    whole, cut = run(plain(), small(), 300), run(plain(change=die_late), small(), 300)
    assert cut.stop is not None
    assert (cut.stop.kind, cut.stop.request) == (StopKind.BACKEND, cut.counters.requests)
    assert "adapter died: it was told to" in str(cut.stop)
    assert 0 < cut.counters.requests < whole.counters.requests
    assert cut.samples == tuple(sample for sample in whole.samples if sample.request < cut.counters.requests)


def test_a_bad_line_midway_leaves_what_ran(plain: Plain) -> None:
    def trace() -> Iterable[Request]:
        yield from requests([1], [1])
        raise TraceError("t", 3, "is bad")

    outcome = run(plain(), trace(), 9)
    assert outcome.stop is not None
    assert (outcome.stop.kind, str(outcome.stop)) == (StopKind.TRACE, "the trace cannot be used: t:3: is bad")
    assert outcome.counters.requests == 2


def test_an_interrupt_leaves_what_ran(plain: Plain) -> None:
    def trace() -> Iterable[Request]:
        yield from requests([1], [1])
        raise KeyboardInterrupt

    outcome = run(plain(), trace(), 9)
    assert outcome.stop is not None
    assert (outcome.stop.kind, str(outcome.stop)) == (StopKind.INTERRUPTED, "interrupted at request 2")


def test_a_store_that_does_not_start_raises(plain: Plain) -> None:
    class Broken:
        capabilities = Capabilities(policy=VictimPolicy.LRU)

        def start(self, capacity: int) -> Any:
            raise ConfigurationError(f"no {capacity} bytes here")

    with pytest.raises(ConfigurationError, match="no 576 bytes here"):
        run(Broken(), requests([1]), 9)


def test_a_block_that_goes_between_lookup_and_reading_ends_the_prefix(plain: Plain) -> None:
    """A store that evicts in the background: what was read before the gap counts, what lies behind it does not."""
    hide = replace("get", lambda _client, get: lambda key: None if key.endswith("/2") else get(key))
    counters = run(plain({"reports_evictions": False}, change=hide), requests([1, 2, 3], [1, 2, 3]), 9).counters
    assert (counters.matched, counters.hits, counters.vanished) == (3, 1, 1)
    assert counters.duplicates == 2
