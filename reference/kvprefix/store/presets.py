"""Ready-made capabilities: one for each kind of store that the reference can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kvprefix.api import (
    Accounting,
    Admission,
    Capabilities,
    DuplicatePut,
    EvictionOrder,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Pin,
    Progress,
    Removal,
    Transport,
    VictimPolicy,
)

#: The default: lineage as an argument, parents first in, descendants first out, the head kept by its descendants' touches.
PREFIX_AWARE: Final = Capabilities(
    name="reference",
    profiles=frozenset({"object-store", "protected-store", "eviction-safe", "prefix-aware", "prefix-index", "events"}),
    clients=4,
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    admission=Admission.REJECT,
    removal=Removal.REFUSE,
    policy=VictimPolicy.LRU,
    touch_calls=frozenset({"get", "get_many", "match"}),
    lineage_recency=True,
    walk=frozenset({"root", "resume"}),
    lease_ttl_ms=1_000,
    lease_calls=frozenset({"get", "get_many", "exists", "exists_many", "match"}),
    exists_leases=ExistsLeases.LONGEST_PREFIX,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
    event_parents=True,
)

#: remove takes the descendants too.
CASCADE: Final = attrs.evolve(PREFIX_AWARE, name="reference:CASCADE", removal=Removal.CASCADE)

#: A child may come before its parent; it stays invisible until then.
DEFER: Final = attrs.evolve(PREFIX_AWARE, name="reference:DEFER", admission=Admission.DEFER, defer_deadline_ms=10_000)

#: A child may come before its parent and is visible at once: PFX-1 without PFX-2.
PLACEHOLDER: Final = attrs.evolve(
    PREFIX_AWARE,
    name="reference:PLACEHOLDER",
    admission=Admission.PLACEHOLDER,
    profiles=PREFIX_AWARE.profiles - {"prefix-aware"},
)

#: Lineage inside the key (KEY-8): no change of the store's interface.
KEY_TRANSPORT: Final = attrs.evolve(PREFIX_AWARE, name="reference:KEY_TRANSPORT", lineage=frozenset({Transport.KEY}))

#: Lineage registered beside the data path: PFX-1 from registration on.
EVENT_TRANSPORT: Final = attrs.evolve(
    PREFIX_AWARE,
    name="reference:EVENT_TRANSPORT",
    lineage=frozenset({Transport.EVENT}),
    admission=Admission.ANY,
    profiles=PREFIX_AWARE.profiles - {"prefix-aware"},
)

#: Shards of one logical block leave together or not at all.
FAMILIES: Final = attrs.evolve(
    PREFIX_AWARE,
    name="reference:FAMILIES",
    families=FamilyMode.ALL_OR_NONE,
    family_size=True,
    evict_unit=EvictUnit.FAMILY,
    profiles=PREFIX_AWARE.profiles | {"grouped"},
)

#: No lineage: the last touch decides.
FLAT_LRU: Final = Capabilities(
    name="reference:FLAT_LRU",
    profiles=frozenset({"object-store", "protected-store", "events"}),
    clients=4,
    policy=VictimPolicy.LRU,
    lease_ttl_ms=1_000,
    lease_calls=frozenset({"get", "get_many", "exists", "exists_many", "match"}),
    exists_leases=ExistsLeases.HITS,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
)

#: No lineage: the order of storing decides.
FLAT_FIFO: Final = attrs.evolve(FLAT_LRU, name="reference:FLAT_FIFO", policy=VictimPolicy.FIFO, touch_calls=frozenset())

#: Prefix-aware admission and removal, but a full store refuses.
NEVER_EVICTS: Final = attrs.evolve(PREFIX_AWARE, name="reference:NEVER_EVICTS", evicts=False, progress=Progress.REJECT)

#: A router's index: no bytes.
INDEX_ONLY: Final = attrs.evolve(
    PREFIX_AWARE,
    name="reference:INDEX_ONLY",
    values=False,
    profiles=frozenset({"prefix-index", "eviction-safe", "prefix-aware", "events"}),
)

#: A flat store that evicts as Mooncake Store does (see mooncake_like.py).
MOONCAKE_LIKE: Final = Capabilities(
    name="reference:MOONCAKE_LIKE",
    profiles=frozenset({"object-store", "protected-store"}),
    clients=4,
    duplicate_put=DuplicatePut.SILENT,
    progress=Progress.EVENTUAL,
    refused_put_evicts=True,
    reports_evictions=False,
    accounting=Accounting.EXACT,
    touch_calls=frozenset({"get", "get_many", "exists", "exists_many", "match"}),
    watermark=0.9,
    evict_ratio=0.05,
    match_atomic=False,
    lease_ttl_ms=10_000,
    lease_calls=frozenset({"get", "get_many", "exists", "exists_many", "match"}),
    exists_leases=ExistsLeases.HITS,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
    object_groups=True,
)

#: By name, as ``kvprefix check reference:NAME`` takes them.
PRESETS: Final[Mapping[str, Capabilities]] = {
    "PREFIX_AWARE": PREFIX_AWARE,
    "CASCADE": CASCADE,
    "DEFER": DEFER,
    "PLACEHOLDER": PLACEHOLDER,
    "KEY_TRANSPORT": KEY_TRANSPORT,
    "EVENT_TRANSPORT": EVENT_TRANSPORT,
    "FAMILIES": FAMILIES,
    "FLAT_LRU": FLAT_LRU,
    "FLAT_FIFO": FLAT_FIFO,
    "NEVER_EVICTS": NEVER_EVICTS,
    "INDEX_ONLY": INDEX_ONLY,
    "MOONCAKE_LIKE": MOONCAKE_LIKE,
}
