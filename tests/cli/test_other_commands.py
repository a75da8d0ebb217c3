"""list, explain, smoke and rerun: what each prints, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvprefix_conformance import runner, scenario_io
from kvprefix_conformance.cli import main
from kvprefix_conformance.plan import Rerun, Smoke
from kvprefix_conformance.records import Scenario, Step, Violation
from kvprefix_conformance.requirements import catalogue


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# --------------------------------------------------------------------------------------------------------------------------------
# list


def test_list_names_every_requirement_once_in_order() -> None:
    result = invoke("list")
    assert result.exit_code == 0
    ids = [line.split()[0] for line in result.stdout.splitlines() if line.split() and line.split()[0] in catalogue().requirements]
    assert ids == list(catalogue().requirements)


def test_list_can_be_narrowed_to_a_profile() -> None:
    shown = json.loads(invoke("list", "--profile", "prefix-index", "--json").stdout)
    assert {r["id"] for r in shown["requirements"]} == {r.id for r in catalogue().of_profile("prefix-index")}


def test_list_as_json_names_the_checks_that_judge_each() -> None:
    shown = json.loads(invoke("list", "--json").stdout)
    names = {check.name for check in runner.checks()}
    assert {check["name"] for check in shown["checks"]} == names
    by_id = {r["id"]: set(r["checks"]) for r in shown["requirements"]}
    assert by_id["PFX-1"] == {check.name for check in runner.checks() if "PFX-1" in check.requirements}
    assert by_id["PFX-1"] <= names
    assert by_id["STO-11"] == set()


def test_list_of_an_unknown_profile_suggests() -> None:
    result = invoke("list", "--profile", "prefix")
    assert result.exit_code == 2
    assert "did you mean prefix-" in result.output


# --------------------------------------------------------------------------------------------------------------------------------
# explain


def test_explain_tells_all_that_is_known_of_a_requirement() -> None:
    text = " ".join(invoke("explain", "pfx-1").stdout.split())
    requirement = catalogue().requirements["PFX-1"]
    assert text.startswith("PFX-1 MUST done (eviction-safe, prefix-aware)")
    assert requirement.sentence in text
    assert requirement.why in text
    assert "eviction-safe/machine: " in text
    assert "an eviction with a branching forest in the store" in text
    assert "ancestor-evicted: " in text
    assert "kvprefix check fault:NAME" in text


def test_explain_says_that_a_planned_requirement_is_not_judged() -> None:
    planned = next(r for r in catalogue().requirements.values() if r.status == "planned")
    assert "no check judges it yet" in invoke("explain", planned.id).stdout


def test_explain_every_requirement_without_a_fault() -> None:
    assert [rid for rid in catalogue().requirements if invoke("explain", rid).exit_code != 0] == []


@pytest.mark.parametrize(("word", "near"), [("PFX1", "PFX-1"), ("STO", "did you mean STO-"), ("nonsense", "known are: CON-1")])
def test_explain_of_an_unknown_id_suggests(word: str, near: str) -> None:
    result = invoke("explain", word)
    assert result.exit_code == 2
    assert near in result.output


# --------------------------------------------------------------------------------------------------------------------------------
# smoke

STEPS = (
    Step("put", {"key": "a", "value": {"fill": 1, "size": 8}}, {"answer": "STORED"}),
    Step("get", {"key": "a\x1b"}, {"error": {"kind": "raised", "detail": "\x1b[2J"}}),
)


@pytest.mark.parametrize(
    ("smoke", "code"),
    [
        (Smoke(STEPS, offered=("get", "put")), 0),
        (Smoke(STEPS, problems=("the first put is answered \x1b NO",)), 1),
        (Smoke(STEPS, problems=("get: raised",), broken="get: raised"), 4),
    ],
)
def test_smoke_shows_each_answer_and_what_is_wrong(monkeypatch: pytest.MonkeyPatch, smoke: Smoke, code: int) -> None:
    monkeypatch.setattr(runner, "smoke", lambda target: smoke)
    result = invoke("smoke", "reference")
    assert result.exit_code == code
    assert "  1. put a 8 bytes" in result.stdout
    assert "-> STORED" in result.stdout
    assert "\x1b" not in result.output
    assert all(f"problem: {problem.replace(chr(27), chr(92) + 'x1b')}" in result.stderr for problem in smoke.problems)
    assert ("fit to be tested: kvprefix check reference" in result.stdout) == (code == 0)


# --------------------------------------------------------------------------------------------------------------------------------
# rerun

VIOLATION = Violation("PFX-1", "ancestor-evicted", "b is there, a is not", 1)
OTHER = Violation("STO-1", "lost", "a is gone", 0)
SCENARIO = Scenario(STEPS[:1], 8, 1, "reference", violation=VIOLATION, spec="reference")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scenario.json"
    path.write_text(scenario_io.dumps(SCENARIO))
    return str(path)


@pytest.mark.parametrize(
    ("rerun", "code", "said"),
    [
        (Rerun(STEPS[:1], (VIOLATION,), reproduced=True), 1, "PFX-1 (ancestor-evicted) shows again"),
        (Rerun(STEPS[:1], (), reproduced=False), 0, "PFX-1 (ancestor-evicted) does not show"),
        (Rerun(STEPS[:1], (OTHER,), reproduced=False, differs=(0,)), 1, "STO-1 (lost): a is gone"),
        (Rerun(STEPS[:1], (), reproduced=False, differs=(0, 2)), 0, "answers differ from the recorded ones at step 1, 3"),
        (Rerun(STEPS[:1], (), reproduced=False, broken="it died"), 1, "the backend broke: it died"),
        (Rerun((), (), reproduced=False, broken="cannot open"), 4, "kvprefix: cannot open"),
    ],
)
def test_rerun_says_whether_the_violation_shows_again(
    monkeypatch: pytest.MonkeyPatch, file: str, rerun: Rerun, code: int, said: str
) -> None:
    monkeypatch.setattr(runner, "rerun", lambda scenario, target: rerun if scenario == SCENARIO else None)
    result = invoke("rerun", file, "reference")
    assert result.exit_code == code
    assert said in result.output
    assert ("put a 8 bytes" in result.stdout) == bool(rerun.steps)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "scenario: the document: no JSON"),
        (b"\xff\xfe", "cannot read the scenario"),
        (b"[]", "scenario: kind: this is no kvprefix-scenario document"),
        (b'{"kind": "kvprefix-scenario", "schema": 99}', "scenario: schema: version 99; this suite reads version 1"),
        (b"[" * 100_000, "scenario: "),
    ],
)
def test_a_file_that_is_no_scenario_is_told(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(text)
    result = invoke("rerun", str(path), "reference")
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_step_that_no_suite_knows_is_told(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    document = scenario_io.document(SCENARIO)
    document["steps"][0]["op"] = "explode"
    path.write_text(json.dumps(document))
    result = invoke("rerun", str(path), "reference")
    assert result.exit_code == 2
    assert "explode" in result.output


def test_a_real_scenario_reruns_on_a_store_that_evicts_by_age_and_on_the_reference(tmp_path: Path) -> None:
    sizes = {"a": 2730, "b": 1365, "c": 2730}
    puts = [{"key": key, "value": {"fill": 1, "size": size}} for key, size in sizes.items()]
    puts[1]["parent"] = "a"
    steps = tuple(Step("put", put) for put in puts)
    path = tmp_path / "scenario.json"
    path.write_text(scenario_io.dumps(Scenario(steps, 4096, 1, "x", violation=VIOLATION)))
    assert invoke("rerun", str(path), "fault:evicts-by-plain-lru").exit_code == 1
    result = invoke("rerun", str(path), "reference")
    assert result.exit_code == 0
    assert "STORED, evicted b" in result.stdout
