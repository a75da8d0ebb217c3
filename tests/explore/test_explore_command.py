"""``kvprefix explore``: what it prints, its JSON, its exit codes; counterexamples are scenarios like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from kvprefix.api import Admission
from kvprefix.explore import variants as catalogue
from kvprefix.explore.bounds import Bounds, worlds
from kvprefix.explore.configurations import PREFIX_AWARE
from kvprefix.explore.designs import acts_by
from kvprefix.explore.moves import moves
from kvprefix.explore.variants import VARIANTS, refute
from kvprefix.explore.walk import MODEL, Broken, Counterexample, _Search, walk
from kvprefix.model.actions import Action
from kvprefix_conformance import scenario_io
from kvprefix_conformance.calls import OPERATIONS
from kvprefix_conformance.commands import explore, rerun
from kvprefix_conformance.explored import scenario_of


def run(*arguments: str) -> Result:
    return CliRunner().invoke(explore.command, list(arguments))


@pytest.fixture
def broken_model(monkeypatch: pytest.MonkeyPatch) -> None:
    design = acts_by("model", admission=Admission.PLACEHOLDER)
    monkeypatch.setattr(explore, "walk", lambda world, **known: walk(world, design, **known))


def test_a_configuration_is_told_with_its_dimensions_and_numbers() -> None:
    result = run("--only", "core", "--blocks", "2")
    assert result.exit_code == 0
    assert "forests 2; blocks 2; sizes 1,2; capacities 2,3,4; remove yes" in result.output
    assert "in all" in result.output
    assert "not witnessed: " in result.output


def test_json_has_the_same_numbers_for_all() -> None:
    data = json.loads(run("--only", "core", "--only", "two-phase", "--blocks", "2", "--json").output)
    rows = data["configurations"]
    assert [row["name"] for row in rows] == ["core", "two-phase"]
    assert data["total"]["states"] == sum(row["states"] for row in rows)
    assert data["total"]["transitions"] == sum(row["transitions"] for row in rows)
    assert data["total"]["diameter"] == max(row["diameter"] for row in rows)
    assert data["total"]["counterexample"] is None
    assert "a stale commit" in data["total"]["witnessed"]
    assert "a stale commit" not in data["not_witnessed"]


@pytest.mark.usefixtures("broken_model")
def test_a_broken_invariant_exits_with_1_and_tells_its_story() -> None:
    result = run("--only", "core", "--blocks", "2")
    assert result.exit_code == 1
    assert "BROKEN" in result.output
    assert "> 1. put b" in result.output
    assert "orphan" in result.output


@pytest.mark.usefixtures("broken_model")
def test_a_broken_invariant_in_json_is_a_scenario() -> None:
    result = run("--only", "core", "--blocks", "2", "--json")
    assert result.exit_code == 1
    document = json.loads(result.output)["total"]["counterexample"]
    scenario = scenario_io.loads(json.dumps(document))
    assert scenario.violation is not None
    assert (scenario.violation.requirement, scenario.violation.step) == ("EVT-2", 0)


def test_a_variant_is_told_step_by_step() -> None:
    result = run("--variant", "stale-commit")
    assert result.exit_code == 0
    assert "STO-5" in result.output
    assert "> 4. put_commit a 1 bytes, attempt attempt-1" in result.output
    assert "before step 4:" in result.output
    assert "after step 4:" in result.output


def test_variants_in_json() -> None:
    data: dict[str, Any] = json.loads(run("--variant", "flat-lru", "--variant", "removal-skips-children", "--json").output)
    assert [(row["name"], row["steps"], row["refuted"]) for row in data["variants"]] == [
        ("flat-lru", 3, True),
        ("removal-skips-children", 3, True),
    ]
    assert all(row["safe"]["counterexample"] is None for row in data["variants"])


def test_a_variant_that_is_not_refuted_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "walk", lambda world, _design, **judged: walk(world, MODEL, **judged))
    result = run("--variant", "flat-lru")
    assert result.exit_code == 1
    assert "not so: flat-lru" in result.output


@pytest.mark.parametrize("arguments", [("--variants", "--blocks", "3"), ("--variant", "flat-lru", "--deep"), ("--blocks", "0")])
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_list_names_configurations_and_variants_and_walks_nothing() -> None:
    result = run("--list")
    assert result.exit_code == 0
    assert all(variant.name in result.output for variant in VARIANTS)
    assert "five-blocks" in result.output
    assert "five-blocks+" in run("--list", "--deep").output


def test_every_operation_of_a_path_has_a_scenario_form() -> None:
    """One step of each kind of action, with all that there is to do switched on, written down and read again."""
    bounds = Bounds(
        "all", PREFIX_AWARE, blocks=2, capacities=(2,), attempts=1, clock=(1,), leases=(1,), pins=1, remove=True, force=True,
        clear=True, batches=True, reads=True, passes=True, register=True,
    )  # fmt: skip
    world = next(iter(worlds(bounds)))
    search = _Search(world, MODEL, symmetry=True, known=frozenset(), judged=frozenset())
    search.run(60)
    every = [taken for node in search.nodes for action in moves(world, node) for taken in MODEL.act(world, node, action)]
    kinds = {(type(taken.action), type(taken.outcome.answer)): taken for taken in every}
    assert {kind for kind, _ in kinds} == set(get_args(Action))
    found = Counterexample(world, "model", tuple(kinds.values()), (Broken("closure", "PFX-2", "always"),))
    scenario = scenario_of(found)
    assert scenario_io.loads(scenario_io.dumps(scenario)) == scenario
    assert {step.op for step in scenario.steps} == set(OPERATIONS) - {"events", "snapshot", "stats", "jump_wall_clock"}


def test_the_reference_store_does_not_break_what_a_variant_breaks(tmp_path: Path) -> None:
    found = refute(catalogue.find_variant("cascade-over-protected")).counterexample
    assert found is not None
    file = tmp_path / "scenario.json"
    file.write_text(scenario_io.dumps(scenario_of(found)), encoding="utf-8")
    result = CliRunner().invoke(rerun.command, [str(file), "reference:CASCADE"])
    assert result.exit_code == 0, result.output
    assert "remove a" in result.output
