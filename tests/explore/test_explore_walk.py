"""The walk: symmetry merges what a renaming maps onto each other and nothing else; every configuration runs; paths are shortest."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import permutations
from typing import get_args

import attrs
import pytest

from kvprefix.api import Admission
from kvprefix.errors import ConfigurationError
from kvprefix.explore import nodes
from kvprefix.explore.bounds import Bounds, World, worlds
from kvprefix.explore.configurations import DEFAULT, FAMILY, GROUP, PLAIN, PREFIX_AWARE, SOFT_1, chosen
from kvprefix.explore.designs import acts_by
from kvprefix.explore.moves import moves
from kvprefix.explore.nodes import Node, identity
from kvprefix.explore.walk import MODEL, Walk, _Search, walk
from kvprefix.model import actions as a
from kvprefix.model.actions import Action
from kvprefix.model.invariants import broken_in
from kvprefix.model.step import step
from kvprefix.model.values import State

ALL = frozenset[str]()


def searched(world: World, *, symmetry: bool) -> _Search:
    search = _Search(world, MODEL, symmetry=symmetry, known=ALL, judged=ALL)
    search.run(100_000)
    assert not search.broken
    return search


def renamings(world: World) -> list[tuple[int, ...]]:
    """Every renaming of blocks that keeps forest, sizes and labels; with any parent, sizes and labels."""

    def keeps(order: tuple[int, ...]) -> bool:
        same = all(world.kinds[order[i]] == world.kinds[i] for i in range(len(order)))
        above = [world.forest[order[i]] == (order[p] if p >= 0 else p) for i, p in enumerate(world.forest)]
        return same and (world.bounds.any_parent or all(above))

    return [order for order in permutations(range(len(world.blocks))) if keeps(order)]


def by_brute_force(world: World, node: Node, orders: list[tuple[int, ...]]) -> Hashable:
    """The least of the node's descriptions under all renamings."""
    records = nodes._records(world, node)
    named = []
    for order in orders:
        new = {old: position for position, old in enumerate(order)}
        named.append(tuple((new.get(records[old][0], records[old][0]), *records[old][1:]) for old in order))
    return min(named)


SYMMETRIC = (
    Bounds("plain", PREFIX_AWARE, blocks=4, capacities=(3,), remove=True),
    Bounds("sizes", PREFIX_AWARE, blocks=3, sizes=(1, 2), capacities=(3,), attempts=1, clock=(1,)),
    Bounds(
        "pins", PREFIX_AWARE, blocks=2, capacities=(2,), pins=2, remove=True, force=True, put_options=(PLAIN, SOFT_1), clock=(1,)
    ),
    attrs.evolve(chosen(["two-writers"])[0], blocks=2, capacities=(2,)),
    attrs.evolve(chosen(["families"])[0], blocks=3, capacities=(2,), labels=(PLAIN, FAMILY)),
    attrs.evolve(chosen(["object-groups"])[0], blocks=2, labels=(PLAIN, GROUP)),
    attrs.evolve(chosen(["events"])[0], blocks=2),
    attrs.evolve(chosen(["any-parent"])[0], blocks=3, capacities=(3,)),
    attrs.evolve(chosen(["any-parent-holes"])[0], blocks=3, capacities=(2,)),
)


@pytest.mark.parametrize("bounds", SYMMETRIC, ids=lambda bounds: bounds.name)
def test_symmetry_merges_exactly_what_a_renaming_maps_onto_each_other(bounds: Bounds) -> None:
    for world in worlds(bounds):
        every, reduced = searched(world, symmetry=False), searched(world, symmetry=True)
        orders = renamings(world)
        classes = {by_brute_force(world, node, orders) for node in every.nodes}
        assert len(classes) == len({identity(world, node) for node in every.nodes}) == len(reduced.nodes), world.name
        assert len(reduced.nodes) <= len(every.nodes)


def test_time_and_numbers_of_tokens_make_no_difference() -> None:
    """An attempt that was begun and aborted at another time leads back to the empty store."""
    (world,) = worlds(Bounds("one", PREFIX_AWARE, blocks=1, capacities=(1,), attempts=1, clock=(1,)))
    later = step(world.rules, State.initial(), a.Advance(7)).state
    begun = step(world.rules, later, a.PutBegin("a", 1, world.blocks[0].parent)).state
    ended = step(world.rules, begun, a.PutAbort("a", "attempt-1")).state
    assert ended != State.initial()
    assert identity(world, Node(ended)) == identity(world, Node(State.initial()))
    assert identity(world, Node(begun, (("a", "attempt-1"),))) != identity(world, Node(begun, (("a", "attempt-0"),)))


@pytest.mark.parametrize("bounds", DEFAULT, ids=lambda bounds: bounds.name)
def test_every_configuration_of_the_default_set_holds_at_two_blocks(bounds: Bounds) -> None:
    seen = Walk()
    for world in worlds(attrs.evolve(bounds, blocks=2)):
        seen += walk(world, known=seen.witnessed)
    assert seen.counterexample is None
    assert seen.states > seen.worlds
    assert seen.transitions > seen.states
    assert not seen.cut


def test_the_default_set_makes_every_action() -> None:
    made = set()
    for bounds in DEFAULT:
        world = next(iter(worlds(attrs.evolve(bounds, blocks=2))))
        made |= {type(action) for node in searched(world, symmetry=True).nodes for action in moves(world, node)}
    assert made == set(get_args(Action))


def test_configurations_have_names_of_their_own_and_name_their_dimensions() -> None:
    assert len({bounds.name for bounds in chosen(deep=True)}) == 2 * len(DEFAULT)
    for bounds in DEFAULT:
        named = dict(bounds.dimensions)
        assert {"blocks", "forests", "sizes", "capacities"} <= set(named)
        assert ("two-phase" in bounds.name) <= ("attempts" in named)


def test_unknown_configurations_are_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="five-blocks"):
        chosen(["core", "no-such-thing"])


def test_a_counterexample_is_a_path_of_the_design_and_no_shorter_one_breaks_anything() -> None:
    (world,) = [w for w in worlds(Bounds("holes", PREFIX_AWARE, blocks=3, capacities=(2,))) if w.forest == (-1, 0, 1)]
    seen = walk(world, acts_by("placeholder", admission=Admission.PLACEHOLDER))
    found = seen.counterexample
    assert found is not None
    assert len(found.path) == 1
    assert found.before == State.initial()
    assert {each.name for each in found.broken} >= {"closure", "closure after every event"}
    assert [p.name for p in broken_in(world.rules, found.path[-1].outcome.state)] == ["closure"]


def test_a_walk_may_be_cut_short_and_says_so() -> None:
    world = next(iter(worlds(Bounds("cut", PREFIX_AWARE, blocks=4, capacities=(4,)))))
    assert walk(world, most_states=3).cut
    assert not walk(world).cut


def test_a_chain_of_puts_is_as_deep_as_it_is_long() -> None:
    (chain,) = [w for w in worlds(Bounds("deep", PREFIX_AWARE, blocks=4, capacities=(4,))) if w.forest == (-1, 0, 1, 2)]
    seen = walk(chain)
    assert (seen.states, seen.diameter) == (5, 4)
