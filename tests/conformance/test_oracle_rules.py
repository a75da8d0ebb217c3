"""Each rule of the oracle on a history written by hand: what breaks it, and what comes close and does not."""

from __future__ import annotations

from typing import Any

import pytest
from suite_support import History, history

from kvprefix.api import (
    UNKNOWN,
    Admission,
    CacheGroup,
    DuplicatePut,
    EmptyValue,
    Event,
    EventKind,
    EvictionOrder,
    ExistsLeases,
    Parent,
    Pin,
    Progress,
    Removal,
    Transport,
    VictimPolicy,
)

AWARE: dict[str, Any] = {
    "lineage": frozenset({Transport.ARGUMENT}),
    "eviction_order": EvictionOrder.DESCENDANTS_FIRST,
    "admission": Admission.REJECT,
    "removal": Removal.REFUSE,
}
LEASED: dict[str, Any] = {
    "lease_ttl_ms": 50,
    "lease_calls": frozenset({"get", "exists", "match"}),
    "exists_leases": ExistsLeases.HITS,
}
#: Arguments with reserved names.
AS: dict[str, dict[str, Any]] = {label: {"as": label} for label in ("p1", "p2", "t1", "t2")}
OK, PROTECTED = {"answer": "OK", "removed": None}, {"answer": "PROTECTED", "removed": []}


# -- objects ----------------------------------------------------------------------------------------------------------------------


def test_a_store_that_keeps_what_it_stored_breaks_nothing() -> None:
    h = history().put("a", resident="a").get("a", resident="a").step("exists", True, key="a").step("exists", False, key="b")
    assert h.kinds() == set()


def test_sto_1_a_miss_without_any_pressure_is_a_loss() -> None:
    assert history().put("a").get("a", None).kinds() == {"STO-1 lost"}


def test_sto_1_a_miss_after_unreported_pressure_is_none() -> None:
    h = history(reports_evictions=False).put("a", evicted=None)
    for key in "bcde":
        h.put(key, evicted=None)
    assert h.get("a", None).kinds() == set()


def test_sto_1_bytes_that_nobody_wrote() -> None:
    h = history().put("a").step("get", {"size": 100, "begins": "00"}, key="a")
    assert h.kinds() == {"STO-1 wrong-bytes"}


def test_sto_2_a_duplicate_put_answers_as_declared() -> None:
    assert history().put("a").put("a").kinds() == {"STO-2 duplicate-answer"}
    assert history(duplicate_put=DuplicatePut.SILENT).put("a").put("a").kinds() == set()


def test_sto_2_a_duplicate_put_changes_nothing() -> None:
    h = history().put("a").put("a", "EXISTS", fill=2).get("a", fill=2)
    assert h.kinds() == {"STO-2 overwritten"}


def test_sto_2_a_duplicate_put_takes_nothing() -> None:
    assert history().put("a").put("b").put("b", "EXISTS", evicted="a").kinds() == {"STO-2 duplicate-evicted"}


def test_sto_2_where_a_silent_store_may_hold_either_value_both_are_right() -> None:
    for fill in (1, 2):
        h = history(duplicate_put=DuplicatePut.SILENT, reports_evictions=False).put("a", evicted=None)
        for key in "bcde":
            h.put(key, evicted=None)
        h.put("a", fill=2, evicted=None).get("a", fill=fill)
        assert h.kinds() == set()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"of": "b", "fill": 1, "size": 100}, "STO-3 foreign"),
        ({"of": "a", "fill": 1, "size": 60, "whole": 100}, "STO-3 torn"),
        ({"size": 0, "begins": ""}, "STO-3 torn"),
    ],
)
def test_sto_3_foreign_and_torn_values(value: Any, kind: str) -> None:
    assert history().put("a").put("b").step("get", value, key="a").kinds() == {kind}


def test_sto_3_a_miss_is_not_an_empty_value() -> None:
    assert history().step("get", {"size": 0, "begins": ""}, key="a").kinds() == {"STO-3 empty-for-miss"}


