"""The calls of the reference store, one example each: what the refinement test shows at random, to be read."""

from __future__ import annotations

import attrs
import pytest

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Answer,
    Batch,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EmptyValue,
    EventKind,
    ExistsLeases,
    FamilyMode,
    FullClient,
    Geometry,
    Parent,
    Pin,
    PutItem,
    PutOptions,
    PutResult,
    Snapshot,
)
from kvprefix.errors import ConfigurationError
from kvprefix.keys import BlockKey, KeySpace, Span, format_lineage
from kvprefix.store import ReferenceStore, presets


def store_of(caps: Capabilities = presets.PREFIX_AWARE, capacity: int = 8, **geometry: int) -> ReferenceStore:
    return ReferenceStore(caps, Geometry(capacity, **geometry))


def filled(caps: Capabilities = presets.PREFIX_AWARE, capacity: int = 4, **changes: object) -> ReferenceStore:
    """A chain a, b, c and room for one more byte."""
    store = store_of(attrs.evolve(caps, **changes), capacity)  # type: ignore[arg-type]
    for key, parent in (("a", ROOT), ("b", "a"), ("c", "b")):
        assert store.put(key, b"1", parent=parent).answer in (Answer.STORED, Answer.DEFERRED)
    return store


def answers(results: list[PutResult]) -> list[Answer]:
    return [result.answer for result in results]


def test_reference_store_offers_every_call() -> None:
    client: FullClient = store_of()
    assert client.stats().used_bytes == 0


# ---- values


def test_value_comes_back_whole() -> None:
    store = store_of()
    store.put("a", b"v\x00w", parent=ROOT)
    assert store.get("a") == b"v\x00w"


@pytest.mark.parametrize("key", ["../x", "a\nb", "a\0b", "\ud800", "ключ", "k" * 10_000])
def test_hostile_key_is_stored_faithfully(key: str) -> None:
    store = store_of()
    assert store.put(key, b"v").answer is Answer.STORED
    assert (store.get(key), store.get(key + "x")) == (b"v", None)


def test_empty_key_is_invalid() -> None:
    assert store_of().put("", b"v").answer is Answer.INVALID


def test_key_beyond_the_limit_is_invalid() -> None:
    assert store_of(max_key_bytes=3).put("éé", b"v").answer is Answer.INVALID


def test_empty_value_is_told_from_a_miss_where_it_is_stored() -> None:
    store = store_of(attrs.evolve(presets.FLAT_LRU, empty_value=EmptyValue.STORED))
    assert store.put("a", b"").answer is Answer.STORED
    assert (store.get("a"), store.get("b")) == (b"", None)


def test_second_put_changes_nothing() -> None:
    store = filled()
    assert store.put("b", b"22", parent=ROOT).answer is Answer.EXISTS
    assert (store.get("b"), store.snapshot().objects["b"]) == (b"1", "a")


def test_second_put_is_silent_where_declared() -> None:
    assert filled(duplicate_put=DuplicatePut.SILENT).put("a", b"2", parent=ROOT).answer is Answer.STORED


def test_charge_counts_overhead_and_quantum() -> None:
    store = store_of(capacity=16, overhead_bytes=1, quantum_bytes=4)
    store.put("a", b"1234", parent=ROOT)
    assert store.stats().used_bytes == 8


def test_put_that_can_never_fit_is_too_large_and_evicts_nothing() -> None:
    store = filled()
    assert store.put("x", b"12345", parent=ROOT).answer is Answer.TOO_LARGE
    assert store.stats().resident_objects == 3


@pytest.mark.parametrize(
    "options",
    [
        PutOptions(cache_group=CacheGroup.WINDOW),
        PutOptions(family="f"),
        PutOptions(family_size=2),
        PutOptions(object_group="g"),
        PutOptions(namespace="n"),
    ],
)
def test_option_that_is_not_declared_is_unsupported(options: PutOptions) -> None:
    assert store_of().put("a", b"v", options=options).answer is Answer.UNSUPPORTED


# ---- lineage


