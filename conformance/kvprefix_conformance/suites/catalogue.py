"""The catalogue of checks: the directed scenarios, and a machine per emphasis; what each is for and what it needs.

Within a profile the directed ones come first: what they find is shown by a scenario that somebody wrote to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from kvprefix.api import Admission, Capabilities, Clock, Pin, Transport
from kvprefix_conformance.plan import CheckInfo
from kvprefix_conformance.suites import eviction_safe, object_store, prefix_aware, protected_store
from kvprefix_conformance.suites.world import Run

Script = Callable[[Run], None]
#: Whether a check makes sense under these capabilities (calls and hooks are CheckInfo.needs).
Fits = Callable[[Capabilities], bool]


def _always(_caps: Capabilities) -> bool:
    return True


@attrs.frozen
class Check:
    """One check: what it is, and how it drives."""

    info: CheckInfo
    #: The name of a machine, or a script.
    drive: str | Script
    fits: Fits = _always
    #: Units that fill the store, for a script.
    units: int = 6

    @property
    def gentle(self) -> bool:
        """Whether it may run on a store that others use too: it stores a handful of small values and empties nothing."""
        return not isinstance(self.drive, str) and self.drive in _GENTLE


def _machine(name: str, profile: str, doc: str, requirements: str, fits: Fits = _always) -> Check:
    return Check(CheckInfo(f"{profile}/machine", profile, tuple(requirements.split()), "machine", doc), name, fits)


def _script(profile: str, script: Script, requirements: str, needs: str = "", fits: Fits = _always, units: int = 6) -> Check:
    name = f"{profile}/{script.__name__.replace('_', '-')}"
    doc = " ".join((script.__doc__ or "").split())
    return Check(CheckInfo(name, profile, tuple(requirements.split()), "directed", doc, tuple(needs.split())), script, fits, units)


def _keeps_bytes(caps: Capabilities) -> bool:
    return caps.values


def _pins(kind: Pin) -> Fits:
    return lambda caps: kind in caps.pins


def _by_argument(caps: Capabilities) -> bool:
    """Parents are given with the put (or lineage is tested as if they were)."""
    return not caps.lineage or Transport.ARGUMENT in caps.lineage


def _lineage(caps: Capabilities) -> bool:
    return bool(caps.lineage)


def _admits(*admissions: Admission) -> Fits:
    return lambda caps: caps.admission in admissions


def _several_groups(caps: Capabilities) -> bool:
    return len(caps.cache_groups) > 1 and _by_argument(caps)


def _several_clients(caps: Capabilities) -> bool:
    return caps.clients > 1


def _leases_by_reads(caps: Capabilities) -> bool:
    return bool(caps.lease_calls) and (caps.clock is Clock.DRIVEN or caps.lease_ttl_ms <= 3_000)


def _patient(caps: Capabilities) -> bool:
    return caps.clock is Clock.DRIVEN or caps.lease_ttl_ms <= 3_000


_STO = "STO-1 STO-2 STO-3 STO-4 STO-5 STO-6 STO-7 STO-8 STO-9 STO-10"
_PRT = "PRT-1 PRT-2 PRT-3 PRT-4 PRT-5"
_PFX = "PFX-1 PFX-4 PFX-5 PFX-6 PFX-7 PFX-8 PFX-9 PFX-10 PFX-12"

_OBJECT_STORE = [
    _script("object-store", object_store.round_trip, "STO-1 STO-3 STO-4 STO-6 STO-9"),
    _script("object-store", object_store.duplicates, "STO-2 STO-1 STO-6"),
    _script("object-store", object_store.hostile_keys, "STO-10", fits=_keeps_bytes),
    _script("object-store", object_store.two_phase, "STO-5 STO-4 STO-6 STO-9", "put_begin put_commit put_abort"),
    _script("object-store", object_store.dead_writer, "STO-5 STO-6", "put_begin put_commit put_abort advance"),
    _script("object-store", object_store.edge_sizes, "STO-7 STO-3 STO-6"),
    _script("object-store", object_store.refusals, "STO-7 STO-4 PFX-6"),
    _script("object-store", object_store.accounting, "STO-6"),
    _script("object-store", object_store.removal, "STO-9 STO-4"),
    _script("object-store", object_store.batches, "STO-8"),
    _script("object-store", object_store.batch_under_pressure, "STO-8 STO-1", "put_many"),
    _script("object-store", object_store.from_another_client, "STO-1 STO-4", fits=_several_clients),
    _script("object-store", object_store.undeclared_options, "PRT-4 PFX-12 STO-7"),
    _machine("objects", "object-store", "Random calls on few keys: stores, reads, two-phase puts, batches, removals.", _STO),
]

_PROTECTED_STORE = [
    _script("protected-store", protected_store.lease_deadline, "PRT-1 PRT-2", "lease remove advance"),
    _script("protected-store", protected_store.longest_lease_stays, "PRT-2", "lease remove advance"),
    _script("protected-store", protected_store.read_after_longer_lease, "PRT-2", "lease remove advance", _leases_by_reads),
    _script("protected-store", protected_store.leased_under_pressure, "PRT-1"),
    _script("protected-store", protected_store.all_protected, "PRT-1 PFX-6", "advance", _patient),
    _script("protected-store", protected_store.reads_that_lease, "PRT-3 PRT-2", "remove advance", _patient),
    _script("protected-store", protected_store.walks_that_lease, "PRT-3", "remove advance", _patient, units=8),
    _script("protected-store", protected_store.leased_by_reads_under_pressure, "PRT-3 PRT-1", "advance", _leases_by_reads),
    _script("protected-store", protected_store.absent_and_pending, "STO-4"),
    _script("protected-store", protected_store.hard_pins, "PRT-4 PRT-1", fits=_pins(Pin.HARD)),
    _script("protected-store", protected_store.soft_pins, "PRT-4", fits=_pins(Pin.SOFT)),
    _script("protected-store", protected_store.soft_pinned_child, "PRT-4", fits=_pins(Pin.SOFT)),
    _script("protected-store", protected_store.soft_pin_ends, "PRT-4 PFX-9", "advance", _pins(Pin.SOFT)),
    _script("protected-store", protected_store.wall_clock, "PRT-5", "jump_wall_clock advance"),
    _script("protected-store", protected_store.in_use, "PRT-1", "pin unpin"),
    _script("protected-store", protected_store.lease_of_a_child, "PRT-2", "lease remove", _lineage),
    _script("protected-store", protected_store.put_with_lease, "PRT-1 PRT-2", "lease advance"),
    _machine("protection", "protected-store", "Random leases, pins, reads and clock steps to deadlines, under pressure.", _PRT),
]

_EVICTION_SAFE = [
    _script("eviction-safe", eviction_safe.fork_under_pressure, "PFX-1 PFX-7 PFX-9"),
    _script("eviction-safe", eviction_safe.grown_together, "PFX-10 PFX-1 PFX-2"),
    _script("eviction-safe", eviction_safe.same_instant, "PFX-10 PFX-1"),
    _script("eviction-safe", eviction_safe.chunked_store, "PFX-10 PFX-1"),
    _script("eviction-safe", eviction_safe.hidden_head, "PFX-10 PFX-9 PFX-1"),
    _script("eviction-safe", eviction_safe.head_touched_by_lookups, "PFX-10 PFX-9", "advance", _patient),
    _script("eviction-safe", eviction_safe.several_victims, "PFX-7 PFX-1"),
    _script("eviction-safe", eviction_safe.own_ancestors, "PFX-6 PFX-1"),
    _script("eviction-safe", eviction_safe.edge_of_room, "PFX-6"),
    _script("eviction-safe", eviction_safe.guarded_ancestors, "PFX-5", "advance", _patient),
    _script("eviction-safe", eviction_safe.open_child, "PFX-5 PFX-1", "put_begin put_commit"),
    _script("eviction-safe", eviction_safe.oldest_first, "PFX-9 PRT-3", "advance", _patient, units=8),
    _script("eviction-safe", eviction_safe.duplicate_put_and_recency, "PFX-9 STO-2"),
    _script("eviction-safe", eviction_safe.tail_keeps_head, "PFX-9", "remove advance", _patient),
    _script("eviction-safe", eviction_safe.child_keeps_head, "PFX-9", "remove advance"),
    _script("eviction-safe", eviction_safe.everything_makes_room, "PFX-6 PFX-1"),
    _script("eviction-safe", eviction_safe.removal_with_children, "PFX-8", "remove"),
    _script("eviction-safe", eviction_safe.removal_with_open_child, "PFX-8", "remove put_begin put_commit"),
    _script("eviction-safe", eviction_safe.holes, "PFX-4", "match"),
    _script("eviction-safe", eviction_safe.eventually, "PFX-6"),
    _script("eviction-safe", eviction_safe.many_probes, "PFX-6 PRT-3"),
    _script("eviction-safe", eviction_safe.other_cache_groups, "PFX-12 PFX-8", fits=_several_groups, units=8),
    _machine("closure", "eviction-safe", "Random forests stored in order under pressure, with touches, leases and batches.", _PFX),
]

_PREFIX_AWARE = [
    _script("prefix-aware", prefix_aware.out_of_order, "PFX-3 PFX-2"),
    _script("prefix-aware", prefix_aware.deferred, "PFX-3 STO-6", fits=_admits(Admission.DEFER)),
    _script("prefix-aware", prefix_aware.deferred_goes_first, "PFX-3", fits=_admits(Admission.DEFER)),
    _script("prefix-aware", prefix_aware.deferred_removed, "PFX-3 STO-4", "remove", _admits(Admission.DEFER)),
    _script("prefix-aware", prefix_aware.parent_taken_meanwhile, "PFX-3 PFX-2", "put_begin put_commit remove"),
    _script("prefix-aware", prefix_aware.open_parent, "PFX-3", "put_begin put_commit"),
    _script("prefix-aware", prefix_aware.cycles, "PFX-3", fits=_by_argument),
    _script("prefix-aware", prefix_aware.other_namespace, "PFX-3", fits=lambda caps: caps.namespaces),
    _script("prefix-aware", prefix_aware.removal_leaves_no_orphan, "PFX-2 PFX-8", "remove"),
    _script("prefix-aware", prefix_aware.batch_of_a_chain, "STO-8 PFX-3", "put_many"),
    _script("prefix-aware", prefix_aware.mirror, "EVT-1 EVT-2", "events"),
    _machine(
        "admission",
        "prefix-aware",
        "Random forests stored in any order, removals, open writes, cycles, events.",
        "PFX-2 PFX-3 EVT-2",
    ),
]

_PREFIX_INDEX = [
    _script("prefix-index", prefix_aware.index, "PFX-4", "match"),
    _machine("index", "prefix-index", "Random stores, lookups and removals on a forest; no bytes are read.", "PFX-4 EVT-1"),
]

_GENTLE: frozenset[Script] = frozenset(
    {
        object_store.round_trip, object_store.duplicates, object_store.hostile_keys, object_store.two_phase,
        object_store.dead_writer, object_store.batches, object_store.from_another_client, object_store.undeclared_options,
        protected_store.lease_deadline, protected_store.read_after_longer_lease, protected_store.reads_that_lease,
        protected_store.walks_that_lease, protected_store.absent_and_pending, protected_store.lease_of_a_child,
        eviction_safe.holes, eviction_safe.removal_with_children, eviction_safe.removal_with_open_child,
        prefix_aware.out_of_order, prefix_aware.deferred, prefix_aware.deferred_removed, prefix_aware.open_parent,
        prefix_aware.cycles, prefix_aware.other_namespace, prefix_aware.removal_leaves_no_orphan, prefix_aware.index,
    }
)  # fmt: skip

CHECKS: tuple[Check, ...] = (*_OBJECT_STORE, *_PROTECTED_STORE, *_EVICTION_SAFE, *_PREFIX_AWARE, *_PREFIX_INDEX)


def needs_missing(check: Check, offered: frozenset[str], caps: Capabilities) -> Sequence[str]:
    """Why a check does not run here: calls and hooks that are missing, or what is not declared; empty if it does."""
    missing = [call for call in check.info.needs if call not in offered]
    if not caps.exclusive and not check.gentle:
        missing.append("a store of its own (the backend is not exclusive)")
    return missing or ([] if check.fits(caps) else ["what it is about is not declared"])
