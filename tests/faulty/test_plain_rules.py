"""The plain store, rule by rule: each test states one thing that the spec says, in a few calls."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Admission,
    Answer,
    Batch,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EmptyValue,
    EventKind,
    ExistsLeases,
    Pin,
    PutItem,
    PutOptions,
    Removal,
    Transport,
    offers,
)
from kvprefix.errors import ConfigurationError
from kvprefix_conformance.faulty.kinds import AWARE, CASCADE, DEFER, FLAT, INDEX, NEVER_EVICTS, PLACEHOLDER, UNLEASED
from kvprefix_conformance.faulty.plain import PlainBackend

V = b"sixteen bytes ..."[:16]


class Bench:
    """A plain store of four objects of 16 bytes, and its client."""

    def __init__(self, capabilities: Capabilities = AWARE, **geometry: Any) -> None:
        self.backend = PlainBackend(capabilities, **geometry)
        self.backend.start(64)
        self.client: Any = self.backend.client()

    def put(self, key: str, parent: Any = ROOT, value: bytes = V, **options: Any) -> Any:
        return self.client.put(key, value, parent=parent, options=PutOptions(**options))

    def answer(self, key: str, parent: Any = ROOT, value: bytes = V, **options: Any) -> Answer:
        result: Answer = self.put(key, parent, value, **options).answer
        return result

    def fill(self, *keys: str) -> None:
        for key in keys:
            assert self.answer(key) is Answer.STORED

    def resident(self) -> set[str]:
        return set(self.backend.resident())


@pytest.fixture
def bench() -> Bench:
    return Bench()


# ---- values and answers


def test_get_returns_what_was_put(bench: Bench) -> None:
    bench.fill("a")
    assert bench.client.get("a") == V
    assert bench.client.get("b") is None


def test_a_duplicate_put_changes_nothing(bench: Bench) -> None:
    bench.fill("a")
    assert bench.answer("a", UNKNOWN, b"other") is Answer.EXISTS
    assert bench.client.get("a") == V
    assert bench.client.snapshot().objects == {"a": ROOT}


def test_a_silent_duplicate_answers_stored_but_put_begin_does_not() -> None:
    bench = Bench(attrs.evolve(AWARE, duplicate_put=DuplicatePut.SILENT))
    bench.fill("a")
    assert bench.answer("a") is Answer.STORED
    assert bench.client.put_begin("a", 16).answer is Answer.EXISTS


@pytest.mark.parametrize(("mode", "answer"), [(EmptyValue.INVALID, Answer.INVALID), (EmptyValue.STORED, Answer.STORED)])
def test_an_empty_value_is_taken_as_declared(mode: EmptyValue, answer: Answer) -> None:
    bench = Bench(attrs.evolve(AWARE, empty_value=mode))
    assert bench.answer("a", value=b"") is answer
    assert bench.client.get("a") == (b"" if answer is Answer.STORED else None)


def test_an_empty_key_is_invalid_and_hostile_ones_are_apart(bench: Bench) -> None:
    assert bench.answer("") is Answer.INVALID
    for key in ("a\0", "a", "a/../b", "\ud800"):
        assert bench.answer(key, value=key.encode("utf-8", "surrogatepass")) is Answer.STORED
    assert bench.client.get("a/../b") == b"a/../b"


def test_answers_come_in_the_order_of_the_spec(bench: Bench) -> None:
    bench.fill("a")
    assert bench.answer("a", "a") is Answer.INVALID
    assert bench.answer("a", "missing", b"x" * 65) is Answer.EXISTS
    assert bench.client.put_begin("p", 16).answer is Answer.OK
    assert bench.answer("p", "missing", b"x" * 65) is Answer.IN_PROGRESS
    assert bench.answer("b", "missing", b"x" * 65) is Answer.TOO_LARGE
    bench.put("h", value=b"x" * 32, pin=Pin.HARD)
    assert bench.answer("b", "missing", b"x" * 32) is Answer.PARENT_MISSING
    assert bench.answer("b", "a", b"x" * 32) is Answer.NO_SPACE


def test_options_that_are_not_declared_are_unsupported() -> None:
    bench = Bench(FLAT)
    assert bench.answer("a", UNKNOWN, cache_group=CacheGroup.WINDOW) is Answer.UNSUPPORTED
    assert bench.answer("a", UNKNOWN, namespace="n") is Answer.UNSUPPORTED
    assert bench.answer("a", UNKNOWN, family="f") is Answer.UNSUPPORTED
    assert bench.answer("a", UNKNOWN, object_group="g") is Answer.UNSUPPORTED


# ---- two-phase writes


def test_an_attempt_is_invisible_until_commit_and_counts(bench: Bench) -> None:
    token = bench.client.put_begin("a", 16).token
    assert bench.client.stats().used_bytes == 16
    assert bench.client.get("a") is None
    assert not bench.client.exists("a")
    assert bench.client.lease("a", 9) is Answer.NOT_FOUND
    assert bench.client.put_commit("a", token, b"short").answer is Answer.INVALID
    assert bench.client.put_commit("a", token, V).answer is Answer.STORED
    assert bench.client.put_commit("a", token, V).answer is Answer.STALE
    assert bench.client.get("a") == V


def test_an_aborted_or_timed_out_attempt_leaves_nothing(bench: Bench) -> None:
    token = bench.client.put_begin("a", 16).token
    assert bench.client.put_abort("a", token) is Answer.OK
    assert bench.client.put_abort("a", token) is Answer.STALE
    late = bench.client.put_begin("a", 16).token
    bench.backend.advance(AWARE.pending_timeout_ms - 1)
    assert bench.answer("a") is Answer.IN_PROGRESS
    bench.backend.advance(1)
    assert bench.client.stats().used_bytes == 0
    assert bench.client.put_commit("a", late, V).answer is Answer.STALE


def test_commit_looks_at_the_parent_again() -> None:
    bench = Bench(attrs.evolve(AWARE, removal=Removal.ANY))
    bench.fill("a")
    token = bench.client.put_begin("b", 16, parent="a").token
    assert bench.client.remove("a", force=True).answer is Answer.OK
    assert bench.client.put_commit("b", token, V).answer is Answer.PARENT_MISSING
    assert bench.client.stats().used_bytes == 0


# ---- room and eviction


def test_the_oldest_leaf_goes_and_no_more_than_needed() -> None:
    bench = Bench(UNLEASED)
    bench.fill("a")
    bench.put("b", "a")
    bench.fill("x", "y")
    assert bench.put("z").evicted == ("b",)
    assert bench.put("z2", value=b"x" * 17).evicted == ("a", "x")


def test_a_put_never_evicts_its_own_ancestors() -> None:
    bench = Bench(UNLEASED)
    bench.put("a", value=b"x" * 40)
    assert bench.answer("b", "a", b"x" * 32) is Answer.NO_SPACE
    assert bench.resident() == {"a"}


def test_what_protects_a_child_protects_its_ancestors(bench: Bench) -> None:
    bench.fill("a")
    bench.put("b", "a")
    bench.client.lease("b", 10)
    assert bench.answer("x", value=b"x" * 48) is Answer.NO_SPACE
    bench.backend.advance(10)
    assert bench.put("x", value=b"x" * 64).evicted == ("b", "a")


def test_a_refused_put_evicts_nothing(bench: Bench) -> None:
    bench.fill("a")
    bench.put("h", value=b"x" * 48, pin=Pin.HARD)
    assert bench.answer("b", value=b"x" * 32) is Answer.NO_SPACE
    assert bench.resident() == {"a", "h"}


def test_a_store_that_never_evicts_refuses() -> None:
    bench = Bench(NEVER_EVICTS)
    bench.fill("a", "b", "c", "d")
    assert bench.answer("e") is Answer.NO_SPACE


def test_overhead_and_quantum_are_charged() -> None:
    bench = Bench(AWARE, overhead_bytes=8, quantum_bytes=32)
    bench.fill("a")
    assert bench.client.stats().used_bytes == 32
    assert bench.answer("b", value=b"x" * 57) is Answer.TOO_LARGE


def test_a_touch_stamps_the_ancestors_and_outlives_the_child() -> None:
    bench = Bench(UNLEASED)
    bench.fill("a", "x")
    bench.put("b", "a")
    bench.client.get("b")
    bench.client.remove("b")
    assert bench.put("y", value=b"x" * 48).evicted == ("x",)


def test_soft_pins_go_last_and_end_on_time() -> None:
    bench = Bench(UNLEASED)
    bench.put("a", pin=Pin.SOFT, soft_pin_ms=10)
    bench.fill("x", "y", "z")
    assert bench.put("b").evicted == ("x",)
    bench.backend.advance(10)
    assert bench.put("c").evicted == ("a",)


# ---- protection


def test_a_lease_ends_at_its_deadline_and_is_never_cut(bench: Bench) -> None:
    bench.fill("a")
    bench.client.lease("a", 10)
    bench.client.lease("a", 2)
    bench.backend.advance(9)
    assert bench.client.remove("a").answer is Answer.PROTECTED
    bench.backend.advance(1)
    assert bench.client.remove("a").answer is Answer.OK


def test_wall_time_moves_no_deadline(bench: Bench) -> None:
    bench.fill("a")
    bench.client.lease("a", 10)
    bench.backend.jump_wall_clock(1_000_000)
    assert bench.client.remove("a").answer is Answer.PROTECTED


@pytest.mark.parametrize(
    ("mode", "leased"),
    [
        (ExistsLeases.NONE, set()),
        (ExistsLeases.HITS, {"a", "b", "d"}),
        (ExistsLeases.LONGEST_PREFIX, {"a", "b"}),
        (ExistsLeases.LAST_HIT, {"b"}),
    ],
)
@pytest.mark.parametrize("call", ["match", "exists_many"])
def test_a_lookup_leases_what_is_declared(mode: ExistsLeases, leased: set[str], call: str) -> None:
    bench = Bench(attrs.evolve(AWARE, exists_leases=mode))
    bench.fill("a", "b", "d")
    getattr(bench.client, call)(["a", "b", "c", "d"])
    assert {key for key in "abd" if bench.client.remove(key).answer is Answer.PROTECTED} == leased


def test_probe_neither_leases_nor_touches(bench: Bench) -> None:
    bench.fill("a", "b", "c", "d")
    assert bench.client.probe("a")
    assert bench.put("e").evicted == ("a",)


def test_a_pin_is_given_back_once_by_its_owner(bench: Bench) -> None:
    bench.fill("a")
    one, two = bench.client.pin("a").token, bench.client.pin("a").token
    assert bench.client.unpin(one) is Answer.OK
    assert bench.client.unpin(one) is Answer.NOT_FOUND
    assert bench.client.remove("a").answer is Answer.PROTECTED
    assert bench.client.unpin(two) is Answer.OK
    assert bench.client.remove("a").answer is Answer.OK


def test_bytes_under_a_transfer_stay_in_use_after_a_forced_removal(bench: Bench) -> None:
    bench.fill("a")
    token = bench.client.pin("a").token
    assert bench.client.remove("a", force=True).answer is Answer.OK
    assert bench.client.get("a") is None
    assert bench.client.stats().used_bytes == 16
    assert bench.client.unpin(token) is Answer.OK
    assert bench.client.stats().used_bytes == 0


# ---- lineage


def test_reject_refuses_a_child_without_its_parent(bench: Bench) -> None:
    assert bench.answer("b", "a") is Answer.PARENT_MISSING
    bench.put("a", namespace="n")
    assert bench.answer("b", "a") is Answer.PARENT_MISSING
    bench.put("w", UNKNOWN, cache_group=CacheGroup.WINDOW)
    assert bench.answer("b", "w") is Answer.PARENT_MISSING
    assert bench.answer("w2", "a", cache_group=CacheGroup.WINDOW) is Answer.INVALID


def test_deferred_objects_wait_unseen_and_follow_their_parent() -> None:
    bench = Bench(DEFER)
    assert bench.answer("c", "b") is Answer.DEFERRED
    assert bench.answer("b", "a") is Answer.DEFERRED
    assert bench.answer("c", "b", b"other") is Answer.DEFERRED
    assert bench.client.get("c") is None
    assert bench.client.stats().used_bytes == 32
    assert bench.answer("a") is Answer.STORED
    assert bench.client.get("c") == V
    assert [event.key for event in bench.client.events()] == ["a", "b", "c"]


def test_deferred_objects_go_first_and_are_dropped_on_time() -> None:
    bench = Bench(DEFER)
    bench.put("x", value=b"x" * 32)
    bench.put("b", "a")
    assert bench.put("y", value=b"x" * 32).evicted == ("b",)
    bench.client.remove("y")
    bench.put("b", "a")
    bench.backend.advance(DEFER.defer_deadline_ms)
    assert bench.client.stats().used_bytes == 32


def test_placeholder_admits_at_once_and_eviction_heeds_what_is_there() -> None:
    bench = Bench(PLACEHOLDER)
    assert bench.answer("b", "a") is Answer.STORED
    bench.fill("a")
    assert bench.put("x", value=b"x" * 64).evicted == ("b", "a")


@pytest.mark.parametrize("capabilities", [DEFER, PLACEHOLDER])
def test_a_cycle_is_invalid(capabilities: Capabilities) -> None:
    bench = Bench(capabilities)
    assert bench.answer("a", "a") is Answer.INVALID
    bench.put("b", "a")
    bench.put("c", "b")
    assert bench.answer("a", "c") is Answer.INVALID


def test_removal_refuses_over_children_even_by_force(bench: Bench) -> None:
    bench.fill("a")
    bench.put("b", "a")
    assert bench.client.remove("a").answer is Answer.PROTECTED
    assert bench.client.remove("a", force=True).answer is Answer.PROTECTED
    assert bench.client.remove("b").removed == ("b",)
    assert bench.client.remove("a").removed == ("a",)
    assert bench.client.remove("a").answer is Answer.NOT_FOUND


def test_a_cascade_takes_all_or_nothing() -> None:
    bench = Bench(CASCADE)
    bench.fill("a")
    bench.put("b", "a")
    bench.client.lease("b", 10)
    token = bench.client.put_begin("c", 16, parent="b").token
    assert bench.client.remove("a").answer is Answer.PROTECTED
    assert bench.client.remove("a", force=True).removed == ("c", "b", "a")
    assert bench.client.put_commit("c", token, V).answer is Answer.STALE


def test_registered_lineage_orders_evictions() -> None:
    caps = attrs.evolve(UNLEASED, lineage=frozenset({Transport.EVENT}), admission=Admission.ANY)
    bench = Bench(caps)
    bench.fill("a", "b", "x", "y")
    assert bench.client.register("b", "a") is Answer.OK
    assert bench.client.register("b", "x") is Answer.INVALID
    assert bench.client.register("a", "b") is Answer.INVALID
    assert bench.put("z").evicted == ("b",)
    assert bench.client.register("b", "x") is Answer.OK


def test_match_stops_at_the_first_miss_and_may_start_later(bench: Bench) -> None:
    bench.fill("a", "b", "d")
    assert bench.client.match(["a", "b", "c", "d"]) == 2
    assert bench.client.match(["c", "b"], 1) == 2
    assert bench.client.match([]) == 0


# ---- batches, clearing, events


def test_a_batch_of_singles_tries_every_member(bench: Bench) -> None:
    items = [PutItem("b", V, "a"), PutItem("c", V, "b"), PutItem("a", V, ROOT), PutItem("a", V)]
    answers = [result.answer for result in bench.client.put_many(items)]
    assert answers == [Answer.PARENT_MISSING, Answer.PARENT_MISSING, Answer.STORED, Answer.EXISTS]
    assert bench.client.get_many(["a", "b", "a"]) == [V, None, V]
    assert bench.client.exists_many(["b", "a"]) == [False, True]


def test_an_atomic_batch_stores_all_or_nothing() -> None:
    bench = Bench(attrs.evolve(UNLEASED, batch=Batch.ATOMIC))
    bench.fill("x")
    refused = bench.client.put_many([PutItem("a", V, ROOT), PutItem("x", V), PutItem("b", V, "missing")])
    assert [result.answer for result in refused] == [Answer.PARENT_MISSING, Answer.EXISTS, Answer.PARENT_MISSING]
    assert bench.resident() == {"x"}
    too_many = bench.client.put_many([PutItem(f"k{i}", V) for i in range(5)])
    assert {result.answer for result in too_many} == {Answer.NO_SPACE}
    assert bench.resident() == {"x"}
    assert len(bench.client.events()) == 1


def test_clear_is_refused_while_anything_is_protected(bench: Bench) -> None:
    bench.fill("a")
    token = bench.client.put_begin("b", 16).token
    assert bench.client.clear() is Answer.PROTECTED
    assert bench.client.clear(force=True) is Answer.OK
    assert bench.client.put_commit("b", token, V).answer is Answer.STALE
    assert [event.kind for event in bench.client.events(1)] == [EventKind.CLEARED]


def test_a_put_sends_removed_events_deepest_first_then_stored() -> None:
    bench = Bench(UNLEASED)
    bench.fill("a")
    bench.put("b", "a")
    bench.put("x", value=b"x" * 64)
    sent = [(event.sequence, event.kind.value, event.key, event.parent) for event in bench.client.events(1)]
    assert sent == [
        (2, "stored", "b", "a"), (3, "removed", "b", UNKNOWN), (4, "removed", "a", UNKNOWN), (5, "stored", "x", ROOT),
    ]  # fmt: skip


# ---- the backend


def test_an_index_keeps_no_bytes() -> None:
    bench = Bench(INDEX)
    bench.fill("a")
    assert bench.client.get("a") == b""
    assert bench.client.get("b") is None


def test_reset_empties_and_close_ends(bench: Bench) -> None:
    bench.fill("a")
    bench.backend.advance(5)
    bench.backend.reset()
    assert bench.resident() == set()
    assert bench.backend.now() == 0
    bench.backend.close()
    bench.backend.close()
    with pytest.raises(ConfigurationError, match="not started"):
        bench.backend.resident()


def test_only_declared_calls_are_offered() -> None:
    bench = Bench(FLAT)
    assert not offers(bench.client, "register")
    assert offers(bench.client, "match")
    backend = PlainBackend(FLAT, calls=["probe"])
    backend.start(64)
    assert offers(backend.client(), "probe")
    assert not offers(backend.client(), "match")


def test_a_client_that_is_not_declared_is_refused(bench: Bench) -> None:
    with pytest.raises(ConfigurationError):
        bench.backend.client(2)
    with pytest.raises(ConfigurationError):
        bench.backend.client(0, "tenant")