def test_sto_3_an_empty_value_is_refused_or_kept_as_declared() -> None:
    assert history().put("a", size=0).kinds() == {"STO-3 empty-value"}
    kept = history(empty_value=EmptyValue.STORED).put("a", size=0)
    assert kept.get("a", None, size=0).kinds() == {"STO-3 empty-value"}


@pytest.mark.parametrize("call", ["exists", "probe"])
def test_sto_4_what_was_removed_is_a_miss(call: str) -> None:
    h = history().put("a").step("remove", OK, key="a").step(call, True, key="a")
    assert h.kinds() == {"STO-4 phantom"}


def test_sto_4_lease_and_pin_miss_what_is_not_there() -> None:
    assert history().step("lease", "OK", key="a", ttl_ms=5).kinds() == {"STO-4 effect-on-absent"}
    assert history().step("pin", {"answer": "OK"}, key="a", **AS["p1"]).kinds() == {"STO-4 effect-on-absent"}


def begun(**declared: Any) -> History:
    return history(**declared).step("put_begin", {"answer": "OK", "evicted": [], "token": "x"}, key="a", size=100, **AS["t1"])


def commit(h: History, answer: str, key: str = "a", token: str = "t1", size: int = 100) -> History:
    return h.step("put_commit", {"answer": answer, "evicted": []}, key=key, token=token, value={"fill": 1, "size": size})


def test_sto_5_what_is_pending_is_a_miss() -> None:
    assert begun().get("a").kinds() == {"STO-5 visible-before-commit"}
    assert begun().get("a", None).kinds() == set()


def test_sto_5_one_attempt_at_a_time() -> None:
    assert begun().put("a").kinds() == {"STO-5 attempt-overrun"}
    assert begun().put("a", "IN_PROGRESS").kinds() == set()


def test_sto_5_tokens_of_ended_attempts_are_stale() -> None:
    assert commit(commit(begun(), "STORED"), "STORED").kinds() == {"STO-5 stale-completed"}
    assert commit(begun(), "STORED", token="t9").kinds() == {"STO-5 stale-completed"}
    assert commit(begun(), "STALE").kinds() == {"STO-5 attempt-lost"}


def test_sto_5_a_commit_of_another_length_is_invalid_and_the_attempt_stays_open() -> None:
    assert commit(begun(), "STORED", size=90).kinds() == {"STO-5 size-not-checked"}
    assert commit(commit(begun(), "INVALID", size=90), "STORED").kinds() == set()


@pytest.mark.parametrize(
    ("wait", "answer", "kinds"), [(99, "OK", {"STO-5 attempt-overrun"}), (100, "IN_PROGRESS", {"STO-5 key-blocked"})]
)
def test_sto_5_a_dead_writer_frees_its_key_in_time_and_not_before(wait: int, answer: str, kinds: set[str]) -> None:
    h = begun(pending_timeout_ms=100).step("advance", ms=wait)
    h.step("put_begin", {"answer": answer, "evicted": [], "token": "y"}, key="a", size=100, **AS["t2"])
    assert h.kinds() == kinds


def test_sto_6_the_sum_fits_and_is_counted() -> None:
    h = history()
    for key in "abcde":
        h.put(key)
    assert "STO-6 over-capacity" in h.kinds()
    assert history().put("a").step("stats", {"used_bytes": 90, "resident_objects": 1}).kinds() == {"STO-6 drift"}
    assert history().put("a").step("stats", {"used_bytes": 100, "resident_objects": 2}).kinds() == {"STO-6 count-drift"}
    assert history().put("a").step("stats", {"used_bytes": 100, "resident_objects": 1}).kinds() == set()


def test_sto_6_bytes_of_what_left_may_be_counted_for_the_declared_time_and_no_longer() -> None:
    h = history(reclaim_ms=50).put("a").step("remove", OK, key="a").put("a")
    assert h.step("stats", {"used_bytes": 200, "resident_objects": 1}).kinds() == set()
    assert h.step("advance", ms=50).step("stats", {"used_bytes": 200, "resident_objects": 1}).kinds() == {"STO-6 drift"}


