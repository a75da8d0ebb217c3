"""Scenarios as JSON: our own schema (schemas/scenario.schema.json), one integer version, stable bytes, no library-bound blob.

A scenario names values by (key, fill, size) and tokens by labels, so that it runs on any backend and any language can read it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import attrs

from kvprefix.errors import ScenarioError
from kvprefix_conformance.codec import Json
from kvprefix_conformance.records import SCENARIO_SCHEMA, ObjectState, Scenario, Step, Violation

KIND = "kvprefix-scenario"


def dumps(scenario: Scenario) -> str:
    """The document as text: the same bytes for equal scenarios, ASCII only."""
    return json.dumps(document(scenario), indent=2, ensure_ascii=True) + "\n"


def document(scenario: Scenario) -> dict[str, Json]:
    """The document as JSON values."""
    return {
        "schema": SCENARIO_SCHEMA,
        "kind": KIND,
        "backend": scenario.backend,
        "backend_version": scenario.backend_version,
        "spec": scenario.spec,
        "suite_version": scenario.suite_version,
        "spec_version": scenario.spec_version,
        "check": scenario.check,
        "seed": scenario.seed,
        "capacity": scenario.capacity,
        "violation": None if scenario.violation is None else attrs.asdict(scenario.violation),
        "shown": None if scenario.shown is None else list(scenario.shown),
        "steps": [_step(step) for step in scenario.steps],
        "state": [_state(state) for state in scenario.state],
        "lineage": dict(scenario.lineage),
        "geometry": dict(scenario.geometry),
        "capabilities": dict(scenario.capabilities),
    }


def _step(step: Step) -> dict[str, Json]:
    data: dict[str, Json] = {"op": step.op, "args": dict(step.args), "answer": step.answer}
    if step.allowed:
        data["allowed"] = list(step.allowed)
    if step.client:
        data["client"] = step.client
    if step.indefinite:
        data["indefinite"] = True
    return data


def _state(state: ObjectState) -> dict[str, Json]:
    return {"key": state.key, "parent": state.parent, "status": state.status, "marks": list(state.marks)}


@functools.cache
def schema() -> Mapping[str, Json]:
    """The JSON Schema of the document."""
    file = resources.files("kvprefix_conformance") / "schemas" / "scenario.schema.json"
    data: Mapping[str, Json] = json.loads(file.read_text(encoding="utf-8"))
    return data


def loads(text: str) -> Scenario:
    """Read a document. Raises :class:`ScenarioError` that names the place and what is wrong there."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        raise ScenarioError("the document", f"no JSON: {problem}") from None
    _known_version(data)
    _conforms(data)
    return Scenario(
        steps=tuple(_step_of(step) for step in data["steps"]),
        capacity=data["capacity"],
        seed=data["seed"],
        backend=data["backend"],
        backend_version=data["backend_version"],
        suite_version=data["suite_version"],
        spec_version=data["spec_version"],
        check=data["check"],
        violation=None if data["violation"] is None else Violation(**data["violation"]),
        lineage=data["lineage"],
        capabilities=data["capabilities"],
        geometry=data["geometry"],
        state=tuple(ObjectState(s["key"], s["parent"], s["status"], tuple(s["marks"])) for s in data["state"]),
        spec=data["spec"],
        shown=None if data["shown"] is None else (data["shown"][0], data["shown"][1]),
    )


def _known_version(data: Any) -> None:
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise ScenarioError("kind", f"this is no {KIND} document")
    if data.get("schema") != SCENARIO_SCHEMA:
        raise ScenarioError("schema", f"version {data.get('schema')!r}; this suite reads version {SCENARIO_SCHEMA}")


def _conforms(data: Json) -> None:
    import jsonschema

    errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(data))
    if errors:  # the deepest place says most
        error = min(errors, key=lambda each: (-len(each.absolute_path), str(each.absolute_path)))
        raise ScenarioError(_path(list(error.absolute_path)), error.message[:300])


def _path(parts: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.lstrip(".") or "the document"


def _step_of(data: Mapping[str, Json]) -> Step:
    return Step(
        op=data["op"],
        args=data["args"],
        answer=data["answer"],
        allowed=tuple(data.get("allowed", ())),
        client=data.get("client", 0),
        indefinite=data.get("indefinite", False),
    )
