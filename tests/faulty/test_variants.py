"""Specificity: unusual but correct backends pass all that they declare. A suite that fails one demands the reference's choices."""

from __future__ import annotations

import pytest
from known_holes import NOT_PASSED

from kvprefix_conformance import runner
from kvprefix_conformance.faulty import VARIANTS, find_variant
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import Verdict
from kvprefix_conformance.target import Target

EXAMPLES = 30


@pytest.mark.parametrize("name", [variant.name for variant in VARIANTS])
def test_the_variant_passes_all_that_it_declares(name: str, request: pytest.FixtureRequest) -> None:
    if name in NOT_PASSED:
        request.applymarker(pytest.mark.xfail(reason=NOT_PASSED[name], strict=False))
    variant = find_variant(name)
    report = runner.run(Target(name, variant.open, f"variant:{name}"), Plan(examples=EXAMPLES))
    assert [(r.requirement, r.verdict.name, r.reason) for r in report.results if r.verdict > Verdict.PASS] == []
    assert report.exit_code == 0, report.broken or report.interrupted
