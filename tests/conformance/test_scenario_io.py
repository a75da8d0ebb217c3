"""Scenarios as JSON: the same bytes again, and a typed error that names the place for anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from suite_support import TinyStore, target

from kvprefix.api import ROOT, UNKNOWN, CacheGroup, Capabilities, Geometry, Parent, Pin, PutOptions, Transport
from kvprefix.errors import ScenarioError
from kvprefix_conformance.calls import OPERATIONS
from kvprefix_conformance.codec import (
    capabilities_from_json,
    geometry_from_json,
    options_from_json,
    options_to_json,
    parent_from_json,
    parent_to_json,
    record_to_json,
)
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import ObjectState, Scenario, Step, Violation
from kvprefix_conformance.runner import run
from kvprefix_conformance.scenario_io import document, dumps, loads, schema


def scenario(*steps: Step, **fields: Any) -> Scenario:
    return Scenario(steps=steps, capacity=400, seed=7, backend="tiny", **fields)


PUT = Step("put", {"key": "a", "value": {"fill": 1, "size": 100}}, {"answer": "STORED", "evicted": []}, ("STORED",))
FULL = scenario(
    PUT,
    Step("get", {"key": "\ud800\n\u00e9"}, None, client=1, indefinite=True),
    Step(
        "put_many", {"items": [{"key": "b", "value": {"fill": 2, "size": 9}, "parent": "@@root", "options": {"pin": "hard"}}]}, []
    ),
    check="object-store/machine",
    violation=Violation("STO-1", "lost", "because", 1, "a hit", "a miss", "resident"),
    lineage={"b": "a", "a": "@root"},
    state=(ObjectState("a", "@root", "resident", ("leased until 5 ms",)),),
    capabilities=record_to_json(Capabilities(name="x")),
    geometry=record_to_json(Geometry(400)),
    spec="-- ./store --fast",
    shown=(2, 3),
)


def test_a_scenario_comes_back_as_it_was() -> None:
    assert loads(dumps(FULL)) == FULL
    assert dumps(loads(dumps(FULL))) == dumps(FULL)
    assert dumps(FULL).isascii()


def test_a_scenario_of_a_real_run_comes_back_as_it_was() -> None:
    report = run(target(TinyStore), Plan(examples=2, requirements=("PFX-1",)))
    made = report.results[0].scenario
    assert made is not None
    assert loads(dumps(made)) == made


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"schema": 2}, "schema: version 2; this suite reads version 1"),
        ({"kind": "report"}, "kind: this is no kvprefix-scenario document"),
        ({"capacity": 0}, "capacity: 0 is less than the minimum of 1"),
        ({"extra": 1}, "the document: Additional properties are not allowed ('extra' was unexpected)"),
        ({"seed": None}, "seed: None is not of type 'integer'"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(json.dumps({**document(FULL), **change}))
    assert str(caught.value) == f"scenario: {where}"


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ({"op": "putt", "args": {}, "answer": None}, "steps[0].op: 'putt' is not one of"),
        ({"op": "put", "args": {"key": "a"}, "answer": None}, "steps[0].args: 'value' is a required property"),
        ({"op": "get", "args": {"key": 5}, "answer": None}, "steps[0].args.key: 5 is not of type 'string'"),
        ({"op": "advance", "args": {"ms": -1}, "answer": None}, "steps[0].args.ms: -1 is less than the minimum of 0"),
        ({"op": "stats", "args": {}}, "steps[0]: 'answer' is a required property"),
    ],
)
def test_a_wrong_step_is_named(step: dict[str, Any], where: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(json.dumps({**document(FULL), "steps": [step]}))
    assert str(caught.value).startswith(f"scenario: {where}")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_what_is_no_document_is_a_typed_error(text: str) -> None:
    with pytest.raises(ScenarioError):
        loads(text)


def test_the_schema_knows_exactly_the_operations_of_a_session() -> None:
    assert set(schema()["$defs"]["args"]) == OPERATIONS
    assert set(schema()["$defs"]["step"]["properties"]["op"]["enum"]) == OPERATIONS


@pytest.mark.parametrize("parent", ["a", "@root", "@@x", "", ROOT, UNKNOWN])
def test_no_key_passes_for_a_word(parent: Parent) -> None:
    assert parent_from_json(parent_to_json(parent)) == parent


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(ScenarioError, match="@parent"):
        parent_from_json("@parent")


def test_options_keep_what_differs_and_refuse_what_they_do_not_know() -> None:
    options = PutOptions(cache_group=CacheGroup.STATE, pin=Pin.SOFT, soft_pin_ms=5, lease_ms=3)
    assert options_to_json(PutOptions()) == {}
    assert options_from_json(options_to_json(options)) == options
    with pytest.raises(ScenarioError, match="colour"):
        options_from_json({"colour": "red"})
    with pytest.raises(ScenarioError, match=r"options\.pin"):
        options_from_json({"pin": "medium"})


def test_capabilities_and_geometry_come_back_as_they_were() -> None:
    caps = Capabilities(name="x", lineage=frozenset({Transport.KEY}), pins=frozenset({Pin.HARD}), touch_calls=frozenset({"get"}))
    assert capabilities_from_json(json.loads(json.dumps(record_to_json(caps)))) == caps
    assert geometry_from_json(record_to_json(Geometry(10, max_key_bytes=5))) == Geometry(10, max_key_bytes=5)
    with pytest.raises(ScenarioError, match="unknown field 'speed'"):
        capabilities_from_json({"speed": 1})
    with pytest.raises(ScenarioError, match=r"capabilities\.admission"):
        capabilities_from_json({"admission": "maybe"})
    with pytest.raises(ScenarioError, match="weight"):
        geometry_from_json({"weight": 1})
