"""Sensitivity: the suite fails every faulty backend on the requirement that it breaks, with a scenario of a few steps."""

from __future__ import annotations

import pytest
from known_holes import UNKILLED

from kvprefix_conformance.faulty import FAULTS, find_fault
from kvprefix_conformance.faulty.killtable import kill
from kvprefix_conformance.requirements import catalogue

#: A minimal scenario that is longer than this is not minimal, or the fault is too rare to be one.
MOST_STEPS = 12

#: The profiles whose requirements are done on the store side.
PROFILES = {"object-store", "protected-store", "eviction-safe", "prefix-aware", "prefix-index"}


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS])
def test_the_suite_fails_the_fault_on_its_requirement(name: str, request: pytest.FixtureRequest) -> None:
    if name in UNKILLED:
        request.applymarker(pytest.mark.xfail(reason=UNKILLED[name], strict=True))
    row = kill(find_fault(name))
    assert row.killed, row.because
    assert row.scenario is not None
    assert row.scenario.violation is not None
    assert row.scenario.violation.requirement == row.fault.requirement
    assert 1 <= row.steps <= MOST_STEPS, [step.op for step in row.scenario.steps]


def test_every_requirement_that_is_done_has_a_fault() -> None:
    done = {r.id for r in catalogue().requirements.values() if r.status == "done" and PROFILES & set(r.profiles)}
    assert done == {fault.requirement for fault in FAULTS}
