"""Shrinks a history to a scenario that still breaks the same requirement in the same way: fewer steps, then simpler ones.

Works on the steps, not on what generated them. Each candidate runs on an empty store and is judged by the oracle; on a backend that
is not deterministic each runs several times, and what was recorded stays the verdict whatever the reruns say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from kvprefix.keys import lineage_of
from kvprefix_conformance.bench import Bench, BenchError, Replayed, replay
from kvprefix_conformance.codec import Json
from kvprefix_conformance.records import Step, Violation

#: A backend that is not deterministic runs each candidate so often.
TRIES = 3

Steps = tuple[Step, ...]


@attrs.frozen
class Minimal:
    """The smallest history found."""

    replayed: Replayed | None
    #: How many of how many last reruns showed it; None on a deterministic backend.
    shown: tuple[int, int] | None
    runs: int
    #: The violation in the smallest history, and one of another kind that comes before it even there.
    violation: Violation | None = None
    behind: Violation | None = None


class Budget:
    """How many candidates may run, and until when."""

    def __init__(self, runs: int = 600, seconds: float = 10.0) -> None:
        self.runs = runs
        self._until = time.monotonic() + seconds

    def spend(self) -> bool:
        """Take one run; False when nothing is left."""
        self.runs -= 1
        return self.runs >= 0 and time.monotonic() < self._until


class _Hunt:
    """Candidates against the one violation that is being shrunk."""

    def __init__(self, bench: Bench, violation: Violation, budget: Budget) -> None:
        self._bench = bench
        self._violation = violation
        self._budget = budget
        self._tries = 1 if bench.terms.capabilities.deterministic else TRIES
        self.best: Replayed | None = None
        self.shown = 0
        self.runs = 0

    def _same(self, violation: Violation) -> bool:
        return (violation.requirement, violation.kind) == (self._violation.requirement, self._violation.kind)

    def works(self, steps: Sequence[Step]) -> bool:
        """Whether these steps break the requirement again; if so they are the best so far."""
        hits: list[Replayed] = []
        for number in range(self._tries):
            if not self._budget.spend():
                break
            self.runs += 1
            try:
                replayed = replay(self._bench, steps, self._same)
            except BenchError:
                return False
            if any(map(self._same, replayed.violations)):
                hits.append(replayed)
            elif number == 0:
                break
        if hits:
            self.best, self.shown = hits[0], len(hits)
        return bool(hits)

    @property
    def steps(self) -> Steps:
        """The best steps so far."""
        return tuple(recorded.step for recorded in self.best.history) if self.best is not None else ()


def minimize(bench: Bench, steps: Sequence[Step], violation: Violation, budget: Budget | None = None) -> Minimal:
    """The smallest scenario found for this violation; ``replayed`` is None where no rerun showed it."""
    hunt = _Hunt(bench, violation, budget or Budget())
    deterministic = bench.terms.capabilities.deterministic
    if hunt.works(steps):
        _drop_what_is_wrong_before(hunt)
        before: tuple[Json, ...] = ()
        while before != (now := _weight(hunt.steps)):
            before = now
            _drop_steps(hunt)
            _rewrite(hunt, _simpler)
            _rewrite(hunt, _grown)
    shown = None if deterministic else (hunt.shown, TRIES)
    if hunt.best is None:
        return Minimal(None, shown, hunt.runs)
    again = next(each for each in hunt.best.violations if (each.requirement, each.kind) == (violation.requirement, violation.kind))
    earlier = [each for each in hunt.best.violations if each.step < again.step]
    return Minimal(hunt.best, shown, hunt.runs, again, earlier[0] if earlier else None)


def _weight(steps: Steps) -> tuple[Json, ...]:
    return tuple((step.op, repr(step.args), step.client) for step in steps)


def _drop_what_is_wrong_before(hunt: _Hunt) -> None:
    """First of all the steps at which something else went wrong: what is left then stands alone."""
    while hunt.best is not None:
        wrong = {violation.step for violation in hunt.best.violations} - {len(hunt.steps) - 1}
        if not wrong or not hunt.works([step for index, step in enumerate(hunt.steps) if index not in wrong]):
            return


def _drop_steps(hunt: _Hunt) -> None:
    """Delta debugging: drop halves, quarters, ... single steps, from the end."""
    width = max(1, len(hunt.steps) // 2)
    while True:
        position = len(hunt.steps) - width
        while position >= 0:
            steps = hunt.steps
            hunt.works(steps[:position] + steps[position + width :])
            position = min(position - width, len(hunt.steps) - width)
        if width == 1:
            return
        width //= 2


def _rewrite(hunt: _Hunt, rewrites: Callable[[Steps], Iterator[Steps]]) -> None:
    """Try rewrites of the best steps until none works any more."""
    again = True
    while again:
        again = False
        for candidate in rewrites(hunt.steps):
            if len(candidate) <= len(hunt.steps) and hunt.works(candidate):
                again = True
                break


# --------------------------------------------------------------------------------------------------------------------------------
# Rewrites


def _simpler(steps: Steps) -> Iterator[Steps]:
    """One argument simpler: no options, no parent, the first client, the size of an earlier put, fewer members of a batch."""
    sizes = [step.args["value"]["size"] for step in steps if "value" in step.args]
    usual = sizes[0] if sizes else None
    for index, step in enumerate(steps):
        for args in _simpler_args(step, usual):
            yield (*steps[:index], attrs.evolve(step, args=args), *steps[index + 1 :])
        if step.client:
            yield (*steps[:index], attrs.evolve(step, client=0), *steps[index + 1 :])


def _simpler_args(step: Step, usual: int | None) -> Iterator[Mapping[str, Json]]:
    args = dict(step.args)
    told_by_key = lineage_of(args.get("key", "")) is not None
    for name in ("options", "parent", "force", "start"):
        if name in args and not (name == "parent" and told_by_key):
            yield {key: value for key, value in args.items() if key != name}
    if isinstance(args.get("parent"), str) and not args["parent"].startswith("@") and not told_by_key:
        yield {**args, "parent": "@root"}
    value = args.get("value")
    if value is not None and usual is not None and value["size"] != usual:
        yield {**args, "value": {**value, "size": usual}}
    if value is not None and value["fill"] != 1:
        yield {**args, "value": {**value, "fill": 1}}
    for name in ("items", "keys", "chain"):
        for position in range(len(args.get(name, ()))):
            yield {**args, name: [*args[name][:position], *args[name][position + 1 :]]}


def _grown(steps: Steps) -> Iterator[Steps]:
    """Two puts become one as large as both: a store is full with fewer objects."""
    puts = [index for index, step in enumerate(steps) if step.op == "put"]
    for gone in puts:
        for kept in puts:
            if gone == kept:
                continue
            value = steps[kept].args["value"]
            size = value["size"] + steps[gone].args["value"]["size"]
            larger = attrs.evolve(steps[kept], args={**steps[kept].args, "value": {**value, "size": size}})
            candidate = [larger if index == kept else step for index, step in enumerate(steps) if index != gone]
            yield tuple(candidate)
