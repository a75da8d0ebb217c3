"""The catalogue of unsafe variants: each is refuted by a counterexample of a known length, and the safe design beside it is not."""

from __future__ import annotations

import attrs
import pytest

from kvprefix.errors import ConfigurationError
from kvprefix.explore.designs import stamped
from kvprefix.explore.variants import VARIANTS, Refutation, find_variant, refute
from kvprefix.explore.walk import MODEL
from kvprefix.model import actions as a
from kvprefix.model.invariants import ALWAYS, ALWAYS_STEP
from kvprefix.model.step import step
from kvprefix.model.values import State
from kvprefix_conformance import scenario_io
from kvprefix_conformance.explored import scenario_of, told

#: Steps of the shortest counterexample, and the requirement that it breaks.
PINNED = {
    "flat-lru": (3, "PFX-2"),
    "lease-order-ties": (4, "PFX-1"),
    "batch-touch-in-hash-order": (4, "PFX-1"),
    "touch-after-put": (3, "PFX-1"),
    "object-group-per-chain": (3, "PFX-1"),
    "protection-not-closed": (3, "PRT-1"),
    "pending-not-protected": (3, "PFX-1"),
    "soft-pin-not-closed": (3, "PFX-1"),
    "crossing-families": (3, "PFX-6"),
    "placeholder-taken-as-closed": (1, "PFX-2"),
    "missing-suffix-only": (3, "PFX-2"),
    "removal-skips-children": (3, "PFX-2"),
    "cascade-over-protected": (4, "PFX-8"),
    "stale-commit": (4, "STO-5"),
    "suffix-only-traffic": (4, "PFX-1"),
}


@pytest.fixture(scope="module")
def refutations() -> dict[str, Refutation]:
    return {variant.name: refute(variant) for variant in VARIANTS}


def test_each_variant_is_pinned() -> None:
    assert [variant.name for variant in VARIANTS] == list(PINNED)
    assert {variant.breaks for variant in VARIANTS} <= {p.name for p in ALWAYS} | {p.name for p in ALWAYS_STEP}


@pytest.mark.parametrize("name", PINNED)
def test_it_is_refuted_in_so_many_steps(name: str, refutations: dict[str, Refutation]) -> None:
    refutation = refutations[name]
    found = refutation.counterexample
    assert found is not None
    assert (refutation.length, found.broken[0].requirement) == PINNED[name]
    assert found.broken[0].name == refutation.variant.breaks
    assert found.path[0].outcome.state != State.initial()


@pytest.mark.parametrize("name", PINNED)
def test_the_safe_design_beside_it_holds(name: str, refutations: dict[str, Refutation]) -> None:
    safe = refutations[name].safe
    assert safe.counterexample is None
    assert safe.states > safe.worlds
    assert refutations[name].holds


def test_a_safe_design_put_in_place_of_a_variant_is_not_refuted() -> None:
    harmless = attrs.evolve(find_variant("removal-skips-children"), design=MODEL)
    assert not refute(harmless).holds


def test_hash_order_needs_the_lookup_to_break(refutations: dict[str, Refutation]) -> None:
    found = refutations["batch-touch-in-hash-order"].counterexample
    assert found is not None
    assert [type(taken.action) for taken in found.path] == [a.Put, a.Put, a.Match, a.Put]


def test_stamps_are_ranks_of_what_is_present() -> None:
    world = next(iter(find_variant("flat-lru").worlds()))
    state = State.initial()
    for block in world.blocks[:2]:
        state = step(world.rules, state, a.Put(block.key, b"v", block.parent)).state
    first, second = world.keys[:2]
    memory = stamped((), (first, second), state)
    assert memory == ((first, 0), (second, 1))
    assert stamped(memory, (first,), state) == ((first, 1), (second, 0))
    assert stamped(memory, (), state.without({first})) == ((second, 0),)


@pytest.mark.parametrize("name", PINNED)
def test_its_counterexample_is_a_scenario_like_any_other(name: str, refutations: dict[str, Refutation]) -> None:
    found = refutations[name].counterexample
    assert found is not None
    scenario = scenario_of(found)
    assert scenario_io.loads(scenario_io.dumps(scenario)) == scenario
    assert len(scenario.steps) == len(found.path)
    story = told(found, unicode=False)
    assert story.isascii()
    assert f"> {len(found.path)}. " in story


def test_unknown_variants_are_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="flat-lru"):
        find_variant("no-such-thing")
