"""What each action answers and does, one rule a test; and why a choice is not allowed."""

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
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    PinResult,
    Progress,
    PutOptions,
    PutResult,
    Removal,
    RemoveResult,
    Transport,
)
from kvprefix.errors import NotAllowed
from kvprefix.model import actions as a
from kvprefix.model.choices import choices
from kvprefix.model.step import step
from kvprefix.model.values import Rules, State, free, orphans, protected, reachable, used

AWARE = Capabilities(
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    admission=Admission.REJECT,
    removal=Removal.REFUSE,
    event_parents=True,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
    pending_timeout_ms=10,
    defer_deadline_ms=10,
    walk=frozenset({"root", "resume"}),
)
REFUSED = a.Choice(refuse=True)


class Walker:
    """Takes steps one after another; keeps the state and all events."""

    def __init__(self, capacity: int = 8, geometry: Geometry | None = None, **caps: Any) -> None:
        self.rules = Rules(attrs.evolve(AWARE, **caps), geometry or Geometry(capacity))
        self.state = State.initial()
        self.events: list[tuple[str, str]] = []

    def do(self, action: a.Action, choice: a.Choice = a.NO_CHOICE) -> Any:
        outcome = step(self.rules, self.state, action, choice)
        self.state = outcome.state
        self.events += [(event.kind.value, event.key) for event in outcome.events]
        return outcome.answer.answer if isinstance(outcome.answer, PutResult | RemoveResult | PinResult) else outcome.answer

    def put(self, key: str, parent: Parent = ROOT, *, victims: str = "", size: int = 1, **options: Any) -> Answer:
        answer = self.do(a.Put(key, b"x" * size, parent, PutOptions(**options)), a.Choice(tuple(victims)))
        assert isinstance(answer, Answer)
        return answer

    def begin(self, key: str, parent: Parent = ROOT, size: int = 1) -> str:
        result = step(self.rules, self.state, a.PutBegin(key, size, parent)).answer
        assert self.do(a.PutBegin(key, size, parent)) is Answer.OK
        assert isinstance(result, PutResult)
        assert result.token
        return result.token

    def pin(self, key: str) -> str:
        result = step(self.rules, self.state, a.PinObject(key)).answer
        self.do(a.PinObject(key))
        assert isinstance(result, PinResult)
        return result.token or ""

    def forbidden(self, action: a.Action, victims: str = "", *, refuse: bool = False) -> str:
        with pytest.raises(NotAllowed) as caught:
            step(self.rules, self.state, action, a.Choice(tuple(victims), refuse))
        assert str(caught.value).startswith(caught.value.requirement)
        return caught.value.requirement

    @property
    def resident(self) -> str:
        return "".join(o.key for o in self.state.objects if self.state.resident(o.key))


def put(key: str, parent: Parent = ROOT, size: int = 1, **options: Any) -> a.Put:
    return a.Put(key, b"x" * size, parent, PutOptions(**options))


# -- the answers of a put ---------------------------------------------------------------------------------------------------------


def test_a_put_is_decided_in_the_order_of_the_spec() -> None:
    """One state, and puts of which each would get all the later answers too."""
    w = Walker(capacity=3)
    w.put("here", pin=Pin.HARD, size=2)
    w.begin("begun")
    large, lost = b"x" * 9, "missing"
    assert w.do(a.Put("", large, lost)) is Answer.INVALID
    assert w.do(a.Put("here", b"", lost)) is Answer.INVALID
    assert w.do(a.Put("here", large, lost)) is Answer.EXISTS
    assert w.do(a.Put("begun", large, lost)) is Answer.IN_PROGRESS
    assert w.do(a.Put("new", large, lost)) is Answer.TOO_LARGE
    assert w.do(a.Put("new", b"x", lost)) is Answer.PARENT_MISSING
    assert w.do(a.Put("new", b"x", "begun")) is Answer.PARENT_MISSING
    assert w.do(a.Put("new", b"x", ROOT), REFUSED) is Answer.NO_SPACE
    assert w.do(a.Put("new", b"x", ROOT, PutOptions(namespace="n"))) is Answer.UNSUPPORTED


