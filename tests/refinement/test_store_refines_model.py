"""Refinement: every answer and every eviction of the reference store is one that the abstract model allows, on random histories.

The store runs first. Its victims and its refusal become the model's choice; the model must allow them and then agree on the answer,
the events, and everything there is to know about the state. The store cannot call the model, so the test can fail: the second half
breaks the store on purpose, one line at a time, and sees that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Admission,
    Answer,
    Batch,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EmptyValue,
    Event,
    EventKind,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    Progress,
    PutItem,
    PutOptions,
    PutResult,
    Removal,
    Transport,
)
from kvprefix.errors import NotAllowed
from kvprefix.keys import BlockKey, KeySpace, Span, format_lineage, lineage_of
from kvprefix.keys.fingerprint import FINGERPRINT_DIGITS
from kvprefix.model import actions as a
from kvprefix.model.actions import NO_CHOICE, Action, Choice
from kvprefix.model.step import step
from kvprefix.model.values import Rules, State, ancestors, protected, used
from kvprefix.store import ReferenceStore, presets
from kvprefix.store.admission import Gate
from kvprefix.store.batches import Stage
from kvprefix.store.core import Core
from kvprefix.store.events import EventLog
from kvprefix.store.eviction import Victims
from kvprefix.store.families import Families, Family, unit_of
from kvprefix.store.lineage import Forest
from kvprefix.store.node import Node
from kvprefix.store.offered import check_offered
from kvprefix.store.protection import Protection
from kvprefix.store.room import ExactRoom

#: Labels of blocks; what their keys are depends on the transport.
BLOCKS = "abcdef"

# --------------------------------------------------------------------------------------------------------------------------------
# One history, replayed


class Names:
    """How blocks are called: by themselves, or (transport ``key``) by keys that carry their parent's hash."""

    def __init__(self, caps: Capabilities, tree: Mapping[str, Parent]) -> None:
        self.in_keys = Transport.KEY in caps.lineage
        self._space = KeySpace(model="m", fingerprint="0" * FINGERPRINT_DIGITS)
        self._tree = tree

    def identity(self, block: str) -> str:
        """The key by which the model knows it."""
        return lineage_of(self.key(block)).identity if self.in_keys else block  # type: ignore[union-attr]

    def key(self, block: str) -> str:
        """The key that is given to the store."""
        if not self.in_keys:
            return block
        parent = self._tree[block]
        above = parent.encode() if isinstance(parent, str) else ROOT
        return format_lineage(BlockKey(self._space, Span.of(16, 16), block.encode()), above)

    def back(self, key: str) -> str:
        """From the store's key to the model's."""
        carried = lineage_of(key) if self.in_keys else None
        return key if carried is None else carried.identity