def test_child_of_a_missing_parent_is_refused() -> None:
    assert store_of().put("b", b"v", parent="a").answer is Answer.PARENT_MISSING


def test_leaves_go_before_their_ancestors() -> None:
    store = filled()
    assert store.put("x", b"123", parent=ROOT).evicted == ("c", "b")


def test_put_never_evicts_its_own_ancestors() -> None:
    store = filled()
    store.put("x", b"1", parent=ROOT)
    assert store.put("d", b"1", parent="c").evicted == ("x",)
    assert store.put("e", b"1", parent="d").answer is Answer.NO_SPACE


def test_refused_put_evicts_nothing() -> None:
    store = filled()
    store.pin("b")
    assert store.put("x", b"123", parent=ROOT).answer is Answer.NO_SPACE
    assert store.put("x", b"12", parent=ROOT).evicted == ("c",)


def test_removing_a_parent_is_refused() -> None:
    store = filled()
    assert store.remove("a", force=True).answer is Answer.PROTECTED
    assert store.remove("c").removed == ("c",)


def test_removing_a_parent_takes_all_below_where_it_cascades() -> None:
    assert filled(presets.CASCADE).remove("a").removed == ("c", "b", "a")


def test_cascade_is_refused_while_a_descendant_is_protected() -> None:
    store = filled(presets.CASCADE)
    store.pin("c")
    assert store.remove("a").answer is Answer.PROTECTED
    assert store.stats().resident_objects == 3


def test_deferred_child_appears_right_after_its_parent() -> None:
    store = store_of(presets.DEFER)
    assert store.put("b", b"v", parent="a").answer is Answer.DEFERRED
    assert store.put("c", b"v", parent="b").answer is Answer.DEFERRED
    assert not store.exists("b")
    assert store.put("a", b"v", parent=ROOT).answer is Answer.STORED
    assert [event.key for event in store.events()] == ["a", "b", "c"]


def test_deferred_object_is_dropped_at_its_deadline() -> None:
    store = store_of(presets.DEFER)
    store.put("b", b"v", parent="a")
    store.advance(presets.DEFER.defer_deadline_ms)
    store.put("a", b"v", parent=ROOT)
    assert store.match(["a", "b"]) == 1
    assert store.stats().used_bytes == 1


def test_deferred_objects_go_before_resident_ones() -> None:
    store = filled(presets.DEFER)
    store.put("y", b"v", parent="x")
    assert store.put("z", b"v", parent=ROOT).evicted == ("y",)


def test_lineage_that_closes_a_cycle_is_invalid() -> None:
    store = store_of(presets.PLACEHOLDER)
    assert store.put("a", b"v", parent="c").answer is Answer.STORED
    assert store.put("b", b"v", parent="a").answer is Answer.STORED
    assert store.put("c", b"v", parent="b").answer is Answer.INVALID


def test_placeholder_takes_back_the_children_that_waited_for_it() -> None:
    store = store_of(presets.PLACEHOLDER, 3)
    store.put("b", b"v", parent="a")
    store.put("a", b"v", parent=ROOT)
    assert store.put("x", b"12", parent=ROOT).evicted == ("b",)


def test_parent_in_another_namespace_is_as_if_absent() -> None:
    store = store_of(attrs.evolve(presets.PREFIX_AWARE, namespaces=True))
    store.put("a", b"v", parent=ROOT, options=PutOptions(namespace="n"))
    assert store.put("b", b"v", parent="a").answer is Answer.PARENT_MISSING


def test_only_full_cache_groups_have_a_parent() -> None:
    store = filled(cache_groups=frozenset(CacheGroup))
    window = PutOptions(cache_group=CacheGroup.WINDOW)
    assert store.put("w", b"v", parent="a", options=window).answer is Answer.INVALID
    assert store.put("w", b"v", options=window).answer is Answer.STORED


def lineage_keys(count: int) -> list[str]:
    space = KeySpace(model="m", fingerprint="0" * 32)
    above: list[Parent | bytes] = [ROOT, *(bytes([i]) for i in range(1, count))]
    blocks = [BlockKey(space, Span.of(16, 16), bytes([i + 1])) for i in range(count)]
    return [format_lineage(block, parent) for block, parent in zip(blocks, above, strict=True)]  # type: ignore[arg-type]


