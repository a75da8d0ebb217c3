"""Leases that are granted: one deadline that only moves later, shared by an object group. Carries PRT-2, PRT-3 and GRP-2."""

from __future__ import annotations

import attrs

from kvprefix.model.values import RESIDENT, Object, Rules, State


def lease_sharers(rules: Rules, state: State, obj: Object) -> tuple[Object, ...]:
    """The resident objects that share its lease: the members of its object group (GRP-2), else itself alone."""
    group = obj.options.object_group if rules.caps.object_groups else ""
    return tuple(
        o for o in state.objects if o.status is RESIDENT and (o.key == obj.key or (group != "" and o.options.object_group == group))
    )


def group_lease(rules: Rules, state: State, obj: Object) -> int:
    """The deadline that an object finds when it becomes visible: that of its object group, or 0."""
    return max((o.lease_until for o in lease_sharers(rules, state, obj)), default=0)


def with_lease(rules: Rules, state: State, obj: Object, ttl_ms: int) -> State:
    """A grant sets max(own deadline, now + ttl), for each that shares the lease (PRT-2). One of 0 ms grants nothing."""
    for each in lease_sharers(rules, state, obj) if ttl_ms > 0 else ():
        state = state.having(attrs.evolve(each, lease_until=max(each.lease_until, state.now + ttl_ms)))
    return state