@attrs.define
class Twins:
    """The store and the model, side by side."""

    rules: Rules
    names: Names
    store: ReferenceStore
    state: State = State.initial()
    tokens: list[tuple[str, str]] = attrs.field(factory=list)
    seen: int = 0

    def take(self, action: Action) -> None:
        """Let the store act, and hold it to the model."""
        answer, choice = self._store_answers(action)
        before = self.state
        outcome = step(self.rules, before, action, choice)
        self.state = outcome.state
        assert _plain(before, answer) == _plain(before, outcome.answer), action
        happened = [attrs.evolve(e, key=self.names.back(e.key)) for e in self.store.events(self.seen)]
        assert [e.sequence for e in happened] == list(range(self.seen + 1, self.seen + 1 + len(happened)))
        self.seen += len(happened)
        happened, passed_by = happened[: len(outcome.events)], happened[len(outcome.events) :]
        assert _without_ties(self.rules, before, action, happened) == _without_ties(self.rules, before, action, outcome.events), (
            action
        )
        self._evicted_between_calls(passed_by)
        self._same_state()

    def _evicted_between_calls(self, events: Sequence[Event]) -> None:
        """How much a pass takes is counted in objects where Mooncake does it, and not the model's; but nothing protected goes."""
        if self.rules.caps.progress is not Progress.EVENTUAL:
            assert not events, "the store did more than the model"
        gone = {event.key for event in events if event.kind is EventKind.REMOVED and self.state.resident(event.key)}
        assert len(gone) == len(events)
        assert not gone & protected(self.rules, self.state)
        self.state = attrs.evolve(self.state.without(gone), next_event=self.state.next_event + len(events))

    # ---- the store's side

    def _store_answers(self, action: Action) -> tuple[Any, Choice]:
        store = self.store
        match action:
            case a.Put() | a.PutBegin():
                result = self._put(action)
                return result, _choice(result)
            case a.PutMany(items):
                results = [self._back(r) for r in store.put_many([PutItem(k, v, p, o) for k, v, p, o in map(self._said, items)])]
                if self.rules.caps.batch is Batch.SINGLES:
                    return tuple(results), Choice(members=tuple(map(_choice, results)))
                return tuple(results), _choice(results[0]) if results else NO_CHOICE
            case a.PutCommit(key, token, value):
                return self._back(store.put_commit(self._key(key), token, value)), NO_CHOICE
            case a.PutAbort(key, token):
                return store.put_abort(self._key(key), token), NO_CHOICE
            case a.Remove(key, force):
                gone = store.remove(self._key(key), force=force)
                assert gone.removed is not None
                return attrs.evolve(gone, removed=tuple(map(self.names.back, gone.removed))), NO_CHOICE
            case a.PinObject(key):
                held = store.pin(self._key(key))
                if held.token is not None:
                    self.tokens.append((key, held.token))
                return held, NO_CHOICE
            case a.Advance(ms):
                store.advance(ms)
                return Answer.OK, NO_CHOICE
        return self._simple(action), NO_CHOICE

    def _simple(self, action: Action) -> Any:
        store = self.store
        match action:
            case a.Get(key):
                return store.get(self._key(key))
            case a.GetMany(keys):
                return tuple(store.get_many([self._key(key) for key in keys]))
            case a.Exists(key):
                return store.exists(self._key(key))
            case a.ExistsMany(keys):
                return tuple(store.exists_many([self._key(key) for key in keys]))
            case a.Probe(key):
                return store.probe(self._key(key))
            case a.Match(chain, start):
                return store.match([self._key(key) for key in chain], start)
            case a.Clear(force):
                return store.clear(force=force)
            case a.Unpin(token):
                return store.unpin(token)
            case a.Lease(key, ttl_ms):
                return store.lease(self._key(key), ttl_ms)
            case a.Register(key, parent):
                return store.register(key, parent)
        raise AssertionError(f"no such action: {action}")

    def _key(self, key: str) -> str:
        """The store's key for the model's."""
        if not self.names.in_keys:
            return key
        return next((self.names.key(block) for block in BLOCKS if self.names.identity(block) == key), key)

    def _said(self, put: a.Put | a.PutBegin) -> tuple[str, bytes, Parent, PutOptions]:
        """What the client says to the store: the parent only where lineage is an argument."""
        parent = put.parent if Transport.ARGUMENT in self.rules.caps.lineage or not self.rules.caps.lineage else UNKNOWN
        return self._key(put.key), getattr(put, "value", b""), parent, put.options

    def _put(self, put: a.Put | a.PutBegin) -> PutResult:
        key, value, parent, options = self._said(put)
        if isinstance(put, a.Put):
            return self._back(self.store.put(key, value, parent=parent, options=options))
        result = self._back(self.store.put_begin(key, put.size, parent=parent, options=options))
        if result.token is not None:
            self.tokens.append((put.key, result.token))
        return result

    def _back(self, result: PutResult) -> PutResult:
        assert result.evicted is not None, "these stores report their evictions"
        return attrs.evolve(result, evicted=tuple(map(self.names.back, result.evicted)))

    # ---- what must be equal after each action

    def _same_state(self) -> None:
        core, rules, state = self.store._core, self.rules, self.state
        back = self.names.back
        ours = {back(n.key): (n.state.value, n.value, n.parent, n.charge) for n in core.objects.values()}
        assert ours == {o.key: (o.status.value, o.value, o.parent, o.charge) for o in state.objects}
        held = protected(rules, state)
        assert {back(n.key) for n in core.objects.values() if unit_of(n).guards} == held
        assert self.store.stats().used_bytes == used(state) <= rules.geometry.capacity_bytes
        kept_bytes = sum(o.charge for o in state.objects if o.key in held) + sum(o.charge for o in state.draining)
        assert core.protection.bytes == kept_bytes
        assert core.forest.registered == dict(state.registered)
        assert self.store.stats().resident_objects == len(self.store.snapshot().objects)
        assert self.store.snapshot().sequence == state.next_event - 1


