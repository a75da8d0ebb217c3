"""Skips with their reasons, and must-hits: a store that does nothing must never pass."""

from __future__ import annotations

import attrs
import pytest
from suite_support import TinyStore, history, target

from kvprefix.api import UNKNOWN, Answer, Geometry, Parent, PutOptions, PutResult, Stats, VictimPolicy
from kvprefix_conformance.oracle.claims import MUST_HITS, SKIPS, missing, skip_reason
from kvprefix_conformance.oracle.kinds import ANY, CHARGED_TO, KINDS
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import Verdict
from kvprefix_conformance.requirements import catalogue
from kvprefix_conformance.runner import run
from kvprefix_conformance.suites.catalogue import CHECKS


class AlwaysMisses(TinyStore):
    """Stores and shows nothing."""

    def get(self, key: str) -> bytes | None:
        return None

    def exists(self, key: str) -> bool:
        return False

    def resident(self) -> frozenset[str]:
        return frozenset()


class RefusesAll(TinyStore):
    """Has no space, ever."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        return PutResult(Answer.NO_SPACE, ())


class ForgetsAtOnce(TinyStore):
    """Says STORED and keeps nothing."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        result = super().put(key, value, parent=parent, options=options)
        self.objects.clear()
        return result


class ClaimsToEvict(TinyStore):
    """Reports evictions and keeps what it reports."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        before = dict(self.objects)
        result = super().put(key, value, parent=parent, options=options)
        self.objects = {**before, **self.objects}
        return result

    def stats(self) -> Stats:
        return Stats(min(self.used(), self.geometry.capacity_bytes), len(self.objects))


@pytest.mark.parametrize("dead", [AlwaysMisses, RefusesAll, ForgetsAtOnce, ClaimsToEvict])
def test_a_dead_store_never_passes(dead: type[TinyStore]) -> None:
    report = run(target(dead), Plan(examples=3))
    assert report.verdict >= Verdict.INCONCLUSIVE
    assert report.exit_code in (1, 3)


def test_a_store_that_refuses_everything_is_inconclusive_on_what_it_never_showed() -> None:
    report = run(target(RefusesAll), Plan(examples=3, requirements=("STO-1",)))
    assert report.results[0].verdict is Verdict.INCONCLUSIVE
    assert report.results[0].reason == "the run never saw: a value read back after other steps"
    assert report.exit_code == 3


def test_every_judged_requirement_has_a_must_hit() -> None:
    judged = {rid for check in CHECKS for rid in check.info.requirements}
    assert judged - set(MUST_HITS) == set()


def test_every_skip_and_must_hit_is_of_a_known_requirement() -> None:
    assert set(SKIPS) | set(MUST_HITS) <= set(catalogue().requirements)


def test_a_must_hit_is_needed_only_where_its_condition_holds() -> None:
    flat = history(offered=frozenset({"put", "get", "exists"})).terms
    assert missing("STO-4", flat, {}) == ["an absent key read"]
    assert missing("STO-4", history().terms, {}) == ["an absent key read", "a removed key read"]
    assert missing("STO-4", flat, {"an absent key read": 2}) == []


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        ("STO-5", "two-phase puts are not offered"),
        ("PRT-5", "nothing grants a lease: lease is not offered and lease_calls is empty"),
        ("PFX-9", "the hook advance is not offered: stamps cannot be told apart"),
        ("STO-1", ""),
    ],
)
def test_what_cannot_be_judged_is_skipped_with_its_reason(requirement: str, reason: str) -> None:
    terms = history(offered=frozenset({"put", "get", "exists", "match"}), policy=VictimPolicy.LRU).terms
    assert skip_reason(requirement, terms) == reason


def test_a_store_that_holds_two_objects_shows_no_eviction_order() -> None:
    terms = attrs.evolve(history().terms, geometry=Geometry(100, min_value_bytes=40))
    assert skip_reason("PFX-1", terms) == "fewer than three objects fit: eviction cannot be observed"
    assert skip_reason("PFX-6", terms) == ""


def test_kinds_belong_to_known_requirements_and_every_call_is_charged_to_one() -> None:
    known = set(catalogue().requirements) | {ANY}
    assert {kind.requirement for kind in KINDS.values()} <= known
    assert set(CHARGED_TO.values()) <= known


def test_every_kind_is_made_by_some_rule() -> None:
    import inspect

    from kvprefix_conformance.oracle import judge

    sources = [inspect.getsource(module) for name, module in vars(judge).items() if inspect.ismodule(module)]
    text = "\n".join(sources)
    assert [kind for kind in KINDS if f'"{kind}"' not in text] == []
