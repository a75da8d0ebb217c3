"""The contract's values as JSON and back: parents, put options, results, events. One place, used by sessions and oracles alike.

JSON shapes are those of the scenario schema (schemas/scenario.schema.json). Decoding bad input raises :class:`ScenarioError`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Answer,
    CacheGroup,
    Capabilities,
    Event,
    Geometry,
    Parent,
    Pin,
    PutOptions,
    PutResult,
    RemoveResult,
    Transport,
)
from kvprefix.errors import ScenarioError

Json = Any


# --------------------------------------------------------------------------------------------------------------------------------
# Parents. A key that begins with "@" is written with a second one, so that no key passes for a word.

_WORDS: Mapping[Parent, str] = {ROOT: "@root", UNKNOWN: "@unknown"}
_PARENTS: Mapping[str, Parent] = {word: parent for parent, word in _WORDS.items()}


def parent_to_json(parent: Parent) -> str:
    """A key, "@root" or "@unknown"."""
    if isinstance(parent, str):
        return "@" + parent if parent.startswith("@") else parent
    return _WORDS[parent]


def parent_from_json(word: str) -> Parent:
    """The parent that the word means."""
    if word in _PARENTS:
        return _PARENTS[word]
    if word.startswith("@@"):
        return word[1:]
    if word.startswith("@"):
        raise ScenarioError("parent", f"{word!r} is neither @root nor @unknown (a key that begins with @ is written @@...)")
    return word


# --------------------------------------------------------------------------------------------------------------------------------
# Put options: only what differs from the defaults is written


def options_to_json(options: PutOptions) -> dict[str, Json]:
    """The fields that are not at their default."""
    return {
        field.name: value.value if isinstance(value, enum.Enum) else value
        for field in attrs.fields(PutOptions)
        if (value := getattr(options, field.name)) != field.default
    }


def options_from_json(data: Mapping[str, Json]) -> PutOptions:
    """Put options; unknown names and values are refused."""
    known = {field.name: field.default for field in attrs.fields(PutOptions)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise ScenarioError("options", f"unknown option {name!r}; known are {sorted(known)}")
        kind = type(known[name])
        try:
            values[name] = kind(value) if issubclass(kind, enum.Enum) else value
        except ValueError as problem:
            raise ScenarioError(f"options.{name}", str(problem)) from None
    return PutOptions(**values)


# --------------------------------------------------------------------------------------------------------------------------------
# Results


def put_result_to_json(result: PutResult) -> dict[str, Json]:
    """Answer, evicted keys (null: cannot tell) and, where there is one, token and reason."""
    data: dict[str, Json] = {"answer": result.answer.value}
    data["evicted"] = None if result.evicted is None else list(result.evicted)
    if result.token is not None:
        data["token"] = result.token
    if result.reason:
        data["reason"] = result.reason
    return data


def put_result_from_json(data: Mapping[str, Json]) -> PutResult:
    """The inverse of :func:`put_result_to_json`."""
    evicted = data.get("evicted")
    return PutResult(
        answer=Answer(data["answer"]),
        evicted=None if evicted is None else tuple(evicted),
        token=data.get("token"),
        reason=data.get("reason", ""),
    )


def remove_result_from_json(data: Mapping[str, Json]) -> RemoveResult:
    """The answer of remove."""
    removed = data.get("removed")
    return RemoveResult(answer=Answer(data["answer"]), removed=None if removed is None else tuple(removed))


def event_to_json(event: Event) -> dict[str, Json]:
    """One event."""
    data: dict[str, Json] = {"sequence": event.sequence, "kind": event.kind.value}
    if event.key:
        data["key"] = event.key
    if event.parent is not UNKNOWN:
        data["parent"] = parent_to_json(event.parent)
    return data


def record_to_json(value: Any) -> Json:
    """Any frozen attrs value of the contract with plain fields (capabilities, geometry, stats) as JSON."""
    return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}


def _plain(value: Any) -> Json:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(_plain(member) for member in value)
    return value


def capabilities_from_json(data: Mapping[str, Json]) -> Capabilities:
    """Capabilities as :func:`record_to_json` writes them; fields that this version does not know are refused."""
    values: dict[str, Any] = {}
    fields = {field.name: field for field in attrs.fields(Capabilities)}
    for name, value in data.items():
        if name not in fields:
            raise ScenarioError("capabilities", f"unknown field {name!r}")
        values[name] = _typed(fields[name], value)
    return Capabilities(**values)


#: Set-valued capabilities whose members are enums (an empty default does not show the type).
_MEMBERS: Mapping[str, type[enum.Enum]] = {"lineage": Transport, "cache_groups": CacheGroup, "pins": Pin}


def _typed(field: Any, value: Json) -> Any:
    default = field.default
    try:
        if isinstance(default, enum.Enum):
            return type(default)(value)
        if isinstance(default, frozenset):
            member = _MEMBERS.get(field.name)
            return frozenset(member(v) for v in value) if member else frozenset(value)
    except ValueError as problem:
        raise ScenarioError(f"capabilities.{field.name}", str(problem)) from None
    return value


def geometry_from_json(data: Mapping[str, Json]) -> Geometry:
    """Geometry as :func:`record_to_json` writes it."""
    known = {field.name for field in attrs.fields(Geometry)}
    unknown = set(data) - known
    if unknown:
        raise ScenarioError("geometry", f"unknown fields {sorted(unknown)}")
    return Geometry(**data)