def _choice(result: PutResult) -> Choice:
    return Choice(result.evicted or (), refuse=result.answer is Answer.NO_SPACE)


def _depths(state: State) -> dict[str, int]:
    return {obj.key: len(ancestors(state, obj)) for obj in state.objects}


def _plain(before: State, answer: Any) -> Any:
    """Keys that a cascade took are told deepest first; the order among equally deep ones is free."""
    if getattr(answer, "removed", None):
        depths = _depths(before)
        assert list(answer.removed) == sorted(answer.removed, key=lambda key: -depths[key])
        return attrs.evolve(answer, removed=tuple(sorted(answer.removed)))
    return answer


def _without_ties(rules: Rules, before: State, action: Action, events: Sequence[Event]) -> list[tuple[str, str, str]]:
    """The events with ties sorted: what a cascade takes at one depth, and deferred siblings that one parent releases."""
    told = [(e.kind.value, e.key, str(e.parent)) for e in events]
    if isinstance(action, a.Remove):
        depths = _depths(before)
        assert [depths[e.key] for e in events] == sorted((depths[e.key] for e in events), reverse=True), "deepest first"
        told.sort()
    if rules.defers and (rules.caps.event_parents is False or _parents_first(events)):
        told.sort(key=lambda e: e if e[0] == "stored" else ("removed",))
    return told


def _parents_first(events: Sequence[Event]) -> bool:
    """No stored event comes before that of its parent."""
    order = {e.key: i for i, e in enumerate(events) if e.kind is EventKind.STORED}
    return all(order.get(e.parent, -1) < order[e.key] for e in events if e.kind is EventKind.STORED and isinstance(e.parent, str))


# --------------------------------------------------------------------------------------------------------------------------------
# Random stores


def _evolved(**changes: Any) -> Capabilities:
    return attrs.evolve(presets.PREFIX_AWARE, **changes)


#: Every preset, and then some. One that reports no evictions in its answers does here.
STORES: dict[str, Capabilities] = {name: attrs.evolve(caps, reports_evictions=True) for name, caps in presets.PRESETS.items()} | {
    "atomic": _evolved(batch=Batch.ATOMIC),
    "atomic defer": _evolved(batch=Batch.ATOMIC, admission=Admission.DEFER),
    "best-effort families": _evolved(families=FamilyMode.BEST_EFFORT, evict_unit=EvictUnit.FAMILY),
    "families, deferred": _evolved(families=FamilyMode.ALL_OR_NONE, evict_unit=EvictUnit.FAMILY, admission=Admission.DEFER),
    "families, placeholders": _evolved(
        families=FamilyMode.ALL_OR_NONE, evict_unit=EvictUnit.FAMILY, admission=Admission.PLACEHOLDER
    ),
    "flat families": attrs.evolve(presets.FLAT_LRU, families=FamilyMode.ALL_OR_NONE, evict_unit=EvictUnit.FAMILY),
    "object groups": _evolved(object_groups=True),
    "cache groups": _evolved(cache_groups=frozenset(CacheGroup), namespaces=True, admission=Admission.PLACEHOLDER),
    "holes by removal": _evolved(removal=Removal.ANY, admission=Admission.DEFER),
}


