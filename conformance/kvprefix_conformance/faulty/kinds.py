"""Capabilities on which faults and variants are built: what such a backend declares, so that it can be held to it.

Carries no requirement itself.
"""

from __future__ import annotations

from typing import Final

import attrs

from kvprefix.api import (
    Admission,
    CacheGroup,
    Capabilities,
    EvictionOrder,
    ExistsLeases,
    Pin,
    Progress,
    Removal,
    Transport,
    VictimPolicy,
)

#: A store that claims everything but what is planned.
AWARE: Final = Capabilities(
    name="plain",
    profiles=frozenset({"object-store", "protected-store", "eviction-safe", "prefix-aware", "prefix-index", "events"}),
    clients=2,
    pending_timeout_ms=2_000,
    defer_deadline_ms=3_000,
    lineage=frozenset({Transport.ARGUMENT}),
    eviction_order=EvictionOrder.DESCENDANTS_FIRST,
    admission=Admission.REJECT,
    removal=Removal.REFUSE,
    cache_groups=frozenset({CacheGroup.FULL, CacheGroup.WINDOW}),
    policy=VictimPolicy.LRU,
    touch_calls=frozenset({"get", "get_many", "match"}),
    lineage_recency=True,
    walk=frozenset({"root", "resume"}),
    lease_ttl_ms=500,
    lease_calls=frozenset({"get", "exists", "exists_many", "match"}),
    exists_leases=ExistsLeases.LONGEST_PREFIX,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
    namespaces=True,
    event_parents=True,
)

#: No read leases anything, so that recency alone decides who goes.
UNLEASED: Final = attrs.evolve(
    AWARE, lease_ttl_ms=0, lease_calls=frozenset(), exists_leases=ExistsLeases.NONE, touch_calls=AWARE.touch_calls | {"exists"}
)
CASCADE: Final = attrs.evolve(AWARE, removal=Removal.CASCADE)
DEFER: Final = attrs.evolve(AWARE, admission=Admission.DEFER)
PLACEHOLDER: Final = attrs.evolve(AWARE, admission=Admission.PLACEHOLDER, profiles=AWARE.profiles - {"prefix-aware"})

#: No lineage at all.
FLAT: Final = Capabilities(
    name="plain-flat",
    profiles=frozenset({"object-store", "protected-store"}),
    policy=VictimPolicy.LRU,
    lease_ttl_ms=500,
    lease_calls=frozenset({"get", "exists", "exists_many"}),
    exists_leases=ExistsLeases.HITS,
    pins=frozenset({Pin.SOFT, Pin.HARD}),
)

#: A router's index: keys and events, no bytes.
INDEX: Final = attrs.evolve(
    UNLEASED, name="plain-index", values=False, profiles=frozenset({"prefix-index", "eviction-safe", "prefix-aware", "events"})
)
NEVER_EVICTS: Final = attrs.evolve(AWARE, evicts=False, progress=Progress.REJECT)
