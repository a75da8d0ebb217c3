"""A backend that is another process: the contract's calls as lines over its stdin and stdout, one request at a time.

The objects offer exactly the optional calls and hooks that the adapter announced, so that :func:`kvprefix.api.offers` tells the
truth. Whatever goes wrong is an :class:`AdapterError`: "died", "timeout", "protocol" or "raised". For one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from kvprefix.api import (
    HOOKS,
    OPTIONAL_CALLS,
    UNKNOWN,
    Answer,
    Backend,
    Capabilities,
    Event,
    Geometry,
    Parent,
    PinResult,
    PutItem,
    PutOptions,
    PutResult,
    RemoveResult,
    Snapshot,
    Stats,
    StoreClient,
)
from kvprefix.errors import AdapterError, ConfigurationError, WireFormatError
from kvprefix_conformance.version import suite_version
from kvprefix_conformance.wire.codec import Json, shown
from kvprefix_conformance.wire.isolation import Child
from kvprefix_conformance.wire.messages import (
    CALLS,
    ERROR_KINDS,
    PROTOCOLS,
    REQUIRED_CALLS,
    hello_of,
    line_of,
    message_of,
    ops_of,
)

#: Deadline of one operation unless told otherwise, in milliseconds.
DEFAULT_DEADLINE_MS = 10_000
#: Starting may load a model library or start a server: it has at least this long.
START_DEADLINE_MS = 30_000
#: Emptying, settling and closing may do real work: they have at least this long.
SLOW_DEADLINE_MS = 10_000

#: What a call answers about a key that holds a lone surrogate. UTF-8 cannot carry it, so it is never sent: it is refused as INVALID
#: (STO-10) and is a miss.
_UNSENDABLE: Mapping[str, Any] = {
    "put": PutResult(Answer.INVALID),
    "put_begin": PutResult(Answer.INVALID),
    "put_commit": PutResult(Answer.STALE),
    "put_abort": Answer.STALE,
    "get": None,
    "exists": False,
    "probe": False,
    "remove": RemoveResult(Answer.NOT_FOUND),
    "pin": PinResult(Answer.NOT_FOUND),
    "unpin": Answer.NOT_FOUND,
    "lease": Answer.NOT_FOUND,
    "register": Answer.INVALID,
}


class Session:
    """Requests and replies over one child. After the child is gone, every call raises "died" and says why it went."""

    def __init__(self, child: Child, deadline_ms: int) -> None:
        self._child = child
        self.deadline_ms = deadline_ms
        self._last_id = 0
        self._gone = ""

    def call(self, op: str, fields: Mapping[str, Json], deadline_ms: int = 0) -> dict[str, Json]:
        """Send one request and return its reply, which is "ok": true and carries the same id.

        Raises :class:`AdapterError`; UnicodeEncodeError before anything is sent where a string cannot travel.
        """
        if self._gone:
            raise AdapterError("died", f"the adapter is gone since {self._gone}")
        self._last_id += 1
        line = line_of({"id": self._last_id, "op": op, **fields})
        try:
            answer = self._child.exchange(line, (deadline_ms or self.deadline_ms) / 1000, op)
            reply = self._framed(answer, op)
        except AdapterError as failure:
            self._gone = str(failure)
            raise
        if reply["ok"] is True:
            return reply
        raise self._error(reply, op)

    def _framed(self, answer: bytes, op: str) -> dict[str, Json]:
        """The reply on a line. One that is none, or answers another request, ends the session: nothing after it can be trusted."""
        try:
            reply = message_of(answer)
        except WireFormatError as problem:
            self._child.fail("protocol", f"the answer to {op} {problem}")
        if type(reply.get("id")) is not int or reply["id"] != self._last_id:
            self._child.fail("protocol", f"the answer to {op} has id {shown(reply.get('id'))}, the request had {self._last_id}")
        if type(reply.get("ok")) is not bool:
            self._child.fail("protocol", f'the answer to {op} has "ok" {shown(reply.get("ok"))}, which must be true or false')
        return reply

    def _error(self, reply: Mapping[str, Json], op: str) -> AdapterError:
        error = reply.get("error")
        well_formed = (
            set(reply) == {"id", "ok", "error"}
            and type(error) is dict
            and set(error) == {"kind", "detail"}
            and error["kind"] in ERROR_KINDS
            and type(error["detail"]) is str
        )
        if not well_formed or type(error) is not dict:
            expected = f'{{"kind": one of {", ".join(ERROR_KINDS)}, "detail": a string}}'
            return AdapterError(
                "protocol", f'{op} failed with {shown(error)}; "error" must be {expected}, and nothing else beside it'
            )
        if error["kind"] == "raised":
            return AdapterError("raised", f"{op}: {error['detail']}")
        return AdapterError("protocol", f"{op}: {error['detail']} ({error['kind']})")

    def returned(self, op: str, reply: Mapping[str, Json], extra: frozenset[str] = frozenset()) -> Any:
        """What the call returns; AdapterError("protocol") where the reply does not fit. The session goes on: lines still match."""
        try:
            return CALLS[op].returned(reply, extra)
        except WireFormatError as problem:
            raise AdapterError("protocol", f"the answer to {op}: {problem}") from None

    def perform(self, op: str, arguments: Mapping[str, Any], frame: Mapping[str, Json], wait_ms: int = 0) -> Any:
        """One call of the contract from arguments to result. ``wait_ms`` is added to the deadline."""
        fields = {**frame, **CALLS[op].request(arguments)}
        try:
            reply = self.call(op, fields, self.deadline_ms + wait_ms)
        except UnicodeEncodeError:
            if op in _UNSENDABLE:
                return _UNSENDABLE[op]
            raise ConfigurationError(f"a lone surrogate cannot travel to another process, and {op} was given one") from None
        return self.returned(op, reply)

    def close(self, deadline_ms: int) -> None:
        """Ask the adapter to close, and end its process whatever it answers."""
        if not self._gone:
            with contextlib.suppress(AdapterError):
                self.call("close", {}, deadline_ms)
        if not self._gone:
            self._gone = "it was closed"
        self._child.finish()


class _EveryCall:
    """All calls of a client. A client that is handed out has only those of them that the adapter announced."""

    _session: Session
    _frame: Mapping[str, Json]

    def __init__(self, session: Session, frame: Mapping[str, Json]) -> None:
        self._session = session
        self._frame = frame

    def _do(self, op: str, /, **arguments: Any) -> Any:
        return self._session.perform(op, arguments, self._frame)

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        return cast("PutResult", self._do("put", key=key, value=value, parent=parent, options=options))

    def get(self, key: str) -> bytes | None:
        return cast("bytes | None", self._do("get", key=key))

    def exists(self, key: str) -> bool:
        return cast("bool", self._do("exists", key=key))

    def probe(self, key: str) -> bool:
        return cast("bool", self._do("probe", key=key))

    def match(self, chain: Sequence[str], start: int = 0) -> int:
        # A key that cannot travel was never stored: the match ends before it.
        end = next((index for index, key in enumerate(chain) if not sendable(key)), len(chain))
        return cast("int", self._do("match", chain=list(chain[:end]), start=start))

    def remove(self, key: str, *, force: bool = False) -> RemoveResult:
        return cast("RemoveResult", self._do("remove", key=key, force=force))

    def clear(self, *, force: bool = False) -> Answer:
        return cast("Answer", self._do("clear", force=force))

    def put_begin(self, key: str, size: int, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        return cast("PutResult", self._do("put_begin", key=key, size=size, parent=parent, options=options))

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        return cast("PutResult", self._do("put_commit", key=key, token=token, value=value))

    def put_abort(self, key: str, token: str) -> Answer:
        return cast("Answer", self._do("put_abort", key=key, token=token))

    def put_many(self, items: Sequence[PutItem]) -> list[PutResult]:
        return cast("list[PutResult]", self._do("put_many", items=list(items)))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return cast("list[bytes | None]", self._do("get_many", keys=list(keys)))

    def exists_many(self, keys: Sequence[str]) -> list[bool]:
        return cast("list[bool]", self._do("exists_many", keys=list(keys)))

    def pin(self, key: str) -> PinResult:
        return cast("PinResult", self._do("pin", key=key))

    def unpin(self, token: str) -> Answer:
        return cast("Answer", self._do("unpin", token=token))

    def lease(self, key: str, ttl_ms: int) -> Answer:
        return cast("Answer", self._do("lease", key=key, ttl_ms=ttl_ms))

    def register(self, key: str, parent: Parent) -> Answer:
        return cast("Answer", self._do("register", key=key, parent=parent))

    def events(self, after: int = 0) -> list[Event]:
        return cast("list[Event]", self._do("events", after=after))

    def snapshot(self) -> Snapshot:
        return cast("Snapshot", self._do("snapshot"))

    def stats(self) -> Stats:
        return cast("Stats", self._do("stats"))


class _EveryHook:
    """All hooks, and what every backend has."""

    _session: Session

    def _do(self, op: str, wait_ms: int = 0, /, **arguments: Any) -> Any:
        return self._session.perform(op, arguments, {}, wait_ms)

    def quiesce(self) -> None:
        self._do("quiesce", SLOW_DEADLINE_MS)

    def now(self) -> int:
        return cast("int", self._do("now"))

    def advance(self, ms: int) -> None:
        # On a real clock the adapter really waits.
        self._do("advance", ms, ms=ms)

    def jump_wall_clock(self, ms: int) -> None:
        self._do("jump_wall_clock", ms=ms)

    def resident(self) -> frozenset[str]:
        return cast("frozenset[str]", self._do("resident"))

    def crash(self, part: str) -> None:
        self._do("crash", part=part)

    def restart(self) -> Geometry:
        return cast("Geometry", self._do("restart", START_DEADLINE_MS))

    def fail_next(self, op: str, key: str, kind: str) -> None:
        self._do("fail_next", op=op, key=key, kind=kind)


class _WireBackend:
    """The part of a backend that every adapter offers."""

    def __init__(self, session: Session, capabilities: Capabilities, ops: tuple[str, ...] | None) -> None:
        self._session = session
        self._capabilities = capabilities
        self._ops = ops
        self._client_class: type[_EveryCall] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, capacity: int) -> Geometry:
        reply = self._session.call("start", {"capacity": capacity}, max(self._session.deadline_ms, START_DEADLINE_MS))
        geometry: Geometry = self._session.returned("start", reply, frozenset({"ops"}))
        try:
            ops = ops_of(reply)
        except WireFormatError as problem:
            raise AdapterError("protocol", f"the answer to start: {problem}") from None
        offered = ops if ops is not None else self._ops or ()
        self._client_class = _only(_EveryCall, (*REQUIRED_CALLS, *(op for op in OPTIONAL_CALLS if op in offered)), "WireClient")
        return geometry

    def client(self, index: int = 0, tenant: str = "") -> StoreClient:
        if self._client_class is None:
            raise ConfigurationError("client() was called before start()")
        frame: dict[str, Json] = {}
        if index:
            frame["client"] = index
        if tenant:
            frame["tenant"] = tenant
        return cast("StoreClient", self._client_class(self._session, frame))

    def reset(self) -> None:
        reply = self._session.call("reset", {}, max(self._session.deadline_ms, SLOW_DEADLINE_MS))
        self._session.returned("reset", reply)

    def close(self) -> None:
        self._session.close(max(self._session.deadline_ms, SLOW_DEADLINE_MS))


def _only(every: type[Any], names: Sequence[str], called: str, *bases: type[Any]) -> type[Any]:
    """A class with the named methods of ``every`` and no other public one."""
    parts = {name: vars(every)[name] for name in names}
    private = {name: member for name, member in vars(every).items() if name in ("__init__", "_do")}
    return type(called, bases, {**private, **parts})


def sendable(key: str) -> bool:
    """Whether UTF-8 can carry it: it holds no lone surrogate."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def connect(command: Sequence[str], deadline_ms: int = DEFAULT_DEADLINE_MS) -> Backend:
    """Start the command and say hello. Raises :class:`AdapterError` where it cannot be started or speaks something else."""
    return greet(Session(Child(command), deadline_ms), deadline_ms)


def greet(session: Session, deadline_ms: int) -> Backend:
    """Say hello over a session and make the backend that offers what was announced."""
    request = {"protocol": list(PROTOCOLS), "suite": suite_version()}
    try:
        hello = hello_of(session.call("hello", request, max(deadline_ms, START_DEADLINE_MS)))
    except WireFormatError as problem:
        session.close(deadline_ms)
        raise AdapterError("protocol", f"the answer to hello: {problem}") from None
    except AdapterError:
        session.close(deadline_ms)
        raise
    made = _only(_EveryHook, [hook for hook in HOOKS if hook in hello.hooks], "WireBackend", _WireBackend)
    return cast("Backend", made(session, hello.capabilities, hello.ops))
