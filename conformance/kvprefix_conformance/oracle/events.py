"""Events: a consumer's mirror against what is known. Carries EVT-1 and EVT-2.

The events that followed a step were fetched right after it; the mirror of the ledger has them. A store whose events lag is compared
only where nothing is under way (after quiesce).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvprefix.api import Admission, Event, EventKind, Parent, Removal
from kvprefix.keys import lineage_of
from kvprefix_conformance.codec import event_to_json, parent_from_json
from kvprefix_conformance.oracle.case import Case, Rules, nth, story
from kvprefix_conformance.oracle.ledger import Ledger, Mirror
from kvprefix_conformance.records import Violation


def numbers_rise_by_one(case: Case) -> Iterator[Violation]:
    """EVT-1: no gap and no repetition."""
    last = case.mid.mirror.sequence
    for event in case.seen.events or ():
        if last is not None and event.sequence != last + 1:
            because = f"event {event.sequence} follows event {last}"
            yield case.broken("sequence-gap", because, expected=str(last + 1), got=str(event.sequence), evidence="events")
        last = event.sequence


def mirror_is_true(case: Case) -> Iterator[Violation]:
    """EVT-1: what the events rebuild is what is there."""
    if case.seen.events is None or not _settled(case):
        return
    before = _differences(case.before, case.before.mirror)
    for key in sorted(_differences(case.after, case.after.mirror) - before):
        held = key in case.after.mirror.objects
        if held and case.terms.capabilities.removed_event == "none":
            continue
        told = any(event.key == key for event in case.seen.events)
        verb = "holds" if held else "lacks"
        because = f"{story(case.after[key])}, and the mirror built from the events {verb} it after {nth(case.index)}"
        yield case.broken(
            "event-unfounded" if told else "event-missing",
            because,
            expected="events that rebuild the resident set",
            got=f"the mirror {verb} {key}",
            evidence="events",
        )


def _settled(case: Case) -> bool:
    return case.terms.capabilities.deterministic or case.step.op == "quiesce"


def _differences(ledger: Ledger, mirror: Mirror) -> set[str]:
    """Keys that are surely resident and not in the mirror, or in it and surely not resident."""
    lacking = {known.key for known in ledger if known.surely_resident and known.key not in mirror.objects}
    return lacking | {key for key in mirror.objects if ledger[key].surely_unreadable}


def nothing_twice(case: Case) -> Iterator[Violation]:
    """EVT-1: no stored event of a resident key, no removed event of one that is not."""
    mirror = case.mid.mirror
    for event in case.seen.events or ():
        there = event.key in mirror.objects
        if event.kind is EventKind.STORED and there:
            because = f"{event.key} is resident by the events before, and event {event.sequence} stores it again"
            yield case.broken("event-unfounded", because, expected="one stored event", got="two", evidence="events")
        if event.kind is EventKind.REMOVED and not there and case.terms.capabilities.removed_event == "last-copy":
            because = f"{event.key} is not resident by the events before, and event {event.sequence} removes it"
            yield case.broken("event-unfounded", because, expected="no removed event", got="one", evidence="events")
        mirror = mirror.plus(event)


def snapshot_fits(case: Case) -> Iterator[Violation]:
    """EVT-1: a snapshot and the events behind it rebuild the resident set."""
    if case.step.op != "snapshot" or case.seen.events is None:
        return
    mirror = case.after.mirror
    rebuilt = {key: parent_from_json(parent) for key, parent in case.step.answer["objects"].items()}
    for event in mirror.log:
        if event.sequence > case.step.answer["sequence"]:
            rebuilt = dict(Mirror(objects=rebuilt).plus(event).objects)
    if set(rebuilt) != set(mirror.objects):
        because = f"snapshot and later events give {_set(rebuilt)}, the events from the start give {_set(mirror.objects)}"
        yield case.broken("snapshot-differs", because, expected=_set(mirror.objects), got=_set(rebuilt), evidence="events")
    elif mirror.objects:
        case.hit("EVT-1", "a snapshot compared")


def _set(objects: Mapping[str, Parent]) -> str:
    return "{" + ", ".join(sorted(objects)) + "}"


def log_repeats(case: Case) -> Iterator[Violation]:
    """EVT-1: events(after) gives again what was given before, so that a consumer can catch up."""
    if case.step.op != "events" or case.seen.events is None:
        return
    after = case.step.args.get("after", 0)
    expected = [event_to_json(event) for event in case.after.mirror.log if event.sequence > after]
    if case.step.answer != expected:
        because = f"events after {after} are {len(case.step.answer)} where {len(expected)} were seen"
        yield case.broken("sequence-gap", because, expected=str(len(expected)), got=str(len(case.step.answer)), evidence="events")


# --------------------------------------------------------------------------------------------------------------------------------
# Parents and order


def parents_are_told(case: Case) -> Iterator[Violation]:
    """EVT-2: a stored event carries the declared parent."""
    if not case.terms.capabilities.event_parents:
        return
    for event in case.seen.events or ():
        declared = case.mid.parent(event.key) if event.kind is EventKind.STORED else None
        if declared is None or not case.mid[event.key].copies:
            continue
        if not _same_parent(event.parent, declared):
            because = f"{event.key} was stored with parent {_name(declared)}, its event says {_name(event.parent)}"
            yield case.broken("event-parent", because, expected=_name(declared), got=_name(event.parent), evidence="events")
        elif isinstance(declared, str):
            case.hit("EVT-2", "a stored event with its parent")


def _same_parent(told: Parent, declared: Parent) -> bool:
    """A key in lineage form knows its parent's identity, not its whole key (KEY-8)."""
    if told == declared:
        return True
    return isinstance(declared, str) and (lineage := lineage_of(declared)) is not None and told == lineage.identity


