"""Serves a Python backend over stdin and stdout: ``python -m kvprefix_conformance.wire.host pkg.mod:factory``.

The suite runs Python adapters this way, so that one that hangs, exits or crashes the interpreter takes only its own process along.
What the adapter prints goes to stderr: stdout carries the protocol and nothing else.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from kvprefix.api import HOOKS, OPTIONAL_CALLS, Backend, Capabilities, StoreClient, offers
from kvprefix.errors import ConfigurationError, KvprefixError, WireFormatError
from kvprefix_conformance.wire.codec import Json, near, shown
from kvprefix_conformance.wire.messages import (
    CALLS,
    PROTOCOLS,
    REQUIRED_CALLS,
    Hello,
    hello_reply,
    line_of,
    message_of,
)

_CLIENT_CALLS = frozenset((*REQUIRED_CALLS, *OPTIONAL_CALLS))


def load_factory(spec: str) -> Callable[[], Backend]:
    """What ``pkg.mod:factory`` names. Raises :class:`ConfigurationError`, or whatever the import of the module raises."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"{spec!r} is not of the form package.module:factory.")
    found: Any = importlib.import_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            raise ConfigurationError(f"{module_name} has no {name!r};", near(part, public))
        found = getattr(found, part)
    if not callable(found):
        raise ConfigurationError(f"{spec} is {shown(found)}, which cannot be called to make a backend.")
    factory: Callable[[], Backend] = found
    return factory


def checked(backend: Any, spec: str) -> Backend:
    """The backend, if it has what every backend has."""
    lacking = [name for name in ("start", "client", "reset", "close") if not offers(backend, name)]
    if lacking:
        raise ConfigurationError(f"{spec} returned {shown(backend)}, which has no {', '.join(lacking)}().")
    if not isinstance(getattr(backend, "capabilities", None), Capabilities):
        raise ConfigurationError(f"{spec} returned {shown(backend)}, whose capabilities are not kvprefix.api.Capabilities.")
    made: Backend = backend
    return made


class Host:
    """One backend behind one pair of pipes."""

    def __init__(self, make: Callable[[], Backend], requests: BinaryIO, replies: BinaryIO) -> None:
        self._make = make
        self._requests = requests
        self._replies = replies
        self._backend: Backend | None = None
        self._clients: dict[tuple[int, str], StoreClient] = {}

    def serve(self) -> None:
        """Answer until the end of input or a request to close; the backend is closed in any case."""
        try:
            while line := self._requests.readline():
                reply, op = self._answer(line)
                try:
                    encoded = line_of(reply)
                except UnicodeEncodeError:
                    encoded = line_of(_failure(reply["id"], "nonsense", f"{op} returned a string that holds a lone surrogate"))
                self._replies.write(encoded)
                self._replies.flush()
                if op == "close":
                    self._backend = None
                    return
        except BrokenPipeError:
            return
        finally:
            if self._backend is not None:
                self._backend.close()

    def _answer(self, line: bytes) -> tuple[dict[str, Json], Json]:
        """The reply to one line, and its op as far as it could be read."""
        number: Json = None
        op: Json = None
        try:
            request = message_of(line)
            number = request.get("id")
            op = request.get("op")
            fields = self._hello(request) if op == "hello" else self._perform(op, request)
        except WireFormatError as problem:
            return _failure(number, "request", str(problem)), op
        except _NonsenseError as problem:
            return _failure(number, "nonsense", str(problem)), op
        except _UnsupportedError as problem:
            return _failure(number, "unsupported", str(problem)), op
        except Exception as problem:
            traceback.print_exc(file=sys.stderr)
            return _failure(number, "raised", _described(problem)), op
        return {"id": number, "ok": True, **fields}, op

    def _hello(self, request: Mapping[str, Json]) -> dict[str, Json]:
        offered = request.get("protocol")
        low, high = PROTOCOLS
        if type(offered) is not list or len(offered) != 2 or not all(type(end) is int for end in offered):
            raise WireFormatError("should be the lowest and the highest version that the suite speaks", ("protocol",))
        if offered[0] > high or offered[1] < low:
            raise WireFormatError(f"this host speaks {low} to {high}, the suite {offered[0]} to {offered[1]}", ("protocol",))
        if self._backend is None:
            self._backend = self._make()
        hooks = tuple(hook for hook in HOOKS if offers(self._backend, hook))
        return hello_reply(Hello(min(high, offered[1]), self._backend.capabilities, hooks))

    def _perform(self, op: Json, request: Mapping[str, Json]) -> dict[str, Json]:
        if type(op) is not str or op not in CALLS:
            raise _UnsupportedError(f"no op {shown(op)}; {near(op, CALLS) if type(op) is str else ''}")
        if self._backend is None:
            raise WireFormatError(f"hello must come before {op}")
        owner: Any = self._client(request) if op in _CLIENT_CALLS else self._backend
        if not offers(owner, op):
            raise _UnsupportedError(f"this backend has no {op}")
        call = CALLS[op]
        result = getattr(owner, op)(**call.arguments(request))
        try:
            fields = call.reply(result)
        except WireFormatError as problem:
            raise _NonsenseError(f"{op} returned {shown(result)}: {problem}") from None
        if op == "start":
            client = self._client(request)
            fields["ops"] = [each for each in OPTIONAL_CALLS if offers(client, each)]
        elif op in ("reset", "restart"):
            # The suite asks for its clients anew, and a backend may have replaced what they spoke to.
            self._clients.clear()
        return fields

    def _client(self, request: Mapping[str, Json]) -> StoreClient:
        """The client that the request names, opened when it is first named."""
        index, tenant = request.get("client", 0), request.get("tenant", "")
        if type(index) is not int or type(tenant) is not str:
            raise WireFormatError('"client" is a number and "tenant" a string')
        if (index, tenant) not in self._clients:
            assert self._backend is not None
            client = self._backend.client(index, tenant) if tenant else self._backend.client(index)
            self._clients[index, tenant] = client
        return self._clients[index, tenant]


class _NonsenseError(Exception):
    """The backend answered with something that the contract does not know."""


class _UnsupportedError(Exception):
    """The backend has no such call."""


def _failure(number: Json, kind: str, detail: str) -> dict[str, Json]:
    # A detail may quote anything: what UTF-8 cannot carry is escaped.
    detail = detail.encode("utf-8", "backslashreplace").decode("utf-8")
    return {"id": number, "ok": False, "error": {"kind": kind, "detail": detail}}


def _described(problem: Exception) -> str:
    if isinstance(problem, KvprefixError):
        return str(problem)
    first = next(iter(str(problem).splitlines()), "")
    return f"{type(problem).__name__}: {first}" if first else type(problem).__name__


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout for the protocol alone: the adapter's own prints, in C as well, go to stderr, and its reads find nothing."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies


def serve(make: Callable[[], Backend]) -> None:
    """Serve the backend that ``make`` makes until the suite closes it. Takes over stdin and stdout for good."""
    requests, replies = _private_pipes()
    Host(make, requests, replies).serve()


def main(arguments: list[str]) -> int:
    """Serve the backend that the only argument names; the exit status."""
    if len(arguments) != 1:
        print("usage: python -m kvprefix_conformance.wire.host package.module:factory", file=sys.stderr)
        return 2
    spec = arguments[0]
    here = str(os.getcwd())  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    serve(lambda: checked(load_factory(spec)(), spec))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
