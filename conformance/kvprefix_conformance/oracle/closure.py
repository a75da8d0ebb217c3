"""Closure: no ancestor goes before its descendants, and nothing is resident without its parent. Carries PFX-1, PFX-2 and PFX-10.

The proof of PFX-1 without events: the parent was resident after the child's life began, the child never left, and the parent is
seen gone though nobody removed it. With reported evictions or events the order inside one pass is judged too.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import CacheGroup
from kvprefix_conformance.oracle.case import TOOK_ROOM, Case, Rules, nth
from kvprefix_conformance.oracle.ledger import PENDING, Known, Ledger, Phase
from kvprefix_conformance.records import Violation


def descendants_go_first(case: Case) -> Iterator[Violation]:
    """PFX-1 in the order of one pass: a victim has no descendant left, neither resident, nor PENDING, nor the object being put."""
    pass_ = case.eviction
    for position, victim in enumerate(pass_.victims):
        if not case.before[victim].maybe_present:
            continue
        gone = set(pass_.victims[:position]) if pass_.ordered else set(pass_.victims)
        left = [c for c in case.before.children(victim, surely=True) if c.key not in gone and not c.may & {Phase.DEFERRED}]
        for child in left[:1]:
            later = f"and {child.key} only after it" if child.key in pass_.victims else f"its parent {victim} was evicted"
            state = "PENDING" if child.may == PENDING else "resident"
            yield from _orphaned(
                case, child, case.before[victim], f"{child.key} is {state}, {later} at {nth(case.index)}", pass_.evidence
            )
    yield from _own_parent(case, pass_.victims, pass_.evidence)


def _own_parent(case: Case, victims: tuple[str, ...], evidence: str) -> Iterator[Violation]:
    """A put that evicts its own ancestor: PFX-6, for they count as protected. Not PFX-1: the object was not there yet."""
    if not case.is_put or not isinstance(case.offer.parent, str) or case.result.answer not in TOOK_ROOM:
        return
    if case.before.unsettled:
        return  # the pass in the background may have come before the put
    parent = case.before[case.offer.parent]
    if not parent.maybe_present:
        return  # a hole: what is above it is no ancestor
    own = [parent, *case.before.above(parent.key)]
    if any(known.key in victims for known in own) and _chained(case.offer.options.cache_group, parent):
        because = f"{case.key} needs its ancestors, and its own put at {nth(case.index)} evicted {parent.key}"
        yield case.broken("own-ancestor-evicted", because, expected=f"{parent.key} stays", got="evicted", evidence=evidence)


def _chained(group: CacheGroup, parent: Known) -> bool:
    return group is CacheGroup.FULL and (parent.copy is None or parent.copy.options.cache_group is CacheGroup.FULL)


def parents_outlive_children(case: Case) -> Iterator[Violation]:
    """PFX-1 over time: a child that never left since its parent was resident, and the parent is gone, not removed."""
    before = {(child.key, parent.key) for child, parent in _orphaned_by_eviction(case.before)}
    pass_ = case.eviction.victims
    for child, parent in _orphaned_by_eviction(case.after):
        if (child.key, parent.key) in before or parent.key in pass_ or parent.gone is None:
            continue
        state = "PENDING" if child.may == PENDING else "resident"
        because = f"{child.key} is {state} since {nth(child.since)}, its parent {parent.key} was resident after {nth(parent.seen)}"
        because += f" and is gone at {nth(parent.gone.step)} without a removal"
        yield from _orphaned(case, child, parent, because, parent.gone.evidence)


def _orphaned_by_eviction(ledger: Ledger) -> Iterator[tuple[Known, Known]]:
    for child, parent in _pairs(ledger):
        evicted = parent.gone is not None and parent.gone.how == "evicted" and not parent.maybe_present
        # Seen after the child's life began: else it may have gone for the child's own put, which is PFX-6's matter.
        if evicted and (child.surely_resident or child.may == PENDING) and parent.last >= child.born:
            yield child, parent


def _pairs(ledger: Ledger) -> Iterator[tuple[Known, Known]]:
    """All (child, parent) by a lineage that is not in doubt, the child a FULL object."""
    for child in ledger:
        parent = ledger.parent(child.key)
        if child.maybe_present and isinstance(parent, str) and _is_full(child):
            yield child, ledger[parent]


def _is_full(known: Known) -> bool:
    return known.copy is None or known.copy.options.cache_group is CacheGroup.FULL


def _orphaned(case: Case, child: Known, parent: Known, because: str, evidence: str) -> Iterator[Violation]:
    """PFX-1, and PFX-10 where the two came with different calls."""
    text = {"expected": f"{parent.key} stays while {child.key} is there", "got": f"{parent.key} evicted"}
    yield case.broken("ancestor-evicted", because, evidence=evidence, **text)
    if child.since != parent.since:
        because += f"; they were stored by different calls, {nth(parent.since)} and {nth(child.since)}"
        yield case.broken("orphan-across-calls", because, evidence=evidence, **text)


def resident_set_is_closed(case: Case) -> Iterator[Violation]:
    """PFX-2: every resident object's declared parent is resident; by a snapshot, or by hits and misses with nothing between."""
    before = {(child.key, parent.key) for child, parent in _orphans(case.before)}
    for child, parent in _orphans(case.after):
        if (child.key, parent.key) not in before:
            left = f"was {parent.gone.how} at {nth(parent.gone.step)}" if parent.gone is not None else "was never stored"
            yield case.broken(
                "orphan",
                f"{child.key} is resident, its parent {parent.key} {left}",
                expected=f"{child.key} is resident only while {parent.key} is",
                got="an orphan",
                evidence="resident" if case.seen.resident is not None else "answers",
            )


def _orphans(ledger: Ledger) -> Iterator[tuple[Known, Known]]:
    for child, parent in _pairs(ledger):
        if child.surely_resident and (parent.surely_unreadable or not ledger.chained_to(child, parent)):
            yield child, parent


# --------------------------------------------------------------------------------------------------------------------------------
# What the run has seen


def seen(case: Case) -> Iterator[Violation]:
    """Must-hits: evictions with a branching forest in the store, a closed set that was looked at, chains over several calls."""
    if case.taken:
        _note_eviction(case, case.taken)
    families = [known for known in case.after if known.surely_resident and isinstance(case.after.parent(known.key), str)]
    if len(families) >= 2 and (case.seen.resident is not None or case.answered):
        case.hit("PFX-2", "a chain looked at")
    yield from ()


def _note_eviction(case: Case, victims: frozenset[str]) -> None:
    with_parent = [k for k in case.before if not k.surely_unreadable and isinstance(case.before.parent(k.key), str)]
    parents = {case.before.parent(known.key) for known in with_parent}
    if with_parent:
        case.hit("PFX-1", "an eviction with a chain in the store")
        case.hit("PFX-2", "an eviction with a chain in the store")
    if len(with_parent) > len(parents):
        case.hit("PFX-1", "an eviction with a branching forest in the store")
    apart = [known for known in with_parent if known.since != case.before[str(case.before.parent(known.key))].since]
    if apart:
        case.hit("PFX-10", "an eviction with a chain of several calls in the store")
    if any(known.key in victims for known in apart):
        case.hit("PFX-10", "a block went before its parent of another call")


RULES: Rules = (descendants_go_first, parents_outlive_children, resident_set_is_closed, seen)
