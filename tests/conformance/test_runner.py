"""A run as a whole: verdicts, budgets, interruptions, expectations, broken adapters, and the same result for the same seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from suite_support import FLAT, TinyStore, target

from kvprefix.api import UNKNOWN, Answer, Capabilities, Geometry, Parent, PutOptions, PutResult, VictimPolicy
from kvprefix.errors import AdapterError, ConfigurationError, MissingDependencyError
from kvprefix_conformance.plan import CheckInfo, Plan, Silent
from kvprefix_conformance.records import Expectation, Report, Result, Verdict, Violation
from kvprefix_conformance.runner import checks, rerun, run, smoke

QUICK = Plan(examples=3)


class Overwrites(TinyStore):
    """A put of a resident key replaces the value."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        result = super().put(key, value, parent=parent, options=options)
        if result.answer is Answer.EXISTS and len(self.objects[key]) == len(value):
            self.objects[key] = value
        return result


class EvictsNewest(TinyStore):
    """Evicts the newest first, and forgets empty-handed removals: two faults in one."""

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        if key not in self.objects and value and key and options == PutOptions() and self.used() + len(value) > 4096 >= len(value):
            victim = list(self.objects)[-1]
            del self.objects[victim]
            result = self.put(key, value, parent=parent, options=options)
            return attrs.evolve(result, evicted=(victim, *(result.evicted or ())))
        return super().put(key, value, parent=parent, options=options)


def results(report: Report) -> dict[str, Result]:
    return {result.requirement: result for result in report.results}


def verdicts(report: Report) -> dict[str, Verdict]:
    return {result.requirement: result.verdict for result in report.results}


# -- verdicts --------------------------------------------------------------------------------------------------------------------


def test_a_correct_store_conforms_to_what_it_declares() -> None:
    report = run(target(TinyStore), QUICK)
    assert set(verdicts(report).values()) == {Verdict.PASS, Verdict.SKIPPED}
    assert report.exit_code == 0
    assert report.counts["operations"] > 300
    assert report.counts["evictions"] > 10


def test_what_is_not_offered_is_skipped_with_its_reason() -> None:
    found = results(run(target(TinyStore), QUICK))
    assert (found["STO-5"].verdict, found["STO-5"].reason) == (Verdict.SKIPPED, "two-phase puts are not offered")
    assert (found["STO-11"].verdict, found["STO-11"].reason) == (Verdict.SKIPPED, "planned: no check judges it yet")


def test_a_fault_is_found_and_shrunk_to_the_steps_that_matter() -> None:
    found = results(run(target(Overwrites), QUICK))
    assert [rid for rid, result in found.items() if result.verdict is Verdict.FAIL] == ["STO-2"]
    scenario = found["STO-2"].scenario
    assert scenario is not None
    assert scenario.violation is not None
    assert [step.op for step in scenario.steps] == ["put", "put", "get"]
    assert scenario.violation.kind == "overwritten"
    assert scenario.violation.step == 2


def test_prefix_awareness_can_be_asked_of_a_flat_store_and_shows_how_it_loses_a_root() -> None:
    report = run(target(TinyStore), Plan(examples=3, requirements=("PFX-1",)))
    result = results(report)["PFX-1"]
    assert report.exit_code == 1
    assert result.scenario is not None
    assert result.scenario.violation is not None
    assert result.scenario.violation.kind == "ancestor-evicted"
    assert len(result.scenario.steps) <= 4


def test_several_faults_in_one_store_are_each_found() -> None:
    asked = ("STO-2", "PFX-1")  # it overwrites, and it is a flat store
    failed = {
        rid for rid, verdict in verdicts(run(target(Overwrites), Plan(examples=3, requirements=asked))).items() if verdict >= 4
    }
    assert failed == {"STO-2", "PFX-1"}


def test_a_profile_without_checks_is_shown_as_planned_and_is_no_pass() -> None:
    report = run(target(TinyStore), Plan(examples=1, profiles=("grouped",)))
    assert verdicts(report) == {"GRP-1": Verdict.SKIPPED, "GRP-2": Verdict.SKIPPED, "GRP-3": Verdict.SKIPPED}
    assert report.exit_code == 3


def test_an_option_that_is_not_declared_and_not_refused_fails_its_requirement() -> None:
    class TakesAnyPin(TinyStore):
        capabilities = attrs.evolve(FLAT, profiles=frozenset({"object-store", "protected-store"}))

        def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
            return super().put(key, value, parent=parent)

    assert verdicts(run(target(TakesAnyPin), QUICK))["PRT-4"] is Verdict.FAIL


def test_unknown_requirements_are_the_user_s_to_fix() -> None:
    with pytest.raises(ConfigurationError, match="PFX-99"):
        run(target(TinyStore), Plan(requirements=("PFX-99",)))


