"""The configurations that are run: the default set, in which each rule of the model meets those that it could quarrel with, and the
deep set: the same, and each of them once more with one more block.

Each has few dimensions switched on, for the states multiply. The sets are sized by CPU time: see the numbers that a run prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from kvprefix.api import (
    LEASE_CALLS,
    Admission,
    Batch,
    CacheGroup,
    Capabilities,
    DuplicatePut,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Pin,
    Progress,
    PutOptions,
    Removal,
    Transport,
)
from kvprefix.errors import ConfigurationError
from kvprefix.explore.bounds import Bounds

#: A prefix-aware store: rejects orphans, evicts leaves, refuses to remove an inner block.
PREFIX_AWARE: Final = Capabilities(
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    admission=Admission.REJECT,
    removal=Removal.REFUSE,
    event_parents=True,
    pending_timeout_ms=1,
    defer_deadline_ms=1,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
)

PLAIN: Final = PutOptions()
SOFT: Final = PutOptions(pin=Pin.SOFT)
SOFT_1: Final = PutOptions(pin=Pin.SOFT, soft_pin_ms=1)
HARD: Final = PutOptions(pin=Pin.HARD)
LEASED: Final = PutOptions(lease_ms=1)
FAMILY: Final = PutOptions(family="F")
OTHER_FAMILY: Final = PutOptions(family="G")
GROUP: Final = PutOptions(object_group="g")
OTHER_GROUP: Final = PutOptions(object_group="h")
THIRD_GROUP: Final = PutOptions(object_group="k")
NAMESPACE: Final = PutOptions(namespace="n")
BLOB: Final = PutOptions(cache_group=CacheGroup.BLOB)


def but(**changes: Any) -> Capabilities:
    """The prefix-aware store, but for this."""
    return attrs.evolve(PREFIX_AWARE, **changes)


_LEASING: Final[dict[str, Any]] = {"lease_ttl_ms": 1, "lease_calls": LEASE_CALLS}

#: Every rule on forests of up to four blocks where its dimensions allow, else three; five blocks with puts and evictions alone.
DEFAULT: Final[tuple[Bounds, ...]] = (
    Bounds(
        "core", PREFIX_AWARE, "reject and refuse: closure, exact progress, removal",
        sizes=(1, 2), capacities=(2, 3, 4), remove=True,
    ),
    Bounds(
        "five-blocks", PREFIX_AWARE, "all forests of five blocks",
        blocks=5, capacities=(3, 4), remove=True,
    ),
    Bounds(
        "cascade", but(removal=Removal.CASCADE, duplicate_put=DuplicatePut.SILENT), "removal of branches, forced or not",
        capacities=(4,), leases=(1,), clock=(1,), remove=True, force=True,
    ),
    Bounds(
        "in-use", but(removal=Removal.CASCADE), "pins in use outlive removal and clear",
        blocks=3, capacities=(2, 3), pins=2, remove=True, force=True, clear=True,
    ),
    Bounds(
        "two-phase", PREFIX_AWARE, "attempts that end in time, late or never, on every forest",
        capacities=(3,), attempts=1, clock=(1,), remove=True, force=True,
    ),
    Bounds(
        "two-writers", but(removal=Removal.CASCADE), "two clients' attempts, stale tokens, clear, on every forest",
        capacities=(3,), attempts=2, clock=(1,), remove=True, force=True, clear=True,
    ),
    Bounds(
        "leases", but(exists_leases=ExistsLeases.HITS, **_LEASING), "leases of reads and of the call, on every forest",
        capacities=(2, 3), leases=(2,), clock=(1,), reads=True,
    ),
    Bounds(
        "last-hit", but(exists_leases=ExistsLeases.LAST_HIT, **_LEASING), "a lease on the last hit guards its chain",
        blocks=3, capacities=(2, 3), attempts=1, clock=(1,), reads=True, remove=True, force=True,
    ),
    Bounds(
        "pins-at-write", PREFIX_AWARE, "soft and hard pins, on every forest",
        capacities=(3,), put_options=(PLAIN, SOFT, HARD), remove=True,
    ),
    Bounds(
        "soft-pins-end", but(reads_extend_soft_pin=True, exists_leases=ExistsLeases.LONGEST_PREFIX, **_LEASING),
        "soft pins that end, extended by reads, with leases",
        blocks=3, capacities=(2,), put_options=(PLAIN, SOFT_1, LEASED), clock=(1,), reads=True,
    ),
    Bounds(
        "defer", but(admission=Admission.DEFER), "objects that wait for their parents, on every forest, beside leases",
        capacities=(2, 3), leases=(1,), clock=(1,), remove=True,
    ),
    Bounds(
        "defer-two-phase", but(admission=Admission.DEFER, removal=Removal.CASCADE), "deferral with attempts, sizes and force",
        blocks=3, sizes=(1, 2), capacities=(3,), attempts=1, clock=(1,), remove=True, force=True, clear=True,
    ),
    Bounds(
        "placeholder", but(admission=Admission.PLACEHOLDER, exists_leases=ExistsLeases.HITS, **_LEASING),
        "children that come before their parents, with reads behind holes",
        capacities=(3,), clock=(1,), reads=True, remove=True,
    ),
    Bounds(
        "any-parent", but(admission=Admission.DEFER), "lineage that could close a cycle, deferred",
        capacities=(2, 3), any_parent=True, remove=True,
    ),
    Bounds(
        "any-parent-holes", but(admission=Admission.PLACEHOLDER, removal=Removal.CASCADE), "the same with holes",
        capacities=(2, 3), any_parent=True, remove=True, force=True,
    ),
    Bounds(
        "events", but(lineage=frozenset({Transport.EVENT}), admission=Admission.ANY, removal=Removal.CASCADE),
        "lineage registered before, between and after the puts",
        blocks=3, capacities=(2, 3), register=True, remove=True, attempts=1, clear=True,
    ),
    Bounds(
        "both-transports", but(lineage=frozenset({Transport.ARGUMENT, Transport.EVENT}), admission=Admission.DEFER),
        "lineage registered ahead of puts that name it too",
        blocks=3, capacities=(2,), register=True, remove=True, leases=(1,), clock=(1,),
    ),
    Bounds(
        "families", but(families=FamilyMode.ALL_OR_NONE), "shards that go together, on every forest; crossing ones refused",
        capacities=(3,), labels=(PLAIN, FAMILY), leases=(1,), clock=(1,), remove=True,
    ),
    Bounds(
        "two-families", but(families=FamilyMode.ALL_OR_NONE), "two families: one above the other, side by side, crossing",
        capacities=(3,), labels=(FAMILY, OTHER_FAMILY), remove=True,
    ),
    Bounds(
        "families-deferred", but(families=FamilyMode.ALL_OR_NONE, admission=Admission.DEFER, removal=Removal.CASCADE),
        "families of which a part waits for its parent, beside leases",
        blocks=3, capacities=(2,), labels=(PLAIN, FAMILY), leases=(1,), clock=(1,), remove=True, force=True,
    ),
    Bounds(
        "families-best-effort", but(families=FamilyMode.BEST_EFFORT, removal=Removal.CASCADE), "shards together if they can",
        blocks=3, capacities=(2,), labels=(PLAIN, FAMILY), attempts=1, clock=(1,), pins=1, remove=True,
    ),
    Bounds(
        "families-pending", but(families=FamilyMode.ALL_OR_NONE), "families with a PENDING member, soft pins among them",
        blocks=3, capacities=(2,), labels=(PLAIN, FAMILY), put_options=(PLAIN, SOFT), attempts=1, clock=(1,),
    ),
    Bounds(
        "object-groups", but(object_groups=True, exists_leases=ExistsLeases.HITS, **_LEASING), "one lease for a group",
        blocks=3, capacities=(2,), labels=(PLAIN, GROUP, OTHER_GROUP), clock=(1,), reads=True, remove=True,
    ),
    Bounds(
        "namespaces", but(namespaces=True, admission=Admission.DEFER, cache_groups=frozenset({CacheGroup.FULL, CacheGroup.BLOB})),
        "a parent of another namespace or cache group is as if absent",
        blocks=3, capacities=(2, 3), labels=(PLAIN, NAMESPACE, BLOB), remove=True, reads=True,
    ),
    Bounds(
        "batch-singles", PREFIX_AWARE, "batches as their singles in order, with attempts between",
        blocks=3, sizes=(1, 2), capacities=(2,), batches=True, attempts=1, clock=(1,),
    ),
    Bounds(
        "batch-atomic", but(batch=Batch.ATOMIC, admission=Admission.DEFER, exists_leases=ExistsLeases.LONGEST_PREFIX, **_LEASING),
        "batches that are all or nothing, with deferral, and batches of reads that lease",
        blocks=3, capacities=(2, 3), batches=True, reads=True, clock=(1,), remove=True,
    ),
    Bounds(
        "watermark", but(watermark=0.75, evict_ratio=0.25), "passes above a watermark, on every forest, beside leases",
        capacities=(4,), passes=True, leases=(1,), clock=(1,),
    ),
    Bounds(
        "eventual", but(progress=Progress.EVENTUAL, refused_put_evicts=True), "a full store refuses, and makes room later",
        blocks=3, sizes=(1, 2), capacities=(2, 3), passes=True, attempts=1, clock=(1,),
    ),
    Bounds(
        "watermark-deferred", but(admission=Admission.DEFER, watermark=0.7), "passes that meet deferred and soft-pinned objects",
        capacities=(3,), put_options=(PLAIN, SOFT), passes=True, clock=(1,), remove=True,
    ),
    Bounds(
        "nodes-expire", but(expires=True, evict_unit=EvictUnit.NODE), "whole nodes evicted, and objects that expire",
        capacities=(3,), passes=True, remove=True,
    ),
    Bounds(
        "never-evicts", but(evicts=False, progress=Progress.REJECT), "a full store that refuses",
        sizes=(1, 2), capacities=(3,), remove=True,
    ),
    Bounds(
        "flat", Capabilities(pending_timeout_ms=1), "a store without lineage: the same rules, no order",
        blocks=3, capacities=(2,), attempts=1, clock=(1,), remove=True, force=True, reads=True, clear=True,
    ),
)  # fmt: skip


def deeper(bounds: Bounds) -> Bounds:
    """The same with one more block and one more byte of capacity."""
    capacities = (*bounds.capacities, max(bounds.capacities) + 1)
    return attrs.evolve(bounds, name=f"{bounds.name}+", blocks=bounds.blocks + 1, capacities=capacities)


#: The default set, and each configuration once more with more of everything.
DEEP: Final[tuple[Bounds, ...]] = (*DEFAULT, *map(deeper, DEFAULT))


def chosen(names: Sequence[str] = (), blocks: int | None = None, *, deep: bool = False) -> tuple[Bounds, ...]:
    """The configurations of these names, all for none, with another number of blocks if one is given.

    Raises :class:`ConfigurationError` for a name that there is not, and for too many blocks.
    """
    known = {bounds.name: bounds for bounds in DEEP}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"no configuration {name!r}", f"Known are: {', '.join(known)}.")
    found = tuple(known[name] for name in names) or (DEEP if deep else DEFAULT)
    return tuple(bounds if blocks is None else attrs.evolve(bounds, blocks=blocks) for bounds in found)
