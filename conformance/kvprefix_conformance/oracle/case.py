"""One step as the rules see it: what was known before, what it said, what is known after; and facts that several rules need.

A rule is a function from a case to the violations it proves; it may also note must-hits (what the run has really exercised).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import attrs

from kvprefix.api import Answer, EventKind, PutResult
from kvprefix_conformance.codec import Json, put_result_from_json
from kvprefix_conformance.oracle.absorb_puts import copy_of
from kvprefix_conformance.oracle.kinds import KINDS
from kvprefix_conformance.oracle.ledger import Copy, Known, Ledger, Phase, Terms
from kvprefix_conformance.oracle.shield import used
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Seen

#: Calls that may evict.
PUTS = frozenset({"put", "put_begin", "put_commit"})
#: Answers of a put that took room.
TOOK_ROOM = frozenset({Answer.STORED, Answer.DEFERRED, Answer.OK})


def nth(step: int) -> str:
    """A step as people count it, from 1."""
    return f"step {step + 1}"


@attrs.frozen
class Reading:
    """One key that was looked at: hit or miss."""

    key: str
    hit: bool
    #: The call that said so, or "resident" for the snapshot hook.
    call: str
    value: Json = None


@attrs.frozen
class Eviction:
    """What one pass took, and whether the order is known."""

    victims: tuple[str, ...] = ()
    ordered: bool = False
    evidence: str = "answers"


@attrs.frozen(slots=False)
class Case:
    """One step, ready to be judged. A native batch put makes one case per member."""

    terms: Terms
    step: Step
    seen: Seen
    #: Known before the step, at the time of the step; after its answer; and after what was seen beside it.
    before: Ledger
    mid: Ledger
    after: Ledger
    #: Must-hits: (requirement, label) -> times.
    exercised: Counter[tuple[str, str]]
    #: The native batch call of which this is a member.
    batch: str = ""

    @property
    def index(self) -> int:
        """Number of the step in the history, from 0."""
        return self.before.step

    def hit(self, requirement: str, label: str) -> None:
        """The run has really exercised this."""
        self.exercised[requirement, label] += 1

    def broken(self, kind: str, because: str, *, expected: str = "", got: str = "", evidence: str = "answers") -> Violation:
        """A violation of the requirement that the kind belongs to, at this step."""
        return Violation(KINDS[kind].requirement, kind, because, self.index, expected, got, evidence)

    # -- puts -------------------------------------------------------------------------------------------------------------------

    @property
    def is_put(self) -> bool:
        """A put or put_begin: the calls that decide about admission and room."""
        return self.step.op in ("put", "put_begin")

    @functools.cached_property
    def key(self) -> str:
        """The key of a call that has one."""
        key: str = self.step.args["key"]
        return key

    @functools.cached_property
    def offer(self) -> Copy:
        """What a put or put_begin offers; its parent as it was told by whatever transport."""
        offer = copy_of(self.step.args)
        registered = self.before.registered.get(self.key)
        return offer if isinstance(offer.parent, str) or registered is None else attrs.evolve(offer, parent=registered)

    @functools.cached_property
    def result(self) -> PutResult:
        """The answer of a put, put_begin or put_commit."""
        return put_result_from_json(self.step.answer)

    @functools.cached_property
    def pressed(self) -> bool:
        """Whether the put may have had to evict: even the smallest reading of the room is not enough without doubt."""
        limit = int(self.terms.geometry.capacity_bytes * self.terms.capabilities.watermark)
        if self.terms.capabilities.contiguous or not self.terms.capabilities.exclusive:
            return True
        return used(self.before, self.terms).hi + self.terms.charge(self.offer.size) > limit

    @functools.cached_property
    def answer(self) -> Answer:
        """The answer of a call that has one of the contract's answers."""
        answer = self.step.answer
        return Answer(answer["answer"] if isinstance(answer, dict) else answer)

    @functools.cached_property
    def eviction(self) -> Eviction:
        """What the pass of this put took: as reported, else as its events tell, else as the snapshots before and after differ."""
        if self.step.op not in PUTS:
            return Eviction()
        if self.result.evicted is not None:
            return Eviction(self.result.evicted, ordered=True)
        if self.batch:
            return Eviction()  # which member took what cannot be told apart
        if self.seen.events is not None:
            removed = [event.key for event in self.seen.events if event.kind is EventKind.REMOVED]
            return Eviction(tuple(removed), ordered=True, evidence="events")
        return Eviction(tuple(self.departed()), evidence="resident")

    def departed(self) -> list[str]:
        """What was surely resident before and was seen gone at this step, without a removal."""
        return [
            known.key
            for known in self.before
            if known.surely_resident and (gone := self.after[known.key].gone) and gone.step == self.index and gone.how == "evicted"
        ]

    @functools.cached_property
    def taken(self) -> frozenset[str]:
        """What an eviction took by this step at the latest, whenever it did: reported, or seen gone and possibly there before."""
        gone = {
            known.key
            for known in self.before
            if Phase.RESIDENT in known.may
            and (left := self.after[known.key].gone) is not None
            and (left.step, left.how) == (self.index, "evicted")
        }
        return frozenset(gone) | frozenset(self.eviction.victims)

    # -- readings ---------------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def answered(self) -> list[tuple[Reading, Known]]:
        """What the answer of a read, lease or pin says of each key, with what was known of it. match is judged apart (PFX-4)."""
        readings = _READINGS.get(self.step.op, _none)(self)
        return [(reading, self.before[reading.key]) for reading in readings]

    def snapshot(self) -> list[tuple[Reading, Known]]:
        """What the snapshot hook says of each key, with what was known of it after the answer."""
        if self.seen.resident is None:
            return []
        keys = {known.key for known in self.mid}
        if self.terms.capabilities.exclusive:
            keys |= self.seen.resident
        return [(Reading(key, key in self.seen.resident, "resident"), self.mid[key]) for key in sorted(keys)]

    @functools.cached_property
    def contradictions(self) -> tuple[tuple[Reading, Known], ...]:
        """Readings that leave no phase in which the object could be. What the answer got wrong, the snapshot need not repeat."""
        wrong = [each for each in self.answered if _contradicts(*each)]
        keys = {reading.key for reading, _ in wrong}
        return (*wrong, *(each for each in self.snapshot() if _contradicts(*each) and each[0].key not in keys))


