"""Theorem (progress, PFX-5, PFX-6): while any unprotected object is resident, one of them can be evicted without breaking closure.

Protection is closed under ancestors. Take an unprotected resident object of greatest depth (there is one: the resident set is
finite; this step is in words). It has no present child: an unprotected child would be deeper, a protected one would protect it.
So it is an evictable leaf. Hence exact progress costs nothing: all bytes that are not protected can be freed, leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from kvprefix.proofs.closure import closed
from kvprefix.proofs.logic import FOREST, Obj, Outcome, Set, State, Term, ancestor, ask, children_of, depth, every, x, y

state = State.named()
#: Protected on its own account: leased, hard-pinned, in use or PENDING.
own: Set = Set.named("own_protection")
#: Protected, derived.
protected: Set = Set.named("protected")
deepest: Term = z3.Const("deepest", Obj)

#: An object is protected exactly if it, or a present descendant of it, is so on its own account.
DERIVED: Term = z3.ForAll(
    [x],
    protected.has(x) == z3.Or(own.has(x), z3.Exists([y], z3.And(ancestor(x, y), own.has(y), state.present(y)))),
)
PENDING_IS_PROTECTED: Term = every(lambda o: z3.Implies(state.pending.has(o), own.has(o)))
#: Ancestry as its transitive closure.
TRANSITIVE: Term = z3.ForAll([x, y, (z := z3.Const("z", Obj))], z3.Implies(z3.And(ancestor(x, y), ancestor(y, z)), ancestor(x, z)))


def candidate(of: Set) -> Term:
    """``deepest`` is a resident object outside ``of``, and none such is deeper."""
    free = [state.resident.has(deepest), z3.Not(of.has(deepest))]
    return z3.And(
        *free,
        every(lambda o: z3.Implies(z3.And(state.resident.has(o), z3.Not(of.has(o))), depth(o) <= depth(deepest))),
    )


def prove() -> Iterator[Outcome]:
    """The deepest unprotected object is a leaf; and no ancestor of a protected object is ever a leaf that eviction may take."""
    base = [*FOREST, TRANSITIVE, DERIVED, PENDING_IS_PROTECTED, closed(state)]
    yield ask(
        "the deepest unprotected resident object has no present child",
        [*base, candidate(protected)],
        z3.Not(children_of(deepest, state.present)),
    )
    yield ask(
        "an ancestor of a protected resident object is protected",
        [*base, state.resident.has(y), protected.has(y), ancestor(x, y)],
        protected.has(x),
    )


def refute() -> Iterator[Outcome]:
    """With protection that is not closed under ancestors the deepest unprotected object can have a child; so it cannot go."""
    base = [*FOREST, TRANSITIVE, PENDING_IS_PROTECTED, closed(state)]
    yield ask(
        "the deepest object without protection of its own has no present child",
        [*base, candidate(own)],
        z3.Not(children_of(deepest, state.present)),
    )