def any_store(rng: Random) -> Capabilities:
    """A store that declares anything that the reference can keep."""
    lineage = rng.choice(
        [{Transport.ARGUMENT}, {Transport.ARGUMENT}, {Transport.EVENT}, {Transport.ARGUMENT, Transport.EVENT}, set()]
    )
    families = rng.choice([FamilyMode.NONE, *FamilyMode])
    evicts = rng.random() < 0.9
    return Capabilities(
        lineage=frozenset(lineage),
        eviction_order=rng.choice([EvictionOrder.DESCENDANTS_FIRST, *EvictionOrder]) if lineage else EvictionOrder.ANY,
        admission=rng.choice([*Admission]) if Transport.ARGUMENT in lineage else Admission.ANY,
        removal=rng.choice([*Removal]),
        families=families,
        evict_unit=EvictUnit.OBJECT if families is FamilyMode.NONE else EvictUnit.FAMILY,
        batch=Batch.SINGLES if families is FamilyMode.ALL_OR_NONE else rng.choice([*Batch]),
        evicts=evicts,
        progress=Progress.EXACT if evicts else Progress.REJECT,
        cache_groups=rng.choice([frozenset(CacheGroup), frozenset({CacheGroup.FULL})]),
        namespaces=rng.random() < 0.5,
        object_groups=rng.random() < 0.5,
        pins=frozenset({Pin.SOFT, Pin.HARD}),
        lease_ttl_ms=3,
        lease_calls=rng.choice([frozenset({"get", "get_many", "exists", "exists_many", "match"}), frozenset()]),
        exists_leases=rng.choice([*ExistsLeases]),
        reads_extend_soft_pin=rng.random() < 0.5,
        duplicate_put=rng.choice([*DuplicatePut]),
        empty_value=rng.choice([*EmptyValue]),
        lineage_recency=rng.random() < 0.5,
        values=rng.random() < 0.9,
        event_parents=rng.random() < 0.5,
        removed_event=rng.choice(["last-copy", "last-copy", "none"]),
        family_size=True,
    )


def short_lived(caps: Capabilities) -> Capabilities:
    """The same with deadlines that a short history reaches."""
    return attrs.evolve(
        caps,
        pending_timeout_ms=5,
        defer_deadline_ms=4,
        lease_ttl_ms=3 if caps.lease_calls else 0,
        walk=frozenset({"root", "resume"}),
    )


# --------------------------------------------------------------------------------------------------------------------------------
# Random histories


@attrs.frozen
class World:
    """What stays the same during a history."""

    #: A forest over the blocks: each hangs under an earlier one, or is a root.
    tree: Mapping[str, Parent]
    #: Each block is in the family of its depth, as the shards of one logical block would be.
    tidy: bool

    def chain(self, block: str) -> tuple[str, ...]:
        """From the root to the block."""
        parent = self.tree[block]
        return (*self.chain(parent), block) if isinstance(parent, str) else (block,)


def any_world(rng: Random) -> World:
    """A forest of chains with branches, or two chains as the shards of one."""
    if rng.random() < 0.3:
        return World({"a": ROOT, "b": ROOT, "c": "a", "d": "b", "e": "c", "f": "d"}, tidy=True)
    tree = {block: rng.choice([*BLOCKS[max(0, i - 3) : i], ROOT]) if i else ROOT for i, block in enumerate(BLOCKS)}
    return World(tree, tidy=rng.random() < 0.7)


def any_geometry(rng: Random) -> Geometry:
    """Room for a few objects."""
    return Geometry(rng.randint(4, 9), overhead_bytes=rng.choice([0, 0, 1]), quantum_bytes=rng.choice([1, 1, 2]))


def any_options(rng: Random, caps: Capabilities, family: str) -> PutOptions:
    """Now and then something beside the plain put."""
    families = caps.families is not FamilyMode.NONE
    if rng.random() < 0.4 and not families:
        return PutOptions()
    rarely = rng.randrange(24)
    pin = rng.choice([Pin.NONE] * 7 + [Pin.SOFT, Pin.SOFT, Pin.HARD])
    return PutOptions(
        cache_group=rng.choice(sorted(caps.cache_groups, key=str)) if rarely < 3 else CacheGroup.FULL,
        family=family if families else "" if rarely != 2 else "x",
        object_group=rng.choice(["", "g", "h"]) if caps.object_groups or rarely == 3 else "",
        namespace="n" if rarely == 4 or (caps.namespaces and rarely < 3) else "",
        pin=pin,
        soft_pin_ms=rng.choice([None, 0, 2, 6]) if pin is Pin.SOFT else 1 if rarely == 6 else None,
        lease_ms=rng.choice([0, 0, 0, 2]) if rarely != 7 else -1,
    )