def test_sto_7_a_refused_put_leaves_nothing() -> None:
    assert history().put("a", "TOO_LARGE", size=500).step("exists", True, key="a").kinds() == {"STO-7 trace-left"}
    assert history().put("a", "TOO_LARGE", size=500).kinds() == set()
    assert history().put("a", "NO_SPACE", size=500).kinds() == {"STO-7 too-large-answer"}
    assert history().put("a", "TOO_LARGE", size=400).kinds() == {"STO-7 too-large-answer"}


def test_sto_7_a_refused_put_takes_nothing_unless_declared() -> None:
    h = history().put("a").put("b", "TOO_LARGE", size=500, evicted="a")
    assert h.kinds() == {"STO-7 refused-put-evicted"}


def full(**declared: Any) -> History:
    h = history(**declared)
    for key in "abcd":
        h.put(key, size=100)
    return h


def test_sto_7_evictions_are_reported_and_reports_are_true() -> None:
    assert full().put("e", evicted="", resident="b c d e").kinds() == {"STO-7 unreported-eviction"}
    assert full().put("e", evicted="a", resident="a b c d e").kinds() >= {"STO-7 false-report"}
    assert full().put("e", evicted="z").kinds() >= {"STO-7 false-report"}
    assert full().put("e", evicted="a", resident="b c d e").kinds() == set()


def test_sto_8_one_answer_per_member_each_as_a_single_would() -> None:
    h = history().put("a").put("b")
    h.step("exists_many", [True], keys=["a", "b"])
    assert h.kinds() == {"STO-8 batch-length"}
    value = {"of": "b", "fill": 1, "size": 100}
    assert history().put("a").put("b").step("get_many", [value], keys=["a"]).kinds() == {"STO-8 batch-not-singles"}
    items = [{"key": "a", "value": {"fill": 2, "size": 100}}]
    h = history().put("a").step("put_many", [{"answer": "STORED", "evicted": []}], items=items)
    assert h.kinds() == {"STO-8 batch-not-singles"}


def test_sto_9_remove_answers_by_the_state_of_the_key() -> None:
    assert history().step("remove", OK, key="a").kinds() == {"STO-9 remove-answer"}
    assert begun().step("remove", OK, key="a").kinds() == {"STO-9 remove-answer"}
    assert begun().step("remove", OK, key="a", force=True).kinds() == set()
    assert commit(begun().step("remove", OK, key="a", force=True), "STORED").kinds() == {"STO-5 stale-completed"}


def test_sto_9_clear_emits_one_cleared_event() -> None:
    cleared = Event(2, EventKind.CLEARED)
    stored = Event(1, EventKind.STORED, "a")
    offered = frozenset({"put", "get", "exists", "clear", "events"})
    good = history(offered=offered).put("a", events=(stored,)).step("clear", "OK", events=(cleared,))
    assert good.kinds() == set()
    bad = history(offered=offered).put("a", events=(stored,)).step("clear", "OK", events=(Event(2, EventKind.REMOVED, "a"),))
    assert bad.kinds() == {"STO-9 cleared-events"}


def test_sto_10_a_hostile_key_is_not_another() -> None:
    assert history().put("../a").step("exists", True, key="a").kinds() == {"STO-10 hostile-key"}
    assert history().put("a\nb", "NO_SPACE").kinds() == {"PFX-6 refused-with-room"}
    assert history().put("a\nb", "INVALID").kinds() == set()
    assert history().put("plain", "INVALID").kinds() == {"STO-1 lost"}


# -- protection -------------------------------------------------------------------------------------------------------------------


def test_prt_1_a_leased_object_is_not_evicted_before_its_deadline() -> None:
    h = full().step("lease", "OK", key="a", ttl_ms=50).step("advance", ms=49).put("e", evicted="a")
    assert h.kinds() == {"PRT-1 evicted-protected"}
    h = full().step("lease", "OK", key="a", ttl_ms=50).step("advance", ms=50).put("e", evicted="a")
    assert h.kinds() == set()


