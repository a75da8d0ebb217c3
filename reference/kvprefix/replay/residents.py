"""Which blocks are resident, and which of them are orphans: a resident block with a missing ancestor (PFX-1, PFX-2).

Two ways to know it. Where every put reports what it evicted, a forest is kept up to date: each change costs in the number of blocks
that it makes, or stops being, orphans. Elsewhere a snapshot of the resident keys is looked at now and then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


def leading(flags: Iterable[bool]) -> int:
    """How many are true before the first that is not; looks no further."""
    count = 0
    for flag in flags:
        if not flag:
            break
        count += 1
    return count


class ResidentForest:
    """The resident blocks with their parents; None is the parent of a first block. Memory: in the number of resident blocks."""

    def __init__(self) -> None:
        self._parent: dict[str, str | None] = {}
        #: Resident children by parent, which itself may be missing.
        self._children: dict[str, set[str]] = {}
        self._orphans: set[str] = set()

    def __len__(self) -> int:
        return len(self._parent)

    def __contains__(self, key: object) -> bool:
        return key in self._parent

    def __iter__(self) -> Iterator[str]:
        return iter(self._parent)

    @property
    def orphans(self) -> int:
        """How many resident blocks have a missing ancestor."""
        return len(self._orphans)

    def which(self, keys: Sequence[str]) -> list[bool]:
        """For each key whether it is resident."""
        return list(map(self._parent.__contains__, keys))

    def children(self, key: str) -> Collection[str]:
        """The resident children."""
        return self._children.get(key, ())

    def stored(self, key: str, parent: str | None) -> None:
        """The block became resident. What hung below it is reachable again if the block itself is."""
        if key in self._parent:
            return
        self._parent[key] = parent
        if parent is not None:
            self._children.setdefault(parent, set()).add(key)
            if parent not in self._parent or parent in self._orphans:
                self._orphans.add(key)
                return
        stack = [key] if key in self._children else []
        while stack:
            found = [child for child in self._children.get(stack.pop(), ()) if child in self._orphans]
            self._orphans.difference_update(found)
            stack += found

    def evicted(self, key: str) -> None:
        """The block left: what hung below it is cut off. KeyError for a block that is not resident."""
        parent = self._parent.pop(key)
        if parent is not None:
            siblings = self._children[parent]
            siblings.remove(key)
            if not siblings:
                del self._children[parent]
        self._orphans.discard(key)
        stack = [key] if key in self._children else []
        while stack:
            cut = [child for child in self._children.get(stack.pop(), ()) if child not in self._orphans]
            self._orphans.update(cut)
            stack += cut


def count_orphans(resident: Collection[str], parents: Mapping[str, str | None]) -> int:
    """How many of the resident keys have a missing ancestor; ``parents`` knows every key that was ever stored."""
    present = frozenset(resident)
    reachable: dict[str, bool] = {}
    for key in present:
        path = []
        at: str | None = key
        while at is not None and at in present and at not in reachable:
            path.append(at)
            at = parents[at]
        whole = at is None or reachable.get(at, False)
        reachable.update(dict.fromkeys(path, whole))
    return sum(not whole for whole in reachable.values())
