"""The JSON Schema of every message of the wire protocol, derived from the same signatures as the messages themselves.

``python -m kvprefix_conformance.wire.schema`` prints it; schemas/wire.v1.schema.json is the published copy, which a test compares.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import json
import types
import typing
from collections.abc import Sequence
from typing import Any

import attrs

from kvprefix.api import (
    HOOKS,
    OPTIONAL_CALLS,
    Answer,
    Backend,
    Capabilities,
    Event,
    FullClient,
    Geometry,
    HookedBackend,
    PutItem,
    PutOptions,
    PutResult,
    Root,
    Unknown,
)
from kvprefix_conformance.wire.codec import MAX_SAFE_INTEGER, Json
from kvprefix_conformance.wire.messages import CALLS, ERROR_KINDS, REQUIRED_CALLS, SESSION_CALLS

_CALLS = (*REQUIRED_CALLS, *OPTIONAL_CALLS)

#: Types that are a definition of their own, with their description.
_NAMED: dict[Any, tuple[str, str]] = {
    Answer: ("answer", "What a store says."),
    Capabilities: ("capabilities", "What the adapter declares. A field that is left out has the default named at its end."),
    PutOptions: ("options", "What a put may say beside key, value and parent; what is left out has its default."),
    PutItem: ("item", "One member of a batch put."),
    PutResult: ("put_result", "The answer of one member of a batch put; evicted is left out where the backend cannot tell."),
    Geometry: (
        "geometry",
        "What was really obtained. An object costs value + overhead_bytes, rounded up to a multiple of quantum_bytes.",
    ),
    Event: ("event", "One change of the resident set. Sequence numbers rise by one, from 1."),
}

_BASIC: dict[str, Json] = {
    "integer": {
        "description": "An integer; beyond 2^53 - 1, in either direction, a decimal string.",
        "oneOf": [
            {"type": "integer", "minimum": -MAX_SAFE_INTEGER, "maximum": MAX_SAFE_INTEGER},
            {"type": "string", "pattern": "^-?[0-9]{1,40}$"},
        ],
    },
    "bytes": {
        "description": "Bytes as base64 with padding.",
        "type": "string",
        "contentEncoding": "base64",
        "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    },
    "parent": {
        "description": '"@root": declared to have no parent. "@unknown": not told, the default. Anything else is the parent\'s '
        "key; one that begins with @ has it doubled (@@x means the key @x).",
        "type": "string",
        "pattern": "^(?:[^@]|@root$|@unknown$|@@|$)",
    },
    "error_reply": {
        "description": "The call failed. kind: 'raised', inside the adapter; 'nonsense', the store behind it answered outside "
        "the contract; 'request', the request was not understood; 'unsupported', there is no such op.",
        "type": "object",
        "properties": {
            "id": {"type": ["integer", "null"]},
            "ok": {"const": False},
            "error": {
                "type": "object",
                "properties": {"kind": {"enum": list(ERROR_KINDS)}, "detail": {"type": "string"}},
                "required": ["kind", "detail"],
                "additionalProperties": False,
            },
        },
        "required": ["id", "ok", "error"],
        "additionalProperties": False,
    },
}


def schema() -> dict[str, Json]:
    """The whole schema: each message is the definition OP.request or OP.reply."""
    definitions = dict(_BASIC)
    _hello(definitions)
    for op in (*SESSION_CALLS, *_CALLS, *HOOKS):
        _messages(op, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvprefix wire protocol, version 1",
        "description": "One JSON object a line, UTF-8, over the adapter's stdin (requests) and stdout (replies). A request "
        "carries an id and an op and is answered by one reply with the same id. Arguments at their default are left out; adapters "
        "ignore request fields that they do not know; the suite refuses reply fields that it does not know.",
        "$defs": definitions,
    }


def _of(kind: Any, definitions: dict[str, Json]) -> dict[str, Json]:
    """The schema of one type of the contract."""
    plain: dict[Any, dict[str, Json]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"$ref": "#/$defs/integer"},
        float: {"type": "number"},
        bytes: {"$ref": "#/$defs/bytes"},
    }
    if kind in plain:
        return plain[kind]
    if kind in _NAMED:
        name, description = _NAMED[kind]
        if name not in definitions:
            definitions[name] = {"description": description, **_whole(kind, definitions)}
        return {"$ref": f"#/$defs/{name}"}
    return _whole(kind, definitions)


def _whole(kind: Any, definitions: dict[str, Json]) -> dict[str, Json]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if set(arguments) == {str, Root, Unknown}:
            return {"$ref": "#/$defs/parent"}
        inner = next(argument for argument in arguments if argument is not type(None))
        return {"oneOf": [{"type": "null"}, _of(inner, definitions)]}
    if origin is collections.abc.Mapping:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if origin is not None:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return _record(kind, definitions)


def _record(kind: Any, definitions: dict[str, Json]) -> dict[str, Json]:
    hints = typing.get_type_hints(kind)
    properties = {}
    for field in attrs.fields(kind):
        properties[field.name] = _of(hints[field.name], definitions)
        if "doc" in field.metadata:
            properties[field.name] = {"description": _described(field), **properties[field.name]}
    required = [field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING]
    record: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**record, "required": required} if required else record


def _described(field: Any) -> str:
    default = field.default
    if isinstance(default, frozenset):
        default = sorted(member.value if isinstance(member, enum.Enum) else member for member in default)
    elif isinstance(default, enum.Enum):
        default = default.value
    point = f" Disputed point {field.metadata['point']}." if field.metadata["point"] else ""
    return f"{field.metadata['doc']}{point} Default: {json.dumps(default)}."


def _request(op: str, description: str, properties: dict[str, Json], required: Sequence[str]) -> dict[str, Json]:
    frame: dict[str, Json] = {"id": {"type": "integer"}, "op": {"const": op}}
    if op in _CALLS:
        frame |= {"client": {"type": "integer", "minimum": 0}, "tenant": {"type": "string"}}
    return {
        "description": description,
        "type": "object",
        "properties": {**frame, **properties},
        "required": ["id", "op", *required],
    }


def _reply(description: str, properties: dict[str, Json], required: Sequence[str]) -> dict[str, Json]:
    answer = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "ok": {"const": True}, **properties},
        "required": ["id", "ok", *required],
        "additionalProperties": False,
    }
    return {"description": description, "oneOf": [{"$ref": "#/$defs/error_reply"}, answer]}


def _ops(description: str) -> dict[str, Json]:
    return {"description": description, "type": "array", "items": {"enum": list(_CALLS)}}


def _hello(definitions: dict[str, Json]) -> None:
    version = {"type": "integer"}
    span = {"description": "Lowest and highest version that the suite speaks.", "type": "array", "prefixItems": [version, version]}
    definitions["hello.request"] = _request(
        "hello",
        "The first request: what does the adapter speak, declare and offer?",
        {"protocol": {**span, "minItems": 2, "maxItems": 2}, "suite": {"description": "Version of the suite.", "type": "string"}},
        ["protocol"],
    )
    properties = {
        "protocol": {"description": "The version that both speak from now on.", **version},
        "capabilities": _of(Capabilities, definitions),
        "hooks": {"description": "Hooks that are offered.", "type": "array", "items": {"enum": list(HOOKS)}},
        "ops": {"oneOf": [{"type": "null"}, _ops("Optional calls that are offered; may be left to the reply to start.")]},
    }
    definitions["hello.reply"] = _reply("The answer to hello.", properties, ["protocol", "capabilities"])


def _messages(op: str, definitions: dict[str, Json]) -> None:
    """The two messages of one call."""
    function = next(getattr(owner, op) for owner in (FullClient, HookedBackend, Backend) if hasattr(owner, op))
    hints = typing.get_type_hints(function)
    call = CALLS[op]
    arguments = {parameter.field: _of(hints[parameter.name], definitions) for parameter in call.parameters}
    needed = [parameter.field for parameter in call.parameters if parameter.default is inspect.Parameter.empty]
    definitions[f"{op}.request"] = _request(op, inspect.getdoc(function) or "", arguments, needed)
    properties: dict[str, Json] = {}
    required: Sequence[str] = ()
    if call.field is not None:
        properties, required = {call.field: _of(hints["return"], definitions)}, (call.field,)
    elif call.result is not None:
        record = _record(hints["return"], definitions)
        properties, required = record["properties"], record.get("required", ())
    if op == "start":
        properties["ops"] = _ops("Optional calls that are offered, where only a started backend knows.")
    definitions[f"{op}.reply"] = _reply(f"The answer to {op}.", properties, required)


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