def _contradicts(reading: Reading, known: Known) -> bool:
    return known.surely_unreadable if reading.hit else known.surely_resident


def evidence_of(reading: Reading) -> str:
    """What a verdict on this reading rests on."""
    return {"resident": "resident", "probe": "probe", "exists": "exists", "exists_many": "exists"}.get(reading.call, "answers")


def said(reading: Reading) -> str:
    """The reading in words."""
    if reading.call == "resident":
        return f"the snapshot {'holds' if reading.hit else 'lacks'} {reading.key}"
    return f"{reading.call} of {reading.key} is a {'hit' if reading.hit else 'miss'}"


def story(known: Known) -> str:
    """What is known of a key, as the first half of a contradiction."""
    if known.surely_resident:
        return f"{known.key} is resident since {nth(known.since)}"
    if known.may == frozenset({Phase.PENDING}):
        return f"{known.key} was begun at {nth(known.since)} and not committed"
    if known.may == frozenset({Phase.DEFERRED}):
        return f"{known.key} was deferred at {nth(known.since)} and its parent is not resident"
    if known.maybe_present:
        return f"{known.key} was stored at {nth(known.since)} and may still be there"
    if known.gone is not None:
        return f"{known.key} was {known.gone.how} at {nth(known.gone.step)}"
    if known.refused >= 0:
        return f"the put of {known.key} was refused at {nth(known.refused)}"
    return f"{known.key} was never stored"


# --------------------------------------------------------------------------------------------------------------------------------


def _none(_case: Case) -> list[Reading]:
    return []


def _get(case: Case) -> list[Reading]:
    return [Reading(case.key, case.step.answer is not None, "get", case.step.answer)]


def _get_many(case: Case) -> list[Reading]:
    return [
        Reading(key, value is not None, "get_many", value)
        for key, value in zip(case.step.args["keys"], case.step.answer, strict=False)
    ]


def _exists(case: Case) -> list[Reading]:
    return [Reading(case.key, case.step.answer, case.step.op)]


def _exists_many(case: Case) -> list[Reading]:
    return [Reading(key, hit, "exists_many") for key, hit in zip(case.step.args["keys"], case.step.answer, strict=False)]


def _held(case: Case) -> list[Reading]:
    """lease and pin: OK is a hit, NOT_FOUND a miss."""
    answer = case.step.answer["answer"] if isinstance(case.step.answer, dict) else case.step.answer
    known = {Answer.OK.value: True, Answer.NOT_FOUND.value: False}
    return [Reading(case.key, known[answer], case.step.op)] if answer in known else []


_READINGS: dict[str, Callable[[Case], list[Reading]]] = {
    "get": _get, "get_many": _get_many, "exists": _exists, "probe": _exists, "exists_many": _exists_many,
    "lease": _held, "pin": _held,
}  # fmt: skip

Rule = Callable[[Case], Iterator[Violation]]
Rules = Sequence[Rule]
