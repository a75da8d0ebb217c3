"""Theorem (closure, PFX-1 and PFX-2): if the resident set is closed under parents, it stays so under every action.

"Closed": every resident or PENDING object that has a declared parent has a resident parent. Closed under parents is closed under
ancestors, by induction on depth. Admission is ``reject`` or ``defer``; eviction takes leaves only; removal refuses or cascades.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from kvprefix.proofs.logic import FOREST, Obj, Outcome, Set, State, Term, ask, children_of, every, has_parent, parent

before, after = State.named(), State.named("'")
#: The object that the action is about.
target: Term = z3.Const("target", Obj)


def closed(state: State) -> Term:
    """The invariant."""
    return every(lambda o: z3.Implies(z3.And(state.present(o), has_parent(o)), state.resident.has(parent(o))))


def becomes(resident: Set, pending: Set) -> Term:
    """The state after is exactly this."""
    return every(lambda o: z3.And(after.resident.has(o) == resident.has(o), after.pending.has(o) == pending.has(o)))


def plus(members: Set, obj: Term) -> Set:
    """The set with one object more."""
    return Set("plus", lambda o: z3.Or(members.has(o), o == obj))


def minus(members: Set, obj: Term) -> Set:
    """The set with one object less."""
    return Set("minus", lambda o: z3.And(members.has(o), o != obj))


def without(members: Set, gone: Set) -> Set:
    """Set difference."""
    return Set("without", lambda o: z3.And(members.has(o), z3.Not(gone.has(o))))


def admitted(obj: Term) -> Term:
    """Admission ``reject``: the declared parent is resident."""
    return z3.Implies(has_parent(obj), before.resident.has(parent(obj)))


def leaf(obj: Term) -> Term:
    """No child is resident or PENDING."""
    return z3.Not(children_of(obj, before.present))


def with_descendants(gone: Set) -> Term:
    """The set holds, with each object, all its present children (and so all its present descendants)."""
    return every(
        lambda o: z3.Implies(z3.And(has_parent(o), gone.has(parent(o)), before.present(o)), gone.has(o)),
    )


def actions() -> Iterator[tuple[str, Term]]:
    """Each action as a formula over the states before and after."""
    gone, shown = Set.named("gone"), Set.named("shown")
    resident, pending = before.resident, before.pending
    yield "put", z3.And(admitted(target), becomes(plus(resident, target), pending))
    yield "put_begin", z3.And(admitted(target), becomes(resident, plus(pending, target)))
    yield (
        "put_commit",
        z3.And(pending.has(target), admitted(target), becomes(plus(resident, target), minus(pending, target))),
    )
    yield "put_abort or timeout of an attempt", z3.And(pending.has(target), becomes(resident, minus(pending, target)))
    yield "eviction of a leaf", z3.And(resident.has(target), leaf(target), becomes(minus(resident, target), pending))
    yield "remove, refusing", z3.And(resident.has(target), leaf(target), becomes(minus(resident, target), pending))
    yield (
        "remove, cascading (also forced: attempts below become STALE)",
        z3.And(with_descendants(gone), becomes(without(resident, gone), without(pending, gone))),
    )
    yield "clear", becomes(Set("none", lambda _: z3.BoolVal(False)), Set("none", lambda _: z3.BoolVal(False)))
    # A deferred object is neither resident nor PENDING, so deferring and dropping one change nothing here. When a parent becomes
    # resident, a set of deferred objects becomes resident with it, each right after its own parent.
    visible = Set("visible", lambda o: z3.Or(resident.has(o), o == target, shown.has(o)))
    yield (
        "put that makes deferred descendants visible",
        z3.And(
            admitted(target),
            every(lambda o: z3.Implies(z3.And(shown.has(o), has_parent(o)), visible.has(parent(o)))),
            becomes(visible, pending),
        ),
    )


def broken_actions() -> Iterator[tuple[str, Term]]:
    """What unsafe stores do; the solver must find the orphan that each leaves."""
    resident, pending = before.resident, before.pending
    only_residents = z3.Not(children_of(target, before.resident.has))
    yield "put without looking at the parent (placeholder)", becomes(plus(resident, target), pending)
    yield "eviction by age alone", z3.And(resident.has(target), becomes(minus(resident, target), pending))
    yield (
        "eviction that forgets PENDING children",
        z3.And(resident.has(target), only_residents, becomes(minus(resident, target), pending)),
    )
    yield "removal that skips the children", z3.And(resident.has(target), becomes(minus(resident, target), pending))
    yield (
        "commit of an object whose parent was forced away and whose begin was trusted",
        z3.And(becomes(plus(resident, target), minus(pending, target))),
    )


def prove() -> Iterator[Outcome]:
    """The theorem, action by action."""
    for name, action in actions():
        yield ask(f"closure is kept by: {name}", [*FOREST, closed(before), action], closed(after))


def refute() -> Iterator[Outcome]:
    """The broken variants; each outcome must be a counterexample."""
    for name, action in broken_actions():
        yield ask(f"closure is kept by: {name}", [*FOREST, closed(before), action], closed(after))
