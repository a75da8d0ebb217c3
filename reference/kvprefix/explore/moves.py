"""What clients may do next within the bounds, and what they remember of it.

Every action that the bounds switch on is tried in every state, the hopeless ones too: a put of a present key with another value, a
commit with a spent token. Carries no requirement of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import ROOT, Answer, Parent, PutResult
from kvprefix.explore.bounds import Block, World
from kvprefix.explore.nodes import Node
from kvprefix.model import actions as a
from kvprefix.model.actions import Action, Outcome
from kvprefix.model.values import State

#: The first value of a block, and another that is offered while the first is there (STO-2).
FIRST, OTHER = b"\x01", b"\x02"


def moves(world: World, node: Node, among: tuple[int, ...] | None = None) -> Iterator[Action]:
    """All actions within the bounds; those about a single block only for the blocks ``among``, if that is given."""
    state, bounds = node.state, world.bounds
    for index in range(len(world.blocks)) if among is None else among:
        block = world.blocks[index]
        yield from _puts(world, node, index, block)
        yield from _calls(world, index, block)
    if bounds.attempts:
        yield from _endings(world, node)
    if bounds.pins:
        yield from _pins(world, state)
    if bounds.clear:
        yield from (a.Clear(force) for force in _forces(world))
    yield from (a.Advance(ms) for ms in bounds.clock)
    if bounds.batches:
        yield from _batches(world, state)
    if bounds.passes:
        yield from (a.EvictionPass(), a.EvictionPass(max(bounds.sizes)))


def _forces(world: World) -> tuple[bool, ...]:
    return (False, True) if world.bounds.force else (False,)


def _calls(world: World, index: int, block: Block) -> Iterator[Action]:
    """What is asked about one block but for its puts."""
    bounds = world.bounds
    if bounds.remove:
        yield from (a.Remove(block.key, force) for force in _forces(world))
    yield from (a.Lease(block.key, ttl) for ttl in bounds.leases)
    if bounds.reads:
        yield from (a.Get(block.key), a.Exists(block.key), a.Probe(block.key), a.Match(world.chain(index)))
    if bounds.register:
        yield a.Register(block.key, block.parent)


def _value(state: State, block: Block) -> bytes:
    return (FIRST if state.find(block.key) is None else OTHER) * block.size


def _put(world: World, state: State, index: int) -> a.Put:
    block = world.blocks[index]
    return a.Put(block.key, _value(state, block), world.told_at_put(block), world.options[index][0])


def _puts(world: World, node: Node, index: int, block: Block) -> Iterator[Action]:
    """The puts of a block: every way while it is absent, one while it is there."""
    state = node.state
    value = _value(state, block)
    options = world.options[index] if value[:1] == FIRST else world.options[index][:1]
    for parent in _parents(world, block):
        for option in options:
            yield a.Put(block.key, value, parent, option)
        if len(node.attempts) < world.bounds.attempts:
            yield from (a.PutBegin(block.key, block.size, parent, option) for option in options)


def _parents(world: World, block: Block) -> tuple[Parent, ...]:
    return (*world.keys, ROOT) if world.bounds.any_parent else (world.told_at_put(block),)


def _endings(world: World, node: Node) -> Iterator[Action]:
    """Commit and abort of each attempt that is remembered, open or stale, and of one that never was."""
    for key, token in dict.fromkeys(node.attempts):
        size = world.blocks[world.keys.index(key)].size
        yield a.PutCommit(key, token, FIRST * size)
        yield a.PutCommit(key, token, FIRST * (size + 1))
        yield a.PutAbort(key, token)
    yield a.PutAbort(world.keys[0], "attempt-0")


def _pins(world: World, state: State) -> Iterator[Action]:
    held = [sorted(o.in_use) for o in (*state.objects, *state.draining) if o.in_use]
    if sum(map(len, held)) < world.bounds.pins:
        yield from (a.PinObject(key) for key in world.keys)
    # Which of several pins of one object is given back makes no difference.
    yield from (a.Unpin(tokens[0]) for tokens in held)
    yield a.Unpin("pin-0")


def _batches(world: World, state: State) -> Iterator[Action]:
    """Puts of all ordered pairs of blocks: a parent before its child, after it, and strangers. Reads of whole chains."""
    puts = [_put(world, state, index) for index in range(len(world.blocks))]
    yield from (a.PutMany((one, other)) for one in puts for other in puts if one is not other)
    for chain in map(world.chain, range(len(world.blocks)) if world.bounds.reads else ()):
        yield from (a.GetMany(chain), a.ExistsMany(chain))


def remembered(node: Node, action: Action, outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """The attempts that clients remember after this: a token is kept until it is used for good, whatever became of it."""
    reply = outcome.answer
    if isinstance(action, a.PutBegin) and isinstance(reply, PutResult) and reply.token is not None:
        return (*node.attempts, (action.key, reply.token))
    if isinstance(action, a.PutCommit | a.PutAbort):
        answer = reply.answer if isinstance(reply, PutResult) else reply
        if answer is not Answer.INVALID:
            return tuple(each for each in node.attempts if each != (action.key, action.token))
    return node.attempts
