"""The order of answers of a put: INVALID, EXISTS, IN_PROGRESS, TOO_LARGE, PARENT_MISSING, NO_SPACE, then stored.

Each stage says whether it surely or possibly decides this put, and which requirement it breaks to skip it or to claim it wrongly;
the first stage that surely decides is the end. Carries what answers show of STO-2, 3, 5, 7 and 10, PRT-4, PFX-3, 6 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from kvprefix.api import (
    UNKNOWN,
    Accounting,
    Admission,
    Answer,
    CacheGroup,
    DuplicatePut,
    EmptyValue,
    Pin,
    Progress,
)
from kvprefix_conformance.oracle.case import Case, Rules, story
from kvprefix_conformance.oracle.ledger import DEFERRED, Attempt, Copy, Phase
from kvprefix_conformance.oracle.objects import aliased, hostile
from kvprefix_conformance.oracle.shield import shield, unevictable, used
from kvprefix_conformance.records import Violation


@attrs.frozen
class Stage:
    """One possible decision."""

    answer: Answer
    #: It decides, unless an earlier stage does; without doubt, or possibly.
    sure: bool
    possible: bool
    #: Kind of violation to answer otherwise though it surely decides, and to answer so though it cannot.
    skipped: str
    wrong: str
    why: str = ""


def blame(stages: list[Stage], got: Answer) -> tuple[Stage, str] | None:
    """The stage and kind that an answer breaks; None for an answer that is allowed."""
    last = next(i for i, stage in enumerate(stages) if stage.sure)
    at = [i for i, stage in enumerate(stages) if stage.answer is got]
    if any(i <= last and stages[i].possible for i in at):
        return None
    early = [i for i in at if i < last]
    if early and early == at:
        return stages[early[0]], stages[early[0]].wrong
    return stages[last], stages[last].skipped


def allowed(stages: list[Stage]) -> list[Answer]:
    """The answers that the ledger leaves open, in the order of decision."""
    last = next(i for i, stage in enumerate(stages) if stage.sure)
    answers = [stage.answer for stage in stages[: last + 1] if stage.possible]
    return list(dict.fromkeys(answers))


# --------------------------------------------------------------------------------------------------------------------------------
# The stages of a put


def _unsupported(case: Case, offer: Copy) -> Stage:
    caps, options = case.terms.capabilities, offer.options
    pin = options.pin is not Pin.NONE and options.pin not in caps.pins
    cache_group = options.cache_group not in caps.cache_groups
    other = (
        (options.namespace != "" and not caps.namespaces)
        or (options.object_group != "" and not caps.object_groups)
        or (options.family != "" and caps.families.value == "none")
    )
    sure = pin or cache_group or other
    kind = "cache-group-undeclared" if cache_group else "pin-undeclared" if pin else "unsupported"
    why = "the option is not declared" if sure else "all options are declared"
    return Stage(Answer.UNSUPPORTED, sure, sure or options.lease_ms > 0, kind, "unsupported", why)


def _invalid(case: Case, offer: Copy) -> Stage:
    """STO-3 (empty value), STO-10 (hostile keys), PFX-3 (cycles), PFX-12 (parents of non-full objects)."""
    caps, geometry = case.terms.capabilities, case.terms.geometry
    told = isinstance(offer.parent, str) and bool(caps.lineage)
    if offer.size == 0 and caps.empty_value is EmptyValue.INVALID and caps.values:
        return Stage(Answer.INVALID, True, True, "empty-value", "empty-value", "an empty value is INVALID by declaration")
    if offer.options.cache_group is not CacheGroup.FULL and offer.parent is not UNKNOWN:
        return Stage(
            Answer.INVALID, bool(caps.lineage), True, "non-full-bound", "non-full-bound", "only full objects have a parent"
        )
    sure, possible = _closes_cycle(case, offer) if told else (False, False)
    if possible:
        sure = sure and case.before[case.key].may.isdisjoint({Phase.RESIDENT, Phase.PENDING})
        return Stage(Answer.INVALID, sure, True, "cycle-accepted", "cycle-accepted", f"{case.key} would be its own ancestor")
    too_long = geometry.max_key_bytes is not None and len(case.key.encode("utf-8", "surrogatepass")) > geometry.max_key_bytes
    possible = hostile(case.key) or too_long or offer.size < geometry.min_value_bytes
    wrong = "empty-value" if offer.size == 0 else "hostile-key" if hostile(case.key) else "lost"
    return Stage(Answer.INVALID, False, possible, "hostile-key", wrong, "key, value and lineage are valid")


def _closes_cycle(case: Case, offer: Copy) -> tuple[bool, bool]:
    """Along declared parents of present objects, the key itself present or not: without doubt, and possibly."""
    above, seen, sure = offer.parent, set[str](), True
    while isinstance(above, str) and above not in seen:
        if above == case.key:
            return sure, True
        seen.add(above)
        known, parent = case.before[above], case.before.parent(above)
        if parent is None or not known.maybe_present:
            return False, known.maybe_present  # not known which of several parents it has; or a hole
        sure, above = sure and known.surely_present, parent
    return False, False


def _exists(case: Case, _offer: Copy) -> Stage:
    """STO-2; answered STORED where duplicates are silent."""
    known = case.before[case.key]
    silent = case.terms.capabilities.duplicate_put is DuplicatePut.SILENT and case.step.op == "put"
    answer = Answer.STORED if silent else Answer.EXISTS
    wrong = (
        "hostile-key"
        if aliased(case.before, case.key)
        else "trace-left"
        if known.refused >= 0 and known.gone is None
        else "phantom"
    )
    return Stage(answer, known.surely_resident, not known.surely_unreadable, "duplicate-answer", wrong, story(known))


def _in_progress(case: Case, _offer: Copy) -> Stage:
    """STO-5: one open attempt per key."""
    known = case.before[case.key]
    sure, possible = known.may == {Phase.PENDING}, Phase.PENDING in known.may
    return Stage(Answer.IN_PROGRESS, sure, possible, "attempt-overrun", "key-blocked", story(known))


def _deferred_again(case: Case, _offer: Copy) -> Stage:
    """PFX-3: a put or put_begin of a deferred key answers DEFERRED again."""
    known = case.before[case.key]
    sure, possible = known.may == DEFERRED, Phase.DEFERRED in known.may
    return Stage(Answer.DEFERRED, sure, possible, "orphan-admitted", "parent-refused", story(known))


def _too_large(case: Case, offer: Copy) -> Stage:
    """STO-7: what can never fit."""
    terms, geometry = case.terms, case.terms.geometry
    limit = geometry.capacity_bytes if geometry.max_value_bytes is None else geometry.max_value_bytes
    never = terms.charge(offer.size) > geometry.capacity_bytes or offer.size > limit
    exact = terms.capabilities.accounting is Accounting.EXACT and not terms.capabilities.contiguous
    loose = not exact and 2 * terms.charge(offer.size) > geometry.capacity_bytes
    why = f"{offer.size} bytes cost {terms.charge(offer.size)} of {geometry.capacity_bytes}"
    return Stage(Answer.TOO_LARGE, never, never or loose, "too-large-answer", "too-large-answer", why)


def _parent_missing(case: Case, offer: Copy) -> Stage:
    """PFX-3, admission reject."""
    sure, possible, why = parent_away(case, offer)
    reject = case.terms.capabilities.admission is Admission.REJECT
    kind = "non-full-bound" if _bound_to_non_full(case, offer) else "orphan-admitted"
    return Stage(Answer.PARENT_MISSING, reject and sure, reject and possible, kind, "parent-refused", why)


def _bound_to_non_full(case: Case, offer: Copy) -> bool:
    copy = case.before[str(offer.parent)].copy
    return copy is not None and copy.options.cache_group is not CacheGroup.FULL


def parent_away(case: Case, offer: Copy) -> tuple[bool, bool, str]:
    """Whether the declared parent is surely, or possibly, no resident FULL object of the namespace; and the reason in words."""
    if not isinstance(offer.parent, str):
        return False, False, "it names no parent"
    known = case.before[offer.parent]
    copy = known.copy
    if copy is not None and copy.options.namespace != offer.options.namespace and known.maybe_present:
        return True, True, f"its parent {known.key} is in another namespace"
    if copy is not None and copy.options.cache_group is not CacheGroup.FULL and known.maybe_present:
        return True, True, f"{known.key} is no full object and can be nobody's parent"
    return known.surely_unreadable, not known.surely_resident, f"of its parent: {story(known)}"


def _no_space(case: Case, offer: Copy) -> Stage:
    """PFX-6: refused for space exactly when what cannot be freed leaves too little."""
    caps, terms = case.terms.capabilities, case.terms
    charge, capacity = terms.charge(offer.size), terms.geometry.capacity_bytes
    if caps.progress is Progress.REJECT or not caps.evicts:
        full = used(case.before, terms)
    else:
        full = unevictable(case.before, terms, case.key, offer.parent)
    sure, possible = capacity - full.lo < charge, capacity - full.hi < charge
    if caps.accounting is Accounting.NONE or caps.progress is Progress.NONE or caps.contiguous or not caps.exclusive:
        possible = True
    if caps.progress is Progress.EVENTUAL:
        possible = possible or not _had_its_time(case, offer)
    wrong = "no-progress" if caps.progress is Progress.EVENTUAL else "refused-with-room"
    what = "in use" if caps.progress is Progress.REJECT else "that cannot be evicted"
    amount = f"{full.lo}" if full.lo == full.hi else f"{full.lo} to {full.hi}"
    why = f"it needs {charge} of {capacity} bytes, {amount} are taken by objects {what}"
    return Stage(Answer.NO_SPACE, sure and caps.accounting is not Accounting.NONE, possible, "stored-without-room", wrong, why)


def _had_its_time(case: Case, offer: Copy) -> bool:
    """Eventual progress: the same put was refused before, and since then the store had a quiesce or its declared time."""
    refusal, wait = case.before.refusal, case.terms.capabilities.progress_ms
    if refusal is None or (refusal.key, refusal.size) != (case.key, offer.size):
        return False
    return refusal.at.plus(wait).hi < case.before.now.lo if wait else refusal.quiesced


def _finals(case: Case, offer: Copy) -> list[Stage]:
    if case.step.op == "put_begin":
        return [Stage(Answer.OK, True, True, "lost", "lost", "nothing stands in its way")]
    sure, possible, why = parent_away(case, offer)
    defer = case.terms.capabilities.admission is Admission.DEFER
    return [
        Stage(Answer.DEFERRED, defer and sure, defer and possible, "orphan-admitted", "parent-refused", why),
        Stage(Answer.STORED, True, True, "lost", "lost", "nothing stands in its way"),
    ]


_STAGES: tuple[Callable[[Case, Copy], Stage], ...] = (
    _unsupported, _invalid, _exists, _in_progress, _deferred_again, _too_large, _parent_missing, _no_space,
)  # fmt: skip


def put_stages(case: Case) -> list[Stage]:
    """All stages of this put or put_begin, in the order of decision."""
    offer = case.offer
    return [stage(case, offer) for stage in _STAGES] + _finals(case, offer)


# --------------------------------------------------------------------------------------------------------------------------------
# The stages of a commit and an abort


def commit_stages(case: Case) -> list[Stage]:
    """STALE, INVALID (another length than begun), PARENT_MISSING or DEFERRED (the parent was taken meanwhile), STORED."""
    attempt = case.before.attempts.get(case.step.args["token"])
    over = attempt is None or bool(attempt.ended) or attempt.key != case.key
    if attempt is None or over:
        return [Stage(Answer.STALE, True, True, "stale-completed", "attempt-lost", _attempt_text(attempt))]
    offer = attempt.copy
    other_size = case.step.args["value"]["size"] != attempt.size
    sure, possible, why = parent_away(case, offer)
    caps = case.terms.capabilities
    reject, defer = caps.admission is Admission.REJECT, caps.admission is Admission.DEFER
    return [
        Stage(Answer.STALE, False, attempt.doubtful, "stale-completed", "attempt-lost", _attempt_text(attempt)),
        Stage(Answer.INVALID, other_size, other_size, "size-not-checked", "attempt-lost", f"{attempt.size} bytes were begun"),
        Stage(Answer.PARENT_MISSING, reject and sure, reject and possible, "orphan-admitted", "parent-refused", why),
        Stage(Answer.DEFERRED, defer and sure, defer and possible, "orphan-admitted", "parent-refused", why),
        Stage(Answer.STORED, True, True, "attempt-lost", "stale-completed", "the attempt is open"),
    ]


def abort_stages(case: Case) -> list[Stage]:
    """STALE, or OK."""
    attempt = case.before.attempts.get(case.step.args["token"])
    over = attempt is None or bool(attempt.ended) or attempt.key != case.key
    doubtful = attempt is not None and attempt.doubtful
    return [
        Stage(Answer.STALE, over, over or doubtful, "stale-completed", "attempt-lost", _attempt_text(attempt)),
        Stage(Answer.OK, True, True, "attempt-lost", "stale-completed", "the attempt is open"),
    ]


def _attempt_text(attempt: Attempt | None) -> str:
    if attempt is None:
        return "the token was never given out"
    return f"the attempt was {attempt.ended}" if attempt.ended else "the attempt is open"


# --------------------------------------------------------------------------------------------------------------------------------
# The rule


def stages_of(case: Case) -> list[Stage] | None:
    """The stages that decide this step; None where the step is no put, commit or abort."""
    if case.is_put:
        return put_stages(case)
    if case.step.op == "put_commit":
        return commit_stages(case)
    return abort_stages(case) if case.step.op == "put_abort" else None


#: Kinds that a batch member shows because the batch, not the store, answers wrongly. What concerns other objects keeps its own ID.
_ABOUT_ANSWERS = frozenset(
    {
        "duplicate-answer", "phantom", "trace-left", "lost", "attempt-overrun", "key-blocked", "too-large-answer",
        "orphan-admitted", "parent-refused", "stored-without-room", "refused-with-room", "empty-value",
    }
)  # fmt: skip


def answered_in_order(case: Case) -> Iterator[Violation]:
    """The first decision that applies is the answer."""
    stages = stages_of(case)
    if stages is None:
        return
    got = case.answer
    found = blame(stages, got)
    if found is None:
        _note(case, stages, got)
        return
    stage, kind = found
    if kind == "unsupported":
        return  # charged by contract.py
    yield case.broken(
        "batch-not-singles" if case.batch and kind in _ABOUT_ANSWERS else kind,
        f"{case.step.op} of {case.key} is answered {got.value}, and {stage.why}",
        expected=" or ".join(answer.value for answer in allowed(stages)),
        got=got.value,
    )


def _note(case: Case, stages: list[Stage], got: Answer) -> None:
    """Must-hits: a decision that was really made, that is where another one was possible for the taking."""
    decided = {stage.answer for stage in stages if stage.sure}
    if got not in decided:
        return
    labels = {
        Answer.EXISTS: ("STO-2", "a duplicate put answered"),
        Answer.IN_PROGRESS: ("STO-5", "a put of a PENDING key answered"),
        Answer.STALE: ("STO-5", "a stale token refused"),
        Answer.TOO_LARGE: ("STO-7", "a value too large refused"),
        Answer.PARENT_MISSING: ("PFX-3", "a child without its parent refused"),
        Answer.DEFERRED: ("PFX-3", "a child without its parent deferred"),
        Answer.NO_SPACE: ("PFX-6", "a put refused at the edge"),
    }
    if got in labels:
        case.hit(*labels[got])
    if got is Answer.STORED:
        _note_stored(case)


def _note_stored(case: Case) -> None:
    if case.step.op == "put_commit":
        case.hit("STO-5", "a two-phase put committed")
        return
    if case.step.op != "put":
        return
    if case.before[case.key].surely_resident:
        case.hit("STO-2", "a duplicate put answered")
    elif isinstance(case.offer.parent, str) and case.before[case.offer.parent].surely_resident:
        case.hit("PFX-3", "a child with its parent admitted")
    elif isinstance(case.offer.parent, str) and case.terms.capabilities.admission in (Admission.PLACEHOLDER, Admission.ANY):
        case.hit("PFX-3", "a child without its parent admitted")
    if case.pressed and case.terms.capabilities.evicts:
        case.hit("PFX-6", "a put stored under pressure")
        if any(known.surely_present and shield(case.before, known.key).sure for known in case.before):
            case.hit("PFX-6", "a put stored beside protected objects")


RULES: Rules = (answered_in_order,)
