"""Every call, from client to host and back with no process between: the backend is given, and the caller gets, what was meant."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import io
import json
import types
import typing
from collections.abc import Callable
from importlib import resources
from typing import Any, NoReturn

import attrs
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.api import (
    HOOKS,
    OPTIONAL_CALLS,
    ROOT,
    UNKNOWN,
    Answer,
    Capabilities,
    FullClient,
    Geometry,
    HookedBackend,
    PutResult,
    Root,
    Unknown,
    offers,
)
from kvprefix.errors import AdapterError, WireFormatError
from kvprefix_conformance.wire.client import Session, greet
from kvprefix_conformance.wire.codec import MAX_SAFE_INTEGER
from kvprefix_conformance.wire.host import Host
from kvprefix_conformance.wire.messages import CALLS, REQUIRED_CALLS, line_of
from kvprefix_conformance.wire.schema import schema

CLIENT_CALLS = (*REQUIRED_CALLS, *OPTIONAL_CALLS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = st.one_of(TEXT, st.sampled_from(["", "@root", "@@", "@x", "\x00", "line\nbreak", "../up", "\u2028", "😀"]))


class Recorder:
    """A backend and client in one that offers the named calls, notes what it is given and answers what it is told to."""

    capabilities = Capabilities(name="recorder", version="1")

    def __init__(self, offered: tuple[str, ...]) -> None:
        self.given: dict[str, Any] = {}
        self.answer: Any = None
        for op in offered:
            setattr(self, op, self._note)

    def _note(self, **arguments: Any) -> Any:
        self.given = arguments
        return self.answer

    def start(self, capacity: int) -> Geometry:
        return Geometry(capacity)

    def client(self, index: int = 0) -> Recorder:
        return self

    def reset(self) -> None:
        self.given = {}

    def close(self) -> None:
        self.given = {}


class Loopback:
    """In the place of a child process: a host that is called directly."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._host = Host(make, io.BytesIO(), io.BytesIO())
        #: What went over the wire: op, request, reply.
        self.messages: list[tuple[str, Any, Any]] = []

    def exchange(self, line: bytes, seconds: float, what: str) -> bytes:
        reply, _op = self._host._answer(line)
        answer = line_of(reply)
        assert line.endswith(b"\n")
        assert answer.count(b"\n") == 1
        self.messages.append((what, json.loads(line), json.loads(answer)))
        return answer[:-1]

    def fail(self, kind: str, detail: str) -> NoReturn:
        raise AdapterError(kind, detail)

    def finish(self) -> None:
        self.messages.append(("finish", None, None))


@attrs.frozen
class Connection:
    recorder: Recorder
    backend: Any
    client: Any
    wire: Loopback

    def call(self, op: str, /, **arguments: Any) -> Any:
        return getattr(self.client if op in CLIENT_CALLS else self.backend, op)(**arguments)


def connect(offered: tuple[str, ...] = (*CLIENT_CALLS, *HOOKS)) -> Connection:
    recorder = Recorder(offered)
    wire = Loopback(lambda: recorder)
    backend = greet(Session(typing.cast("Any", wire), 1000), 1000)
    backend.start(4096)
    return Connection(recorder, backend, backend.client(0), wire)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the contract."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: KEYS,
        bool: st.booleans(),
        int: st.one_of(st.integers(-3, 300), st.integers(MAX_SAFE_INTEGER - 2, MAX_SAFE_INTEGER + 2), st.just(-(2**63))),
        float: st.floats(0.1, 0.9),
        bytes: st.binary(max_size=12),
    }
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in plain:
        return plain[kind]
    if origin in (typing.Union, types.UnionType):
        if set(arguments) == {str, Root, Unknown}:
            return st.one_of(KEYS, st.sampled_from([ROOT, UNKNOWN]))
        return st.one_of(st.none(), *(values(each) for each in arguments if each is not type(None)))
    if origin is collections.abc.Mapping:
        return st.dictionaries(KEYS, values(arguments[1]), max_size=3)
    if origin is not None:
        return st.lists(values(arguments[0]), max_size=3).map(origin if origin in (tuple, frozenset) else list)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in attrs.fields(kind)})


