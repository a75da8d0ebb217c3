"""When a requirement can be judged at all, and what a run must really have seen before it may pass.

A requirement whose calls or hooks are missing is skipped, with the reason. One that was judged but whose must-hits were not all
seen is inconclusive: a store that always misses, refuses everything or forgets at once must never pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from kvprefix.api import Accounting, Admission, CacheGroup, Pin, Progress, Removal, VictimPolicy
from kvprefix_conformance.oracle.ledger import Terms

When = Callable[[Terms], bool]


def always(_terms: Terms) -> bool:
    """Without condition."""
    return True


def offers(*calls: str) -> When:
    """All these calls and hooks are offered."""
    return lambda terms: terms.offered.issuperset(calls)


def both(*conditions: When) -> When:
    """All conditions hold."""
    return lambda terms: all(condition(terms) for condition in conditions)


def evicts(terms: Terms) -> bool:
    """Evictions may be caused and seen."""
    return terms.capabilities.evicts and terms.capabilities.exclusive


def protects(terms: Terms) -> bool:
    """Something can protect an object that is resident."""
    caps = terms.capabilities
    return bool(caps.lease_calls) or Pin.HARD in caps.pins or bool(terms.offered & {"lease", "pin"})


def leases(terms: Terms) -> bool:
    """Something grants a lease."""
    return bool(terms.capabilities.lease_calls) or "lease" in terms.offered


def read_leases(terms: Terms) -> bool:
    """A read grants a lease."""
    calls = terms.capabilities.lease_calls & terms.offered
    silent = terms.capabilities.exists_leases.value == "none"
    return bool(calls & {"get", "get_many"} or (calls and not silent))


def _pin(kind: Pin) -> When:
    return lambda terms: kind in terms.capabilities.pins


def _admits(*admissions: Admission) -> When:
    return lambda terms: terms.capabilities.admission in admissions


def _progress(*kinds: Progress) -> When:
    return lambda terms: terms.capabilities.progress in kinds


def _removal(kind: Removal) -> When:
    return lambda terms: terms.capabilities.removal is kind


def _can_refuse(terms: Terms) -> bool:
    """NO_SPACE can be brought about: by protection, or by the put's own ancestors."""
    return protects(terms) or terms.orders_evictions


def _tells_removals(terms: Terms) -> bool:
    return terms.capabilities.removed_event != "none"


# --------------------------------------------------------------------------------------------------------------------------------
# Skips


@attrs.frozen
class Skip:
    """A condition without which a requirement cannot be judged, and what to say then."""

    needs: When
    reason: str


_BYTES = Skip(lambda terms: terms.capabilities.values, "the backend keeps no bytes (values=False)")
_EXCLUSIVE = Skip(lambda terms: terms.capabilities.exclusive, "the backend is not exclusive: the suite may not fill it")
_EVICTS = Skip(lambda terms: terms.capabilities.evicts or terms.capabilities.expires, "the backend declares that it never evicts")
_ROOM = Skip(
    lambda terms: terms.geometry.capacity_bytes >= 3 * terms.charge(max(1, terms.geometry.min_value_bytes)),
    "fewer than three objects fit: eviction cannot be observed",
)
_EVENTS = Skip(offers("events"), "events is not offered")
_PROTECTS = Skip(
    lambda terms: protects(terms) or "put_begin" in terms.offered,
    "nothing can protect an object: no lease, no pin, no two-phase put",
)
_LEASES = Skip(leases, "nothing grants a lease: lease is not offered and lease_calls is empty")
_CLOCK = Skip(offers("advance"), "the hook advance is not offered: no lease can be seen to end")
_VICTIMS = Skip(
    lambda terms: terms.capabilities.reports_evictions or bool(terms.offered & {"events", "resident"}),
    "victims cannot be seen: no reported evictions, no events, no hook resident",
)

