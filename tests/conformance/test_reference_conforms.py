"""The reference store conforms to what each of its presets declares: the suite demands nothing that the reference does not do."""

from __future__ import annotations

import attrs
import pytest

from kvprefix.api import CacheGroup, Removal
from kvprefix.store import ReferenceBackend
from kvprefix.store.presets import PREFIX_AWARE, PRESETS
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import Verdict
from kvprefix_conformance.runner import checks, run
from kvprefix_conformance.target import Target

ALL_GROUPS = attrs.evolve(PREFIX_AWARE, cache_groups=frozenset(CacheGroup), removal=Removal.CASCADE)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_reference_conforms_under_every_preset(preset: str) -> None:
    report = run(Target(preset, lambda: ReferenceBackend(PRESETS[preset])), Plan(examples=2))
    wrong = {r.requirement: r.reason for r in report.results if r.verdict > Verdict.PASS}
    assert wrong == {}
    assert report.exit_code == 0


_JUDGED = sorted({rid for check in checks() for rid in check.requirements})
#: A preset under which the requirement can be judged, where the default is none.
_ELSEWHERE = {"PFX-12": ALL_GROUPS}


@pytest.mark.parametrize("requirement", _JUDGED)
def test_each_requirement_asked_for_alone_is_seen_and_passes(requirement: str) -> None:
    capabilities = _ELSEWHERE.get(requirement, PREFIX_AWARE)
    report = run(Target("reference", lambda: ReferenceBackend(capabilities)), Plan(examples=5, requirements=(requirement,)))
    assert [(r.requirement, r.verdict, r.reason) for r in report.results] == [(requirement, Verdict.PASS, "")]


@pytest.mark.parametrize(("overhead", "quantum"), [(40, 1), (16, 64)])
def test_the_reference_conforms_with_overhead_and_granularity(overhead: int, quantum: int) -> None:
    target = Target("reference", lambda: ReferenceBackend(overhead_bytes=overhead, quantum_bytes=quantum))
    report = run(target, Plan(examples=2))
    assert {r.requirement: r.reason for r in report.results if r.verdict > Verdict.PASS} == {}