def signature(op: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Types and defaults of the arguments, and the type of the result."""
    function = getattr(FullClient if op in CLIENT_CALLS else HookedBackend, op)
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}
    return {name: hints[name] for name in parameters if name != "self"}, defaults, hints["return"]


def arguments_and_result(op: str) -> st.SearchStrategy[tuple[dict[str, Any], Any]]:
    kinds, _defaults, result = signature(op)
    returned = st.none() if result is type(None) else values(result)
    return st.tuples(st.fixed_dictionaries({name: values(kind) for name, kind in kinds.items()}), returned)


# --------------------------------------------------------------------------------------------------------------------------------
# Both ways


@pytest.mark.parametrize("op", [*CLIENT_CALLS, *HOOKS])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_arguments_and_results_of_every_call_survive_the_wire(op: str, data: st.DataObject) -> None:
    connection = connect()
    arguments, answer = data.draw(arguments_and_result(op))
    connection.recorder.answer = answer
    assert connection.call(op, **arguments) == answer
    _kinds, defaults, _result = signature(op)
    assert {**defaults, **connection.recorder.given} == {**defaults, **arguments}


@pytest.mark.parametrize("op", [*OPTIONAL_CALLS, *HOOKS])
def test_exactly_what_the_backend_has_is_offered(op: str) -> None:
    connection = connect((*REQUIRED_CALLS, op))
    seen = [each for each in OPTIONAL_CALLS if offers(connection.client, each)]
    seen += [each for each in HOOKS if offers(connection.backend, each)]
    assert seen == [op]


def test_a_key_with_a_lone_surrogate_is_refused_without_being_sent() -> None:
    connection = connect()
    sent = len(connection.wire.messages)
    assert connection.client.put("\ud800", b"1") == PutResult(Answer.INVALID)
    assert connection.client.get("a\udfff") is None
    assert connection.client.exists("\ud800") is False
    assert len(connection.wire.messages) == sent


def test_a_match_ends_before_a_key_that_cannot_travel() -> None:
    connection = connect()
    connection.recorder.answer = 2
    assert connection.client.match(["a", "b", "\ud800", "c"]) == 2
    assert connection.recorder.given == {"chain": ["a", "b"]}


def test_what_the_store_returns_outside_the_contract_is_a_protocol_error() -> None:
    connection = connect()
    connection.recorder.answer = "yes"
    with pytest.raises(AdapterError, match=r"exists returned 'yes': found: should be true or false") as caught:
        connection.client.exists("a")
    assert caught.value.kind == "protocol"


def test_what_the_store_raises_is_told_and_the_session_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    connection = connect()
    connection.recorder.exists = lambda key: 1 // 0  # type: ignore[attr-defined]
    with pytest.raises(AdapterError, match="exists: ZeroDivisionError: integer") as caught:
        connection.client.exists("a")
    assert caught.value.kind == "raised"
    assert "Traceback" in capsys.readouterr().err
    connection.recorder.answer = b"x"
    assert connection.client.get("a") == b"x"


def test_a_call_on_a_closed_session_says_so() -> None:
    connection = connect()
    connection.backend.close()
    connection.backend.close()
    assert [what for what, _request, _reply in connection.wire.messages][-2:] == ["finish", "finish"]
    with pytest.raises(AdapterError, match="gone since it was closed"):
        connection.client.get("a")


# --------------------------------------------------------------------------------------------------------------------------------
# Against the published schema

VALIDATORS = {
    name: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema()["$defs"]}) for name in schema()["$defs"]
}


def test_the_published_schema_is_the_derived_one() -> None:
    file = resources.files("kvprefix_conformance.wire") / "schemas" / "wire.v1.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == schema(), "run python -m kvprefix_conformance.wire.schema > the file"


@pytest.mark.parametrize("op", [*CLIENT_CALLS, *HOOKS])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_message_fits_its_schema(op: str, data: st.DataObject) -> None:
    connection = connect()
    arguments, connection.recorder.answer = data.draw(arguments_and_result(op))
    connection.call(op, **arguments)
    connection.backend.close()
    told = [(what, request, reply) for what, request, reply in connection.wire.messages if what != "finish"]
    assert [what for what, _request, _reply in told] == ["hello", "start", op, "close"]
    for what, request, reply in told:
        VALIDATORS[f"{what}.request"].validate(request)
        VALIDATORS[f"{what}.reply"].validate(reply)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.just(2**53),
    st.just(1.5),
    st.just("STORED"),
    st.just("x"),
    st.just([]),
    st.just({}),
)


@pytest.mark.parametrize("op", [*CLIENT_CALLS, *HOOKS])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_reply_is_refused_exactly_where_the_schema_refuses_it(op: str, data: st.DataObject) -> None:
    _arguments, answer = data.draw(arguments_and_result(op))
    reply = {"id": 1, "ok": True, **CALLS[op].reply(answer)}
    field = data.draw(st.sampled_from([*(name for name in reply if name not in ("id", "ok")), "stranger", "answr"]))
    if data.draw(st.booleans()) and field in reply:
        del reply[field]
    else:
        reply[field] = data.draw(JUNK)
    try:
        CALLS[op].returned(reply)
    except WireFormatError:
        accepted = False
    else:
        accepted = True
    assert accepted == VALIDATORS[f"{op}.reply"].is_valid(reply)
