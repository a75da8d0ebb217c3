"""Protection and room, derived from the ledger: why an object may not go now, how many bytes are in use, how many cannot be freed.

Protection is derived and never stored (spec section 2); each answer separates what is sure from what is only possible.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kvprefix.api import Accounting, Parent, Pin
from kvprefix_conformance.oracle.ledger import PENDING, Known, Ledger, Phase, Shield, Span, Terms


def span_text(span: Span) -> str:
    """An instant as people write it."""
    return f"{span.lo} ms" if span.lo == span.hi else f"{span.lo}..{span.hi} ms"


def own_reasons(ledger: Ledger, known: Known) -> tuple[str, ...]:
    """What protects the object itself, without doubt."""
    reasons = []
    if known.grant is not None and known.grant.until.ahead(ledger.now):
        reasons.append(f"{known.key} is leased until {span_text(known.grant.until)}")
    if known.copies and all(copy.options.pin is Pin.HARD for copy in known.copies) and known.surely_resident:
        reasons.append(f"{known.key} is hard-pinned")
    if known.pins:
        reasons.append(f"{known.key} is in use (pin {', '.join(sorted(known.pins))})")
    if known.may == PENDING:
        reasons.append(f"{known.key} is being written")
    return tuple(reasons)


def maybe_own(ledger: Ledger, known: Known) -> bool:
    """Whether anything may protect the object itself."""
    leased = known.grant is not None and not known.grant.until.reached(ledger.now)
    pinned = any(copy.options.pin is Pin.HARD for copy in known.copies)
    return leased or pinned or bool(known.pins) or Phase.PENDING in known.may


def shield(ledger: Ledger, key: str) -> Shield:
    """Protection of one object at this instant."""
    known = ledger[key]
    return Shield(
        own=own_reasons(ledger, known),
        derived=tuple(reason for child in ledger.below(key, surely=True) for reason in own_reasons(ledger, child)),
        maybe_own=maybe_own(ledger, known),
        maybe_derived=any(maybe_own(ledger, child) for child in ledger.below(key, surely=False)),
    )


def soft(ledger: Ledger, known: Known, *, surely: bool) -> bool:
    """Whether the object itself holds a live soft pin."""
    pins = [copy.options.pin is Pin.SOFT for copy in known.copies]
    if surely:
        return bool(pins) and all(pins) and (known.soft_until is None or known.soft_until.ahead(ledger.now))
    return any(pins) and (known.soft_until is None or not known.soft_until.reached(ledger.now))


def soft_counted(ledger: Ledger, terms: Terms, key: str, *, surely: bool) -> bool:
    """Whether the object counts as soft-pinned: its own pin or, where lineage reaches the store, that of a descendant (PRT-4)."""
    if surely and not terms.capabilities.lineage:
        return soft(ledger, ledger[key], surely=True)
    return any(soft(ledger, known, surely=surely) for known in [ledger[key], *ledger.below(key, surely=surely)])


# --------------------------------------------------------------------------------------------------------------------------------
# Room


@attrs.frozen
class Bytes:
    """A number of bytes known to lie between two."""

    lo: int
    hi: int


def _slack(ledger: Ledger, terms: Terms) -> int:
    """How far declared accounting may be off: nothing, or one quantum per object."""
    if terms.capabilities.accounting is Accounting.EXACT:
        return 0
    return terms.geometry.quantum_bytes * sum(1 for known in ledger if known.maybe_present)


def used(ledger: Ledger, terms: Terms) -> Bytes:
    """Bytes in use: resident, pending and deferred objects, and what is gone but may not be reclaimed yet (STO-6)."""
    low = high = 0
    for known in ledger:
        smallest, largest = known.sizes()
        if known.surely_present and known.copies:
            low += terms.charge(smallest)
        if known.maybe_present:
            high += terms.charge(largest)
    slack = _slack(ledger, terms)
    late = sum(charge for due, charge in ledger.reclaiming if not due.reached(ledger.now))
    return Bytes(max(0, low - slack), high + slack + late + sum(ledger.lingering.values()))


def unevictable(ledger: Ledger, terms: Terms, key: str, parent: Parent) -> Bytes:
    """Bytes that a put of ``key`` cannot have freed for it: protected objects and its own ancestors (PFX-6)."""
    ancestors = _own_ancestors(ledger, parent) if terms.orders_evictions else {}
    low = high = 0
    for known in ledger:
        if known.key == key or not known.maybe_present:
            continue
        smallest, largest = known.sizes()
        cover = shield(ledger, known.key)
        sure = bool(cover.own) or (terms.orders_evictions and bool(cover.derived)) or ancestors.get(known.key) is True
        possible = cover.maybe_own or cover.maybe_derived or known.key in ancestors
        low += terms.charge(smallest) if sure and known.surely_present else 0
        high += terms.charge(largest) if sure or possible else 0
    slack = _slack(ledger, terms)
    return Bytes(max(0, low - slack), high + slack + sum(ledger.lingering.values()))


def _own_ancestors(ledger: Ledger, parent: Parent) -> Mapping[str, bool]:
    """The put's ancestors: True where that is sure. A doubtful link makes all above it doubtful."""
    found: dict[str, bool] = {}
    sure = True
    while isinstance(parent, str) and parent not in found:
        known = ledger[parent]
        if not known.maybe_present:
            break
        sure = sure and known.surely_resident
        found[parent] = sure
        above = ledger.parent(parent)
        if above is None:
            break
        parent = above
    return found
