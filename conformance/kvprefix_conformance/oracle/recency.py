"""Which of the evictable leaves goes. Carries PFX-9, and the parts of PRT-3 and PRT-4 that show only in the order of victims.

Ties are free: two stamps of one millisecond, or spans that overlap, order nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Pin, VictimPolicy
from kvprefix_conformance.oracle.case import Case, Eviction, Rules
from kvprefix_conformance.oracle.ledger import Known, Span
from kvprefix_conformance.oracle.protection import leaves
from kvprefix_conformance.oracle.shield import soft_counted, span_text
from kvprefix_conformance.records import Violation


def oldest_goes(case: Case) -> Iterator[Violation]:
    """PFX-9: no evictable leaf that was stored (fifo) or touched (lru) before the victim is left when the victim goes."""
    policy = case.terms.capabilities.policy
    pass_ = case.eviction
    if policy is VictimPolicy.UNSPECIFIED or not pass_.victims or not case.before.exact:
        return
    for position, victim in enumerate(pass_.victims):
        if not case.before[victim].surely_resident:
            continue  # a deferred object: it goes before all others
        gone = set(pass_.victims[:position]) if pass_.ordered else set()
        due = [
            known
            for known in _rivals(case, pass_, case.before[victim], gone)
            if _stamp(case, known).hi < _stamp(case, case.before[victim]).lo
        ]
        if due:
            yield from _blame(case, pass_, case.before[victim], min(due, key=lambda known: _stamp(case, known).hi))
        elif _rivals(case, pass_, case.before[victim], gone):
            _note(case, pass_, case.before[victim], gone)


def _rivals(case: Case, pass_: Eviction, victim: Known, gone: set[str]) -> list[Known]:
    """Leaves that could have gone instead: soft pins go after all others, among themselves in order.

    Where the order of a pass is not known, only what was a leaf before it and outlived it counts.
    """
    others = {victim.key} if pass_.ordered else set(pass_.victims)
    hard = soft_counted(case.before, case.terms, victim.key, surely=False)
    return [
        known
        for known in leaves(case, gone)
        if known.key not in others and (hard or not soft_counted(case.before, case.terms, known.key, surely=False))
    ]


def _stamp(case: Case, known: Known) -> Span:
    return known.stored if case.terms.capabilities.policy is VictimPolicy.FIFO else known.touched


def _blame(case: Case, pass_: Eviction, victim: Known, due: Known) -> Iterator[Violation]:
    verb = "stored" if case.terms.capabilities.policy is VictimPolicy.FIFO else "last touched"
    because = f"{due.key} was {verb} at {span_text(_stamp(case, due))}, {victim.key} at {span_text(_stamp(case, victim))},"
    because += f" both were evictable leaves, and {victim.key} went"
    text = {"expected": f"{due.key} goes first", "got": f"{victim.key} went"}
    yield case.broken("not-the-victim", because, evidence=pass_.evidence, **text)
    if due.copy is not None and due.copy.options.pin is Pin.SOFT:
        because += f"; the soft pin of {due.key} had ended"
        yield case.broken("soft-pin-overstays", because, evidence=pass_.evidence, **text)
    silent = sorted(due.read_by - case.terms.capabilities.touch_calls)
    if silent:
        because += f"; {due.key} was read by {', '.join(silent)}, which does not touch by declaration"
        yield case.broken("undeclared-touch", because, evidence=pass_.evidence, **text)


def _note(case: Case, pass_: Eviction, victim: Known, gone: set[str]) -> None:
    """Must-hits: a choice among leaves whose stamps differ, and one that a touch had turned."""
    rivals = _rivals(case, pass_, victim, gone)
    later = [known for known in rivals if _stamp(case, known).lo > _stamp(case, victim).hi]
    if later:
        case.hit("PFX-9", "the oldest of several leaves went")
    if any(known.stored.hi < victim.stored.lo for known in later):
        case.hit("PFX-9", "a touched leaf outlived a younger one")
    if any(known.copy is not None and known.copy.options.pin is Pin.SOFT for known in [victim]):
        case.hit("PRT-4", "an object whose soft pin had ended went in its turn")


RULES: Rules = (oldest_goes,)
