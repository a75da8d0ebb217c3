"""The walk: breadth first over every reachable node of a world, with every choice that the store has; what it saw, and what broke.

What must always hold is asked of every step and of every node; the first step that breaks it ends the walk, and its path is a
shortest one. Carries no requirement of its own: it judges by ``model.invariants`` and ``model.witnesses``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator

import attrs

from kvprefix.explore.bounds import World
from kvprefix.explore.moves import moves, remembered
from kvprefix.explore.nodes import Memory, Node, identity, unlike
from kvprefix.model.actions import Action, Choice, Outcome
from kvprefix.model.choices import choices
from kvprefix.model.invariants import ALWAYS, ALWAYS_STEP
from kvprefix.model.predicates import Transition, transitions
from kvprefix.model.step import step
from kvprefix.model.values import State
from kvprefix.model.witnesses import EVENTUALLY, SOMETIMES


@attrs.frozen
class Taken:
    """One step of a path: what was done, what the store chose, what came of it."""

    action: Action
    choice: Choice
    outcome: Outcome
    memory: Memory = ()


@attrs.frozen
class Design:
    """What is walked: how a store answers an action. The model itself, or a design that the model's invariants judge."""

    name: str
    #: Everything that the store may do when it is asked so.
    act: Callable[[World, Node, Action], Iterator[Taken]]
    #: What of the moves within the bounds its clients make.
    makes: Callable[[World, Node, Action], bool] = lambda _world, _node, _action: True


def _by_the_rules(world: World, node: Node, action: Action) -> Iterator[Taken]:
    for choice in choices(world.rules, node.state, action):
        yield Taken(action, choice, step(world.rules, node.state, action, choice))


#: The abstract model.
MODEL = Design("model", _by_the_rules)


@attrs.frozen
class Broken:
    """A sentence of the spec that does not hold. Its name and requirement are those of the model's predicate."""

    name: str
    requirement: str
    #: "always", "step" or "eventually".
    kind: str


@attrs.frozen
class Counterexample:
    """A shortest path to what does not hold."""

    world: World
    design: str
    path: tuple[Taken, ...]
    #: All that does not hold at its end.
    broken: tuple[Broken, ...]

    @property
    def before(self) -> State:
        """The state before the last step."""
        return self.path[-2].outcome.state if len(self.path) > 1 else State.initial()


@attrs.frozen
class Walk:
    """What a walk saw, or several together."""

    worlds: int = 0
    states: int = 0
    #: Steps taken; of steps that a renaming of blocks makes one, one is taken.
    transitions: int = 0
    #: Steps to the farthest state, over the shortest way.
    diameter: int = 0
    #: CPU time in seconds.
    seconds: float = 0.0
    #: Names of the SOMETIMES predicates that were witnessed.
    witnessed: frozenset[str] = frozenset()
    counterexample: Counterexample | None = None
    #: The walk was cut short at the most states that it may hold.
    cut: bool = False

    def __add__(self, other: Walk) -> Walk:
        """Both walks as one."""
        return Walk(
            self.worlds + other.worlds,
            self.states + other.states,
            self.transitions + other.transitions,
            max(self.diameter, other.diameter),
            self.seconds + other.seconds,
            self.witnessed | other.witnessed,
            self.counterexample or other.counterexample,
            self.cut or other.cut,
        )

    @property
    def rate(self) -> float:
        """States per second of CPU time."""
        return self.states / self.seconds if self.seconds else 0.0


