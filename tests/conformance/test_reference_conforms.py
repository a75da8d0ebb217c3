"""The reference store conforms to what each of its presets declares: the suite demands nothing that the reference does not do."""

from __future__ import annotations

import pytest

from kvprefix.store import ReferenceBackend
from kvprefix.store.presets import PRESETS
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import Verdict
from kvprefix_conformance.runner import run
from kvprefix_conformance.target import Target


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_reference_conforms_under_every_preset(preset: str) -> None:
    report = run(Target(preset, lambda: ReferenceBackend(PRESETS[preset])), Plan(examples=4))
    wrong = {r.requirement: r.reason for r in report.results if r.verdict > Verdict.PASS}
    assert wrong == {}
    assert report.exit_code == 0


@pytest.mark.parametrize(("overhead", "quantum"), [(40, 1), (16, 64)])
def test_the_reference_conforms_with_overhead_and_granularity(overhead: int, quantum: int) -> None:
    target = Target("reference", lambda: ReferenceBackend(overhead_bytes=overhead, quantum_bytes=quantum))
    report = run(target, Plan(examples=4))
    assert {r.requirement: r.reason for r in report.results if r.verdict > Verdict.PASS} == {}
