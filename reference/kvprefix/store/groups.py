"""Object groups: members share one lease (GRP-2). Not to be confused with cache groups or families."""

from __future__ import annotations

from kvprefix.store.node import Node


class ObjectGroup:
    """The present members of one object group, and their common lease."""

    __slots__ = ("lease", "members", "timed")

    def __init__(self) -> None:
        #: In order of joining; a dict because members leave from the middle.
        self.members: dict[Node, None] = {}
        #: Deadline of the shared lease that is counted in the members' ``guards``; 0: none is.
        self.lease = 0
        self.timed = False

    def __lt__(self, other: ObjectGroup) -> bool:
        """Heaps compare groups where deadlines tie."""
        return False
