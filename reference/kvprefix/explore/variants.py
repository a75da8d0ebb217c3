"""Unsafe designs, each with the sentence of the spec that it breaks, and beside each a safe one on the same worlds.

A variant is a small change of what a store does. The walk must refute it; a walk of the safe design must find nothing. Demotion
between tiers that moves the parent first is left out: the model has no tiers yet. Requirements are those of the sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from kvprefix.api import ROOT, Admission, Answer, FamilyMode, PutResult, Removal
from kvprefix.errors import ConfigurationError
from kvprefix.explore import designs
from kvprefix.explore.bounds import Bounds, World, worlds
from kvprefix.explore.configurations import FAMILY, GROUP, LEASED, OTHER_GROUP, PLAIN, PREFIX_AWARE, SOFT, THIRD_GROUP, but
from kvprefix.explore.designs import Unit, acts_by, evicts, lru
from kvprefix.explore.nodes import Memory, Node
from kvprefix.explore.walk import MODEL, Counterexample, Design, Taken, Walk, walk
from kvprefix.model import actions as a
from kvprefix.model.actions import Action
from kvprefix.model.choices import choices
from kvprefix.model.step import step
from kvprefix.model.values import PENDING, RESIDENT, Object, State, descendants, holds_itself, softly_pinned


@attrs.frozen
class Variant:
    """An unsafe design."""

    name: str
    doc: str
    #: Name of the predicate that it breaks (model.invariants).
    breaks: str
    bounds: Bounds
    design: Design
    #: What to do instead.
    safe: Design
    #: The worlds for which the design was made.
    meant: Callable[[World], bool] = lambda _world: True

    def worlds(self) -> Iterator[World]:
        """The worlds in which both are walked."""
        return filter(self.meant, worlds(self.bounds))


@attrs.frozen
class Refutation:
    """What the walks found."""

    variant: Variant
    #: A shortest one over all worlds; None: the variant was not refuted.
    counterexample: Counterexample | None
    #: The walk of the unsafe design, up to what it broke.
    unsafe: Walk
    #: The walk of the safe design beside it, judged by everything.
    safe: Walk

    @property
    def holds(self) -> bool:
        """Whether the unsafe design was refuted and the safe one was not."""
        return self.counterexample is not None and self.safe.counterexample is None and not self.safe.cut

    @property
    def length(self) -> int:
        """Steps of the counterexample; 0 without one."""
        return len(self.counterexample.path) if self.counterexample is not None else 0


def refute(variant: Variant) -> Refutation:
    """Walk the unsafe design and the safe one in all worlds of the variant."""
    unsafe, safe, shortest = Walk(), Walk(), None
    for world in variant.worlds():
        one = walk(world, variant.design, judged=frozenset({variant.breaks}))
        unsafe += attrs.evolve(one, counterexample=None)
        found = one.counterexample
        if found is not None and (shortest is None or len(found.path) < len(shortest.path)):
            shortest = found
        safe += walk(world, variant.safe)
    return Refutation(variant, shortest, unsafe, safe)


# --------------------------------------------------------------------------------------------------------------------------------
# Victims


def _alone(objects: list[Object]) -> list[Unit]:
    return [(o,) for o in objects]


def _above_the_leased(state: State) -> list[Unit]:
    """What is not held itself, and has nothing below it that is not."""
    free = [o for o in state.objects if not holds_itself(state, o)]
    return _alone([o for o in free if all(holds_itself(state, below) for below in descendants(state, o))])


def _as_if_committed(state: State) -> list[Unit]:
    """Resident leaves, where what is PENDING does not count as there."""
    free = [o for o in state.objects if o.status is RESIDENT and not holds_itself(state, o)]
    return _alone([o for o in free if all(below.status is PENDING for below in descendants(state, o))])


def _own_soft_pin_only(state: State) -> list[Unit]:
    """First what has no soft pin of its own and nothing without one below it."""
    free = [o for o in state.objects if not holds_itself(state, o)]
    plain = [o for o in free if not softly_pinned(state, o)]
    first = [o for o in plain if all(softly_pinned(state, below) for below in descendants(state, o))]
    return _alone(first or [o for o in free if not descendants(state, o)])


def _by_lease(state: State) -> list[Unit]:
    """The lease that ended first goes first; equal ones in any order."""
    free = [o for o in state.objects if not holds_itself(state, o)]
    return _alone([o for o in free if o.lease_until == min(each.lease_until for each in free)])


def _leaves_by_lease(state: State) -> list[Unit]:
    """Of the leaves, the one whose lease ended first."""
    free = [o for o in state.objects if not holds_itself(state, o) and not descendants(state, o)]
    return _alone([o for o in free if o.lease_until == min(each.lease_until for each in free)])


def _whole_groups(state: State) -> list[Unit]:
    """Object groups of which no member is held, each whole, deepest first."""
    groups: dict[str, list[Object]] = {}
    for o in sorted(state.objects, key=lambda o: len(designs.line_of(state, o.key)), reverse=True):
        groups.setdefault(o.options.object_group, []).append(o)
    return [tuple(members) for members in groups.values() if not any(holds_itself(state, o) for o in members)]


def _a_group_per_chain(world: World) -> bool:
    """Whether each group is one path: a root opens a group, a first child goes on with it, any other child opens a new one."""
    opened: set[int] = set()
    for index, block in enumerate(world.blocks):
        above = world.forest[index]
        goes_on = above >= 0 and world.below[above][0] == index
        if goes_on != (above >= 0 and block.label == world.blocks[above].label) or (not goes_on and block.label in opened):
            return False
        opened.add(block.label)
    return True


# --------------------------------------------------------------------------------------------------------------------------------
# Other designs


def _rules_with(change: Callable[[Node, Action], Action]) -> Callable[[World, Node, Action], Iterator[Taken]]:
    """A store that takes one action for another, and does that by the rules."""

    def act(world: World, node: Node, action: Action) -> Iterator[Taken]:
        meant = change(node, action)
        for choice in choices(world.rules, node.state, meant):
            yield Taken(action, choice, step(world.rules, node.state, meant, choice), node.memory)

    return act


def _cascade_blindly(node: Node, action: Action) -> Action:
    """Looks at what protects the object itself, and forces all below it."""
    obj = node.state.find(action.key) if isinstance(action, a.Remove) else None
    return a.Remove(obj.key, force=True) if obj is not None and not holds_itself(node.state, obj) else action


def _any_token(node: Node, action: Action) -> Action:
    """A commit completes whatever attempt is open on the key."""
    obj = node.state.find(action.key) if isinstance(action, a.PutCommit) else None
    return attrs.evolve(action, token=obj.token) if isinstance(action, a.PutCommit) and obj is not None else action


def _families_unchecked(world: World, node: Node, action: Action) -> Iterator[Taken]:
    """Takes any block into any family."""
    meant = attrs.evolve(action, options=attrs.evolve(action.options, family="")) if isinstance(action, a.Put) else action
    for choice in choices(world.rules, node.state, meant):
        outcome = step(world.rules, node.state, meant, choice)
        obj = outcome.state.find(action.key) if isinstance(action, a.Put) else None
        if isinstance(action, a.Put) and obj is not None and node.state.find(action.key) is None:
            outcome = attrs.evolve(outcome, state=outcome.state.having(attrs.evolve(obj, options=action.options)))
        yield Taken(action, choice, outcome)


def _believed(memory: Memory, taken: Taken) -> Memory:
    """What the client takes to be stored: what it stored, and what its last lookup of that chain found."""
    action, keys = taken.action, {key for key, _ in memory}
    if isinstance(action, a.Match) and isinstance(taken.outcome.answer, int):
        keys = keys - set(action.chain) | set(action.chain[: taken.outcome.answer])
    reply = taken.outcome.answer
    if isinstance(action, a.Put) and isinstance(reply, PutResult):
        keys = keys | {action.key} if reply.answer in (Answer.STORED, Answer.EXISTS) else keys - {action.parent}
    return tuple((key, 0) for key in sorted(map(str, keys)))


def _suffix_client(name: str, admission: Admission) -> Design:
    """A client that stores only what its lookup missed, and takes what it stored or found before to be there still."""
    store = acts_by(name, admission=admission)

    def act(world: World, node: Node, action: Action) -> Iterator[Taken]:
        for taken in store.act(world, node, action):
            yield attrs.evolve(taken, memory=_believed(node.memory, taken))

    def makes(_world: World, node: Node, action: Action) -> bool:
        believed = dict(node.memory)
        return not isinstance(action, a.Put) or (
            action.key not in believed and (action.parent is ROOT or action.parent in believed)
        )

    return Design(name, act, makes)


# --------------------------------------------------------------------------------------------------------------------------------
# The catalogue

_LINEAGE_LRU: Final = lru("least recently used, each touch stamping the ancestors later", designs.with_ancestors)
_SMALL: Final[dict[str, Any]] = {"blocks": 3, "capacities": (2,)}

VARIANTS: Final[tuple[Variant, ...]] = (
    Variant(
        "flat-lru", "Evicts what was used least recently, whatever hangs below it.",
        "closure", Bounds("flat-lru", PREFIX_AWARE, reads=True, **_SMALL),
        lru("flat LRU", designs.as_named), lru("LRU among the leaves", designs.as_named, leaves_only=True),
    ),
    Variant(
        "lease-order-ties", "Evicts in the order in which leases ended, and blocks of one chain are leased in one millisecond.",
        "descendants evicted first", Bounds("lease-order-ties", PREFIX_AWARE, put_options=(LEASED,), clock=(1,), **_SMALL),
        evicts("lease order", _by_lease), evicts("lease order among the leaves", _leaves_by_lease),
    ),
    Variant(
        "batch-touch-in-hash-order", "Plain LRU, and a lookup of many touches them in the order of a hash table.",
        "descendants evicted first", Bounds("batch-touch-in-hash-order", PREFIX_AWARE, reads=True, **_SMALL),
        lru("LRU touched in hash order", designs.in_hash_order), _LINEAGE_LRU,
    ),
    Variant(
        "touch-after-put", "Plain LRU; the chain is touched leaf first, but in a call of its own after the put.",
        "descendants evicted first", Bounds("touch-after-put", PREFIX_AWARE, reads=True, **_SMALL),
        lru("LRU touched after the put", designs.leaf_first), _LINEAGE_LRU,
    ),
    Variant(
        "object-group-per-chain", "Evicts object groups whole, one per chain, though chains share ancestors.",
        "descendants evicted first",
        Bounds(
            "object-group-per-chain", but(object_groups=True), blocks=4, capacities=(2,),
            labels=(GROUP, OTHER_GROUP, THIRD_GROUP), leases=(1,), clock=(1,),
        ),
        evicts("one object group per chain", _whole_groups), MODEL, _a_group_per_chain,
    ),
    Variant(
        "protection-not-closed", "Evicts leaves among the unprotected, and a lease on a block protects that block alone.",
        "protected objects survive eviction",
        Bounds("protection-not-closed", PREFIX_AWARE, put_options=(PLAIN, LEASED), clock=(1,), **_SMALL),
        evicts("protection of the block alone", _above_the_leased), MODEL,
    ),
    Variant(
        "pending-not-protected", "A block being written does not keep its ancestors.",
        "descendants evicted first", Bounds("pending-not-protected", PREFIX_AWARE, attempts=1, clock=(1,), **_SMALL),
        evicts("pending unseen by eviction", _as_if_committed), MODEL,
    ),
    Variant(
        "soft-pin-not-closed", "Blocks without a soft pin of their own go first, an ancestor of a soft-pinned block too.",
        "descendants evicted first", Bounds("soft-pin-not-closed", PREFIX_AWARE, put_options=(PLAIN, SOFT), **_SMALL),
        evicts("soft pin of the block alone", _own_soft_pin_only), MODEL,
    ),
    Variant(
        "crossing-families", "Takes families whole, and lets one lie above and below another: {a, c} and {b} on a chain a, b, c.",
        "a leaf among the unprotected",
        Bounds("crossing-families", but(families=FamilyMode.ALL_OR_NONE), blocks=3, capacities=(3,), labels=(PLAIN, FAMILY)),
        Design("families unchecked", _families_unchecked), MODEL,
    ),
    Variant(
        "placeholder-taken-as-closed", "Admits a child before its parent and still claims to be closed.",
        "closure", Bounds("placeholder-taken-as-closed", PREFIX_AWARE, **_SMALL),
        acts_by("placeholder", admission=Admission.PLACEHOLDER), MODEL,
    ),
    Variant(
        "missing-suffix-only", "Stores only the blocks that an earlier lookup missed; those it hit are gone by then.",
        "closure", Bounds("missing-suffix-only", PREFIX_AWARE, blocks=3, capacities=(1, 2), reads=True),
        _suffix_client("suffix client on a store that admits anything", Admission.ANY),
        _suffix_client("suffix client on a store that rejects", Admission.REJECT),
    ),
    Variant(
        "removal-skips-children", "Removes the one block that it is asked to.",
        "closure", Bounds("removal-skips-children", PREFIX_AWARE, remove=True, **_SMALL),
        acts_by("removal of one block", removal=Removal.ANY), MODEL,
    ),
    Variant(
        "cascade-over-protected", "A cascade looks at what protects its top, and takes a protected descendant along.",
        "removal as declared",
        Bounds("cascade-over-protected", but(removal=Removal.CASCADE), remove=True, leases=(1,), clock=(1,), **_SMALL),
        Design("blind cascade", _rules_with(_cascade_blindly)), MODEL,
    ),
    Variant(
        "stale-commit", "A commit completes whatever attempt is open on its key.",
        "unseen until commit",
        Bounds("stale-commit", PREFIX_AWARE, blocks=2, capacities=(2,), attempts=2, clock=(1,), remove=True, force=True),
        Design("commit by key", _rules_with(_any_token)), MODEL,
    ),
    Variant(
        "suffix-only-traffic", "Plain LRU; a device cache takes the hits on the head, and the store sees only those on the tail.",
        "descendants evicted first", Bounds("suffix-only-traffic", PREFIX_AWARE, reads=True, **_SMALL),
        lru("LRU without lineage recency", designs.only_what_is_asked), _LINEAGE_LRU,
    ),
)  # fmt: skip


def find_variant(name: str) -> Variant:
    """The variant of this name. Raises :class:`ConfigurationError`, with the names that there are, for any other."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    raise ConfigurationError(f"no variant {name!r}", f"Known are: {', '.join(each.name for each in VARIANTS)}.")
