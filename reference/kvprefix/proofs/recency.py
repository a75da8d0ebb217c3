"""Theorem (recency, PFX-9 and PFX-10): in a total order in which every touch of a block also touches its ancestors later than it,
plain LRU evicts leaf first.

The invariant: every resident object is older than its resident parent. Then the oldest resident object has no resident child,
because that child would be older still. No tree is needed, only the order of touches; but ties, or touches of part of the chain,
break it.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from kvprefix.proofs.logic import FOREST, Obj, Outcome, Set, Term, ancestor, ask, children_of, every, has_parent, parent

resident: Set = Set.named("resident")
#: The recency stamp before and after; larger is more recent.
stamp: Term = z3.Function("stamp", Obj, z3.IntSort())
later: Term = z3.Function("later", Obj, z3.IntSort())
touched: Term = z3.Const("touched", Obj)
victim: Term = z3.Const("victim", Obj)


def ordered(order: Term) -> Term:
    """Every resident object is strictly older than its parent."""
    return every(lambda o: z3.Implies(z3.And(resident.has(o), has_parent(o)), order(o) < order(parent(o))))


def on_path(obj: Term) -> Term:
    """The touched object or an ancestor of it."""
    return z3.Or(obj == touched, ancestor(obj, touched))


def touch_leaf_to_root() -> Term:
    """The path gets stamps above all others, each ancestor above the block below it; the rest keeps its own."""
    o, other = z3.Consts("o other", Obj)
    return z3.And(
        z3.ForAll([o], z3.Implies(z3.Not(on_path(o)), later(o) == stamp(o))),
        z3.ForAll([o, other], z3.Implies(z3.And(on_path(o), z3.Not(on_path(other))), later(o) > stamp(other))),
        z3.ForAll([o], z3.Implies(z3.And(on_path(o), has_parent(o)), later(o) < later(parent(o)))),
    )


def touch_one() -> Term:
    """Only the touched object gets a new stamp, above all others."""
    o = z3.Const("o", Obj)
    return z3.ForAll([o], z3.If(o == touched, z3.BoolVal(True), z3.And(later(o) == stamp(o), later(touched) > stamp(o))))


def oldest(order: Term) -> Term:
    """``victim`` is resident and no resident object is older: what plain LRU takes."""
    return z3.And(resident.has(victim), every(lambda o: z3.Implies(resident.has(o), order(victim) <= order(o))))


def is_leaf() -> Term:
    """No resident child."""
    return z3.Not(children_of(victim, resident.has))


def closed() -> Term:
    """The resident set is closed under parents."""
    return every(lambda o: z3.Implies(z3.And(resident.has(o), has_parent(o)), resident.has(parent(o))))


def prove() -> Iterator[Outcome]:
    """The victim of plain LRU is a leaf, and the touch that makes it so keeps the order."""
    yield ask("plain LRU evicts a leaf", [*FOREST, closed(), ordered(stamp), oldest(stamp)], is_leaf())
    yield ask("a leaf-to-root touch keeps the order", [*FOREST, closed(), ordered(stamp), touch_leaf_to_root()], ordered(later))


def refute() -> Iterator[Outcome]:
    """Ties: equal stamps leave the choice to chance. Partial chains: a touch of one block makes it younger than its parent."""
    ties = every(lambda o: z3.Implies(z3.And(resident.has(o), has_parent(o)), stamp(o) <= stamp(parent(o))))
    yield ask("plain LRU evicts a leaf though stamps may be equal", [*FOREST, closed(), ties, oldest(stamp)], is_leaf())
    yield ask("a touch of one block keeps the order", [*FOREST, closed(), ordered(stamp), touch_one()], ordered(later))
