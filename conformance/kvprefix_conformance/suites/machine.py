"""The machine: a Hypothesis rule-based state machine draws a forest, sizes and moves, and makes them on a fresh store each time.

Hypothesis only generates here. What it finds is recorded as a history, judged by the oracle, and shrunk by minimize.py on the steps
themselves: so one run finds every broken requirement, a backend that is not deterministic cannot confuse the shrinker, and a
scenario needs no Hypothesis to run again. For the same reason nothing that is drawn depends on what the store answers: each rule
draws a tape of bytes, and choices are read from it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from kvprefix_conformance.suites.moves import Move, Scene, moves_of
from kvprefix_conformance.suites.world import Block, Run

#: Moves per example. A move is one to a few steps.
MOVES_PER_EXAMPLE = 30
#: Where newer versions of Hypothesis collect constants from local code.
_PROVIDERS = "hypothesis.internal.conjecture.providers"
#: More choices than any move makes; a tape that runs out begins again.
_TAPE = st.binary(min_size=12, max_size=12)

#: Shapes of forests by parent index (-1: a root), each with a branch or worth having: forks, a comb, a chain, two trees.
SHAPES: tuple[tuple[int, ...], ...] = (
    (-1, 0, 0, 1),
    (-1, 0, 1, 1, 2),
    (-1, 0, 1, 2),
    (-1, 0, 0, 0),
    (-1, 0, -1, 2, 1),
    (-1, 0, 1, 0, 3),
    (-1, -1, 0, 1),
)
#: How many objects of one unit fill the store.
UNITS = (4, 5, 6, 3, 8)

Open = Callable[[int], Run | None]


def forest(run: Run, shape: Sequence[int]) -> list[Block]:
    """Blocks a, b, c, ... with these parents."""
    blocks: list[Block] = []
    for name, above in zip("abcdefgh", shape, strict=False):
        blocks.append(run.block(name, blocks[above] if above >= 0 else None))
    return blocks


def chooser(tape: bytes) -> Callable[[Sequence[Any]], Any]:
    """Reads choices from a tape."""
    position = 0

    def pick(choices: Sequence[Any]) -> Any:
        nonlocal position
        position += 1
        return choices[tape[position % len(tape)] % len(choices)]

    return pick


class _Enough(BaseException):
    """Enough was run. Not an Exception, so that Hypothesis lets it through instead of generating the rest of its examples."""


def machine(name: str, open_run: Open, moves: Sequence[tuple[Move, int]]) -> type[RuleBasedStateMachine]:
    """The state machine class of one emphasis. ``open_run(units)`` gives a run on an empty store, or None when enough was run."""

    class Machine(RuleBasedStateMachine):
        scene: Scene | None = None

        @initialize(tape=_TAPE)
        def begin(self, tape: bytes) -> None:
            pick = chooser(tape)
            run = open_run(pick(UNITS))
            if run is None:
                raise _Enough
            loose = [run.block(letter, unknown=True) for letter in "xyz"]
            self.scene = Scene(run, pick, forest(run, pick(SHAPES)), loose)

    Machine.__name__ = name
    for move, weight in moves:
        for number in range(weight):
            setattr(Machine, f"{move.name}_{number}", _as_rule(move))
    return Machine


def _as_rule(move: Move) -> Any:
    def make(self: Any, tape: bytes) -> None:
        if self.scene is not None and not self.scene.run.over:
            self.scene.pick = chooser(tape)
            move.act(self.scene)

    make.__name__ = move.name
    return rule(tape=_TAPE)(make)


def drive(name: str, open_run: Open, offers: Callable[..., bool], *, values: bool, seed: int, examples: int) -> None:
    """Run the machine for so many examples. Leaves nothing on disk, raises nothing of Hypothesis's own."""
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=MOVES_PER_EXAMPLE,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    made = machine(name, open_run, moves_of(name, offers, values=values))
    with _same_draws_everywhere(), _cut_short():
        run_state_machine_as_test(hypothesis.seed(seed)(made), settings=settings)


@contextlib.contextmanager
def _cut_short() -> Iterator[None]:
    """End the generation where enough was run. An example that was cut in mid-draw may come out of Hypothesis as a flaky one."""
    try:
        yield
    except _Enough:
        pass
    except hypothesis.errors.Flaky as flaky:
        if not isinstance(flaky.__context__, _Enough):
            raise


@contextlib.contextmanager
def _same_draws_everywhere() -> Iterator[None]:
    """Draws depend on the seed alone, not on the constants that Hypothesis collects from whatever local code is loaded.

    Newer versions mix such constants into what they draw, and write them below .hypothesis; a seed would mean something else in
    each checkout. There is no setting for it.
    """
    inside = vars(sys.modules[_PROVIDERS]) if _PROVIDERS in sys.modules else {}
    if not {"_get_local_constants", "Constants"} <= inside.keys():
        yield
        return
    collect, inside["_get_local_constants"] = inside["_get_local_constants"], inside["Constants"]
    try:
        yield
    finally:
        inside["_get_local_constants"] = collect
