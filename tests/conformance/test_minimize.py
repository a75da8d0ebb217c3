"""Shrinking keeps the violation and drops what does not matter."""

from __future__ import annotations

from suite_support import TinyStore, target

from kvprefix_conformance.bench import Bench, replay
from kvprefix_conformance.minimize import Budget, minimize
from kvprefix_conformance.records import Step, Violation


def put(key: str, size: int = 1000, fill: int = 1, **more: object) -> Step:
    return Step("put", {"key": key, "value": {"fill": fill, "size": size}, **more})


def get(key: str) -> Step:
    return Step("get", {"key": key})


class ForgetsB(TinyStore):
    """Loses b at the first read after a was read."""

    read_a = False

    def reset(self) -> None:
        super().reset()
        self.read_a = False

    def get(self, key: str) -> bytes | None:
        value = super().get(key)
        if key == "b" and self.read_a:
            return None
        self.read_a = self.read_a or (key == "a" and value is not None)
        return value


LOST = Violation("STO-1", "lost", "", 0)


def test_only_the_steps_that_matter_are_left() -> None:
    noise = [put("x", 10), get("x"), put("y", 10), get("y"), Step("stats"), Step("exists", {"key": "q"})]
    steps = [*noise, put("a"), *noise, put("b", fill=3), get("b"), *noise, get("a"), *noise, get("b")]
    with Bench(target(ForgetsB), 4096) as bench:
        minimal = minimize(bench, steps, LOST)
    assert minimal.replayed is not None
    kept = [(each.step.op, each.step.args["key"]) for each in minimal.replayed.history]
    assert kept == [("put", "a"), ("put", "b"), ("get", "a"), ("get", "b")]
    assert minimal.replayed.history[1].step.args["value"] == {"fill": 1, "size": 1000}
    assert (minimal.shown, minimal.behind) == (None, None)


def test_several_small_puts_that_fill_a_store_become_fewer_large_ones() -> None:
    steps = [put("a"), put("b", parent="a"), put("c"), put("d"), put("e")]
    violation = Violation("PFX-1", "ancestor-evicted", "", 0)
    with Bench(target(TinyStore), 4096) as bench:
        minimal = minimize(bench, steps, violation)
    assert minimal.replayed is not None
    assert [each.step.args["key"] for each in minimal.replayed.history] in (["a", "b", "e"], ["a", "b", "d"], ["a", "b", "c"])


class LosesBehindAGhost(TinyStore):
    """probe hits what is not there, and from then on nothing is found."""

    haunted = False

    def reset(self) -> None:
        super().reset()
        self.haunted = False

    def probe(self, key: str) -> bool:
        self.haunted = True
        return True

    def get(self, key: str) -> bytes | None:
        return None if self.haunted else super().get(key)


def test_what_comes_behind_another_violation_even_in_the_smallest_scenario_is_told() -> None:
    steps = [put("x"), put("b"), Step("probe", {"key": "nothing"}), get("b")]
    with Bench(target(LosesBehindAGhost), 4096) as bench:
        minimal = minimize(bench, steps, LOST)
    assert minimal.replayed is not None
    assert len(minimal.replayed.history) == 3
    assert minimal.behind is not None
    assert minimal.behind.kind == "phantom"


def test_a_violation_that_does_not_show_again_is_not_made_up() -> None:
    with Bench(target(TinyStore), 4096) as bench:
        minimal = minimize(bench, [put("a"), get("a")], LOST)
    assert (minimal.replayed, minimal.violation, minimal.runs) == (None, None, 1)


def test_the_budget_ends_the_search_and_keeps_the_best_so_far() -> None:
    steps = [put("x", 10), get("x"), put("a"), put("b"), get("a"), get("b")]
    with Bench(target(ForgetsB), 4096) as bench:
        minimal = minimize(bench, steps, LOST, Budget(runs=1))
    assert minimal.replayed is not None
    assert len(minimal.replayed.history) == 6


def test_a_replay_ends_with_the_violation_that_is_asked_for() -> None:
    steps = [put("a"), put("b"), get("a"), get("b"), get("a")]
    with Bench(target(ForgetsB), 4096) as bench:
        replayed = replay(bench, steps, lambda violation: violation.kind == "lost")
    assert len(replayed.history) == 4
    assert [violation.kind for violation in replayed.violations] == ["lost"]
