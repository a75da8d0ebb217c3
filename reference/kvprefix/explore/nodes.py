"""A node of the walk: a state of the model, with what clients remember; and when two nodes are one.

Nodes that differ only by a renaming of blocks that keeps forest, sizes and labels, by the time on the clock, or by the numbers of
tokens and events have the same future but for those names, so one of them is walked. Carries no requirement of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import permutations
from typing import Any, Final, TypeAlias

import attrs

from kvprefix.api import ROOT
from kvprefix.explore.bounds import World
from kvprefix.model.values import DEFERRED, FOREVER, PENDING, RESIDENT, Object, State

#: What a design keeps beside the state, per key: stamps of recency, say. The model keeps nothing.
Memory: TypeAlias = tuple[tuple[str, int], ...]


@attrs.frozen
class Node:
    """Where a walk stands."""

    state: State
    #: (key, token) of the two-phase writes that clients have not ended yet; a token may be stale by now.
    attempts: tuple[tuple[str, str], ...] = ()
    memory: Memory = ()


_STATUS: Final = {RESIDENT: 0, PENDING: 1, DEFERRED: 2}


def left(deadline: int, now: int) -> int:
    """Time until a deadline; 0 for one that has passed, and FOREVER for one that never comes."""
    return FOREVER if deadline >= FOREVER else max(0, deadline - now)


def _parent_index(world: World, obj: Object) -> int:
    if isinstance(obj.parent, str):
        return world.keys.index(obj.parent)
    return -1 if obj.parent is ROOT else -2


def _records(world: World, node: Node) -> list[tuple[Any, ...]]:
    """What is to be said of each block, without names. The parent stands first, as an index."""
    state, now = node.state, node.state.now
    objects = {obj.key: obj for obj in state.objects}
    memory, registered = dict(node.memory), dict(state.registered)
    records: list[tuple[Any, ...]] = []
    for key in world.keys:
        obj = objects.get(key)
        beside: tuple[Any, ...] = (
            key in registered,
            tuple(sorted(len(each.in_use) for each in state.draining if each.key == key)),
            tuple(sorted(obj is not None and obj.token == token for held, token in node.attempts if held == key)),
            memory.get(key, -1),
        )
        if obj is None:
            records.append((-3, -1, beside))
            continue
        records.append(
            (
                _parent_index(world, obj),
                _STATUS[obj.status],
                beside,
                left(obj.lease_until, now),
                left(obj.soft_until, now),
                left(obj.deadline, now) if obj.deadline else 0,
                len(obj.in_use),
                world.options_index(obj.options),
                obj.value,
            )
        )
    return records


def identity(world: World, node: Node, *, symmetry: bool = True) -> Hashable:
    """What two nodes have in common exactly when they are one. Without symmetry keys keep their names."""
    records = _records(world, node)
    if not symmetry:
        return tuple(records)
    if world.bounds.any_parent:
        return min(_renamed(records, order) for order in permutations(range(len(records))) if _keeps_kinds(world, order))
    built = _branches(world, records)
    return tuple(sorted(built[i] for i in world.roots))


def _branches(world: World, records: list[tuple[Any, ...]]) -> list[Any]:
    """Of each block what is to be said of it and all below it, whatever the order of its children.

    Places are fixed here, so that of the parent it only matters whether the store was told it.
    """
    built: list[Any] = [None] * len(records)
    for i in reversed(range(len(records))):
        below = world.below[i]
        under = tuple(sorted(built[child] for child in below)) if len(below) > 1 else tuple(built[child] for child in below)
        built[i] = (world.kinds[i], (records[i][0] > -2, *records[i][1:]), under)
    return built


def unlike(world: World, node: Node) -> tuple[int, ...]:
    """The blocks to move with: of sibling branches that look the same only the first, for a renaming swaps them."""
    everything = tuple(range(len(world.blocks)))
    if world.bounds.any_parent:
        return everything
    built = _branches(world, _records(world, node))
    kept: set[int] = set()
    open_ = [world.roots]
    while open_:
        siblings = open_.pop()
        first = {built[i]: i for i in reversed(siblings)}
        kept.update(first.values())
        open_ += [world.below[i] for i in first.values()]
    return tuple(i for i in everything if i in kept)


def _keeps_kinds(world: World, order: tuple[int, ...]) -> bool:
    return all(world.kinds[i] == world.kinds[j] for i, j in enumerate(order))


def _renamed(records: list[tuple[Any, ...]], order: tuple[int, ...]) -> tuple[Any, ...]:
    place = {old: new for new, old in enumerate(order)}
    return tuple((place.get(records[old][0], records[old][0]), *records[old][1:]) for old in order)