def _name(parent: Parent) -> str:
    return parent if isinstance(parent, str) else parent.value


def events_keep_order(case: Case) -> Iterator[Violation]:
    """EVT-2: stored after the parent's stored, removed before the parent's removed."""
    mirror = case.mid.mirror
    for event in case.seen.events or ():
        yield from _order(case, mirror, event)
        mirror = mirror.plus(event)


def _order(case: Case, mirror: Mirror, event: Event) -> Iterator[Violation]:
    if event.kind is EventKind.STORED and case.terms.capabilities.admission in (Admission.REJECT, Admission.DEFER):
        parent = case.mid.parent(event.key)
        if isinstance(parent, str) and parent not in mirror.objects:
            because = f"event {event.sequence} stores {event.key} before any event stored its parent {parent}"
            yield case.broken("event-order", because, expected=f"{parent} first", got=f"{event.key} first", evidence="events")
    elif event.kind is EventKind.REMOVED and not _free_removal(case):
        left = sorted(c.key for c in case.before.children(event.key, surely=True) if c.key in mirror.objects)
        if left:
            because = f"event {event.sequence} removes {event.key} while its child {left[0]} is there by the events"
            yield case.broken("event-order", because, expected=f"{left[0]} first", got=f"{event.key} first", evidence="events")
        elif isinstance(case.before.parent(event.key), str):
            case.hit("EVT-2", "a removed event of a child")


def _free_removal(case: Case) -> bool:
    """Nothing is declared about the order of these removals."""
    if case.step.op != "remove":
        return not case.terms.orders_evictions
    return case.terms.capabilities.removal is Removal.ANY


def removed_then_stored(case: Case) -> Iterator[Violation]:
    """EVT-2: a put's events come as its removed, then its stored."""
    if case.step.op != "put" or case.batch:
        return  # the events of a batch come together
    kinds = [event.kind for event in case.seen.events or ()]
    if EventKind.REMOVED in kinds and EventKind.STORED in kinds:
        case.hit("EVT-2", "a put's removed and stored events")
    first_stored = kinds.index(EventKind.STORED) if EventKind.STORED in kinds else len(kinds)
    if EventKind.REMOVED in kinds[first_stored:]:
        text = ", ".join(f"{event.kind.value} {event.key}" for event in case.seen.events or ())
        yield case.broken(
            "put-event-order", f"the put of {case.key} gave {text}", expected="removed, then stored", got=text, evidence="events"
        )


def seen(case: Case) -> Iterator[Violation]:
    """Must-hits: events of each kind compared with what was known."""
    for event in case.seen.events or ():
        case.hit("EVT-1", f"a {event.kind.value} event")
    yield from ()


RULES: Rules = (
    numbers_rise_by_one, mirror_is_true, nothing_twice, snapshot_fits, log_repeats,
    parents_are_told, events_keep_order, removed_then_stored, seen,
)  # fmt: skip