def test_a_duplicate_put_changes_nothing_and_answers_as_declared() -> None:
    for declared, answer in ((DuplicatePut.EXISTS, Answer.EXISTS), (DuplicatePut.SILENT, Answer.STORED)):
        w = Walker(duplicate_put=declared)
        w.put("a")
        before = w.state
        assert w.do(a.Put("a", b"other", UNKNOWN)) is answer
        assert w.state == before


def test_an_empty_value_is_invalid_or_no_miss() -> None:
    assert Walker().do(a.Put("a", b"")) is Answer.INVALID
    w = Walker(empty_value=EmptyValue.STORED)
    assert w.do(a.Put("a", b"")) is Answer.STORED
    assert w.do(a.Get("a")) == b""
    assert w.do(a.Get("b")) is None


def test_geometry_decides_charge_and_limits() -> None:
    w = Walker(geometry=Geometry(12, overhead_bytes=1, quantum_bytes=4, min_value_bytes=2, max_value_bytes=9, max_key_bytes=3))
    assert w.do(a.Put("a", b"x")) is Answer.INVALID
    assert w.do(a.Put("long", b"xx")) is Answer.INVALID
    assert w.do(a.Put("a", b"x" * 10)) is Answer.TOO_LARGE
    assert w.do(a.Put("a", b"xxxx")) is Answer.STORED
    assert (used(w.state), free(w.rules, w.state)) == (8, 4)


def test_only_full_objects_have_a_parent() -> None:
    w = Walker(cache_groups=frozenset(CacheGroup))
    w.put("a", UNKNOWN, cache_group=CacheGroup.WINDOW)
    assert w.put("b", ROOT, cache_group=CacheGroup.BLOB) is Answer.INVALID
    assert w.put("c", "a") is Answer.PARENT_MISSING


def test_a_parent_in_another_namespace_is_as_if_absent() -> None:
    w = Walker(namespaces=True)
    w.put("a", namespace="n")
    assert w.put("b", "a") is Answer.PARENT_MISSING
    assert w.put("b", "a", namespace="n") is Answer.STORED


@pytest.mark.parametrize("admission", [Admission.DEFER, Admission.PLACEHOLDER])
def test_a_lineage_that_closes_a_cycle_is_invalid(admission: Admission) -> None:
    w = Walker(admission=admission)
    w.put("c", "b")
    w.put("b", "a")
    assert w.put("a", "c") is Answer.INVALID
    assert w.put("d", "d") is Answer.INVALID


# -- space ------------------------------------------------------------------------------------------------------------------------


def test_why_a_victim_is_not_allowed() -> None:
    w = Walker(capacity=4, refused_put_evicts=False)
    for key, parent in (("a", ROOT), ("b", "a"), ("c", ROOT), ("d", ROOT)):
        w.put(key, parent)
    w.do(a.Lease("c", 5))
    assert w.forbidden(put("e"), "z") == "STO-1"
    assert w.forbidden(put("e"), "c") == "PRT-1"
    assert w.forbidden(put("e"), "a") == "PFX-1"
    assert w.forbidden(put("e", "b"), "b") == "PFX-6"
    assert w.forbidden(put("e"), "db") == "PFX-7"
    assert w.forbidden(put("e", size=2), "d") == "PFX-6"
    assert w.forbidden(put("e"), "", refuse=True) == "PFX-6"
    assert w.forbidden(put("e", "b", size=2), "d", refuse=True) == "STO-7"
    assert w.forbidden(put("a"), "b") == "STO-7"
    assert w.forbidden(a.Get("a"), "b") == "STO-7"
    assert w.put("e", victims="d") is Answer.STORED
    assert w.events[-2:] == [("removed", "d"), ("stored", "e")]