SKIPS: Mapping[str, tuple[Skip, ...]] = {
    "STO-1": (_BYTES,),
    "STO-2": (_BYTES,),
    "STO-3": (_BYTES,),
    "STO-5": (Skip(offers("put_begin", "put_commit", "put_abort"), "two-phase puts are not offered"),),
    "STO-6": (
        _EXCLUSIVE,
        Skip(lambda terms: terms.capabilities.accounting is not Accounting.NONE, "no accounting is declared"),
        Skip(offers("stats"), "stats is not offered"),
    ),
    "STO-8": (
        Skip(lambda terms: bool(terms.offered & {"put_many", "get_many", "exists_many"}), "no native batch call is offered"),
    ),
    "STO-9": (Skip(offers("remove"), "remove is not offered"),),
    "STO-10": (_BYTES,),
    "PRT-1": (_PROTECTS,),
    "PRT-2": (_LEASES, _CLOCK),
    "PRT-3": (
        Skip(lambda terms: read_leases(terms) or "probe" in terms.offered, "no read leases by declaration, and probe is absent"),
    ),
    "PRT-4": (_EXCLUSIVE, _EVICTS, _ROOM, Skip(lambda terms: bool(terms.capabilities.pins), "no kind of pin is declared")),
    "PRT-5": (_LEASES, Skip(offers("jump_wall_clock"), "the hook jump_wall_clock is not offered")),
    "PFX-1": (_EXCLUSIVE, _EVICTS, _ROOM),
    "PFX-4": (Skip(offers("match"), "match is not offered"),),
    "PFX-5": (_EXCLUSIVE, _EVICTS, _ROOM, _PROTECTS),
    "PFX-6": (_EXCLUSIVE, Skip(lambda terms: terms.capabilities.progress is not Progress.NONE, "no progress is declared")),
    "PFX-7": (
        _EXCLUSIVE,
        _EVICTS,
        _ROOM,
        _VICTIMS,
        Skip(
            lambda terms: not terms.capabilities.contiguous,
            "the backend needs one free range per object: how much had to go cannot be known from outside",
        ),
        Skip(
            lambda terms: terms.capabilities.progress is not Progress.EVENTUAL,
            "the backend evicts in the background: which pass took what cannot be known from outside",
        ),
    ),
    "PFX-8": (Skip(offers("remove"), "remove is not offered"),),
    "PFX-9": (
        _EXCLUSIVE,
        _EVICTS,
        _ROOM,
        _VICTIMS,
        Skip(lambda terms: terms.capabilities.policy is not VictimPolicy.UNSPECIFIED, "no victim policy is declared"),
        Skip(offers("advance"), "the hook advance is not offered: stamps cannot be told apart"),
    ),
    "PFX-10": (_EXCLUSIVE, _EVICTS, _ROOM),
    "PFX-12": (
        Skip(lambda terms: bool(terms.capabilities.cache_groups - {CacheGroup.FULL}), "only the cache group full is declared"),
    ),
    "EVT-1": (_EVENTS,),
    "EVT-2": (_EVENTS,),
}  # fmt: skip


def skip_reason(requirement: str, terms: Terms) -> str:
    """Why the requirement cannot be judged on this backend; empty if it can."""
    return next((skip.reason for skip in SKIPS.get(requirement, ()) if not skip.needs(terms)), "")


# --------------------------------------------------------------------------------------------------------------------------------
# Must-hits


@attrs.frozen
class MustHit:
    """What a run must have seen, where the condition holds."""

    label: str
    when: When = always


def _hits(*hits: str | tuple[str, When]) -> tuple[MustHit, ...]:
    return tuple(MustHit(hit) if isinstance(hit, str) else MustHit(*hit) for hit in hits)


