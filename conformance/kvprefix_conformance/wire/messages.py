"""The messages of the wire protocol: one request and one reply for each call of the contract, derived from its signatures.

A request is {"id", "op", arguments}; arguments at their default are left out, and an adapter ignores what it does not know. A reply
is {"id", "ok": true, fields} or {"id", "ok": false, "error": {"kind", "detail"}}; fields that the suite does not know are refused.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Mapping
from typing import Any

import attrs

from kvprefix.api import HOOKS, OPTIONAL_CALLS, Backend, Capabilities, FullClient, HookedBackend
from kvprefix.errors import WireFormatError
from kvprefix_conformance.wire.codec import Codec, Json, codec_of, near, shown

#: The protocol versions that this suite speaks, lowest and highest.
PROTOCOLS = (1, 1)
#: The calls of a client that every adapter answers.
REQUIRED_CALLS = ("put", "get", "exists")
#: The calls of a backend that every adapter answers.
SESSION_CALLS = ("start", "reset", "close")
#: Longest line that the suite reads, in bytes.
MAX_LINE_BYTES = 64 * 2**20

#: Kinds of error reply. "raised": the call failed inside the adapter. "nonsense": the store behind the adapter answered outside the
#: contract. "request": the adapter could not make sense of the request. "unsupported": it has no such op.
ERROR_KINDS = ("raised", "nonsense", "request", "unsupported")

#: The field of the reply that carries what a call returns. Calls that are not named return nothing, or a record whose fields stand
#: in the reply itself.
_RESULT_FIELD: Mapping[str, str] = {
    "get": "value", "exists": "found", "probe": "found", "match": "length",
    "put_many": "results", "get_many": "values", "exists_many": "found",
    "clear": "answer", "put_abort": "answer", "unpin": "answer", "lease": "answer", "register": "answer",
    "events": "events", "start": "geometry", "restart": "geometry", "now": "ms", "resident": "keys",
}  # fmt: skip

#: Arguments whose name the frame of a request already uses.
_RENAMED: Mapping[tuple[str, str], str] = {("fail_next", "op"): "call"}

_FRAME = frozenset({"id", "ok"})


@attrs.frozen
class Parameter:
    """One argument of a call."""

    name: str
    codec: Codec
    default: Any
    #: Its name in a request.
    field: str


@attrs.frozen
class Call:
    """How one call of the contract looks on the wire."""

    op: str
    parameters: tuple[Parameter, ...]
    #: The reply's field for the result; None: the result is a record that stands in the reply itself.
    field: str | None
    #: None: the call returns nothing.
    result: Codec | None

    def request(self, arguments: Mapping[str, Any]) -> dict[str, Json]:
        """The arguments as request fields."""
        fields = {}
        for parameter in self.parameters:
            value = arguments[parameter.name]
            if value is not parameter.default and value != parameter.default:
                fields[parameter.field] = parameter.codec.dump(value)
        return fields

    def arguments(self, request: Mapping[str, Json]) -> dict[str, Any]:
        """Request fields as arguments; unknown fields are ignored, missing ones take their default."""
        arguments = {}
        for parameter in self.parameters:
            if parameter.field in request:
                try:
                    arguments[parameter.name] = parameter.codec.load(request[parameter.field])
                except WireFormatError as problem:
                    raise problem.inside(parameter.field) from None
            elif parameter.default is inspect.Parameter.empty:
                raise WireFormatError(f"{self.op} needs {parameter.field}")
        return arguments

    def reply(self, result: Any) -> dict[str, Json]:
        """What the call returned, as reply fields."""
        if self.result is None:
            return {}
        try:
            fields = self.result.dump(result)
        except WireFormatError as problem:
            raise (problem.inside(self.field) if self.field else problem) from None
        return {self.field: fields} if self.field else typing.cast("dict[str, Json]", fields)

    def returned(self, reply: Mapping[str, Json], extra: frozenset[str] = frozenset()) -> Any:
        """What the call returns, from the reply; a field that is neither its own nor in ``extra`` is refused."""
        fields = {name: value for name, value in reply.items() if name not in _FRAME and name not in extra}
        if self.field is None:
            if self.result is not None:
                return self.result.load(fields)
            known: tuple[str, ...] = ()
        else:
            known = (self.field,)
        for name in fields:
            if name not in known:
                raise WireFormatError(f"unknown field {shown(name)}; {near(name, known) if known else f'{self.op} has none.'}")
        if self.field is None or self.result is None:
            return None
        if self.field not in fields:
            raise WireFormatError(f"lacks {self.field}")
        try:
            return self.result.load(fields[self.field])
        except WireFormatError as problem:
            raise problem.inside(self.field) from None


def _call(owner: type, op: str) -> Call:
    function = getattr(owner, op)
    hints = typing.get_type_hints(function)
    parameters = tuple(
        Parameter(name, codec_of(hints[name]), parameter.default, _RENAMED.get((op, name), name))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    )
    result = hints["return"]
    return Call(op, parameters, _RESULT_FIELD.get(op), None if result is type(None) else codec_of(result))


#: Every call but hello, by op.
CALLS: Mapping[str, Call] = {
    **{op: _call(FullClient, op) for op in (*REQUIRED_CALLS, *OPTIONAL_CALLS)},
    **{op: _call(HookedBackend, op) for op in HOOKS},
    **{op: _call(Backend, op) for op in SESSION_CALLS},
}


# --------------------------------------------------------------------------------------------------------------------------------
# Lines

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode


def line_of(message: Mapping[str, Json]) -> bytes:
    """One line. UnicodeEncodeError where a string holds a lone surrogate, which UTF-8 cannot carry."""
    return (_encode(message) + "\n").encode("utf-8")


def message_of(line: bytes) -> dict[str, Json]:
    """The object on a line; :class:`WireFormatError` for anything else."""
    try:
        message = _decode(line.decode("utf-8").strip(" \t\r\n"))
    except (ValueError, RecursionError) as problem:
        raise WireFormatError(f"is no JSON: {shown(line)} ({type(problem).__name__}: {problem})") from None
    if type(message) is not dict:
        raise WireFormatError(f"is no JSON object: {shown(line)}")
    return message


# --------------------------------------------------------------------------------------------------------------------------------
# The opening


@attrs.frozen
class Hello:
    """What an adapter says of itself."""

    protocol: int
    capabilities: Capabilities
    #: Hooks that it offers.
    hooks: tuple[str, ...] = ()
    #: Optional calls that it offers; None: the reply to start names them.
    ops: tuple[str, ...] | None = None


_HELLO = codec_of(Hello)
_NAMES = codec_of(tuple[str, ...])


def hello_of(reply: Mapping[str, Json]) -> Hello:
    """The reply to hello, checked: a protocol that both speak, ops and hooks that exist."""
    hello: Hello = _HELLO.load({name: value for name, value in reply.items() if name not in _FRAME})
    low, high = PROTOCOLS
    if not low <= hello.protocol <= high:
        raise WireFormatError(f"the adapter speaks protocol {hello.protocol}, this suite {low} to {high}", ("protocol",))
    known_names(hello.hooks, HOOKS, "hooks")
    if hello.ops is not None:
        known_names(hello.ops, (*REQUIRED_CALLS, *OPTIONAL_CALLS), "ops")
    return hello


def hello_reply(hello: Hello) -> dict[str, Json]:
    """The fields of the reply to hello."""
    return typing.cast("dict[str, Json]", _HELLO.dump(hello))


def ops_of(start_reply: Mapping[str, Json]) -> tuple[str, ...] | None:
    """The optional calls that the reply to start names; None where it names none."""
    if "ops" not in start_reply:
        return None
    try:
        ops: tuple[str, ...] = _NAMES.load(start_reply["ops"])
    except WireFormatError as problem:
        raise problem.inside("ops") from None
    known_names(ops, (*REQUIRED_CALLS, *OPTIONAL_CALLS), "ops")
    return ops


def known_names(names: tuple[str, ...], known: tuple[str, ...], where: str) -> None:
    """Refuse a name that is not known: a misspelt op would otherwise pass for one that is not offered."""
    for name in names:
        if name not in known:
            raise WireFormatError(f"unknown name {shown(name)}; {near(name, known)}", (where,))