def test_a_deferred_object_goes_before_a_resident_one() -> None:
    w = Walker(capacity=2, admission=Admission.DEFER)
    w.put("a")
    w.put("b", "missing")
    assert w.forbidden(put("c"), "a") == "PFX-3"
    assert w.put("c", victims="b") is Answer.STORED
    assert ("removed", "b") not in w.events


def test_a_soft_pin_of_a_child_counts_for_its_parent_and_goes_last() -> None:
    w = Walker(capacity=3)
    w.put("a")
    w.put("b", "a", pin=Pin.SOFT, soft_pin_ms=5)
    w.put("c")
    assert w.forbidden(put("d"), "b") == "PRT-4"
    w.put("d", victims="c", pin=Pin.HARD)
    assert w.put("e", victims="b") is Answer.STORED
    assert w.put("f", "a", victims="e") is Answer.STORED


def test_a_soft_pin_ends_at_its_deadline() -> None:
    w = Walker(capacity=2)
    w.put("a", pin=Pin.SOFT, soft_pin_ms=5)
    w.put("b")
    w.do(a.Advance(4))
    assert w.forbidden(put("c"), "a") == "PRT-4"
    w.do(a.Advance(1))
    assert w.put("c", victims="a") is Answer.STORED


def test_own_ancestors_are_no_room() -> None:
    w = Walker(capacity=3)
    w.put("a")
    w.put("b", "a")
    assert w.do(put("c", "b", size=2), REFUSED) is Answer.NO_SPACE
    assert w.put("c", victims="ba", size=3) is Answer.STORED


def test_a_store_that_never_evicts_refuses_when_full_and_only_then() -> None:
    w = Walker(capacity=1, evicts=False, progress=Progress.REJECT)
    assert w.forbidden(put("a"), refuse=True) == "PFX-6"
    w.put("a")
    assert w.forbidden(put("b"), "a") == "PFX-6"
    assert w.do(put("b"), REFUSED) is Answer.NO_SPACE


def test_an_eventual_store_may_refuse_and_evicts_in_a_pass() -> None:
    w = Walker(capacity=2, progress=Progress.EVENTUAL)
    w.put("a")
    assert w.forbidden(put("b"), refuse=True) == "PFX-6"
    w.put("b")
    assert w.do(put("c", size=2), REFUSED) is Answer.NO_SPACE
    assert w.forbidden(a.EvictionPass(1), "ab") == "PFX-7"
    w.do(a.EvictionPass(2), a.Choice(("a", "b")))
    assert w.put("c", size=2) is Answer.STORED


def test_where_progress_is_not_promised_any_put_may_be_refused() -> None:
    w = Walker(progress=Progress.NONE)
    assert w.do(put("a"), REFUSED) is Answer.NO_SPACE
    assert w.do(put("a")) is Answer.STORED


def test_a_refused_put_may_have_evicted_where_that_is_declared() -> None:
    w = Walker(capacity=3, refused_put_evicts=True)
    w.put("a", pin=Pin.HARD)
    w.put("b")
    w.put("c")
    result = step(w.rules, w.state, put("d", size=3), a.Choice(("b",), refuse=True)).answer
    assert result == PutResult(Answer.NO_SPACE, ("b",))


def test_a_pass_starts_above_the_watermark_and_stops_at_its_goal() -> None:
    w = Walker(capacity=10, watermark=0.5, evict_ratio=0.2)
    for key in "abcde":
        w.put(key)
    assert w.forbidden(a.EvictionPass(), "a") == "PFX-7"
    w.put("f")
    assert w.forbidden(a.EvictionPass(), "abcd") == "PFX-7"
    w.do(a.EvictionPass(), a.Choice(("a", "b", "c")))
    assert used(w.state) == 3


