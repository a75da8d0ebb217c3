"""Values of the contract as JSON and back, derived from the types in :mod:`kvprefix.api`; strict both ways.

Bytes are base64; integers beyond 2**53 - 1 are decimal strings; enums are their values; a parent is "@root", "@unknown" or a key
(one that begins with "@" has it doubled); a field at its default is left out. What does not fit raises :class:`WireFormatError`.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import difflib
import enum
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kvprefix.api import Root, Unknown
from kvprefix.errors import ConfigurationError, ScenarioError, WireFormatError
from kvprefix_conformance.codec import parent_from_json, parent_to_json

Json = Any

#: Above this, in either direction, not every JSON library keeps an integer whole.
MAX_SAFE_INTEGER = 2**53 - 1
_DECIMAL = re.compile(r"-?[0-9]{1,40}")


@attrs.frozen
class Codec:
    """Both directions of one type. Each raises :class:`WireFormatError` for a value of another type."""

    dump: Callable[[Any], Json]
    load: Callable[[Json], Any]


def shown(value: object) -> str:
    """A value from outside, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wrong(value: object, expected: str) -> WireFormatError:
    return WireFormatError(f"should be {expected}, is {shown(value)}")


def near(word: str, known: collections.abc.Iterable[str]) -> str:
    """ "; did you mean X?" where a known word is close, else the known ones."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"known are: {', '.join(known)}."


# --------------------------------------------------------------------------------------------------------------------------------
# Plain values


def _plain(kind: type, expected: str) -> Codec:
    def same(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(value, expected)
        return value

    return Codec(same, same)


def _dump_int(value: Any) -> Json:
    if type(value) is not int:
        raise _wrong(value, "an integer")
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)


def _load_int(value: Json) -> int:
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return value
    if type(value) is str and _DECIMAL.fullmatch(value):
        return int(value)
    if type(value) is float and value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        return int(value)
    raise _wrong(value, "an integer, as a decimal string if beyond 2**53 - 1")


def _float(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise _wrong(value, "a finite number")
    return float(value)


def _dump_bytes(value: Any) -> Json:
    if type(value) is not bytes:
        raise _wrong(value, "bytes")
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _load_bytes(value: Json) -> bytes:
    if type(value) is not str:
        raise _wrong(value, "a base64 string")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as problem:
        raise WireFormatError(f"is no base64: {problem} ({shown(value)})") from None


def _dump_parent(value: Any) -> Json:
    if type(value) not in (str, Root, Unknown):
        raise _wrong(value, "a parent: a key, ROOT or UNKNOWN")
    return parent_to_json(value)


def _load_parent(value: Json) -> Any:
    if type(value) is not str:
        raise _wrong(value, 'a parent: a key, "@root" or "@unknown"')
    try:
        return parent_from_json(value)
    except ScenarioError as problem:
        raise WireFormatError(problem.problem) from None


_PLAIN: Mapping[Any, Codec] = {
    str: _plain(str, "a string"),
    bool: _plain(bool, "true or false"),
    int: Codec(_dump_int, _load_int),
    float: Codec(_float, _float),
    bytes: Codec(_dump_bytes, _load_bytes),
}


# --------------------------------------------------------------------------------------------------------------------------------
# Compound values


def _enum(kind: type[enum.Enum]) -> Codec:
    by_value = {member.value: member for member in kind}

    def dump(value: Any) -> Json:
        if type(value) is not kind:
            raise _wrong(value, f"one of {kind.__name__}")
        return value.value

    def load(value: Json) -> Any:
        if type(value) is not str or value not in by_value:
            raise _wrong(value, f"one of {', '.join(by_value)}")
        return by_value[value]

    return Codec(dump, load)


def _optional(inner: Codec) -> Codec:
    return Codec(
        lambda value: None if value is None else inner.dump(value),
        lambda value: None if value is None else inner.load(value),
    )


def _members(inner: Codec, origin: Any) -> Codec:
    """A list, tuple or set of one type. Sets are written sorted."""
    made: Any = origin if origin in (tuple, frozenset) else list
    accepted = (frozenset, set) if origin is frozenset else (list, tuple)

    def each(convert: Callable[[Any], Any], values: Any) -> list[Any]:
        done: list[Any] = []
        try:
            for value in values:
                done.append(convert(value))  # noqa: PERF401 - the index of a bad member is wanted
        except WireFormatError as problem:
            raise problem.inside(f"[{len(done)}]") from None
        return done

    def dump(values: Any) -> Json:
        if not isinstance(values, accepted):
            raise _wrong(values, f"a {made.__name__}")
        done = each(inner.dump, values)
        return sorted(done) if made is frozenset else done

    def load(values: Json) -> Any:
        if type(values) is not list:
            raise _wrong(values, "a list")
        return made(each(inner.load, values))

    return Codec(dump, load)


def _mapping(inner: Codec) -> Codec:
    def each(convert: Callable[[Any], Any], values: Any) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for key, value in values.items():
            if type(key) is not str:
                raise _wrong(key, "a key")
            try:
                done[key] = convert(value)
            except WireFormatError as problem:
                raise problem.inside(f"[{shown(key)}]") from None
        return done

    def dump(values: Any) -> Json:
        if not isinstance(values, Mapping):
            raise _wrong(values, "a mapping")
        return each(inner.dump, values)

    def load(values: Json) -> Any:
        if type(values) is not dict:
            raise _wrong(values, "an object")
        return each(inner.load, values)

    return Codec(dump, load)


def _record(kind: type[Any]) -> Codec:
    """A frozen attrs class as an object; fields at their default are left out, unknown ones are refused."""
    hints = typing.get_type_hints(kind)
    codecs = {field.name: codec_of(hints[field.name]) for field in attrs.fields(kind)}
    return Codec(_record_dump(kind, codecs), _record_load(kind, codecs))


def _record_dump(kind: type[Any], codecs: Mapping[str, Codec]) -> Callable[[Any], Json]:
    fields = tuple((field.name, codecs[field.name].dump, field.default) for field in attrs.fields(kind))

    def dump(value: Any) -> Json:
        if type(value) is not kind:
            raise _wrong(value, f"a {kind.__name__}")
        done = {}
        for name, dump_member, default in fields:
            member = getattr(value, name)
            if member is default or (member == default and type(member) is type(default)):
                continue
            try:
                done[name] = dump_member(member)
            except WireFormatError as problem:
                raise problem.inside(name) from None
        return done

    return dump


def _record_load(kind: type[Any], codecs: Mapping[str, Codec]) -> Callable[[Json], Any]:
    required = frozenset(field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING)

    def load_member(name: str, member: Json) -> Any:
        if name not in codecs:
            raise WireFormatError(f"unknown field {shown(name)}; {near(name, codecs)}")
        try:
            return codecs[name].load(member)
        except WireFormatError as problem:
            raise problem.inside(name) from None

    def load(value: Json) -> Any:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        arguments = {name: load_member(name, member) for name, member in value.items()}
        if not required <= arguments.keys():
            raise WireFormatError(f"lacks {', '.join(sorted(required - arguments.keys()))}")
        try:
            return kind(**arguments)
        except ConfigurationError as problem:
            raise WireFormatError(str(problem)) from None

    return load


@functools.cache
def codec_of(kind: Any) -> Codec:
    """The codec of a type of the contract; TypeError for a type that the contract does not use."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if set(arguments) == {str, Root, Unknown}:
            return Codec(_dump_parent, _load_parent)
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) == 1:
            return _optional(codec_of(inner[0]))
    elif origin in (list, tuple, frozenset, collections.abc.Sequence):
        return _members(codec_of(arguments[0]), origin)
    elif origin is collections.abc.Mapping:
        return _mapping(codec_of(arguments[1]))
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind)
    elif isinstance(kind, type) and attrs.has(kind):
        return _record(kind)
    raise TypeError(f"the contract has no values of type {kind!r}")
