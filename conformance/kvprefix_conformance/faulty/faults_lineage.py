"""Faults of lineage: children without parents, deferred objects, removal in a chain, cache groups.

They break PFX-2, PFX-3, PFX-8, PFX-12.
"""
# ruff: noqa: D102, ARG002 - the docstring of the class says what its one override does

from __future__ import annotations

import attrs

from kvprefix.api import Answer, CacheGroup, Parent, PutOptions, PutResult
from kvprefix_conformance.faulty.entry import Entry, Offer, State
from kvprefix_conformance.faulty.kinds import CASCADE, DEFER
from kvprefix_conformance.faulty.plain import PlainStore
from kvprefix_conformance.faulty.registry import fault

# ---- PFX-2


@fault("PFX-2", "B176")
class RemoveOrphansChildren(PlainStore):
    """remove takes an object and leaves its children, which no lookup reaches any more."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        answer = super().removal_refusal(entry, force=force)
        return answer if answer is not Answer.PROTECTED or self.is_protected(entry) else None


@fault("PFX-2", on=DEFER)
class DeferredVisible(PlainStore):
    """A deferred object can be read before its parent is there."""

    def is_visible(self, entry: Entry) -> bool:
        return entry.state is not State.PENDING


# ---- PFX-3


@fault("PFX-3", "B027", "B127")
class AdmitsOrphans(PlainStore):
    """Children without their parents are refused by declaration, and stored."""

    def orphaned(self, offer: Offer) -> Answer | None:
        return None


@fault("PFX-3", "B027")
class PendingParentIsEnough(PlainStore):
    """A child is admitted when its parent has been begun, committed or not."""

    def lacks_parent(self, child: Entry | Offer) -> bool:
        return isinstance(child.parent, str) and self.parent_of(child) is None


@fault("PFX-3", on=DEFER)
class NeverReleasesDeferred(PlainStore):
    """A deferred object stays a miss when its parent has come."""

    def release_deferred(self, parent: Entry) -> None:
        pass


@fault("PFX-3", on=DEFER)
class ReleasesOneLevel(PlainStore):
    """The deferred children of a stored object become visible, their own deferred children do not."""

    def release_deferred(self, parent: Entry) -> None:
        if all(above.stored < parent.stored - 2 for above in self.ancestors(parent)):
            super().release_deferred(parent)


@fault("PFX-3", "B128", "B179", on=DEFER)
class DropsDeferredAtOnce(PlainStore):
    """DEFERRED is answered and the object is thrown away."""

    def publish(self, entry: Entry) -> Answer:
        answer = super().publish(entry)
        if answer is Answer.DEFERRED:
            self.leave(entry)
        return answer


@fault("PFX-3", "B211", on=DEFER)
class EvictsResidentsForDeferred(PlainStore):
    """Deferred objects are evicted last: blocks that nobody can read push out blocks that are read."""

    def rank(self, entry: Entry) -> tuple[int, int]:
        return (9 if entry.state is State.DEFERRED else super().rank(entry)[0]), self.age(entry)


@fault("PFX-3", on=DEFER)
class DeferredNeverDropped(PlainStore):
    """The deadline of a deferred object is declared and never comes."""

    def is_overdue(self, entry: Entry) -> bool:
        return entry.state is not State.DEFERRED and super().is_overdue(entry)


@fault("PFX-3", on=DEFER)
class AcceptsCycles(PlainStore):
    """An object may be declared its own ancestor."""

    def closes_cycle(self, name: str, parent: Parent) -> bool:
        return False


@fault("PFX-3")
class ParentOfAnotherNamespace(PlainStore):
    """A parent in another namespace is taken for the declared one."""

    def can_be_parent(self, above: Entry, options: PutOptions) -> bool:
        return above.options.cache_group is CacheGroup.FULL and options.cache_group is CacheGroup.FULL


# ---- PFX-8


@fault("PFX-8", "B121", on=CASCADE)
class CascadeTakesProtected(PlainStore):
    """A cascade asks whether the removed object itself is protected, and takes a leased child with it."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        if entry.state is State.PENDING and not force:
            return Answer.IN_PROGRESS
        return Answer.PROTECTED if self.is_protected_itself(entry) and not force else None


@fault("PFX-8", on=CASCADE)
class CascadeTopDown(PlainStore):
    """A cascade takes the parent first and its children after it."""

    def removed_with(self, entry: Entry) -> list[Entry]:
        return list(reversed(super().removed_with(entry)))


@fault("PFX-8", on=CASCADE)
class CascadeOneLevel(PlainStore):
    """A cascade takes the children and leaves the grandchildren."""

    def removed_with(self, entry: Entry) -> list[Entry]:
        return [*self.children(entry), entry]


@fault("PFX-8", on=CASCADE)
class CascadeTakesSiblings(PlainStore):
    """A cascade starts at the parent: the removal of one branch prunes its siblings too."""

    def removed_with(self, entry: Entry) -> list[Entry]:
        above = self.ancestors(entry)[:1]
        family = [each for each in self.descendants(above[0]) if not self.is_protected(each)] if above else []
        return list(reversed(family)) if entry in family else super().removed_with(entry)


@fault("PFX-8", "B022", "B024", "B030", on=CASCADE)
class CommitsUnderRemovedParent(PlainStore):
    """A forced cascade leaves attempts below it open, and commit does not look at the parent again."""

    def removed_with(self, entry: Entry) -> list[Entry]:
        return [each for each in super().removed_with(entry) if each.state is not State.PENDING or each is entry]

    def put_commit(self, key: str, token: str, value: bytes) -> PutResult:
        entry = self.attempt(key, token)
        if entry is not None and self.lacks_parent(entry):
            entry.value, entry.token = value, ""
            return self.result(self.publish(entry))
        return super().put_commit(key, token, value)


@fault("PFX-8")
class RefusesForResidentChildrenOnly(PlainStore):
    """Removal is refused over resident children; forced, it takes the parent of an object that is being written."""

    def removal_refusal(self, entry: Entry, *, force: bool) -> Answer | None:
        answer = super().removal_refusal(entry, force=force)
        resident = any(child.state is State.RESIDENT for child in self.children(entry))
        return answer if resident or not force else None


# ---- PFX-12


@fault("PFX-12")
class WindowObjectsAreBound(PlainStore):
    """A window object may name a parent, and is bound by it, though only full objects have one."""

    def can_be_parent(self, above: Entry, options: PutOptions) -> bool:
        return above.options.namespace == options.namespace

    def invalid(self, offer: Offer) -> Answer | None:
        return super().invalid(attrs.evolve(offer, options=attrs.evolve(offer.options, cache_group=CacheGroup.FULL)))


@fault("PFX-12")
class WindowObjectsAreParents(PlainStore):
    """A full object is admitted below a window object."""

    def can_be_parent(self, above: Entry, options: PutOptions) -> bool:
        return above.options.namespace == options.namespace


@fault("PFX-12")
class UndeclaredCacheGroupAccepted(PlainStore):
    """The backend declares full and window objects, and takes an object of a state cache group too."""

    def unsupported(self, offer: Offer) -> Answer | None:
        return super().unsupported(attrs.evolve(offer, options=attrs.evolve(offer.options, cache_group=CacheGroup.FULL)))