def test_prt_1_seen_without_reports_by_a_miss_after_pressure() -> None:
    h = history(reports_evictions=False).put("a", evicted=None).step("lease", "OK", key="a", ttl_ms=50)
    for key in "bcde":
        h.put(key, evicted=None)
    assert h.get("a", None).kinds() == {"PRT-1 evicted-protected"}


def test_prt_1_a_pin_holds_until_its_own_token_is_given_back() -> None:
    h = history().put("a").step("pin", {"answer": "OK"}, key="a", **AS["p1"]).step("pin", {"answer": "OK"}, key="a", **AS["p2"])
    h.step("unpin", "OK", token="p1").step("remove", OK, key="a")
    assert h.kinds() == {"PRT-1 removed-protected", "STO-9 removed-though-protected"}


def test_prt_2_a_shorter_grant_does_not_end_a_longer_lease() -> None:
    h = history().put("a").step("lease", "OK", key="a", ttl_ms=100).step("lease", "OK", key="a", ttl_ms=10)
    assert "PRT-2 lease-shortened" in h.step("advance", ms=20).step("remove", OK, key="a").kinds()


def test_prt_2_a_lease_ends_at_its_deadline() -> None:
    h = history().put("a").step("lease", "OK", key="a", ttl_ms=10).step("advance", ms=10).step("remove", PROTECTED, key="a")
    assert h.kinds() == {"PRT-2 lease-overstays"}


def test_prt_2_the_lease_of_a_child_leaves_with_it() -> None:
    h = history(**AWARE).put("a").put("b", parent="a").step("lease", "OK", key="b", ttl_ms=100)
    h.step("remove", OK, key="b", force=True).step("remove", PROTECTED, key="a")
    assert h.kinds() == {"PRT-2 derived-lease-kept"}


def test_prt_3_a_read_leases_exactly_where_that_is_declared() -> None:
    h = history(**LEASED).put("a").get("a").step("remove", OK, key="a")
    assert "PRT-3 lease-not-granted" in h.kinds()
    h = history(**LEASED).put("a").step("probe", True, key="a").step("remove", PROTECTED, key="a")
    assert h.kinds() == {"PRT-3 undeclared-lease"}


@pytest.mark.parametrize(
    ("mode", "leased"),
    [(ExistsLeases.HITS, "a b d"), (ExistsLeases.LONGEST_PREFIX, "a b"), (ExistsLeases.LAST_HIT, "b"), (ExistsLeases.NONE, "")],
)
def test_prt_3_match_leases_the_blocks_that_are_declared(mode: ExistsLeases, leased: str) -> None:
    for key in "abd":
        h = history(**{**LEASED, "exists_leases": mode}).put("a").put("b").put("d")
        h.step("match", 2, chain=["a", "b", "c", "d"]).step("remove", OK, key=key)
        assert ("PRT-3 lease-not-granted" in h.kinds()) == (key in leased.split())


def test_prt_4_hard_and_soft_pins() -> None:
    pins: dict[str, Any] = {"pins": frozenset({Pin.HARD, Pin.SOFT})}
    h = history(**pins).put("a", options={"pin": "hard"}).put("b").put("c").put("d").put("e", evicted="a")
    assert h.kinds() == {"PRT-1 evicted-protected", "PRT-4 hard-pin-evicted"}
    h = history(**pins).put("a", options={"pin": "soft"}).put("b").put("c").put("d").put("e", evicted="a")
    assert h.kinds() == {"PRT-4 soft-pin-order"}
    h = history(**pins).put("a", options={"pin": "soft", "soft_pin_ms": 10}).put("b").put("c").put("d")
    assert h.step("advance", ms=10).put("e", evicted="a").kinds() == set()


def test_prt_4_an_ancestor_of_a_soft_pinned_block_counts_as_soft_pinned() -> None:
    h = history(capacity=300, pins=frozenset({Pin.SOFT}), **{**AWARE, "admission": Admission.PLACEHOLDER})
    h.put("a").put("b", parent="a", options={"pin": "soft"}).put("c")
    assert "PRT-4 soft-pin-order" in h.put("d", size=200, evicted="b a").kinds()


