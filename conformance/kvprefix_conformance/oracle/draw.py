"""What is known at one instant, as lines to draw: each object with its declared parent, its phase and what is remarkable."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import UNKNOWN, Pin
from kvprefix_conformance.codec import parent_to_json
from kvprefix_conformance.oracle.case import nth
from kvprefix_conformance.oracle.ledger import Known, Ledger
from kvprefix_conformance.oracle.shield import own_reasons, shield, span_text
from kvprefix_conformance.records import ObjectState


def state_of(ledger: Ledger) -> Iterator[ObjectState]:
    """The objects of which anything was heard, in the order in which they came."""
    for known in ledger:
        if known.maybe_present or known.gone is not None or known.refused >= 0:
            parent = ledger.parent(known.key) if known.maybe_present else None
            told = parent if parent is not None else ledger.lineage.get(known.key, UNKNOWN)
            yield ObjectState(known.key, parent_to_json(told), _status(known), tuple(_marks(ledger, known)))


def _status(known: Known) -> str:
    phases = sorted(phase.value for phase in known.may)
    if len(phases) == 1:
        return phases[0]
    likely = next((phase for phase in ("resident", "pending", "deferred") if phase in phases), phases[0])
    return f"{likely}?"


def _marks(ledger: Ledger, known: Known) -> Iterator[str]:
    if known.gone is not None and not known.maybe_present:
        yield f"{known.gone.how} at {nth(known.gone.step)}"
    if known.refused >= 0 and not known.maybe_present and known.gone is None:
        yield f"refused at {nth(known.refused)}"
    if known.maybe_present:
        yield from _holds(ledger, known)
    parent = ledger.parent(known.key)
    if known.surely_resident and isinstance(parent, str) and ledger[parent].surely_unreadable:
        yield "orphan"


def _holds(ledger: Ledger, known: Known) -> Iterator[str]:
    if known.grant is not None and not known.grant.until.reached(ledger.now):
        yield f"leased until {span_text(known.grant.until)}"
    if known.copy is not None and known.copy.options.pin is Pin.HARD:
        yield "hard-pinned"
    if known.copy is not None and known.copy.options.pin is Pin.SOFT:
        yield "soft-pinned" + (f" until {span_text(known.soft_until)}" if known.soft_until is not None else "")
    if known.pins:
        yield "in use"
    if not own_reasons(ledger, known) and shield(ledger, known.key).derived:
        yield "protected by a descendant"