def test_keys_alone_carry_the_lineage() -> None:
    store = store_of(presets.KEY_TRANSPORT, 3)
    a, b, c = lineage_keys(3)
    assert store.put(b, b"v").answer is Answer.PARENT_MISSING
    assert answers([store.put(key, b"v") for key in (a, b, c)]) == [Answer.STORED] * 3
    assert store.put("plain", b"v").evicted == (c,)


def test_two_keys_for_one_block_are_invalid() -> None:
    """The second would give the block another parent."""
    store = store_of(presets.KEY_TRANSPORT)
    a, b = lineage_keys(2)
    store.put(a, b"v")
    store.put(b, b"v")
    assert store.put(b[: b.rindex(":")] + ":root", b"v").answer is Answer.INVALID


def test_registered_parent_is_kept_from_then_on() -> None:
    store = store_of(presets.EVENT_TRANSPORT, 2)
    store.put("a", b"v")
    store.put("b", b"v")
    assert store.register("b", "a") is Answer.OK
    assert store.put("c", b"v").evicted == ("b",)


def test_parent_may_be_registered_before_the_object_comes() -> None:
    store = store_of(presets.EVENT_TRANSPORT, 2)
    assert store.register("b", "a") is Answer.OK
    store.put("a", b"v")
    store.put("b", b"v")
    assert store.put("c", b"v").evicted == ("b",)


def test_second_parent_is_not_registered() -> None:
    store = store_of(presets.EVENT_TRANSPORT)
    store.register("b", "a")
    assert (store.register("b", "a"), store.register("b", "x")) == (Answer.OK, Answer.INVALID)


def test_register_is_unsupported_without_its_transport() -> None:
    assert filled().register("b", "a") is Answer.UNSUPPORTED


# ---- two-phase writes


def test_attempt_is_invisible_until_commit() -> None:
    store = store_of()
    token = store.put_begin("a", 1, parent=ROOT).token
    assert token is not None
    assert (store.get("a"), store.exists("a"), store.probe("a"), store.match(["a"])) == (None, False, False, 0)
    assert store.put("a", b"w", parent=ROOT).answer is Answer.IN_PROGRESS
    assert store.put_commit("a", token, b"v").answer is Answer.STORED
    assert store.get("a") == b"v"


def test_abort_leaves_nothing() -> None:
    store = store_of()
    token = store.put_begin("a", 3, parent=ROOT).token
    assert token is not None
    assert store.put_abort("a", token) is Answer.OK
    assert store.stats().used_bytes == 0
    assert store.put_abort("a", token) is Answer.STALE


def test_wrong_length_keeps_the_attempt_open() -> None:
    store = store_of()
    token = store.put_begin("a", 1, parent=ROOT).token
    assert token is not None
    assert store.put_commit("a", token, b"22").answer is Answer.INVALID
    assert store.put_commit("a", token, b"1").answer is Answer.STORED


def test_dead_writer_frees_the_key_in_time() -> None:
    store = store_of()
    token = store.put_begin("a", 1, parent=ROOT).token
    assert token is not None
    store.advance(store.capabilities.pending_timeout_ms - 1)
    assert store.put("a", b"v", parent=ROOT).answer is Answer.IN_PROGRESS
    store.advance(1)
    assert store.put("a", b"v", parent=ROOT).answer is Answer.STORED
    assert store.put_commit("a", token, b"w").answer is Answer.STALE


def test_open_attempt_protects_its_ancestors() -> None:
    store = filled()
    store.put_begin("d", 1, parent="c")
    assert store.put("x", b"1", parent=ROOT).answer is Answer.NO_SPACE


def test_commit_looks_at_the_parent_again() -> None:
    store = filled(presets.CASCADE)
    token = store.put_begin("d", 1, parent="c").token
    assert token is not None
    assert store.remove("a", force=True).answer is Answer.OK
    assert store.put_commit("d", token, b"v").answer is Answer.STALE


# ---- protection