def test_prt_4_an_undeclared_pin_is_unsupported() -> None:
    assert history().put("a", options={"pin": "hard"}).kinds() == {"PRT-4 pin-undeclared"}
    assert history().put("a", "UNSUPPORTED", options={"pin": "hard"}).kinds() == set()


def test_prt_4_a_read_moves_a_soft_pin_only_where_that_is_declared() -> None:
    def kinds(**declared: Any) -> set[str]:
        h = history(policy=VictimPolicy.FIFO, pins=frozenset({Pin.SOFT}), **declared)
        h.put("a", options={"pin": "soft", "soft_pin_ms": 50}).step("advance", ms=1).put("b").step("advance", ms=1)
        h.put("c").put("d").step("exists", True, key="a").step("advance", ms=49)
        return h.put("e", evicted="b").kinds()

    assert kinds() == {"PFX-9 not-the-victim", "PRT-4 soft-pin-overstays", "PRT-3 undeclared-touch"}
    assert kinds(reads_extend_soft_pin=True) == set()


def test_prt_5_wall_time_moves_no_lease() -> None:
    h = history().put("a").step("lease", "OK", key="a", ttl_ms=50).step("jump_wall_clock", ms=10**6).step("remove", OK, key="a")
    assert "PRT-5 wall-clock" in h.kinds()


# -- prefix awareness -------------------------------------------------------------------------------------------------------------


def chain(**declared: Any) -> History:
    h = history(**{**AWARE, **declared})
    return h.put("a").put("b", parent="a").put("c", parent="b").put("x")


def test_pfx_1_by_the_reported_order() -> None:
    assert chain().put("y", evicted="x").kinds() == set()
    assert chain().put("y", size=200, evicted="x c").kinds() == set()
    assert "PFX-1 ancestor-evicted" in chain().put("y", evicted="a").kinds()
    assert "PFX-1 ancestor-evicted" in chain().put("y", size=300, evicted="x b c").kinds()


def test_pfx_1_by_hits_and_misses_alone() -> None:
    h = chain(reports_evictions=False)
    for recorded in h.records:
        recorded.step.answer["evicted"] = None
    h.put("y", evicted=None).get("b", None).get("c")
    assert "PFX-1 ancestor-evicted" in h.kinds()


def test_pfx_1_a_child_that_came_back_after_its_parent_went_proves_nothing() -> None:
    h = history(reports_evictions=False, lineage=frozenset({Transport.ARGUMENT})).put("a", evicted=None)
    h.put("b", parent="a", evicted=None).put("c", evicted=None).put("d", evicted=None).put("e", size=200, evicted=None)
    h.get("a", None).get("b", None).put("b", parent="a", evicted=None).get("b")
    assert "PFX-1 ancestor-evicted" not in h.kinds()


def test_pfx_1_a_removed_parent_was_not_evicted() -> None:
    h = history(**{**AWARE, "removal": Removal.ANY}).put("a").put("b", parent="a").step("remove", OK, key="a").get("b")
    assert not any(kind.startswith("PFX-1 ") for kind in h.kinds())


def test_pfx_2_the_sandwich() -> None:
    h = (
        history(lineage=frozenset({Transport.ARGUMENT}), reports_evictions=False)
        .put("a", evicted=None)
        .put("b", parent="a", evicted=None)
    )
    h.put("c", evicted=None).put("d", evicted=None).put("e", evicted=None)
    h.get("b").get("a", None).get("b")
    assert "PFX-2 orphan" in h.kinds()


def test_pfx_3_each_admission_answers_its_own_way() -> None:
    for admission, right in (
        (Admission.REJECT, "PARENT_MISSING"),
        (Admission.DEFER, "DEFERRED"),
        (Admission.PLACEHOLDER, "STORED"),
    ):
        for answer in ("PARENT_MISSING", "DEFERRED", "STORED"):
            kinds = history(**{**AWARE, "admission": admission}).put("b", answer, parent="a").kinds() - {"PFX-2 orphan"}
            assert bool(kinds) == (answer != right), (admission, answer, kinds)