# -- determinism -----------------------------------------------------------------------------------------------------------------


def strip(report: Report) -> Any:
    return attrs.evolve(report, seconds=0.0, date="")


def test_the_same_seed_gives_the_same_report_scenarios_included() -> None:
    plan = Plan(examples=2, requirements=("STO-2", "STO-6", "PFX-1"))
    assert strip(run(target(Overwrites), plan)) == strip(run(target(Overwrites), plan))


def test_a_seed_means_the_same_whatever_code_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = strip(run(target(TinyStore), QUICK))
    (tmp_path / "constants_of_mine.py").write_text("NUMBERS = [3, 5, 11, 13, 77]\nWORDS = [b'twelve bytes', b'other twelve']\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import constants_of_mine  # type: ignore[import-not-found] # noqa: F401

    assert strip(run(target(TinyStore), QUICK)) == before


def test_another_seed_and_explore_draw_other_examples() -> None:
    asked = ("STO-1",)
    first, second = (run(target(TinyStore), Plan(examples=2, seed=seed, requirements=asked)) for seed in (1, 2))
    assert first.counts != second.counts
    assert run(target(TinyStore), Plan(examples=1, explore=True, requirements=asked)).seed != QUICK.seed


def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(target(Overwrites), QUICK)
    assert list(tmp_path.iterdir()) == []


# -- backends that are not deterministic -----------------------------------------------------------------------------------------


def flaky(share: float) -> Callable[[], TinyStore]:
    numbers = random.Random(5)

    class Sometimes(TinyStore):
        capabilities = attrs.evolve(FLAT, deterministic=False)

        def get(self, key: str) -> bytes | None:
            value = super().get(key)
            return None if value is not None and numbers.random() < share else value

    return Sometimes


def test_a_rare_fault_fails_by_the_recorded_history_and_the_report_says_how_often_it_showed_again() -> None:
    result = results(run(target(flaky(0.2)), Plan(examples=20)))["STO-1"]
    assert result.verdict is Verdict.FAIL
    assert result.scenario is not None
    assert result.scenario.shown is not None
    shown, of = result.scenario.shown
    assert 0 <= shown <= of == 3


def test_a_fault_that_no_rerun_shows_keeps_its_whole_history() -> None:
    hits = itertools.count(1)

    class Once(TinyStore):
        capabilities = attrs.evolve(FLAT, deterministic=False)

        def get(self, key: str) -> bytes | None:
            value = super().get(key)
            return None if value is not None and next(hits) == 3 else value

    result = results(run(target(Once), Plan(examples=20)))["STO-1"]
    assert result.verdict is Verdict.FAIL
    assert result.scenario is not None
    assert result.scenario.shown == (0, 3)
    assert result.scenario.violation is not None
    assert len(result.scenario.steps) == result.scenario.violation.step + 1


# -- adapters that break ---------------------------------------------------------------------------------------------------------


def test_an_adapter_that_cannot_be_opened_is_broken_before_the_first_check() -> None:
    def fails() -> TinyStore:
        raise OSError("no such device")

    report = run(target(fails), QUICK)
    assert report.broken == "cannot open the backend: OSError: no such device"
    assert (report.exit_code, report.results) == (4, ())


def test_an_adapter_whose_put_raises_is_broken_before_the_first_check() -> None:
    class Raises(TinyStore):
        def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
            raise RuntimeError("not today")

    report = run(target(Raises), QUICK)
    assert report.exit_code == 4
    assert report.broken == "put: raised: put raised RuntimeError: not today"


def test_what_must_be_installed_passes_through() -> None:
    def missing() -> TinyStore:
        raise MissingDependencyError("there is no such server.", "Install it.")

    with pytest.raises(MissingDependencyError):
        run(target(missing), QUICK)


class Mortal(TinyStore):
    """A store whose process dies at its thirtieth read, every time it is started."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 30

    def get(self, key: str) -> bytes | None:
        self.left -= 1
        if self.left < 0:
            raise AdapterError("died", "exit code -9")
        return super().get(key)


def test_a_backend_that_dies_fails_the_check_it_was_in_and_the_run_goes_on() -> None:
    opened = []

    def opens() -> Mortal:
        opened.append(Mortal())
        return opened[-1]

    report = run(target(opens), QUICK)
    result = results(report)["STO-1"]
    assert result.reason == "adapter-died: exit code -9"
    assert result.scenario is not None
    assert result.scenario.steps[-1].indefinite
    assert len(opened) > 2
    assert report.exit_code == 1
    assert verdicts(report)["STO-2"] is Verdict.PASS


def test_a_call_that_raises_is_left_out_from_then_on_so_that_the_rest_is_judged() -> None:
    class NoStats(TinyStore):
        def stats(self) -> Any:
            raise ValueError("counters are down")

    found = results(run(target(NoStats), QUICK))
    assert found["STO-6"].reason == "adapter-raised: stats raised ValueError: counters are down"
    assert found["STO-1"].verdict is Verdict.PASS


def test_an_adapter_failure_outside_what_is_asked_is_charged_to_what_is() -> None:
    class NoStats(TinyStore):
        def stats(self) -> Any:
            raise ValueError("counters are down")

    report = run(target(NoStats), Plan(examples=2, requirements=("STO-1",)))
    assert results(report)["STO-1"].verdict is Verdict.FAIL


def test_a_backend_that_cannot_be_emptied_fails() -> None:
    class Stuck(TinyStore):
        resets = 0

        def reset(self) -> None:
            type(self).resets += 1
            if type(self).resets > 2:
                raise OSError("busy")
            super().reset()

    report = run(target(Stuck), Plan(examples=2, requirements=("STO-1",)))
    assert results(report)["STO-1"].verdict is Verdict.FAIL
    assert "busy" in results(report)["STO-1"].reason


# -- budgets and interruptions ---------------------------------------------------------------------------------------------------


def test_ctrl_c_gives_the_report_of_what_ran() -> None:
    class Interrupts(Silent):
        def check_started(self, check: CheckInfo, index: int, total: int) -> None:
            if index == 4:
                raise KeyboardInterrupt

    report = run(target(Overwrites), QUICK, Interrupts())
    assert report.interrupted.startswith("Ctrl-C after 3 of ")
    assert verdicts(report)["STO-2"] is Verdict.FAIL
    assert verdicts(report)["STO-8"] in (Verdict.SKIPPED, Verdict.INCONCLUSIVE)
    assert "not all its checks ran" in results(report)["STO-1"].reason


def test_ctrl_c_inside_an_example_gets_through_hypothesis() -> None:
    class Interrupted(TinyStore):
        reads = 0

        def get(self, key: str) -> bytes | None:
            type(self).reads += 1
            if type(self).reads > 60:
                raise KeyboardInterrupt
            return super().get(key)

    report = run(target(Interrupted), Plan(examples=20, requirements=("STO-1",)))
    assert report.interrupted.startswith("Ctrl-C")
    assert report.exit_code == 3


def test_a_spent_budget_says_what_was_left_out() -> None:
    report = run(target(TinyStore), Plan(examples=3, max_seconds=0.0))
    assert "were spent after 0 of" in report.interrupted
    assert report.exit_code == 3


def test_a_budget_cuts_examples_not_verdicts() -> None:
    report = run(target(TinyStore), Plan(examples=100_000, max_seconds=2.0))
    assert report.counts["examples"] < 100_000


# -- expected failures -----------------------------------------------------------------------------------------------------------


def expecting(*entries: tuple[str, str], flaky_: bool = False) -> Plan:
    return Plan(examples=3, expectations=tuple(Expectation(r, k, "known since March", flaky=flaky_) for r, k in entries))


def test_an_expected_failure_is_none() -> None:
    report = run(target(Overwrites), expecting(("STO-2", "overwritten")))
    assert (verdicts(report)["STO-2"], results(report)["STO-2"].reason) == (Verdict.EXPECTED_FAILURE, "known since March")
    assert (report.exit_code, report.stale) == (0, ())


def test_another_kind_under_the_same_requirement_is_a_new_failure() -> None:
    report = run(target(Overwrites), expecting(("STO-2", "duplicate-answer")))
    assert verdicts(report)["STO-2"] is Verdict.FAIL
    assert report.exit_code == 1


def test_an_expected_failure_that_passed_is_stale_unless_it_is_flaky() -> None:
    report = run(target(TinyStore), expecting(("STO-2", "overwritten")))
    assert report.stale == ("STO-2 overwritten: it passed",)
    assert report.exit_code == 5
    assert run(target(TinyStore), expecting(("STO-2", "overwritten"), flaky_=True)).exit_code == 0


# -- the small ones --------------------------------------------------------------------------------------------------------------


def test_the_observer_is_told_of_each_check_and_violation() -> None:
    told: list[str] = []

    class Listens(Silent):
        def run_started(self, checks: tuple[CheckInfo, ...], requirements: tuple[str, ...]) -> None:
            told.append(f"run {len(checks)} {'STO-2' in requirements}")

        def violation(self, check: CheckInfo, violation: Violation) -> None:
            told.append(f"{check.name} {violation.kind}")

        def run_finished(self, results: tuple[Result, ...]) -> None:
            told.append("done")

    run(target(Overwrites), QUICK, Listens())
    assert told[0].endswith("True")
    assert "object-store/duplicates overwritten" in told
    assert told[-1] == "done"


def test_a_scenario_reruns_and_is_reproduced_only_where_the_fault_is() -> None:
    scenario = results(run(target(Overwrites), QUICK))["STO-2"].scenario
    assert scenario is not None
    again = rerun(scenario, target(Overwrites))
    assert (again.reproduced, again.differs) == (True, ())
    fixed = rerun(scenario, target(TinyStore))
    assert (fixed.reproduced, fixed.differs, fixed.violations) == (False, (2,), ())


def test_smoke_shows_each_answer_and_finds_no_problem_in_a_correct_store() -> None:
    smoked = smoke(target(TinyStore))
    assert smoked.ok
    assert [step.op for step in smoked.steps][:3] == ["put", "exists", "exists"]
    assert "stats" in smoked.offered


def test_smoke_tells_what_is_wrong_with_an_adapter() -> None:
    class Odd(TinyStore):
        def exists(self, key: str) -> Any:
            return int(key in self.objects)

        def reset(self) -> None:
            pass

    smoked = smoke(target(Odd))
    assert "exists: nonsense: exists returned int 1, which is not bool" in smoked.problems
    assert smoked.broken.startswith("exists: nonsense")


def test_a_store_that_cannot_be_emptied_is_told_by_smoke() -> None:
    class Keeps(TinyStore):
        def reset(self) -> None:
            pass

        def remove(self, key: str, *, force: bool = False) -> Any:
            raise NotImplementedError

    assert "a key that was stored before reset is still there" in smoke(target(Keeps)).problems


def test_every_check_names_known_requirements_and_says_what_it_drives() -> None:
    names = [check.name for check in checks()]
    assert len(names) == len(set(names)) >= 60
    assert all(check.doc and check.requirements for check in checks())


@pytest.mark.parametrize(("overhead", "quantum", "capacity"), [(0, 1, 64), (24, 1, 500), (8, 64, 1024), (0, 4096, 1 << 16)])
def test_overheads_granularities_and_tiny_stores_are_taken_as_they_are(overhead: int, quantum: int, capacity: int) -> None:
    class Rounded(TinyStore):
        def start(self, capacity: int) -> Geometry:
            self.geometry = Geometry(capacity, overhead_bytes=overhead, quantum_bytes=quantum)
            return self.geometry

        def used(self) -> int:
            return sum(self.geometry.charge(len(value)) for value in self.objects.values())

        def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
            capacity, charge = self.geometry.capacity_bytes, self.geometry.charge(len(value))
            if options == PutOptions() and key and value and key not in self.objects and charge > capacity:
                return PutResult(Answer.TOO_LARGE, ())
            evicted = []
            while options == PutOptions() and key and value and key not in self.objects and self.used() + charge > capacity:
                evicted.append(next(iter(self.objects)))
                del self.objects[evicted[-1]]
            return attrs.evolve(super().put(key, value, parent=parent, options=options), evicted=tuple(evicted))

    report = run(target(Rounded), Plan(examples=3, capacity=capacity))
    assert [result for result in report.results if result.verdict >= Verdict.FAIL] == []


def test_a_store_without_any_optional_call_is_judged_by_exists_and_get_alone() -> None:
    class Bare:
        capabilities = Capabilities(name="bare", policy=VictimPolicy.FIFO)

        def __init__(self) -> None:
            self._store = TinyStore()
            self.put, self.get, self.exists = self._store.put, self._store.get, self._store.exists
            self.start, self.reset, self.close = self._store.start, self._store.reset, self._store.close

        def client(self, index: int = 0, tenant: str = "") -> Any:
            return self

    report = run(target(Bare), QUICK)
    assert [result for result in report.results if result.verdict >= Verdict.FAIL] == []
    assert verdicts(report)["STO-1"] is Verdict.PASS


def test_a_store_that_others_use_too_is_neither_filled_nor_emptied() -> None:
    class Shared(TinyStore):
        capabilities = attrs.evolve(FLAT, exclusive=False, name="shared")
        most = 0

        def reset(self) -> None:
            self.objects = {"of another": b"x" * 1000}

        def start(self, capacity: int) -> Geometry:
            self.reset()
            return super().start(1 << 20)

        def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
            result = super().put(key, value, parent=parent, options=options)
            type(self).most = max(type(self).most, self.used())
            return result

        def clear(self, *, force: bool = False) -> Answer:
            raise AssertionError("it is not ours to empty")

    report = run(target(Shared), Plan(examples=3))
    assert [result for result in report.results if result.verdict >= Verdict.FAIL] == []
    assert results(report)["STO-6"].reason == "the backend is not exclusive: the suite may not fill it"
    assert Shared.most < 1 << 15
