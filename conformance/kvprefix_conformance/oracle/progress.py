"""How much a pass takes. Carries PFX-7 and the part of PFX-6 and STO-7 that is not an answer (answers.py has NO_SPACE)."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Answer, EvictUnit
from kvprefix_conformance.oracle.case import TOOK_ROOM, Case, Rules, nth, story
from kvprefix_conformance.oracle.shield import used
from kvprefix_conformance.records import Violation


def reports_are_true(case: Case) -> Iterator[Violation]:
    """STO-7: a put reports no eviction of what was not there."""
    if case.step.op not in ("put", "put_begin", "put_commit") or not case.result.evicted:
        return
    for victim in case.result.evicted:
        if case.before[victim].may == frozenset() or not case.before[victim].maybe_present:
            because = f"{story(case.before[victim])}, and {case.step.op} of {case.key} reports its eviction"
            yield case.broken("false-report", because, expected="victims that were there", got=victim)


def refusals_take_nothing(case: Case) -> Iterator[Violation]:
    """STO-2, STO-7: a duplicate put, and a put that is refused, report no evictions (the snapshot is objects.py's matter)."""
    if not case.is_put or not case.result.evicted or case.result.answer in TOOK_ROOM:
        return
    answer = case.result.answer
    if answer is Answer.NO_SPACE and case.terms.capabilities.refused_put_evicts:
        return
    kind = "duplicate-evicted" if answer is Answer.EXISTS else "refused-put-evicted"
    because = f"put of {case.key} is answered {answer.value}, and it evicted {', '.join(case.result.evicted)}"
    yield case.broken(kind, because, expected="no eviction", got=", ".join(case.result.evicted))


def never_evicts(case: Case) -> Iterator[Violation]:
    """PFX-6: a store that declares that it never evicts does not."""
    pass_ = case.eviction
    if pass_.victims and not case.terms.capabilities.evicts:
        because = f"the store declares that it never evicts, and {nth(case.index)} evicted {', '.join(pass_.victims)}"
        yield case.broken("evicts-undeclared", because, expected="NO_SPACE", got=case.result.answer.value, evidence=pass_.evidence)


def stops_when_met(case: Case) -> Iterator[Violation]:
    """PFX-7: without its last unit a pass had not met its target."""
    pass_ = case.eviction
    if not case.is_put or not pass_.victims or case.before.unsettled or case.result.answer not in TOOK_ROOM:
        return
    if case.terms.capabilities.contiguous:
        return  # how much had to go depends on where it lay
    target = _target(case)
    charges = {victim: case.terms.charge(case.before[victim].sizes()[0]) for victim in pass_.victims}
    total = sum(charges.values())
    last = _last_unit(case, pass_.victims, charges, ordered=pass_.ordered)
    victims = ", ".join(pass_.victims)
    if target <= 0:
        because = f"{case.key} fits without any eviction, and {victims} went for it"
        yield case.broken("evicted-without-need", because, expected="no eviction", got=victims, evidence=pass_.evidence)
    elif total - last >= target:
        because = (
            f"{target} bytes had to be freed for {case.key}, and {victims} freed {total}, {total - last} of them before the last"
        )
        yield case.broken(
            "over-evicted", because, expected=f"less than {target + last} bytes", got=f"{total}", evidence=pass_.evidence
        )
    else:
        case.hit("PFX-7", "an eviction measured")
        if len(pass_.victims) > 1:
            case.hit("PFX-7", "a pass of several evictions measured")


def _target(case: Case) -> int:
    """Bytes that the pass has to free: the put's need, or down to the declared low mark."""
    caps, terms = case.terms.capabilities, case.terms
    goal = int(terms.geometry.capacity_bytes * max(0.0, caps.watermark - caps.evict_ratio))
    return used(case.before, terms).hi + terms.charge(case.offer.size) - goal


def _last_unit(case: Case, victims: tuple[str, ...], charges: dict[str, int], *, ordered: bool) -> int:
    """Bytes of the unit that went last, or of the largest where the order is not known."""
    unit = case.terms.capabilities.evict_unit
    if unit is EvictUnit.OBJECT:
        return charges[victims[-1]] if ordered else max(charges.values())
    sizes: dict[str, int] = {}
    for victim in victims:
        sizes[_unit_of(case, victim, unit, victims)] = sizes.get(_unit_of(case, victim, unit, victims), 0) + charges[victim]
    return max(sizes.values())


def _unit_of(case: Case, victim: str, unit: EvictUnit, victims: tuple[str, ...]) -> str:
    copy = case.before[victim].copy
    if unit is EvictUnit.FAMILY:
        return copy.options.family if copy is not None and copy.options.family else victim
    top = victim
    for above in case.before.above(victim):  # a node is a run of blocks: named here by its topmost victim
        if above.key not in victims:
            break
        top = above.key
    return top


RULES: Rules = (reports_are_true, refusals_take_nothing, never_evicts, stops_when_met)