def test_pfx_3_a_deferred_object_is_a_miss_until_its_parent_is_there() -> None:
    defer: dict[str, Any] = {**AWARE, "admission": Admission.DEFER}
    assert history(**defer).put("b", "DEFERRED", parent="a").get("b").kinds() == {"PFX-3 deferred-visible"}
    assert history(**defer).put("b", "DEFERRED", parent="a").put("a").get("b").kinds() == set()
    assert history(**defer).put("b", "DEFERRED", parent="a").put("a").get("b", None).kinds() == {"PFX-3 deferred-not-promoted"}


def test_pfx_3_a_cycle_is_invalid() -> None:
    defer: dict[str, Any] = {**AWARE, "admission": Admission.DEFER}
    assert history(**defer).put("a", "DEFERRED", parent="a").kinds() == {"PFX-3 cycle-accepted"}
    h = history(**defer).put("b", "DEFERRED", parent="a").put("a", "DEFERRED", parent="b")
    assert h.kinds() == {"PFX-3 cycle-accepted"}


@pytest.mark.parametrize(
    ("length", "kinds"), [(1, {"PFX-4 match-short"}), (2, set()), (3, {"PFX-4 match-over"}), (4, {"PFX-4 match-over"})]
)
def test_pfx_4_the_longest_resident_prefix(length: int, kinds: set[str]) -> None:
    h = history().put("a").put("b").put("d").step("match", length, chain=["a", "b", "c", "d"])
    assert h.kinds() == kinds


def test_pfx_5_an_ancestor_of_a_leased_block_stays() -> None:
    h = chain().step("lease", "OK", key="c", ttl_ms=50).put("y", evicted="a")
    assert "PFX-5 guarded-ancestor-evicted" in h.kinds()


def test_pfx_6_refused_exactly_when_what_cannot_go_leaves_too_little() -> None:
    h = full().step("lease", "OK", key="a", ttl_ms=50)
    assert h.put("e", "NO_SPACE", size=301).kinds() == set()
    h = full().step("lease", "OK", key="a", ttl_ms=50)
    assert h.put("e", "NO_SPACE", size=300).kinds() == {"PFX-6 refused-with-room"}
    h = full().step("lease", "OK", key="a", ttl_ms=50)
    assert "PFX-6 stored-without-room" in h.put("e", size=301, evicted="a b c d").kinds()


def test_pfx_6_the_put_s_own_ancestors_may_not_go() -> None:
    h = history(**AWARE).put("a", size=200).put("b", size=200, parent="a")
    assert h.put("c", "NO_SPACE", parent="b").kinds() == set()
    h = history(**AWARE).put("a", size=200).put("b", size=200, parent="a")
    assert "PFX-6 own-ancestor-evicted" in h.put("c", parent="b", evicted="b").kinds()


def test_pfx_6_an_eventual_store_has_its_time() -> None:
    declared: dict[str, Any] = {"progress": Progress.EVENTUAL, "progress_ms": 100, "refused_put_evicts": True}
    early = full(**declared).put("e", "NO_SPACE").step("advance", ms=100).put("e", "NO_SPACE")
    assert early.kinds() == set()
    late = full(**declared).put("e", "NO_SPACE").step("advance", ms=101).put("e", "NO_SPACE")
    assert late.kinds() == {"PFX-6 no-progress"}


def test_pfx_6_a_store_that_never_evicts_does_not() -> None:
    declared: dict[str, Any] = {"evicts": False, "progress": Progress.REJECT}
    assert full(**declared).put("e", "NO_SPACE").kinds() == set()
    assert {"PFX-6 evicts-undeclared", "PFX-6 stored-without-room"} <= full(**declared).put("e", evicted="a").kinds()


