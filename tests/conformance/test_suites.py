"""The drivers: sizes that fill a store, keys that carry lineage, examples that repeat; and nothing that judges."""

from __future__ import annotations

import pytest
from suite_support import TinyStore, target

from kvprefix.api import Capabilities, EvictionOrder, Geometry, Transport
from kvprefix.keys import lineage_of
from kvprefix_conformance.bench import Bench
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.suites.catalogue import CHECKS, needs_missing
from kvprefix_conformance.suites.machine import MOVES_PER_EXAMPLE, SHAPES, chooser, drive
from kvprefix_conformance.suites.moves import MACHINES, MOVES, moves_of
from kvprefix_conformance.suites.world import Run, Sizes


@pytest.mark.parametrize("units", [3, 4, 5, 6, 8])
@pytest.mark.parametrize(
    "geometry",
    [Geometry(4096), Geometry(64), Geometry(1000, overhead_bytes=24), Geometry(1 << 20, overhead_bytes=64, quantum_bytes=4096)],
)
def test_so_many_units_fill_the_store_and_one_more_does_not_fit(geometry: Geometry, units: int) -> None:
    sizes = Sizes(geometry, units)
    charge = geometry.charge(sizes.of(1))
    assert units * charge <= geometry.capacity_bytes < (units + 1) * charge + geometry.quantum_bytes * (units + 1)
    assert geometry.capacity_bytes - geometry.charge(sizes.of(units)) < geometry.quantum_bytes
    assert geometry.charge(sizes.too_large) > geometry.capacity_bytes


def test_where_not_so_many_of_the_smallest_objects_fit_there_are_fewer_units() -> None:
    sizes = Sizes(Geometry(1000, min_value_bytes=220), 6)
    assert (sizes.units, sizes.of(1), sizes.smallest) == (4, 250, 220)


def run_on(bench: Bench) -> Run:
    oracle = Oracle(bench.terms)
    return Run(bench.session(oracle), oracle)


def test_with_the_key_transport_the_key_names_the_parent_and_the_argument_stays_empty() -> None:
    asked = []

    class Keyed(TinyStore):
        capabilities = Capabilities(
            name="keyed", lineage=frozenset({Transport.KEY}), eviction_order=EvictionOrder.DESCENDANTS_FIRST
        )

        def put(self, key, value, *, parent=None, options=None):  # type: ignore[no-untyped-def]
            asked.append((key, parent))
            return super().put(key, value)

    with Bench(target(Keyed), 4096) as bench:
        run = run_on(bench)
        a, b = run.chain("ab")
        run.put(a)
        run.put(b, parent=b.key)
    above, child = lineage_of(a.key), lineage_of(b.key)
    assert above is not None
    assert child is not None
    assert child.parent == above.identity
    assert [key for key, _ in asked] == [a.key, b.key]
    assert {parent.value for _, parent in asked} == {"unknown"}
    assert run.ledger.parent(b.key) == a.key


def test_with_the_event_transport_lineage_is_registered_before_the_put() -> None:
    class Told(TinyStore):
        capabilities = Capabilities(name="told", lineage=frozenset({Transport.EVENT}))

    with Bench(target(Told), 4096) as bench:
        run = run_on(bench)
        a, b = run.chain("ab")
        run.put_all([a, b])
    assert [recorded.step.op for recorded in run.session.history] == ["put", "register", "put"]
    assert "parent" not in run.session.history[-1].step.args


def machine_steps(store: type[TinyStore], seed: int, name: str = "closure", stop: str = "") -> list[list[Step]]:
    """The steps of three examples."""
    runs: list[Run] = []
    with Bench(target(store), 4096) as bench:

        def open_run(units: int) -> Run:
            oracle = Oracle(bench.terms)
            session = bench.session(oracle, lambda violation: violation.kind == stop)
            runs.append(Run(session, oracle, units=units))
            return runs[-1]

        drive(name, open_run, lambda *calls: bench.terms.offered.issuperset(calls), values=True, seed=seed, examples=3)
    return [[recorded.step for recorded in run.session.history] for run in runs]


def test_a_seed_draws_the_same_steps_again() -> None:
    assert machine_steps(TinyStore, 1) == machine_steps(TinyStore, 1)
    assert machine_steps(TinyStore, 1) != machine_steps(TinyStore, 2)


def test_what_the_store_answers_changes_no_draw() -> None:
    class Refuses(TinyStore):
        def exists(self, key: str) -> bool:
            return False

    plain, odd = machine_steps(TinyStore, 3, "objects"), machine_steps(Refuses, 3, "objects", stop="lost")
    assert len(plain) == len(odd) == 3
    for whole, cut in zip(plain, odd, strict=True):
        assert len(cut) <= len(whole) or cut != whole


def test_when_enough_was_run_the_machine_runs_out_quietly() -> None:
    drive("objects", lambda _units: None, lambda *_calls: True, values=True, seed=1, examples=5)


def test_choices_are_read_from_the_tape_and_begin_again_at_its_end() -> None:
    pick = chooser(bytes([7, 1, 2]))
    assert [pick("abc") for _ in range(6)] == ["b", "c", "b", "b", "c", "b"]


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_has_moves_even_on_a_store_with_three_calls(name: str) -> None:
    moves = moves_of(name, lambda *calls: set(calls) <= {"put", "get", "exists"}, values=True)
    assert sum(weight for _, weight in moves) >= 5


def test_every_move_is_made_by_some_machine() -> None:
    assert [move.name for move in MOVES if not any(move.weights)] == []
    assert len({move.name for move in MOVES}) == len(MOVES)


def test_forests_have_branches_and_parents_come_first() -> None:
    assert all(above < child for shape in SHAPES for child, above in enumerate(shape))
    branching = [shape for shape in SHAPES if any(shape.count(above) > 1 for above in shape if above >= 0)]
    assert len(branching) >= 4


def test_a_check_runs_only_where_its_calls_and_its_subject_are_there() -> None:
    by_name = {check.info.name: check for check in CHECKS}
    assert needs_missing(by_name["protected-store/in-use"], frozenset({"put"}), Capabilities()) == ["pin", "unpin"]
    assert needs_missing(by_name["prefix-aware/deferred"], frozenset(), Capabilities()) == ["what it is about is not declared"]
    assert needs_missing(by_name["object-store/round-trip"], frozenset(), Capabilities()) == []


def test_each_directed_scenario_is_short_enough_to_be_read() -> None:
    with Bench(target(TinyStore), 4096) as bench:
        for check in CHECKS:
            if not isinstance(check.drive, str) and not needs_missing(check, bench.terms.offered, bench.terms.capabilities):
                oracle = Oracle(bench.terms)
                run = Run(bench.session(oracle), oracle, units=check.units)
                check.drive(run)
                assert 0 < len(run.session.history) <= 200, check.info.name
    assert MOVES_PER_EXAMPLE <= 50


def test_suites_judge_nothing() -> None:
    import inspect

    from kvprefix_conformance.suites import eviction_safe, moves, object_store, prefix_aware, protected_store, world

    for module in (eviction_safe, moves, object_store, prefix_aware, protected_store, world):
        assert Violation.__name__ not in inspect.getsource(module)
        assert "assert " not in inspect.getsource(module)