@attrs.frozen
class Plan:
    """One step of a history, before keys and tokens are known."""

    op: str
    block: str
    #: Aim at what there is: a put stores the next block of the chain, other calls take a present block.
    aimed: bool = False
    size: int = 1
    #: A parent that is not the block's own.
    parent: Parent | None = None
    options: PutOptions = PutOptions()
    blocks: tuple[str, ...] = ()
    force: bool = False
    ms: int = 0
    #: Which of the tokens given out so far.
    token: int = 0
    more: tuple[Plan, ...] = ()


#: What is done how often.
_OPS = {
    "put": 30, "put_begin": 5, "put_commit": 6, "put_abort": 2, "put_many": 4, "remove": 5, "clear": 0.5, "advance": 7,
    "get": 2, "get_many": 2, "exists": 2, "exists_many": 2, "probe": 1, "match": 4, "pin": 3, "unpin": 6, "lease": 2, "register": 4,
}  # fmt: skip


def any_plan(rng: Random, caps: Capabilities, world: World, member: bool = False) -> Plan:
    """One step."""
    op = "member" if member else rng.choices([*_OPS], [*_OPS.values()])[0]
    block = rng.choice(BLOCKS)
    strange = Transport.KEY not in caps.lineage and rng.random() < 0.1
    family = str(len(world.chain(block)))
    if not world.tidy:
        family = rng.choice([family, family, "", "x"])
    return Plan(
        op,
        block,
        aimed=rng.random() < 0.7 and op != "member",
        size=rng.choice([1] * 6 + [2, 2, 3, 0, 9]),
        parent=rng.choice([ROOT, UNKNOWN, *BLOCKS]) if strange else None,
        options=any_options(rng, caps, family) if op in ("put", "put_begin", "member") else PutOptions(),
        blocks=tuple(rng.choices(BLOCKS, k=rng.randrange(5))) if op in ("get_many", "exists_many", "match") else (),
        force=rng.random() < 0.35,
        ms=rng.randrange(5),
        token=rng.randrange(6),
        more=tuple(any_plan(rng, caps, world, member=True) for _ in range(rng.randrange(5))) if op == "put_many" else (),
    )


def aimed(plan: Plan, twins: Twins, world: World) -> Plan:
    """The step with the block that it aims at, and the family that this block is in."""
    present = {block for block in BLOCKS if twins.state.find(twins.names.identity(block))}
    if plan.op in ("put", "put_begin"):
        block = next((each for each in world.chain(plan.block) if each not in present), plan.block)
    else:
        block = next((each for each in BLOCKS[BLOCKS.index(plan.block) :] + BLOCKS if each in present), plan.block)
    options = plan.options
    if options.family.isdigit():
        options = attrs.evolve(options, family=str(len(world.chain(block))))
    return attrs.evolve(plan, block=block, options=options, aimed=False)


def action_of(plan: Plan, twins: Twins, world: World) -> Action:
    """The step, with the keys and tokens of this run."""
    if plan.aimed:
        plan = aimed(plan, twins, world)
    name = twins.names.identity
    key = name(plan.block)
    told = world.tree[plan.block] if plan.parent is None else plan.parent
    parent = name(told) if isinstance(told, str) else told
    if Transport.ARGUMENT not in twins.rules.caps.lineage and Transport.KEY not in twins.rules.caps.lineage:
        in_put: Parent = UNKNOWN
    else:
        in_put = parent if plan.options.cache_group is CacheGroup.FULL or plan.parent is not None else UNKNOWN
    value = (plan.block.encode() * 9)[: plan.size]
    token_key, token = twins.tokens[plan.token % len(twins.tokens)] if twins.tokens else (key, "attempt-0")
    attempt = next((o for o in twins.state.objects if o.token == token), None)
    blocks = tuple(map(name, plan.blocks))
    made: dict[str, Callable[[], Action]] = {
        "put": lambda: a.Put(key, value, in_put, plan.options),
        "member": lambda: a.Put(key, value, in_put, plan.options),
        "put_begin": lambda: a.PutBegin(key, plan.size, in_put, plan.options),
        "put_commit": lambda: a.PutCommit(token_key, token, b"v" * (attempt.size if attempt and plan.ms else plan.size)),
        "put_abort": lambda: a.PutAbort(token_key if plan.ms else key, token),
        "put_many": lambda: a.PutMany(tuple(action_of(each, twins, world) for each in plan.more)),  # type: ignore[misc]
        "get": lambda: a.Get(key),
        "get_many": lambda: a.GetMany(blocks),
        "exists": lambda: a.Exists(key),
        "exists_many": lambda: a.ExistsMany(blocks),
        "probe": lambda: a.Probe(key),
        "match": lambda: a.Match(blocks or tuple(map(name, world.chain(plan.block))), plan.token % 3 if plan.force else 0),
        "remove": lambda: a.Remove(key, plan.force),
        "clear": lambda: a.Clear(plan.force),
        "pin": lambda: a.PinObject(key),
        "unpin": lambda: a.Unpin(token),
        "lease": lambda: a.Lease(key, plan.ms),
        "register": lambda: a.Register(key, parent),
        "advance": lambda: a.Advance(plan.ms),
    }
    return made[plan.op]()