def test_pfx_7_a_pass_stops_when_its_target_is_met() -> None:
    assert full().put("e", size=150, evicted="a b").kinds() == set()
    assert full().put("e", evicted="a b").kinds() == {"PFX-7 over-evicted"}
    assert history().put("a").put("b", evicted="a").kinds() == {"PFX-7 evicted-without-need"}


def test_pfx_8_refuse_refuses() -> None:
    h = history(**AWARE).put("a").put("b", parent="a").step("remove", OK, key="a")
    assert "PFX-8 removed-over-children" in h.kinds()
    assert history(**AWARE).put("a").put("b", parent="a").step("remove", PROTECTED, key="a").kinds() == set()


def test_pfx_8_cascade_takes_all_deepest_first() -> None:
    def removed(*keys: str, before: Any = ()) -> set[str]:
        h = history(**{**AWARE, "removal": Removal.CASCADE}).put("a").put("b", parent="a").put("c", parent="b").put("x")
        for op, answer, args in before:
            h.step(op, answer, **args)
        return h.step("remove", {"answer": "OK", "removed": list(keys)}, key="a").kinds()

    assert removed("c", "b", "a") == set()
    assert removed("a", "b", "c") == {"PFX-8 cascade-order"}
    assert "PFX-8 cascade-incomplete" in removed("b", "a")
    assert removed("c", "b", "a", "x") == {"PFX-8 cascade-overreach"}
    lease = ("lease", "OK", {"key": "c", "ttl_ms": 9})
    assert "PFX-8 cascade-over-protected" in removed("c", "b", "a", before=[lease])


def aged(**declared: Any) -> History:
    h = history(**declared)
    for key in "abcd":
        h.put(key).step("advance", ms=1)
    return h


def test_pfx_9_the_oldest_goes_and_ties_are_free() -> None:
    lru: dict[str, Any] = {"policy": VictimPolicy.LRU, "touch_calls": frozenset({"get"})}
    assert aged(**lru).put("e", evicted="a").kinds() == set()
    assert aged(**lru).put("e", evicted="b").kinds() == {"PFX-9 not-the-victim"}
    assert aged(**lru).get("a").step("advance", ms=1).put("e", evicted="b").kinds() == set()
    assert full(**lru).put("e", evicted="c").kinds() == set()


def test_pfx_9_where_the_order_of_a_pass_is_not_known_only_what_outlived_it_counts() -> None:
    lru = {**AWARE, "policy": VictimPolicy.LRU, "reports_evictions": False, "touch_calls": frozenset()}

    def passes(resident: str) -> set[str]:
        h = history(**lru).put("a", evicted=None, resident="a").step("advance", ms=1, resident="a")
        h.put("b", evicted=None, parent="a", resident="a b").put("x", size=200, evicted=None, resident="a b x")
        return h.put("y", size=100 + 100 * ("a" not in resident), evicted=None, resident=resident).kinds()

    assert passes("a x y") == set()
    assert passes("x y") == set()
    assert passes("a b y") == set()


def test_pfx_9_a_probe_does_not_touch() -> None:
    h = aged(policy=VictimPolicy.LRU).step("probe", True, key="a").step("advance", ms=1).put("e", evicted="b")
    assert h.kinds() == {"PFX-9 not-the-victim", "PRT-3 undeclared-touch"}


def test_pfx_9_with_lineage_recency_the_tail_keeps_the_head() -> None:
    declared: dict[str, Any] = {**AWARE, "policy": VictimPolicy.LRU, "touch_calls": frozenset({"get"}), "lineage_recency": True}
    h = history(**declared).put("a").step("advance", ms=1).put("b", parent="a").step("advance", ms=1).put("x").put("y")
    h.step("advance", ms=1).get("b").step("advance", ms=1).step("remove", OK, key="b", force=True).put("z", size=200, evicted="a")
    assert "PFX-9 not-the-victim" in h.kinds()