def test_lease_holds_until_its_deadline() -> None:
    store = filled()
    store.lease("c", 10)
    store.advance(9)
    assert store.put("x", b"12", parent=ROOT).answer is Answer.NO_SPACE
    store.advance(1)
    assert store.put("x", b"12", parent=ROOT).evicted == ("c",)


def test_lease_never_gets_shorter() -> None:
    store = filled()
    store.lease("c", 10)
    store.lease("c", 2)
    store.advance(9)
    assert store.remove("c").answer is Answer.PROTECTED


def test_pin_is_given_back_once() -> None:
    store = filled()
    token = store.pin("c").token
    assert token is not None
    assert store.remove("c").answer is Answer.PROTECTED
    assert (store.unpin(token), store.unpin(token)) == (Answer.OK, Answer.NOT_FOUND)
    assert store.remove("c").answer is Answer.OK


def test_bytes_in_use_stay_until_the_transfer_ends() -> None:
    store = filled()
    token = store.pin("c").token
    assert token is not None
    assert store.remove("c", force=True).answer is Answer.OK
    assert (store.get("c"), store.stats().used_bytes) == (None, 3)
    store.unpin(token)
    assert store.stats().used_bytes == 2


def test_forced_clear_keeps_bytes_in_use() -> None:
    store = filled()
    token = store.pin("c").token
    assert token is not None
    assert (store.clear(), store.clear(force=True)) == (Answer.PROTECTED, Answer.OK)
    assert (store.stats().used_bytes, store.snapshot().objects) == (1, {})
    store.unpin(token)
    assert store.stats().used_bytes == 0


def test_soft_pinned_child_keeps_its_parent_to_the_last() -> None:
    store = store_of(capacity=3)
    store.put("a", b"v", parent=ROOT)
    store.put("b", b"v", parent="a", options=PutOptions(pin=Pin.SOFT))
    store.put("x", b"v", parent=ROOT)
    assert store.put("y", b"v", parent=ROOT).evicted == ("x",)
    assert store.put("z", b"123", parent=ROOT).evicted == ("y", "b", "a")


def test_soft_pin_ends_at_its_deadline() -> None:
    store = store_of(capacity=2)
    store.put("a", b"v", parent=ROOT, options=PutOptions(pin=Pin.SOFT, soft_pin_ms=5))
    store.put("b", b"v", parent=ROOT)
    store.advance(5)
    assert store.put("c", b"v", parent=ROOT).evicted == ("a",)


@pytest.mark.parametrize(
    ("kind", "leased"),
    [
        (ExistsLeases.NONE, ""),
        (ExistsLeases.HITS, "abd"),
        (ExistsLeases.LONGEST_PREFIX, "ab"),
        (ExistsLeases.LAST_HIT, "b"),
    ],
)
def test_match_leases_what_is_declared(kind: ExistsLeases, leased: str) -> None:
    store = store_of(attrs.evolve(presets.FLAT_LRU, exists_leases=kind))
    for key in "abd":
        store.put(key, b"v")
    assert store.match("abcd") == 2
    assert "".join(key for key in "abd" if store.remove(key).answer is Answer.PROTECTED) == leased


def test_match_resumes_where_declared() -> None:
    store = filled()
    assert (store.match("abx", 1), store.match("xbc", 1), store.match("xxx", 1)) == (2, 3, 1)


def test_match_from_the_middle_is_refused_where_it_walks_from_the_root_only() -> None:
    store = filled(walk=frozenset({"root"}))
    with pytest.raises(ConfigurationError, match="not offered"):
        store.match("abc", 1)


# ---- batches, families, object groups


def test_singles_answer_each_for_itself() -> None:
    store = store_of(capacity=2)
    items = [PutItem("a", b"1", ROOT), PutItem("c", b"1", "b"), PutItem("b", b"1", "a")]
    assert answers(store.put_many(items)) == [Answer.STORED, Answer.PARENT_MISSING, Answer.STORED]