class _Search:
    """One breadth-first search."""

    def __init__(self, world: World, design: Design, *, symmetry: bool, known: frozenset[str], judged: frozenset[str]) -> None:
        self.world, self.design, self.symmetry = world, design, symmetry
        self.always = [p for p in ALWAYS if not judged or p.name in judged]
        self.always_step = [p for p in ALWAYS_STEP if not judged or p.name in judged]
        # What must come in time is asked of the model's own future: of a design it would say nothing.
        self.eventually = [p for p in EVENTUALLY if design is MODEL and (not judged or p.name in judged)]
        self.unseen = [predicate for predicate in SOMETIMES if predicate.name not in known]
        self.witnessed: set[str] = set()
        self.nodes = [Node(State.initial())]
        self.seen: set[Hashable] = {identity(world, self.nodes[0], symmetry=symmetry)}
        #: How each node but the first was reached: from which, and by what.
        self.reached: list[tuple[int, Taken] | None] = [None]
        self.transitions = 0
        self.broken: tuple[Broken, ...] = ()
        self.last: tuple[int, Taken] | None = None

    def run(self, most_states: int) -> tuple[int, bool]:
        """Search layer by layer; the number of the last layer, and whether it was cut short."""
        depth, layer = 0, range(1)
        while layer:
            first_new = len(self.nodes)
            for number in layer:
                if not self._expand(number):
                    return depth + 1, False
                if len(self.nodes) > most_states:
                    return depth + 1, True
            layer = range(first_new, len(self.nodes))
            depth += bool(layer)
        return depth, False

    def _expand(self, number: int) -> bool:
        """Take every step from a node; False when one broke something."""
        node, world, design = self.nodes[number], self.world, self.design
        for action in moves(world, node, unlike(world, node) if self.symmetry else None):
            if not design.makes(world, node, action):
                continue
            for taken in design.act(world, node, action):
                self.transitions += 1
                if not self._take(number, node, taken):
                    return False
        return True

    def _take(self, number: int, node: Node, taken: Taken) -> bool:
        rules, outcome = self.world.rules, taken.outcome
        singles = transitions(node.state, taken.action, outcome)
        broken = [
            Broken(p.name, p.requirement, "step") for p in self.always_step if not all(p.holds(rules, single) for single in singles)
        ]
        self._note(singles)
        after = Node(outcome.state, remembered(node, taken.action, outcome), taken.memory)
        form = identity(self.world, after, symmetry=self.symmetry)
        if form not in self.seen:
            broken += [Broken(p.name, p.requirement, "always") for p in self.always if not p.holds(rules, after.state)]
            if not broken:
                broken += [Broken(p.name, p.requirement, "eventually") for p in self.eventually if not p.holds(rules, after.state)]
            self.seen.add(form)
            self.nodes.append(after)
            self.reached.append((number, taken))
        if broken:
            self.broken, self.last = tuple(broken), (number, taken)
        return not broken

    def _note(self, singles: tuple[Transition, ...]) -> None:
        """Note what a step is a witness of, if it is news."""
        for single in singles if self.unseen else ():
            for predicate in [p for p in self.unseen if p.holds(self.world.rules, single)]:
                self.unseen.remove(predicate)
                self.witnessed.add(predicate.name)

    def path(self) -> tuple[Taken, ...]:
        """The steps to what broke."""
        line: tuple[Taken, ...] = ()
        at = self.last
        while at is not None:
            number, taken = at
            line = (taken, *line)
            at = self.reached[number]
        return line


def walk(
    world: World,
    design: Design = MODEL,
    *,
    symmetry: bool = True,
    known: frozenset[str] = frozenset(),
    judged: frozenset[str] = frozenset(),
    most_states: int = 1_000_000,
) -> Walk:
    """Walk one world until nothing new is reached, or something is broken.

    ``known`` are the names of witnesses that need not be looked for any more. ``judged`` are the
    names of what is asked; all, if empty.
    """
    begun = time.process_time()
    search = _Search(world, design, symmetry=symmetry, known=known, judged=judged)
    depth, cut = search.run(most_states)
    found = Counterexample(world, design.name, search.path(), search.broken) if search.broken else None
    return Walk(
        1, len(search.nodes), search.transitions, depth, time.process_time() - begun, frozenset(search.witnessed), found, cut
    )
