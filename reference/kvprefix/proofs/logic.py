"""What all proofs share: the forest as axioms, states as predicates, and one way to ask the solver.

Objects are an uninterpreted sort, so nothing here bounds their number. A claim is proved when its negation is unsatisfiable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from kvprefix.errors import MissingDependencyError

try:
    import z3
except ImportError as missing:  # pragma: no cover - depends on the environment
    raise MissingDependencyError("The proofs need z3.", "pip install 'kvprefix[proof]', or EXTRAS=proof ./run ...") from missing

#: z3 is untyped; its terms are Any for the type checker.
Term = Any

Obj: Term = z3.DeclareSort("Object")
#: The declared parent; meaningful where has_parent holds (ROOT and UNKNOWN objects have none).
parent: Term = z3.Function("parent", Obj, Obj)
has_parent: Term = z3.Function("has_parent", Obj, z3.BoolSort())
#: Number of ancestors. Its existence is what makes the parent relation a forest: a cycle would need depth(x) > depth(x).
depth: Term = z3.Function("depth", Obj, z3.IntSort())
#: ancestor(a, x): a is a proper ancestor of x.
ancestor: Term = z3.Function("ancestor", Obj, Obj, z3.BoolSort())

x, y, c = (z3.Const(name, Obj) for name in ("x", "y", "c"))

#: Facts of every finite forest that the proofs use. They say less than "finite forest" does; what follows holds for it.
FOREST: tuple[Term, ...] = (
    z3.ForAll([x], z3.Implies(has_parent(x), depth(x) == depth(parent(x)) + 1)),
    z3.ForAll([x], depth(x) >= 0),
    z3.ForAll([x], z3.Implies(has_parent(x), ancestor(parent(x), x))),
    z3.ForAll([x, y], z3.Implies(ancestor(x, y), z3.And(has_parent(y), z3.Or(parent(y) == x, ancestor(x, parent(y)))))),
)


@attrs.frozen
class Set:
    """A set of objects, as a predicate."""

    name: str
    has: Callable[[Term], Term]

    @staticmethod
    def named(name: str) -> Set:
        """Any set at all: an uninterpreted predicate."""
        return Set(name, z3.Function(name, Obj, z3.BoolSort()))


@attrs.frozen
class State:
    """A store's state, as far as the theorems speak of it."""

    resident: Set
    pending: Set

    @staticmethod
    def named(suffix: str = "") -> State:
        """Any state at all."""
        return State(Set.named("resident" + suffix), Set.named("pending" + suffix))

    def present(self, obj: Term) -> Term:
        """Resident or PENDING."""
        return z3.Or(self.resident.has(obj), self.pending.has(obj))


def every(formula: Callable[[Term], Term]) -> Term:
    """For all objects."""
    return z3.ForAll([c], formula(c))


def children_of(obj: Term, where: Callable[[Term], Term]) -> Term:
    """Some child of the object satisfies ``where``."""
    return z3.Exists([c], z3.And(has_parent(c), parent(c) == obj, where(c)))


@attrs.frozen
class Outcome:
    """What the solver said of one claim."""

    claim: str
    proved: bool
    #: A counterexample in the solver's words; empty when proved.
    counterexample: str = ""


def ask(claim: str, assumptions: Sequence[Term], conclusion: Term, *, milliseconds: int = 20_000) -> Outcome:
    """Whether the conclusion follows from the assumptions.

    Raises ``TimeoutError`` where the solver cannot tell, and ``ValueError`` where the assumptions contradict each other: from those
    anything follows, so nothing would be proved.
    """
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.set("random_seed", 0)
    solver.add(*assumptions)
    if solver.check() == z3.unsat:
        raise ValueError(f"the assumptions contradict each other: {claim}")
    solver.add(z3.Not(conclusion))
    answer = solver.check()
    if answer == z3.unsat:
        return Outcome(claim, proved=True)
    if answer == z3.sat:
        return Outcome(claim, proved=False, counterexample=str(solver.model()))
    raise TimeoutError(f"the solver could not decide: {claim} ({solver.reason_unknown()})")