def test_atomic_batch_is_all_or_nothing() -> None:
    store = store_of(attrs.evolve(presets.PREFIX_AWARE, batch=Batch.ATOMIC), 3)
    store.put("x", b"1", parent=ROOT)
    chain = [PutItem("a", b"1", ROOT), PutItem("b", b"1", "a"), PutItem("c", b"1", "b")]
    assert answers(store.put_many([*chain, PutItem("d", b"1", "c")])) == [Answer.NO_SPACE] * 4
    assert store.stats() == attrs.evolve(store.stats(), used_bytes=1, resident_objects=1, evicted_objects=0)
    results = store.put_many(chain)
    assert (answers(results), results[0].evicted) == ([Answer.STORED] * 3, ("x",))


def test_atomic_batch_is_refused_for_one_bad_member() -> None:
    store = store_of(attrs.evolve(presets.PREFIX_AWARE, batch=Batch.ATOMIC))
    assert answers(store.put_many([PutItem("a", b"1", ROOT), PutItem("", b"1", "a")])) == [Answer.INVALID] * 2
    assert store.events() == []


def put_shards(store: ReferenceStore, depth: int, parent: int | None) -> list[Answer]:
    """Both shards of one logical block."""
    return [
        store.put(
            f"{depth}s{shard}", b"v", parent=ROOT if parent is None else f"{parent}s{shard}", options=PutOptions(family=f"{depth}")
        ).answer
        for shard in range(2)
    ]


def test_family_leaves_as_a_whole() -> None:
    store = store_of(presets.FAMILIES, 4)
    put_shards(store, 0, None)
    put_shards(store, 1, 0)
    result = store.put("x", b"v", parent=ROOT)
    assert result.evicted is not None
    assert set(result.evicted) == {"1s0", "1s1"}


def test_family_with_a_protected_member_stays() -> None:
    store = store_of(presets.FAMILIES, 4)
    put_shards(store, 0, None)
    put_shards(store, 1, 0)
    store.pin("1s1")
    assert store.put("x", b"v", parent=ROOT).answer is Answer.NO_SPACE


def test_best_effort_family_leaves_the_protected_members() -> None:
    store = store_of(attrs.evolve(presets.FAMILIES, families=FamilyMode.BEST_EFFORT), 4)
    put_shards(store, 0, None)
    put_shards(store, 1, 0)
    store.pin("1s1")
    assert store.put("x", b"v", parent=ROOT).evicted == ("1s0",)


def test_family_in_two_places_is_invalid() -> None:
    store = store_of(presets.FAMILIES)
    store.put("a", b"v", parent=ROOT, options=PutOptions(family="f"))
    store.put("b", b"v", parent="a")
    assert store.put("c", b"v", parent="b", options=PutOptions(family="f")).answer is Answer.INVALID


def test_object_group_shares_one_lease() -> None:
    store = store_of(attrs.evolve(presets.FLAT_LRU, object_groups=True))
    for key in "ab":
        store.put(key, b"v", options=PutOptions(object_group="g"))
    store.lease("a", 10)
    assert store.remove("b").answer is Answer.PROTECTED
    store.advance(10)
    assert store.remove("b").answer is Answer.OK


# ---- watching


def test_events_are_numbered_without_a_gap_and_carry_parents() -> None:
    store = filled()
    store.put("x", b"12", parent=ROOT)
    events = store.events()
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    assert [(event.kind, event.key, event.parent) for event in events[2:]] == [
        (EventKind.STORED, "c", "b"),
        (EventKind.REMOVED, "c", UNKNOWN),
        (EventKind.STORED, "x", ROOT),
    ]
    assert store.events(4) == events[4:]


def test_snapshot_is_where_its_sequence_says() -> None:
    store = filled()
    store.remove("c")
    assert store.snapshot() == Snapshot(4, {"a": ROOT, "b": "a"})


def test_forced_clear_is_one_event() -> None:
    store = filled()
    store.pin("a")
    store.clear(force=True)
    assert [event.kind for event in store.events(3)] == [EventKind.CLEARED]


def test_steady_time_never_goes_back() -> None:
    with pytest.raises(ConfigurationError, match="cannot go back"):
        store_of().advance(-1)