def contradicts_a_present_key(twins: Twins, action: Action) -> bool:
    """A second put of a present key that names another parent or family for it, where that matters to the model only.

    STO-2 answers EXISTS whatever is given, and so does the store. The model looks first whether the family could be there, and in
    an atomic batch it spares the ancestors of the parent that was named now.
    """
    caps = twins.rules.caps
    puts = action.items if isinstance(action, a.PutMany) else (action,) if isinstance(action, a.Put | a.PutBegin) else ()
    if caps.families is FamilyMode.NONE and (caps.batch is Batch.SINGLES or not isinstance(action, a.PutMany)):
        return False
    fields = ("family", "namespace", "cache_group")
    known: dict[str, tuple[Parent, PutOptions]] = {o.key: (o.parent, o.options) for o in twins.state.objects}
    for put in puts:
        parent, options = known.setdefault(put.key, (put.parent, put.options))
        if parent != put.parent or any(getattr(options, f) != getattr(put.options, f) for f in fields):
            return True
    return False


def replay(caps: Capabilities, geometry: Geometry, world: World, history: Sequence[Plan]) -> None:
    """One history through both."""
    caps = short_lived(caps)
    twins = Twins(Rules(caps, geometry), Names(caps, world.tree), ReferenceStore(caps, geometry))
    for plan in history:
        if plan.op == "register" and Transport.EVENT not in caps.lineage and Transport.KEY in caps.lineage:
            continue
        action = action_of(plan, twins, world)
        if not contradicts_a_present_key(twins, action):
            twins.take(action)


def run(rng: Random, caps: Capabilities, steps: int = 60) -> None:
    """A random history; where it fails, the shortest one that still does, found by leaving out steps."""
    geometry, world = any_geometry(rng), any_world(rng)
    history = [any_plan(rng, caps, world) for _ in range(steps)]
    if _failure(caps, geometry, world, history) is None:
        return
    for i in reversed(range(len(history))):
        shorter = history[:i] + history[i + 1 :]
        if _failure(caps, geometry, world, shorter) is not None:
            history = shorter
    note(f"{caps}\n{geometry}\n{world}\n" + "\n".join(map(str, history)))
    replay(caps, geometry, world, history)


def _failure(caps: Capabilities, geometry: Geometry, world: World, history: Sequence[Plan]) -> Exception | None:
    try:
        replay(caps, geometry, world, history)
    except (AssertionError, NotAllowed, LookupError, AttributeError) as failure:
        return failure
    return None


#: Hypothesis draws the seed only; ``run`` does its own shrinking.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.parametrize("name", STORES)
@settings(max_examples=30, deadline=None, phases=PHASES)
@given(seed=st.integers(0, 2**32))
def test_store_refines_model(name: str, seed: int) -> None:
    run(Random(seed), STORES[name])


@settings(max_examples=300, deadline=None, phases=PHASES)
@given(seed=st.integers(0, 2**32))
def test_store_of_any_declaration_refines_model(seed: int) -> None:
    rng = Random(seed)
    caps = any_store(rng)
    check_offered(caps)
    run(rng, caps)


