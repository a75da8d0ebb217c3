"""What a state of the store is, and what follows from it: lineage, protection, families, bytes in use.

All values are frozen and can be compared and hashed, so that a state can be put in a set. Everything derived is a function, never
stored. Carries the definitions of spec section 2 and of PRT-1, PRT-4, PFX-5 and GRP-1.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from kvprefix.api import (
    ROOT,
    UNKNOWN,
    Admission,
    CacheGroup,
    Capabilities,
    EvictionOrder,
    FamilyMode,
    Geometry,
    Parent,
    Pin,
    PutOptions,
    Removal,
    Transport,
)

#: A deadline that never comes.
FOREVER: Final = 1 << 62


@attrs.frozen
class Rules:
    """What the model is a model of: all that is under public dispute is declared here."""

    caps: Capabilities
    geometry: Geometry

    @property
    def leaves_first(self) -> bool:
        """Whether descendants protect their ancestors and are evicted before them (PFX-1, PFX-5)."""
        return self.caps.eviction_order is EvictionOrder.DESCENDANTS_FIRST

    @property
    def whole_families(self) -> bool:
        """Whether families are evicted and protected as one (GRP-1)."""
        return self.caps.families is FamilyMode.ALL_OR_NONE

    @property
    def closed(self) -> bool:
        """Whether the resident set is closed under ancestors at every instant (PFX-2)."""
        told_at_put = Transport.EVENT not in self.caps.lineage
        return self.caps.prefix_closed and self.caps.removal is not Removal.ANY and told_at_put

    @property
    def rejects(self) -> bool:
        """Whether a put needs a resident parent (PFX-3)."""
        return self.caps.admission is Admission.REJECT

    @property
    def defers(self) -> bool:
        """Whether a put waits for its parent, unseen (PFX-3)."""
        return self.caps.admission is Admission.DEFER


class Status(enum.Enum):
    """Where a present object stands."""

    #: Readable.
    RESIDENT = "resident"
    #: Begun, not committed (STO-5).
    PENDING = "pending"
    #: Kept unseen until its parent is resident (PFX-3).
    DEFERRED = "deferred"


RESIDENT: Final = Status.RESIDENT
PENDING: Final = Status.PENDING
DEFERRED: Final = Status.DEFERRED


@attrs.frozen
class Object:
    """One present object. Deadlines are instants in ms: a thing with deadline d holds while now < d."""

    key: str
    #: Bytes of the value, and bytes that it takes from the capacity (Geometry.charge).
    size: int
    charge: int
    #: As declared; the parent may be absent.
    parent: Parent
    #: What the put said: cache group, family, object group, namespace, pin, lease.
    options: PutOptions
    status: Status
    #: Empty while PENDING.
    value: bytes = b""
    lease_until: int = 0
    #: End of the soft pin; 0: none.
    soft_until: int = 0
    #: Tokens of the pins that hold it in use.
    in_use: frozenset[str] = frozenset()
    #: PENDING: the token of the attempt.
    token: str = ""
    #: PENDING: when the attempt times out. DEFERRED: when it is dropped.
    deadline: int = 0


@attrs.frozen
class State:
    """The whole store at one instant."""

    now: int = 0
    #: Present objects, ordered by key; one per key.
    objects: tuple[Object, ...] = ()
    #: Objects forced away while in use: a miss for every call, but their bytes are not free yet (STO-9).
    draining: tuple[Object, ...] = ()
    #: Parents declared beside the data path for keys that are absent so far, ordered by key (transport ``event``).
    registered: tuple[tuple[str, Parent], ...] = ()
    #: Tokens and event sequence numbers are given out in order, and never twice.
    next_token: int = 1
    next_event: int = 1

    @classmethod
    def initial(cls) -> State:
        """The empty store at time 0."""
        return cls()

    def find(self, key: str) -> Object | None:
        """The present object of this key, whatever its status."""
        return next((o for o in self.objects if o.key == key), None)

    def resident(self, key: str) -> Object | None:
        """The object of this key, if it can be read."""
        found = self.find(key)
        return found if found is not None and found.status is RESIDENT else None

    def having(self, obj: Object) -> State:
        """This state with the object in it, in place of any other of the same key; what was registered for the key is used up."""
        others = [o for o in self.objects if o.key != obj.key]
        return attrs.evolve(
            self,
            objects=tuple(sorted([*others, obj], key=lambda o: o.key)),
            registered=tuple(r for r in self.registered if r[0] != obj.key),
        )

    def without(self, keys: Iterable[str]) -> State:
        """This state after these objects left; their lineage is forgotten with them."""
        gone = frozenset(keys)
        return attrs.evolve(self, objects=tuple(o for o in self.objects if o.key not in gone))


# --------------------------------------------------------------------------------------------------------------------------------
# Lineage


def parent_of(state: State, obj: Object) -> Object | None:
    """The present object that is its parent; one of another namespace or cache group is as if absent (PFX-3, PFX-12)."""
    found = state.find(obj.parent) if isinstance(obj.parent, str) else None
    if found is None or found.options.cache_group is not CacheGroup.FULL or found.options.namespace != obj.options.namespace:
        return None
    return found


def ancestors(state: State, obj: Object) -> tuple[Object, ...]:
    """Its present ancestors, nearest first, up to the first that is absent."""
    line: tuple[Object, ...] = ()
    above = parent_of(state, obj)
    while above is not None and above not in line:
        line = (*line, above)
        above = parent_of(state, above)
    return line


def children(state: State, obj: Object) -> tuple[Object, ...]:
    """The present objects whose parent it is."""
    return tuple(o for o in state.objects if obj.key in [above.key for above in ancestors(state, o)[:1]])


def descendants(state: State, obj: Object) -> tuple[Object, ...]:
    """The present objects above which it stands, deepest first."""
    below = [o for o in state.objects if obj.key in [above.key for above in ancestors(state, o)]]
    return tuple(sorted(below, key=lambda o: -len(ancestors(state, o))))


def declared_parent(state: State, key: str) -> Parent:
    """The parent that the store was told for this key, by a put or beside the data path."""
    found = state.find(key)
    return found.parent if found is not None else dict(state.registered).get(key, UNKNOWN)


def closes_cycle(state: State, key: str, parent: Parent) -> bool:
    """Whether the key would become its own ancestor by declared lineage, present or not (PFX-3)."""
    line: list[Parent] = []
    while isinstance(parent, str) and parent not in line:
        line.append(parent)
        parent = declared_parent(state, parent)
    return key in line


def has_resident_parent(state: State, obj: Object) -> bool:
    """Whether nothing is missing right above it: ROOT and UNKNOWN objects have no parent to miss."""
    above = parent_of(state, obj)
    return not isinstance(obj.parent, str) or (above is not None and above.status is RESIDENT)


def orphans(state: State) -> frozenset[str]:
    """Resident objects that no walk from the root reaches: they, or one of their ancestors, miss a parent."""
    return frozenset(
        o.key
        for o in state.objects
        if o.status is RESIDENT and not all(has_resident_parent(state, each) for each in (o, *ancestors(state, o)))
    )


def reachable(state: State) -> frozenset[str]:
    """Resident objects of which every ancestor is resident."""
    return frozenset(o.key for o in state.objects if o.status is RESIDENT) - orphans(state)


# --------------------------------------------------------------------------------------------------------------------------------
# Families

#: A family is named by namespace, cache group and family name; an object without a family name is a family of its own.
Family: TypeAlias = tuple[object, ...]


def family_of(rules: Rules, obj: Object) -> Family:
    """All shards of one logical block in one cache group share it."""
    options = obj.options
    if rules.caps.families is FamilyMode.NONE or not options.family:
        return (obj.key,)
    return (options.namespace, options.cache_group, options.family)


def family_members(rules: Rules, state: State, obj: Object) -> tuple[Object, ...]:
    """The present objects of its family, itself included."""
    return tuple(o for o in state.objects if family_of(rules, o) == family_of(rules, obj))


def families_form_a_forest(rules: Rules, state: State) -> bool:
    """Whether each family hangs below one family, or at the root, and none below itself (GRP-1).

    A member whose parent is absent may hang anywhere but at the root; one with an UNKNOWN parent anywhere.
    """
    above: dict[Family, Family] = {}
    for obj in state.objects:
        parent = parent_of(state, obj)
        place: Family = (ROOT,) if obj.parent is ROOT else family_of(rules, parent) if parent is not None else ()
        if place and above.setdefault(family_of(rules, obj), place) != place:
            return False
    for obj in state.objects:
        family = family_of(rules, obj)
        if isinstance(obj.parent, str) and above.get(family) == (ROOT,):
            return False
        line = [family]
        while above.get(line[-1], (ROOT,)) != (ROOT,):
            line.append(above[line[-1]])
            if line[-1] in line[:-1]:
                return False
    return True


# --------------------------------------------------------------------------------------------------------------------------------
# Protection


def holds_itself(state: State, obj: Object) -> bool:
    """Whether the object itself gives a reason to keep it: lease, hard pin, use, or an open attempt (PRT-1)."""
    if obj.status is RESIDENT:
        return state.now < obj.lease_until or obj.options.pin is Pin.HARD or bool(obj.in_use)
    return obj.status is PENDING


def softly_pinned(state: State, obj: Object) -> bool:
    """Whether the object itself has a live soft pin (PRT-4)."""
    return obj.status is RESIDENT and state.now < obj.soft_until


def _spread(rules: Rules, state: State, keys: Iterable[str]) -> frozenset[str]:
    """The smallest set that holds these keys and, with an object, all that is kept for its sake: ancestors, and whole families."""
    spread = frozenset(keys)
    while True:
        kept = [o for o in state.objects if o.key in spread]
        more = set(spread)
        if rules.leaves_first:
            more.update(above.key for o in kept for above in ancestors(state, o))
        if rules.whole_families:
            more.update(member.key for o in kept for member in family_members(rules, state, o))
        if more == spread:
            return spread
        spread = frozenset(more)


def protected(rules: Rules, state: State, keep: Iterable[str] = ()) -> frozenset[str]:
    """Keys of all protected objects (PRT-1, PFX-5, GRP-1). ``keep`` counts as protected too: the ancestors of the put that asks."""
    return _spread(rules, state, [*keep, *(o.key for o in state.objects if holds_itself(state, o))])


def soft_protected(rules: Rules, state: State) -> frozenset[str]:
    """Keys of all objects that count as soft-pinned: their own pin, or that of a descendant or of a family member (PRT-4)."""
    return _spread(rules, state, [o.key for o in state.objects if softly_pinned(state, o)])


# --------------------------------------------------------------------------------------------------------------------------------
# Bytes


def charge_of(objects: Iterable[Object]) -> int:
    """Bytes that these objects take from the capacity."""
    return sum(o.charge for o in objects)


def used(state: State) -> int:
    """Bytes in use: resident, pending, deferred and draining objects (STO-6)."""
    return charge_of(state.objects) + charge_of(state.draining)


def free(rules: Rules, state: State) -> int:
    """Bytes that are not in use."""
    return rules.geometry.capacity_bytes - used(state)


def room_at_most(rules: Rules, state: State, keep: Iterable[str] = ()) -> int:
    """Bytes that could be free if all that is not protected went: what PFX-6 measures a put by."""
    held = protected(rules, state, keep)
    return free(rules, state) + charge_of(o for o in state.objects if o.key not in held)
