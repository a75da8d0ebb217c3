"""The calls of the contract as functions from JSON arguments to JSON answers, every answer checked against the contract's types.

A value is {"fill", "size"}; what comes back is told by whose it is. Tokens are labels, so that a scenario reruns on any backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kvprefix.api import UNKNOWN, Answer, Event, PinResult, PutItem, PutOptions, PutResult, RemoveResult, Snapshot, Stats
from kvprefix_conformance.codec import (
    Json,
    event_to_json,
    options_from_json,
    parent_from_json,
    parent_to_json,
    put_result_to_json,
    record_to_json,
)
from kvprefix_conformance.records import value_of

# --------------------------------------------------------------------------------------------------------------------------------
# Answers outside the contract


class NonsenseError(Exception):
    """The adapter returned something that the contract does not know."""


def expect(value: Any, kind: type | tuple[type, ...], call: str) -> Any:
    """The value, if its type is exactly this; else :class:`NonsenseError`."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        names = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
        raise NonsenseError(f"{call} returned {_short(value)}, which is not {names}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


_PUT = frozenset(
    {
        Answer.STORED, Answer.EXISTS, Answer.DEFERRED, Answer.IN_PROGRESS, Answer.INVALID,
        Answer.TOO_LARGE, Answer.PARENT_MISSING, Answer.NO_SPACE, Answer.UNSUPPORTED,
    }
)  # fmt: skip
#: The answers that the contract knows, by call; any other is nonsense.
ANSWERS: Mapping[str, frozenset[Answer]] = {
    "put": _PUT,
    "put_begin": (_PUT - {Answer.STORED}) | {Answer.OK},
    "put_commit": frozenset(
        {Answer.STORED, Answer.DEFERRED, Answer.INVALID, Answer.PARENT_MISSING, Answer.STALE, Answer.UNSUPPORTED}
    ),
    "put_abort": frozenset({Answer.OK, Answer.STALE, Answer.UNSUPPORTED}),
    "remove": frozenset(
        {Answer.OK, Answer.NOT_FOUND, Answer.PROTECTED, Answer.IN_PROGRESS, Answer.INVALID, Answer.UNSUPPORTED}
    ),
    "clear": frozenset({Answer.OK, Answer.PROTECTED, Answer.UNSUPPORTED}),
    "pin": frozenset({Answer.OK, Answer.NOT_FOUND, Answer.UNSUPPORTED}),
    "unpin": frozenset({Answer.OK, Answer.NOT_FOUND, Answer.UNSUPPORTED}),
    "lease": frozenset({Answer.OK, Answer.NOT_FOUND, Answer.UNSUPPORTED}),
    "register": frozenset({Answer.OK, Answer.INVALID, Answer.UNSUPPORTED}),
}  # fmt: skip


def _answer(value: Any, call: str) -> Answer:
    answer: Answer = expect(value, Answer, call)
    if answer not in ANSWERS[call]:
        raise NonsenseError(f"{call} answered {answer.value}, which is no answer of {call}")
    return answer


def _keys(value: Any, call: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list) or not all(type(key) is str for key in value):
        raise NonsenseError(f"{call} named {_short(value)}, which is not a tuple of keys")
    return tuple(value)


def _put_result(value: Any, call: str) -> Json:
    result: PutResult = expect(value, PutResult, call)
    _answer(result.answer, call)
    if call == "put_begin" and result.answer is Answer.OK and type(result.token) is not str:
        raise NonsenseError(f"put_begin answered OK with token {_short(result.token)}")
    return put_result_to_json(attrs.evolve(result, evicted=_keys(result.evicted, call)))


# --------------------------------------------------------------------------------------------------------------------------------
# Names: what a scenario calls values and tokens


class Names:
    """The values written and the tokens given out so far in one session."""

    def __init__(self, *, parents_by_argument: bool = True) -> None:
        self.parents_by_argument = parents_by_argument
        self._written: dict[bytes, tuple[str, int]] = {}
        self._tokens: dict[str, str] = {}

    def value(self, key: str, value: Mapping[str, int]) -> bytes:
        """The bytes meant by (key, fill, size), noted as written."""
        data = value_of(key, value["fill"], value["size"])
        self._written[data] = (key, value["fill"])
        return data

    def describe(self, data: bytes) -> Json:
        """Bytes that came back, by what is known of them: whose they are, whole or part, or only how they begin."""
        if data in self._written:
            key, fill = self._written[data]
            return {"of": key, "fill": fill, "size": len(data)}
        for whole, (key, fill) in self._written.items():
            if len(data) >= 8 and value_of(key, fill, len(data)) == data:
                return {"of": key, "fill": fill, "size": len(data), "whole": len(whole)}
        return {"size": len(data), "begins": data[:16].hex()}

    def bind(self, label: str, token: str) -> None:
        """From now on the label means this token."""
        self._tokens[label] = token

    def token(self, label: str) -> str:
        """The token behind a label; for a label that never got one, a token that no store gave out."""
        return self._tokens.get(label, f"no-such-token:{label}")


def _described(names: Names, value: Any, call: str) -> Json:
    expect(value, (bytes, type(None)), call)
    return None if value is None else names.describe(value)


# --------------------------------------------------------------------------------------------------------------------------------
# One function per operation: arguments from JSON, the call, its answer to JSON


def _put_args(names: Names, args: Mapping[str, Json]) -> dict[str, Any]:
    """Parent and options of a put. Where lineage is told otherwise (in the key, by register), the argument stays UNKNOWN."""
    told = "parent" in args and names.parents_by_argument
    return {
        "parent": parent_from_json(args["parent"]) if told else UNKNOWN,
        "options": options_from_json(args["options"]) if args.get("options") else PutOptions(),
    }


def _put(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    value = names.value(args["key"], args["value"])
    return _put_result(client.put(args["key"], value, **_put_args(names, args)), "put")


def _put_begin(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    answer = _put_result(client.put_begin(args["key"], args["size"], **_put_args(names, args)), "put_begin")
    if "token" in answer:
        names.bind(args["as"], answer["token"])
    return answer


def _put_commit(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    value = names.value(args["key"], args["value"])
    return _put_result(client.put_commit(args["key"], names.token(args["token"]), value), "put_commit")


def _put_abort(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    return _answer(client.put_abort(args["key"], names.token(args["token"])), "put_abort").value


def _put_many(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    items = [PutItem(i["key"], names.value(i["key"], i["value"]), **_put_args(names, i)) for i in args["items"]]
    return [_put_result(result, "put") for result in expect(client.put_many(items), (list, tuple), "put_many")]


def _get(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    return _described(names, client.get(args["key"]), "get")


def _get_many(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    values = client.get_many(list(args["keys"]))
    return [_described(names, value, "get_many") for value in expect(values, (list, tuple), "get_many")]


def _exists(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    return expect(client.exists(args["key"]), bool, "exists")


def _probe(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    return expect(client.probe(args["key"]), bool, "probe")


def _exists_many(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    hits = client.exists_many(list(args["keys"]))
    return [expect(hit, bool, "exists_many") for hit in expect(hits, (list, tuple), "exists_many")]


def _match(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    start = {"start": args["start"]} if args.get("start") else {}
    return expect(client.match(list(args["chain"]), **start), int, "match")


def _remove(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    force = {"force": True} if args.get("force") else {}
    result: RemoveResult = expect(client.remove(args["key"], **force), RemoveResult, "remove")
    removed = _keys(result.removed, "remove")
    return {"answer": _answer(result.answer, "remove").value, "removed": None if removed is None else list(removed)}


def _clear(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    force = {"force": True} if args.get("force") else {}
    return _answer(client.clear(**force), "clear").value


def _pin(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    result: PinResult = expect(client.pin(args["key"]), PinResult, "pin")
    answer = _answer(result.answer, "pin")
    if answer is not Answer.OK:
        return {"answer": answer.value}
    names.bind(args["as"], expect(result.token, str, "the token of pin"))
    return {"answer": answer.value, "token": result.token}


def _unpin(client: Any, names: Names, args: Mapping[str, Json]) -> Json:
    return _answer(client.unpin(names.token(args["token"])), "unpin").value


def _lease(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    return _answer(client.lease(args["key"], args["ttl_ms"]), "lease").value


def _register(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    parent = parent_from_json(args["parent"])
    return _answer(client.register(args["key"], parent), "register").value


def _events(client: Any, _names: Names, args: Mapping[str, Json]) -> Json:
    events = expect(client.events(args.get("after", 0)), (list, tuple), "events")
    return [event_to_json(expect(event, Event, "events")) for event in events]


def _snapshot(client: Any, _names: Names, _args: Mapping[str, Json]) -> Json:
    snapshot: Snapshot = expect(client.snapshot(), Snapshot, "snapshot")
    objects = {key: parent_to_json(parent) for key, parent in sorted(snapshot.objects.items())}
    return {"sequence": expect(snapshot.sequence, int, "snapshot"), "objects": objects}


def _stats(client: Any, _names: Names, _args: Mapping[str, Json]) -> Json:
    stats: Stats = expect(client.stats(), Stats, "stats")
    expect(stats.used_bytes, int, "stats().used_bytes")
    expect(stats.resident_objects, int, "stats().resident_objects")
    return record_to_json(stats)


def _advance(backend: Any, args: Mapping[str, Json]) -> Json:
    backend.advance(args["ms"])


def _jump_wall_clock(backend: Any, args: Mapping[str, Json]) -> Json:
    backend.jump_wall_clock(args["ms"])


def _quiesce(backend: Any, _args: Mapping[str, Json]) -> Json:
    backend.quiesce()


CALLS: Mapping[str, Callable[[Any, Names, Mapping[str, Json]], Json]] = {
    "put": _put, "put_begin": _put_begin, "put_commit": _put_commit, "put_abort": _put_abort, "put_many": _put_many,
    "get": _get, "get_many": _get_many, "exists": _exists, "probe": _probe, "exists_many": _exists_many, "match": _match,
    "remove": _remove, "clear": _clear, "pin": _pin, "unpin": _unpin, "lease": _lease, "register": _register,
    "events": _events, "snapshot": _snapshot, "stats": _stats,
}  # fmt: skip
HOOK_CALLS: Mapping[str, Callable[[Any, Mapping[str, Json]], Json]] = {
    "advance": _advance, "jump_wall_clock": _jump_wall_clock, "quiesce": _quiesce,
}  # fmt: skip

#: Every operation that a step may name.
OPERATIONS = frozenset(CALLS) | frozenset(HOOK_CALLS)