def test_objects_that_expire_go_in_a_pass_leaves_first() -> None:
    w = Walker(expires=True)
    w.put("a")
    w.put("b", "a")
    assert w.forbidden(a.EvictionPass(), "a") == "PFX-1"
    w.do(a.EvictionPass(), a.Choice(("b", "a")))
    assert w.resident == ""


def test_a_pass_over_nodes_may_finish_its_node_and_no_more() -> None:
    w = Walker(capacity=3, evict_unit=EvictUnit.NODE)
    w.put("a")
    w.put("b", "a")
    w.put("c")
    assert w.forbidden(put("d"), "bc") == "PFX-7"
    assert w.put("d", victims="ba") is Answer.STORED


def test_victims_are_reported_only_where_that_is_declared() -> None:
    for reports, told in ((True, ("a",)), (False, None)):
        w = Walker(capacity=1, reports_evictions=reports)
        w.put("a")
        assert step(w.rules, w.state, put("b"), a.Choice(("a",))).answer == PutResult(Answer.STORED, told)


# -- two-phase puts ---------------------------------------------------------------------------------------------------------------


def test_an_attempt_is_unseen_protects_its_parent_and_shows_at_commit() -> None:
    w = Walker()
    w.put("a")
    token = w.begin("b", "a")
    assert w.do(a.Get("b")) is None
    assert w.do(a.PinObject("b")) is Answer.NOT_FOUND
    assert w.do(a.Lease("b", 5)) is Answer.NOT_FOUND
    assert protected(w.rules, w.state) == {"a", "b"}
    assert w.do(a.PutCommit("b", token, b"xx")) is Answer.INVALID
    assert w.do(a.PutCommit("b", token, b"x")) is Answer.STORED
    assert w.do(a.PutCommit("b", token, b"x")) is Answer.STALE
    assert w.events == [("stored", "a"), ("stored", "b")]


def test_an_attempt_times_out_and_never_completes_a_later_one() -> None:
    w = Walker()
    old = w.begin("a")
    w.do(a.Advance(9))
    assert w.do(a.PutBegin("a", 1, ROOT)) is Answer.IN_PROGRESS
    w.do(a.Advance(1))
    new = w.begin("a")
    assert w.do(a.PutCommit("a", old, b"x")) is Answer.STALE
    assert w.do(a.PutAbort("a", old)) is Answer.STALE
    assert w.do(a.PutAbort("a", new)) is Answer.OK
    assert w.state.objects == ()


def test_commit_looks_at_the_parent_again() -> None:
    w = Walker(removal=Removal.ANY)
    w.put("a")
    token = w.begin("b", "a")
    assert w.do(a.Remove("a")) is Answer.PROTECTED
    assert w.do(a.Remove("a", force=True)) is Answer.OK
    assert w.do(a.PutCommit("b", token, b"x")) is Answer.PARENT_MISSING
    assert w.do(a.PutCommit("b", token, b"x")) is Answer.STALE


# -- deferred and placed before the parent ----------------------------------------------------------------------------------------


def test_deferred_objects_show_right_after_their_parent_with_leases_from_then_on() -> None:
    w = Walker(admission=Admission.DEFER)
    assert w.put("c", "b") is Answer.DEFERRED
    assert w.put("b", "a", lease_ms=5) is Answer.DEFERRED
    assert w.put("b", "a") is Answer.DEFERRED
    assert [w.do(a.Exists(key)) for key in "bc"] == [False, False]
    assert used(w.state) == 2
    w.do(a.Advance(9))
    assert w.put("a") is Answer.STORED
    assert w.events == [("stored", "a"), ("stored", "b"), ("stored", "c")]
    w.do(a.Advance(4))
    assert protected(w.rules, w.state) == {"a", "b"}
    w.do(a.Advance(1))
    assert protected(w.rules, w.state) == frozenset()


def test_a_deferred_object_is_dropped_at_its_deadline_without_an_event() -> None:
    w = Walker(admission=Admission.DEFER)
    w.put("b", "a")
    w.do(a.Advance(10))
    w.put("a")
    assert w.resident == "a"
    assert w.events == [("stored", "a")]


