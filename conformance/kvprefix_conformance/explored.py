"""Counterexamples of the model checker as scenarios like any other, and as text: numbered steps, and trees.

A pass in the background is no call of a client; its step is the hook ``quiesce``. Tokens are those that the model gave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvprefix.api import Answer, Pin, PinResult, PutOptions, PutResult, RemoveResult
from kvprefix.explore.bounds import World
from kvprefix.explore.moves import FIRST
from kvprefix.explore.walk import Counterexample, Taken
from kvprefix.model import actions as a
from kvprefix.model.values import FOREVER, Object, State, orphans
from kvprefix_conformance.codec import Json, options_to_json, parent_to_json, put_result_to_json, record_to_json
from kvprefix_conformance.narrate import narrate, tree
from kvprefix_conformance.records import ObjectState, Scenario, Step, Violation
from kvprefix_conformance.requirements import catalogue
from kvprefix_conformance.version import suite_version


def scenario_of(found: Counterexample) -> Scenario:
    """The scenario that shows the counterexample; its violation is the first sentence that does not hold at its end."""
    world, first = found.world, found.broken[0]
    last = len(found.path) - 1
    names = ", ".join(f"{each.name!r} ({each.requirement})" for each in found.broken)
    return Scenario(
        steps=tuple(_step(number, taken) for number, taken in enumerate(found.path, start=1)),
        capacity=world.rules.geometry.capacity_bytes,
        seed=0,
        backend=found.design,
        suite_version=suite_version(),
        spec_version=catalogue().spec_version,
        check=f"explore {world.bounds.name}",
        violation=Violation(
            requirement=first.requirement,
            kind=first.name.replace(" ", "-"),
            because=f"after step {last + 1} this does not hold: {names}",
            step=last,
            evidence="the model",
        ),
        lineage={block.key: parent_to_json(block.parent) for block in world.blocks},
        capabilities=record_to_json(world.rules.caps),
        geometry=record_to_json(world.rules.geometry),
        state=drawn(world, found.before),
        spec="reference",
    )


def told(found: Counterexample, *, unicode: bool = True) -> str:
    """The counterexample as text: numbered steps, what is broken, and the trees before and after the last step."""
    story = narrate(scenario_of(found), unicode=unicode)
    after = tree(drawn(found.world, found.path[-1].outcome.state), unicode=unicode)
    head, _, tail = story.rpartition("\n\n")
    return "\n".join([head, f"after step {len(found.path)}:", *after, "", tail])


# --------------------------------------------------------------------------------------------------------------------------------
# Steps


def _value(value: bytes) -> Json:
    return {"fill": 1 if value[:1] == FIRST else 2, "size": len(value)}


def _options(options: PutOptions) -> dict[str, Json]:
    return {"options": changed} if (changed := options_to_json(options)) else {}


def _put(action: a.Put) -> dict[str, Json]:
    value = {"value": _value(action.value)}
    return {"key": action.key, **value, "parent": parent_to_json(action.parent), **_options(action.options)}


def _put_begin(action: a.PutBegin) -> dict[str, Json]:
    return {"key": action.key, "size": action.size, "parent": parent_to_json(action.parent), **_options(action.options)}


def _forced(force: bool) -> dict[str, Json]:
    return {"force": True} if force else {}


#: Of each action: the operation of a scenario, and its arguments.
_OPS: Mapping[type, tuple[str, Callable[[Any], dict[str, Json]]]] = {
    a.Put: ("put", _put),
    a.PutBegin: ("put_begin", _put_begin),
    a.PutCommit: ("put_commit", lambda x: {"key": x.key, "token": x.token, "value": _value(x.value)}),
    a.PutAbort: ("put_abort", lambda x: {"key": x.key, "token": x.token}),
    a.PutMany: ("put_many", lambda x: {"items": [_put(item) for item in x.items]}),
    a.Get: ("get", lambda x: {"key": x.key}),
    a.GetMany: ("get_many", lambda x: {"keys": list(x.keys)}),
    a.Exists: ("exists", lambda x: {"key": x.key}),
    a.ExistsMany: ("exists_many", lambda x: {"keys": list(x.keys)}),
    a.Probe: ("probe", lambda x: {"key": x.key}),
    a.Match: ("match", lambda x: {"chain": list(x.chain), **({"start": x.start} if x.start else {})}),
    a.Remove: ("remove", lambda x: {"key": x.key, **_forced(x.force)}),
    a.Clear: ("clear", lambda x: _forced(x.force)),
    a.PinObject: ("pin", lambda x: {"key": x.key}),
    a.Unpin: ("unpin", lambda x: {"token": x.token}),
    a.Lease: ("lease", lambda x: {"key": x.key, "ttl_ms": x.ttl_ms}),
    a.Register: ("register", lambda x: {"key": x.key, "parent": parent_to_json(x.parent)}),
    a.Advance: ("advance", lambda x: {"ms": x.ms}),
    a.EvictionPass: ("quiesce", lambda _: {}),
}


def _step(number: int, taken: Taken) -> Step:
    action, reply = taken.action, taken.outcome.answer
    op, arguments = _OPS[type(action)]
    args = arguments(action)
    if op in ("put_begin", "pin"):
        token = reply.token if isinstance(reply, PutResult | PinResult) else None
        args["as"] = token or f"none-{number}"
    if op in ("advance", "quiesce"):
        return Step(op, args)
    return Step(op, args, _answer(getattr(action, "key", ""), reply))


def _answer(key: str, reply: Any) -> Json:
    if isinstance(reply, PutResult):
        return put_result_to_json(reply)
    if isinstance(reply, RemoveResult):
        return {"answer": reply.answer.value, "removed": list(reply.removed or ())}
    if isinstance(reply, PinResult):
        return {"answer": reply.answer.value, **({"token": reply.token} if reply.token else {})}
    if isinstance(reply, Answer):
        return reply.value
    if isinstance(reply, bytes):
        return {"of": key, **_value(reply)}
    return [_answer(key, each) for each in reply] if isinstance(reply, tuple) else reply


# --------------------------------------------------------------------------------------------------------------------------------
# Trees


def drawn(world: World, state: State) -> tuple[ObjectState, ...]:
    """The blocks of the world as they stand in this state; those that are absent too, where something present hangs below them."""
    present = {o.key: o for o in state.objects}
    needed = set(present)
    for index, key in enumerate(world.keys):
        if key in present:
            needed.update(world.chain(index))
    lone = orphans(state)
    return tuple(
        ObjectState(
            block.key,
            parent_to_json(present[block.key].parent if block.key in present else block.parent),
            present[block.key].status.value if block.key in present else "absent",
            _marks(state, present[block.key], lone) if block.key in present else (),
        )
        for block in world.blocks
        if block.key in needed
    )


def _marks(state: State, obj: Object, lone: frozenset[str]) -> tuple[str, ...]:
    soft = "soft-pinned" if obj.soft_until >= FOREVER else f"soft-pinned until {obj.soft_until} ms"
    marks = {
        f"{obj.size} bytes": True,
        f"leased until {obj.lease_until} ms": state.now < obj.lease_until,
        soft: state.now < obj.soft_until,
        "hard-pinned": obj.options.pin is Pin.HARD,
        "in use": bool(obj.in_use),
        f"family {obj.options.family}": bool(obj.options.family),
        f"object group {obj.options.object_group}": bool(obj.options.object_group),
        f"namespace {obj.options.namespace}": bool(obj.options.namespace),
        obj.token: bool(obj.token),
        "orphan": obj.key in lone,
    }
    return tuple(mark for mark, holds in marks.items() if holds)
