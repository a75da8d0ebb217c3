"""A session runs steps, survives whatever an adapter does, and records it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from suite_support import TinyStore

from kvprefix.api import Answer, Capabilities, Clock, PinResult, PutResult
from kvprefix.errors import AdapterError, ScenarioError
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.oracle.ledger import Terms
from kvprefix_conformance.records import Step, value_of
from kvprefix_conformance.session import Session, offered

#: Arguments with reserved names.
AS: dict[str, dict[str, Any]] = {label: {"as": label} for label in ("p1", "t1")}


def session_on(store: Any, capacity: int = 400, **arguments: Any) -> Session:
    geometry = store.start(capacity)
    return Session(store, geometry, Oracle(Terms(store.capabilities, geometry, offered(store))), **arguments)


def put(session: Session, key: str, fill: int = 1, size: int = 100) -> Step:
    return session.do("put", key=key, value={"fill": fill, "size": size})


def test_a_step_comes_back_with_its_answer_and_is_recorded_with_what_was_seen() -> None:
    session = session_on(TinyStore())
    step = put(session, "a")
    assert step.answer == {"answer": "STORED", "evicted": []}
    assert session.history[0].step == step
    assert session.history[0].seen.resident == frozenset({"a"})


def test_the_value_that_comes_back_is_told_by_whose_it_is() -> None:
    session = session_on(TinyStore())
    put(session, "a", fill=3)
    assert session.do("get", key="a").answer == {"of": "a", "fill": 3, "size": 100}
    assert session.do("get", key="b").answer is None


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (value_of("b", 1, 100), {"of": "b", "fill": 1, "size": 100}),
        (value_of("a", 1, 60), {"of": "a", "fill": 1, "size": 60, "whole": 100}),
        (b"x" * 100, {"size": 100, "begins": "78" * 16}),
        (b"", {"size": 0, "begins": ""}),
    ],
)
def test_foreign_torn_and_unknown_bytes_are_told_apart(returned: bytes, told: Any) -> None:
    class Wrong(TinyStore):
        def get(self, key: str) -> bytes | None:
            return returned

    session = session_on(Wrong())
    put(session, "a")
    put(session, "b")
    assert session.do("get", key="a").answer == told


def test_an_exception_is_written_down_and_ends_the_session() -> None:
    class Raises(TinyStore):
        def exists(self, key: str) -> bool:
            raise ValueError("no\nsuch thing")

    session = session_on(Raises())
    assert session.do("exists", key="a").answer == {"error": {"kind": "raised", "detail": "exists raised ValueError: no"}}
    assert session.over
    assert put(session, "a").answer == {"skipped": "the session is over"}
    assert len(session.history) == 1


def test_an_adapter_that_calls_exit_is_survived() -> None:
    class Exits(TinyStore):
        def get(self, key: str) -> bytes | None:
            raise SystemExit(3)

    assert session_on(Exits()).do("get", key="a").answer["error"]["kind"] == "raised"


def test_ctrl_c_is_not_swallowed() -> None:
    class Interrupted(TinyStore):
        def get(self, key: str) -> bytes | None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session_on(Interrupted()).do("get", key="a")


@pytest.mark.parametrize("kind", ["died", "timeout"])
def test_a_dead_or_hung_adapter_is_broken_and_its_last_step_indefinite(kind: str) -> None:
    class Gone(TinyStore):
        def get(self, key: str) -> bytes | None:
            raise AdapterError(kind, "gone")

    session = session_on(Gone())
    assert session.do("get", key="a").indefinite
    assert session.broken == f"adapter {kind}: gone"


@pytest.mark.parametrize(
    ("call", "returned", "detail"),
    [
        ("exists", 1, "exists returned int 1, which is not bool"),
        ("get", "text", "get returned str 'text', which is not bytes or None"),
        ("get", bytearray(b"x"), "get returned bytearray bytearray(b'x'), which is not bytes or None"),
        ("put", None, "put returned NoneType None, which is not PutResult"),
        ("put", PutResult(Answer.STALE), "put answered STALE, which is no answer of put"),
        ("put", PutResult(cast(Any, "STORED")), "put returned str 'STORED', which is not Answer"),
        ("put", PutResult(Answer.STORED, cast(Any, "ab")), "put named str 'ab', which is not a tuple of keys"),
    ],
)
def test_an_answer_of_a_wrong_type_is_nonsense(call: str, returned: Any, detail: str) -> None:
    store = type("Odd", (TinyStore,), {call: lambda self, *args, **kwargs: returned})()
    session = session_on(store)
    step = put(session, "a") if call == "put" else session.do(call, key="a")
    assert step.answer == {"error": {"kind": "nonsense", "detail": detail}}
    assert [violation.kind for violation in session.violations] == ["nonsense"]


def test_a_pin_without_a_token_is_nonsense() -> None:
    class Pins(TinyStore):
        def pin(self, key: str) -> PinResult:
            return PinResult(Answer.OK)

    session = session_on(Pins())
    put(session, "a")
    assert session.do("pin", key="a", **AS["p1"]).answer["error"]["kind"] == "nonsense"


def test_a_call_that_is_not_offered_is_not_run_and_says_nothing() -> None:
    session = session_on(TinyStore())
    assert session.do("match", chain=["a"]).answer == {"skipped": "not offered"}
    assert not session.over
    assert not session.violations


def test_a_shunned_call_is_taken_as_not_offered() -> None:
    session = session_on(TinyStore(), shun=frozenset({"stats"}))
    assert session.do("stats").answer == {"skipped": "not offered"}


def test_an_unknown_operation_is_a_scenario_error() -> None:
    with pytest.raises(ScenarioError, match="'putt'"):
        session_on(TinyStore()).run(Step("putt"))


def test_a_look_that_breaks_is_told_once_as_a_violation() -> None:
    class Blind(TinyStore):
        def resident(self) -> frozenset[str]:
            raise OSError("no hook today")

    session = session_on(Blind())
    put(session, "a")
    assert [(v.kind, v.because) for v in session.violations] == [("adapter-raised", "resident raised OSError: no hook today")]
    assert session.history[0].seen.resident is None


def test_tokens_are_labels_and_an_unbound_label_is_a_token_that_nobody_gave_out() -> None:
    asked: list[str] = []

    class TwoPhase(TinyStore):
        def put_begin(self, key: str, size: int, *, parent: Any = None, options: Any = None) -> PutResult:
            return PutResult(Answer.OK, (), token="secret-7")

        def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
            asked.append(token)
            return PutResult(Answer.STALE, ())

        def put_abort(self, key: str, token: str) -> Answer:
            asked.append(token)
            return Answer.STALE

    session = session_on(TwoPhase())
    session.do("put_begin", key="a", size=10, **AS["t1"])
    session.do("put_commit", key="a", token="t1", value={"fill": 1, "size": 10})
    session.do("put_abort", key="a", token="t2")
    assert asked == ["secret-7", "no-such-token:t2"]


def test_a_driven_clock_moves_only_by_advance() -> None:
    class Clocked(TinyStore):
        def advance(self, ms: int) -> None:
            pass

    session = session_on(Clocked())
    put(session, "a")
    session.do("advance", ms=30)
    put(session, "b")
    assert [recorded.seen.at for recorded in session.history] == [(0, 0), (30, 30), (30, 30)]


def test_a_real_clock_gives_spans() -> None:
    class Real(TinyStore):
        capabilities = Capabilities(name="real", clock=Clock.REAL)

    session = session_on(Real())
    put(session, "a")
    low, high = session.history[0].seen.at
    assert 0 <= low < high


def test_stop_ends_the_session_at_the_violation_that_it_names() -> None:
    class Forgets(TinyStore):
        def get(self, key: str) -> bytes | None:
            return None

    session = session_on(Forgets(), stop=lambda violation: violation.kind == "lost")
    put(session, "a")
    session.do("get", key="a")
    assert session.over
    assert [violation.requirement for violation in session.violations] == ["STO-1"]
