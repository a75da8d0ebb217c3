"""A ledger in the making: the few moves by which knowledge changes. Used by absorb.py only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from kvprefix.api import Pin
from kvprefix_conformance.oracle.ledger import (
    ABSENT,
    RESIDENT,
    Copy,
    Departure,
    Grant,
    Known,
    Ledger,
    Phase,
    Span,
    Terms,
)
from kvprefix_conformance.oracle.shield import shield, used


class Draft:
    """The next ledger in the making; ``view`` gives it."""

    def __init__(self, ledger: Ledger, terms: Terms) -> None:
        self.terms = terms
        self.objects = dict(ledger.objects)
        self.attempts = dict(ledger.attempts)
        self.pins = dict(ledger.pins)
        self.registered = dict(ledger.registered)
        self.lingering = dict(ledger.lingering)
        self.reclaiming = ledger.reclaiming
        self.unsettled = ledger.unsettled
        self.refusal = ledger.refusal
        self.jumps = ledger.jumps
        self.lineage = dict(ledger.lineage)
        self.mirror = ledger.mirror
        self.step = ledger.step
        self.tick = ledger.tick
        self.now = ledger.now

    def __getitem__(self, key: str) -> Known:
        return self.objects.get(key) or Known(key)

    def view(self) -> Ledger:
        """The ledger as it stands. It shares this draft's tables: the last view is the new ledger."""
        return Ledger(
            step=self.step,
            tick=self.tick,
            now=self.now,
            objects=self.objects,
            attempts=self.attempts,
            pins=self.pins,
            registered=self.registered,
            unsettled=self.unsettled,
            lingering=self.lingering,
            reclaiming=self.reclaiming,
            refusal=self.refusal,
            jumps=self.jumps,
            lineage=self.lineage,
            mirror=self.mirror,
        )

    def set(self, key: str, **changes: Any) -> None:
        """Change fields of what is known of a key."""
        known = self[key]
        if known.surely_resident and changes.get("may", RESIDENT) != RESIDENT:
            changes.update(seen=self.step - 1, last=self.tick - 1)
        self.objects[key] = attrs.evolve(known, **changes)

    # -- being there ------------------------------------------------------------------------------------------------------------

    def confirm(self, key: str) -> None:
        """It is resident: something said so that cannot be doubted."""
        self.set(key, may=RESIDENT, kept=None, passed=-1, promoted=False, gone=None)

    def deny(self, key: str, evidence: str, how: str = "evicted") -> None:
        """It is not readable. If it might have been resident, and is nothing else, it left."""
        rest = self[key].may - RESIDENT
        if rest and rest != ABSENT:
            self.set(key, may=rest)
        elif self[key].maybe_present:
            self.leave(key, how, evidence)

    def leave(self, key: str, how: str, evidence: str) -> None:
        """It is gone, for this reason."""
        known = self[key]
        if known.maybe_present and self.terms.capabilities.reclaim_ms:
            due = self.now.plus(self.terms.capabilities.reclaim_ms)
            self.reclaiming = (*self.reclaiming, (due, self.terms.charge(known.sizes()[1])))
        if known.attempt is not None:
            self.end(known.attempt, how)
        self.registered.pop(key, None)
        self.objects[key] = Known(
            key,
            since=known.since,
            seen=self.step - 1 if known.surely_resident else known.seen,
            born=known.born,
            last=self.tick - 1 if known.surely_resident else known.last,
            gone=Departure(how, self.step, self.now, evidence),
            grant=known.grant,
            offered=known.offered,
            kept=known.kept,
            kept_at=known.kept_at,
        )

    def freed_under_transfer(self, key: str) -> None:
        """Forced away: what a transfer uses may keep its bytes until that transfer ends (STO-9)."""
        known = self[key]
        for label in [*known.pins, *([known.attempt] if known.attempt else [])]:
            self.lingering[label] = self.terms.charge(known.sizes()[1])

    def end(self, label: str, how: str) -> None:
        """The attempt is over."""
        if label in self.attempts and not self.attempts[label].ended:
            self.attempts[label] = attrs.evolve(self.attempts[label], ended=how)

    def begin_life(self, key: str, copy: Copy, *, stored: Span) -> None:
        """A new object of this key is resident."""
        options = copy.options
        grant = None
        if options.lease_ms > 0:
            until = self.now.plus(options.lease_ms)
            grant = Grant(until, until, "put", self.step)
        soft = options.pin is Pin.SOFT and options.soft_pin_ms is not None
        self.objects[key] = Known(
            key,
            may=RESIDENT,
            copies=(copy,),
            since=self.step,
            born=self.tick,
            grant=grant,
            soft_until=self.now.plus(options.soft_pin_ms or 0) if soft else None,
            touched=stored,
            stored=stored,
            offered=self[key].offered | {(copy.fill, copy.size)},
        )

    # -- doubt ------------------------------------------------------------------------------------------------------------------

    def doubt(self, keys: Iterable[str]) -> None:
        """An eviction pass that nobody reports may take any of these; what is protected stays, and that is remembered."""
        view = Ledger(now=self.now, objects=dict(self.objects), registered=dict(self.registered))
        for key in keys:
            known = self[key]
            if Phase.DEFERRED in known.may:
                self.set(key, may=known.may | ABSENT)
            elif Phase.RESIDENT in known.may:
                cover = shield(view, key)
                if cover.sure:
                    self.set(key, kept=cover, kept_at=self.step)
                else:
                    self.set(key, may=known.may | ABSENT, kept=None)

    def pressed(self, charge: int) -> bool:
        """Whether a put of this charge may have to evict."""
        caps = self.terms.capabilities
        limit = int(self.terms.geometry.capacity_bytes * caps.watermark)
        return caps.contiguous or not caps.exclusive or used(self.view(), self.terms).hi + charge > limit

    # -- leases and recency -----------------------------------------------------------------------------------------------------

    def grant(self, key: str, ttl_ms: int, call: str, *, surely: bool = True) -> None:
        """A lease until now + ttl; an earlier, longer one stays (PRT-2)."""
        old = self[key].grant
        last = self.now.plus(ttl_ms)
        if not surely:
            last = Span(old.until.lo if old else 0, last.hi)
        until = last.latest(old.until if old else None)
        self.set(key, grant=Grant(until, last, call, self.step))

    def touch(self, key: str, *, surely: bool = True, since: Span | None = None) -> None:
        """A touch of the object, and with lineage recency of its ancestors (PFX-9)."""
        stamp = self.now if since is None else Span(since.lo, self.now.hi)
        chain = [self[key]]
        if self.terms.capabilities.lineage_recency:
            chain += list(self.view().above(key))
        for known in chain:
            lo = max(known.touched.lo, stamp.lo) if surely else known.touched.lo
            self.set(known.key, touched=Span(lo, stamp.hi))

    def touched_by(self, call: str, key: str, *, surely: bool = True) -> None:
        """A call that met this readable object, and touches by declaration or not."""
        if call in self.terms.capabilities.touch_calls and not self[key].surely_unreadable:
            self.touch(key, surely=surely)