# --------------------------------------------------------------------------------------------------------------------------------
# The test can fail: one line broken at a time


def _take_the_parent(take: Any, victims: Victims) -> Any:
    unit = take(victims)
    return unit.up if isinstance(unit, Node) and unit.up is not None else unit


def _too_large_first(judge: Any, gate: Gate, objects: Any, forest: Any, key: str, size: int, *rest: Any) -> Any:
    answer = judge(gate, objects, forest, key, size, *rest)
    return Answer.TOO_LARGE if answer is Answer.EXISTS and size > 8 else answer


def _free_uses(leave: Any, core: Core, node: Node) -> None:
    for _ in range(node.uses):
        core.protection.unguard(node)
    node.uses = 0
    leave(core, node)


def _keep_registration(enter: Any, forest: Forest, node: Node) -> None:
    before = dict(forest.registered)
    enter(forest, node)
    forest.registered.update(before)


def _half_a_family(evict: Any, core: Core, unit: Any) -> Any:
    return evict(core, next(iter(unit.members)) if isinstance(unit, Family) else unit)


#: What is broken -> (the store that shows it, the class, its method, what it does instead; the first argument is what it did).
MUTANTS: dict[str, tuple[str, type, str, Callable[..., Any]]] = {
    "evicts an ancestor": ("PREFIX_AWARE", Victims, "take", _take_the_parent),
    "forgets a lease": ("PREFIX_AWARE", Protection, "lease", lambda was, *args: None),
    "holds a lease at its deadline": ("PREFIX_AWARE", Protection, "expire", lambda was, self, now: was(self, now - 1)),
    "ends a lease early": ("PREFIX_AWARE", Protection, "expire", lambda was, self, now: was(self, now + 1)),
    "frees too much": (
        "PREFIX_AWARE",
        ExactRoom,
        "make",
        lambda was, self, core, charge, above: was(self, core, charge + 1, above),
    ),
    "refuses though there is room": (
        "PREFIX_AWARE",
        Forest,
        "shields",
        lambda was, self, parent, spare: was(self, parent, spare - 1),
    ),
    "never evicts": ("PREFIX_AWARE", Forest, "shields", lambda was, *args: False),
    "answers TOO_LARGE before EXISTS": ("PREFIX_AWARE", Gate, "judge", _too_large_first),
    "does not protect an open attempt": (
        "PREFIX_AWARE",
        Protection,
        "guard",
        lambda was, self, node: node.attempt or was(self, node),
    ),
    "frees bytes in use": ("PREFIX_AWARE", Core, "leave", _free_uses),
    "forgets a removed event": ("PREFIX_AWARE", EventLog, "removed", lambda was, *args: None),
    "ignores soft pins": ("PREFIX_AWARE", Protection, "pin_at_write", lambda was, self, node, now: node.soft or None),
    "does not release what waited": ("DEFER", Core, "_release_below", lambda was, *args: None),
    "lets a cycle in": ("DEFER", Forest, "closes_cycle", lambda was, *args: False),
    "forgets who waits": ("PLACEHOLDER", Forest, "waiting_for", lambda was, *args: []),
    "does not use up a registration": ("EVENT_TRANSPORT", Forest, "enter", _keep_registration),
    "evicts half a family": ("FAMILIES", Core, "evict", _half_a_family),
    "lets a family stand in two places": ("FAMILIES", Families, "misplaced", lambda was, *args: False),
    "leaves part of a refused batch": ("atomic", Stage, "take_back", lambda was, self: self.let_go()),
    "does not share a group's lease": ("object groups", Protection, "join_group", lambda was, *args: None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_refinement_fails_for_a_store_that(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, owner, name, instead = MUTANTS[mutant]
    was = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: instead(was, *args, **kwargs))
    for seed in range(300):
        rng = Random(seed)
        caps, geometry, world = STORES[store], any_geometry(rng), any_world(rng)
        if _failure(caps, geometry, world, [any_plan(rng, caps, world) for _ in range(60)]) is not None:
            return
    pytest.fail("300 histories did not tell it from a correct store")