def test_a_commit_whose_parent_is_only_begun_is_deferred() -> None:
    w = Walker(admission=Admission.DEFER)
    parent, child = w.begin("a"), w.begin("b", "a")
    assert w.do(a.PutCommit("b", child, b"x")) is Answer.DEFERRED
    assert w.do(a.PutCommit("a", parent, b"x")) is Answer.STORED
    assert w.resident == "ab"


def test_a_placeholder_store_shows_a_child_at_once_and_has_an_orphan() -> None:
    w = Walker(admission=Admission.PLACEHOLDER)
    w.put("a")
    w.put("c", "b")
    assert w.resident == "ac"
    assert orphans(w.state) == {"c"}
    assert reachable(w.state) == {"a"}
    w.put("b", "a")
    assert orphans(w.state) == frozenset()
    assert w.do(a.Match(("a", "b", "c"))) == 3


# -- reads ------------------------------------------------------------------------------------------------------------------------

MODES = {
    ExistsLeases.NONE: set(),
    ExistsLeases.HITS: {"a", "b", "d"},
    ExistsLeases.LONGEST_PREFIX: {"a", "b"},
    ExistsLeases.LAST_HIT: {"b"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [a.Match(("a", "b", "c", "d")), a.ExistsMany(("a", "b", "c", "d"))])
def test_which_keys_a_walk_leases_is_declared(mode: ExistsLeases, call: a.Action) -> None:
    w = Walker(exists_leases=mode, lease_ttl_ms=5, lease_calls=frozenset({"match", "exists_many"}), admission=Admission.ANY)
    for key in "abd":
        w.put(key, UNKNOWN)
    w.do(call)
    assert protected(w.rules, w.state) == MODES[mode]


def test_exists_leases_only_if_it_is_one_that_leases() -> None:
    w = Walker(exists_leases=ExistsLeases.HITS, lease_ttl_ms=5, lease_calls=frozenset({"exists"}))
    w.put("a")
    w.do(a.Probe("a"))
    w.do(a.Get("a"))
    w.do(a.Match(("a",)))
    assert protected(w.rules, w.state) == frozenset()
    w.do(a.Exists("a"))
    assert protected(w.rules, w.state) == {"a"}


def test_match_stops_at_the_first_hole_and_may_go_on_from_a_start() -> None:
    w = Walker(admission=Admission.PLACEHOLDER)
    for key, parent in (("a", ROOT), ("c", "b"), ("d", "c")):
        w.put(key, parent)
    chain = ("a", "b", "c", "d")
    assert [w.do(a.Match(chain, start)) for start in range(5)] == [1, 1, 4, 4, 4]
    assert w.do(a.Match(())) == 0
    assert Walker(walk=frozenset({"root"})).forbidden(a.Match(chain, 1)) == "PFX-4"


def test_batches_answer_one_per_key_in_order() -> None:
    w = Walker()
    w.put("a")
    assert w.do(a.GetMany(("a", "b", "a"))) == (b"x", None, b"x")
    assert w.do(a.ExistsMany(("b", "a"))) == (False, True)


def test_reads_extend_a_live_soft_pin_only_where_declared() -> None:
    for extends, until in ((True, 8), (False, 5)):
        w = Walker(reads_extend_soft_pin=extends)
        w.put("a", pin=Pin.SOFT, soft_pin_ms=5)
        w.do(a.Advance(3))
        w.do(a.Get("a"))
        assert w.state.objects[0].soft_until == until


# -- leases, pins, removal --------------------------------------------------------------------------------------------------------


def test_a_lease_only_grows_and_is_over_at_its_deadline() -> None:
    w = Walker()
    w.put("a")
    w.do(a.Lease("a", 5))
    w.do(a.Lease("a", 2))
    w.do(a.Advance(4))
    assert protected(w.rules, w.state) == {"a"}
    w.do(a.Advance(1))
    assert protected(w.rules, w.state) == frozenset()


def test_an_object_group_shares_one_lease_with_who_joins_later() -> None:
    w = Walker(object_groups=True)
    w.put("a", object_group="g")
    w.do(a.Lease("a", 5))
    w.put("b", object_group="g")
    w.put("c")
    assert protected(w.rules, w.state) == {"a", "b"}


def test_a_pin_is_given_back_once_by_its_token() -> None:
    w = Walker()
    w.put("a")
    one, two = w.pin("a"), w.pin("a")
    assert w.do(a.Unpin(one)) is Answer.OK
    assert w.do(a.Unpin(one)) is Answer.NOT_FOUND
    assert w.do(a.Remove("a")) is Answer.PROTECTED
    assert w.do(a.Unpin(two)) is Answer.OK
    assert w.do(a.Remove("a")) is Answer.OK


def test_what_is_forced_away_under_a_transfer_keeps_its_bytes_until_the_last_unpin() -> None:
    w = Walker(capacity=2)
    w.put("a", size=2)
    tokens = w.pin("a"), w.pin("a")
    assert w.do(a.Remove("a", force=True)) is Answer.OK
    assert w.do(a.Get("a")) is None
    assert w.do(put("a"), REFUSED) is Answer.NO_SPACE
    w.do(a.Unpin(tokens[0]))
    assert used(w.state) == 2
    assert w.do(a.Unpin(tokens[1])) is Answer.OK
    assert used(w.state) == 0
    assert w.put("a") is Answer.STORED


def chain_of_three(**caps: Any) -> Walker:
    w = Walker(**caps)
    for key, parent in (("a", ROOT), ("b", "a"), ("c", "b")):
        w.put(key, parent)
    return w


def test_refusing_removal_takes_leaves_only_even_by_force() -> None:
    w = chain_of_three()
    assert w.do(a.Remove("b")) is Answer.PROTECTED
    assert w.do(a.Remove("b", force=True)) is Answer.PROTECTED
    assert w.do(a.Remove("c")) is Answer.OK
    assert w.do(a.Remove("z")) is Answer.NOT_FOUND


def test_cascading_removal_takes_all_below_deepest_first_or_nothing() -> None:
    w = chain_of_three(removal=Removal.CASCADE)
    w.do(a.Lease("c", 5))
    token = w.begin("d", "c")
    before = w.state
    assert w.do(a.Remove("a")) is Answer.PROTECTED
    assert w.state == before
    assert step(w.rules, w.state, a.Remove("a", force=True)).answer == RemoveResult(Answer.OK, ("d", "c", "b", "a"))
    w.do(a.Remove("a", force=True))
    assert w.events[3:] == [("removed", "c"), ("removed", "b"), ("removed", "a")]
    assert w.do(a.PutCommit("d", token, b"x")) is Answer.STALE


def test_removal_of_what_is_not_resident() -> None:
    w = Walker(admission=Admission.DEFER)
    w.begin("a")
    w.put("b", "x")
    assert w.do(a.Remove("a")) is Answer.IN_PROGRESS
    assert w.do(a.Remove("a", force=True)) is Answer.OK
    assert w.do(a.Remove("b")) is Answer.OK
    assert w.events == []


def test_clear_waits_for_what_is_protected_unless_forced() -> None:
    w = Walker()
    w.put("a")
    token = w.begin("b")
    assert w.do(a.Clear()) is Answer.PROTECTED
    assert w.do(a.Clear(force=True)) is Answer.OK
    assert w.do(a.PutCommit("b", token, b"x")) is Answer.STALE
    assert w.events[1:] == [(EventKind.CLEARED.value, "")]


# -- families ---------------------------------------------------------------------------------------------------------------------


def test_a_family_goes_together_and_is_protected_together() -> None:
    w = Walker(capacity=4, families=FamilyMode.ALL_OR_NONE, evict_unit=EvictUnit.FAMILY)
    for key, family in (("a", "F"), ("b", "F"), ("c", "G"), ("d", "G")):
        w.put(key, family=family)
    w.do(a.Lease("c", 5))
    assert protected(w.rules, w.state) == {"c", "d"}
    assert w.forbidden(put("e"), "a") == "GRP-1"
    assert w.forbidden(put("e"), "d") == "PRT-1"
    assert w.put("e", victims="ba") is Answer.STORED


def test_best_effort_leaves_exactly_the_protected_members() -> None:
    w = Walker(capacity=3, families=FamilyMode.BEST_EFFORT, evict_unit=EvictUnit.FAMILY)
    for key in "abc":
        w.put(key, family="F")
    w.do(a.Lease("a", 5))
    assert w.forbidden(put("d"), "b") == "GRP-1"
    assert w.put("d", victims="bc") is Answer.STORED
    assert w.resident == "ad"


def test_families_that_are_no_forest_are_invalid() -> None:
    w = Walker(families=FamilyMode.ALL_OR_NONE)
    w.put("a", family="F")
    w.put("b", "a", family="G")
    assert w.put("c", "b", family="F") is Answer.INVALID
    assert w.put("c", "a", family="F") is Answer.INVALID
    w.put("x")
    assert w.put("c", "x", family="G") is Answer.INVALID
    assert w.put("c", "a", family="G") is Answer.STORED


# -- lineage beside the data path, batches ----------------------------------------------------------------------------------------


def test_a_registered_parent_orders_eviction_from_then_on() -> None:
    w = Walker(capacity=2, lineage=frozenset({Transport.EVENT}), admission=Admission.ANY)
    assert w.do(a.Register("b", "a")) is Answer.OK
    w.put("a", UNKNOWN)
    w.put("b", UNKNOWN)
    assert w.forbidden(put("c"), "a") == "PFX-1"
    assert w.do(a.Register("b", "a")) is Answer.OK
    assert w.do(a.Register("b", "c")) is Answer.INVALID
    assert w.do(a.Register("a", "b")) is Answer.INVALID
    w.do(a.Remove("b"))
    w.put("b", UNKNOWN)
    assert w.put("c", UNKNOWN, victims="a") is Answer.STORED
    assert Walker().do(a.Register("b", "a")) is Answer.UNSUPPORTED


def test_a_batch_of_singles_goes_on_behind_a_refused_member() -> None:
    w = Walker()
    items = (put("b", "a"), put("a"), put("c", "b"), put("b", "a"))
    results = w.do(a.PutMany(items), a.Choice(members=(a.NO_CHOICE,) * 4))
    assert [r.answer for r in results] == [Answer.PARENT_MISSING, Answer.STORED, Answer.PARENT_MISSING, Answer.STORED]
    assert w.forbidden(a.PutMany(items)) == "STO-8"


def test_an_atomic_batch_stores_all_or_nothing_and_evicts_no_member() -> None:
    w = Walker(capacity=3, batch=Batch.ATOMIC)
    w.put("x")
    w.put("y")
    before = w.state
    refused = w.do(a.PutMany((put("a"), put("b", "missing"))))
    assert [r.answer for r in refused] == [Answer.PARENT_MISSING] * 2
    assert w.state == before
    chain = a.PutMany((put("a"), put("b", "a"), put("x")))
    assert [c.victims for c in choices(w.rules, w.state, chain)] == [("y",)]
    assert [r.answer for r in w.do(chain, a.Choice(("y",)))] == [Answer.STORED, Answer.STORED, Answer.EXISTS]
    assert w.resident == "abx"
    full = a.PutMany((put("c", "b"), put("d", "c")))
    assert [r.answer for r in w.do(full, REFUSED)] == [Answer.NO_SPACE] * 2


def test_time_never_goes_back() -> None:
    assert Walker().forbidden(a.Advance(-1)) == "PRT-5"