def test_pfx_12_other_cache_groups_have_no_parent_and_are_nobody_s() -> None:
    groups: dict[str, Any] = {"cache_groups": frozenset({CacheGroup.FULL, CacheGroup.WINDOW}), **AWARE}
    window: dict[str, Any] = {"cache_group": "window"}
    assert history(**groups).put("a").put("w", parent="a", options=window).kinds() == {"PFX-12 non-full-bound"}
    h = history(**groups).put("w", options=window).put("b", parent="w")
    assert "PFX-12 non-full-bound" in h.kinds()
    assert history(**AWARE).put("w", options=window).kinds() == {"PFX-12 cache-group-undeclared"}


# -- events -----------------------------------------------------------------------------------------------------------------------

EVENTS = frozenset({"put", "get", "exists", "events", "snapshot", "remove"})


def stored(sequence: int, key: str, parent: Parent = UNKNOWN) -> Event:
    return Event(sequence, EventKind.STORED, key, parent)


def gone(sequence: int, key: str) -> Event:
    return Event(sequence, EventKind.REMOVED, key)


def test_evt_1_numbers_rise_by_one() -> None:
    h = history(offered=EVENTS).put("a", events=(stored(1, "a"),)).put("b", events=(stored(3, "b"),))
    assert h.kinds() == {"EVT-1 sequence-gap"}


def test_evt_1_the_events_rebuild_the_resident_set() -> None:
    assert history(offered=EVENTS).put("a", events=()).kinds() == {"EVT-1 event-missing"}
    h = history(offered=EVENTS).put("a", events=(stored(1, "a"),)).step("remove", OK, key="a", events=())
    assert h.kinds() == {"EVT-1 event-missing"}
    h = history(offered=EVENTS).put("a", events=(stored(1, "a"),)).step("exists", True, key="a", events=(gone(2, "z"),))
    assert h.kinds() == {"EVT-1 event-unfounded"}


def test_evt_1_a_snapshot_fits_the_events() -> None:
    def snapshot(objects: dict[str, str]) -> set[str]:
        h = history(offered=EVENTS).put("a", events=(stored(1, "a"),))
        return h.step("snapshot", {"sequence": 1, "objects": objects}, events=()).kinds()

    assert snapshot({"a": "@unknown"}) == set()
    assert "EVT-1 snapshot-differs" in snapshot({})


def test_evt_2_parents_and_order() -> None:
    declared: dict[str, Any] = {**AWARE, "event_parents": True, "offered": EVENTS}
    h = history(**declared).put("a", events=(stored(1, "a"),)).put("b", parent="a", events=(stored(2, "b", "x"),))
    assert h.kinds() == {"EVT-2 event-parent"}
    h = (
        history(**{**declared, "event_parents": False})
        .put("a", events=(stored(1, "a"),))
        .put("b", parent="a", events=(stored(2, "b"),))
    )
    h.put("c", size=400, evicted="b a", events=(gone(3, "a"), gone(4, "b"), stored(5, "c")))
    assert h.kinds() == {"EVT-2 event-order"}
    h = full().put("e", evicted="a", events=(stored(1, "e"), gone(2, "a")))
    assert "EVT-2 put-event-order" in h.kinds()


# -- the contract -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "violation"),
    [("raised", "adapter-raised"), ("died", "adapter-died"), ("timeout", "adapter-timeout"), ("nonsense", "nonsense")],
)
def test_what_an_adapter_does_is_charged_to_the_requirement_of_the_call(kind: str, violation: str) -> None:
    h = history().step("match", {"error": {"kind": kind, "detail": "why"}}, chain=["a"])
    assert h.kinds() == {f"PFX-4 {violation}"}


def test_a_call_that_is_offered_is_not_unsupported() -> None:
    assert history().put("a").step("remove", {"answer": "UNSUPPORTED", "removed": None}, key="a").kinds() >= {"STO-9 unsupported"}


def test_each_violation_says_why_what_was_expected_and_what_came() -> None:
    violation = history().put("a").put("b").get("a", None).violations()[0]
    assert violation.because == "a is resident since step 1, nothing may have taken it, and get of a is a miss"
    assert (violation.step, violation.expected, violation.got, violation.evidence) == (2, "a is a hit", "a miss", "answers")