MUST_HITS: Mapping[str, tuple[MustHit, ...]] = {
    "STO-1": _hits("a value read back after other steps"),
    "STO-2": _hits("a duplicate put answered", "a value read back after a duplicate put"),
    "STO-3": _hits("a value read back"),
    "STO-4": _hits("an absent key read", ("a removed key read", offers("remove"))),
    "STO-5": _hits(
        "a PENDING key read", "a two-phase put committed", "a stale token refused", "a put of a PENDING key answered"
    ),
    "STO-6": _hits(
        "bytes compared",
        ("bytes compared after objects left", lambda terms: evicts(terms) or "remove" in terms.offered),
        ("bytes compared with a PENDING object", offers("put_begin")),
    ),
    "STO-7": _hits("a value too large refused", "a refused key read"),
    "STO-8": _hits(
        ("a batch put", offers("put_many")),
        ("a batch read with different answers", lambda terms: bool(terms.offered & {"get_many", "exists_many"})),
    ),
    "STO-9": _hits(
        "an absent key removed",
        "a resident key removed",
        ("a clear", offers("clear")),
        ("a clear refused", both(offers("clear"), protects)),
        ("a PENDING key removed", offers("put_begin")),
    ),
    "STO-10": _hits("a hostile key judged"),
    "PRT-1": _hits(
        ("a protected object outlived pressure", evicts),
        ("a protected object refused removal", both(offers("remove"), protects)),
    ),
    "PRT-2": _hits("a lease was seen to end", ("a longer lease outlived a shorter grant", offers("lease", "remove"))),
    "PRT-3": _hits(
        ("an object leased by a read was kept", lambda terms: read_leases(terms) and (evicts(terms) or "remove" in terms.offered)),
        ("a probe", offers("probe")),
        ("a read that leases nothing protected nothing", offers("probe", "remove")),
    ),
    "PRT-4": _hits(
        ("a hard-pinned object outlived pressure", _pin(Pin.HARD)),
        ("a soft-pinned object outlived an eviction", _pin(Pin.SOFT)),
    ),
    "PRT-5": _hits("a lease outlived a jump of wall time"),
    "PFX-1": _hits("an eviction with a chain in the store", "an eviction with a branching forest in the store"),
    "PFX-2": _hits("a chain looked at", ("an eviction with a chain in the store", evicts)),
    "PFX-3": _hits(
        ("a child with its parent admitted", _admits(Admission.REJECT, Admission.DEFER)),
        ("a child without its parent refused", _admits(Admission.REJECT)),
        ("a child without its parent deferred", _admits(Admission.DEFER)),
        ("a deferred object became visible", _admits(Admission.DEFER)),
        ("a child without its parent admitted", _admits(Admission.PLACEHOLDER)),
    ),
    "PFX-4": _hits("a prefix matched", "a match stopped at a hole with blocks behind it"),
    "PFX-5": _hits("an ancestor of a protected object outlived pressure"),
    "PFX-6": _hits(
        ("a put stored under pressure", lambda terms: terms.capabilities.progress is not Progress.REJECT),
        ("a put refused at the edge", both(_progress(Progress.EXACT), _can_refuse)),
        ("a put refused at the edge", _progress(Progress.REJECT)),
        ("a put stored beside protected objects", both(_progress(Progress.EXACT), evicts, protects)),
    ),
    "PFX-7": _hits("an eviction measured", "a pass of several evictions measured"),
    "PFX-8": _hits(
        ("a removal with descendants refused", _removal(Removal.REFUSE)),
        ("a removal that cascaded", _removal(Removal.CASCADE)),
    ),
    "PFX-9": _hits(
        "the oldest of several leaves went",
        (
            "a touched leaf outlived a younger one",
            lambda terms: terms.capabilities.policy is VictimPolicy.LRU and bool(terms.capabilities.touch_calls & terms.offered),
        ),
    ),
    "PFX-10": _hits("an eviction with a chain of several calls in the store", "a block went before its parent of another call"),
    "PFX-12": _hits("an object of another cache group stored"),
    "EVT-1": _hits(
        "a stored event",
        ("a removed event", both(_tells_removals, lambda terms: evicts(terms) or "remove" in terms.offered)),
        ("a snapshot compared", offers("snapshot")),
    ),
    "EVT-2": _hits(
        ("a put's removed and stored events", both(_tells_removals, evicts)),
        ("a stored event with its parent", lambda terms: terms.capabilities.event_parents),
        ("a removed event of a child", both(_tells_removals, evicts, lambda terms: terms.orders_evictions)),
    ),
}  # fmt: skip


def missing(requirement: str, terms: Terms, exercised: Mapping[str, int]) -> list[str]:
    """Labels that the run must have seen for this requirement and did not."""
    return [hit.label for hit in MUST_HITS.get(requirement, ()) if hit.when(terms) and not exercised.get(hit.label)]
