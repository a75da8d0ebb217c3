"""A priority queue whose entries may be out of date: the one ordered structure of the store (victims, leases, soft pins).

Ranks of queued nodes only rise. So an entry is never too high, and it is enough to look at the true rank when an entry comes to the
top: a node that rose meanwhile is put back, one that lost its claim is dropped. A touch therefore costs nothing at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class _Ordered(Protocol):
    """Items are compared only where ranks tie."""

    def __lt__(self, other: Any, /) -> bool: ...


T = TypeVar("T", bound=_Ordered)

#: A sweep starts when the dead entries outnumber the live ones and are more than this.
_SWEEP_ABOVE = 64


class LazyHeap(Generic[T]):
    """Min-heap of nodes. push, pop, lose: amortised O(log n), and no call ever rebuilds the whole.

    ``revise(node)`` gives the true rank, or None where the node no longer belongs here (and then forgets that it is queued).
    """

    __slots__ = ("_dead", "_hand", "_heap", "_revise", "_sweeping")

    def __init__(self, revise: Callable[[T], int | None]) -> None:
        self._revise = revise
        self._heap: list[tuple[int, T]] = []
        #: What is left of the heap that a sweep is moving; popping its tail keeps it a heap.
        self._sweeping: list[tuple[int, T]] = []
        #: The newest entry stays in the hand. Of a chain that is put root first only the last block then ever reaches the heap, and
        #: a parent that its last child's eviction made a leaf is taken from here.
        self._hand: T | None = None
        self._dead = 0

    def __len__(self) -> int:
        """Number of entries, dead ones included."""
        return len(self._heap) + len(self._sweeping) + (self._hand is not None)

    def push(self, node: T) -> None:
        """Enter a node that is not queued here."""
        hand, self._hand = self._hand, node
        if hand is not None:
            self._lay_down(hand)
        if self._sweeping:
            self._sweep()

    def lose(self) -> None:
        """A queued node lost its claim; its entry stays until it comes to the top or a sweep finds it."""
        self._dead += 1
        if self._sweeping:
            self._sweep()
        elif self._dead > _SWEEP_ABOVE and self._dead * 2 > len(self._heap):
            self._sweeping, self._heap = self._heap, self._sweeping
        else:
            self.tidy()

    def regain(self) -> None:
        """A queued node that had lost its claim has it again, before its entry was found dead."""
        self._dead -= 1

    def tidy(self) -> bool:
        """Look at the top entry; whether it was out of date, and is not the top any more. Called as entries go out of date, so that
        little of that is left to do when the head is asked for.
        """
        heap = self._lower()
        if not heap:
            return False
        rank, node = heap[0]
        true = self._revise(node)
        if true == rank:
            return False
        if true is None:
            heapq.heappop(heap)
            self._dead -= 1
        else:
            heapq.heapreplace(heap, (true, node))
        return True

    def head(self) -> T | None:
        """The node of lowest true rank, still queued; None where there is none. It may pay for touches and losses before it."""
        hand, self._hand = self._hand, None
        if hand is not None:
            self._lay_down(hand)
        while self.tidy():
            pass
        heap = self._lower()
        return heap[0][1] if heap else None

    def pop(self) -> T | None:
        """Take out the node of lowest true rank."""
        hand = self._hand
        if hand is None and not self._heap and not self._sweeping:
            return None
        if hand is not None and not self._sweeping:
            # The common case while a chain is evicted: the parent that just became a leaf is next, and never enters the heap.
            rank = self._revise(hand)
            if rank is not None and (not self._heap or rank <= self._heap[0][0]):
                self._hand = None
                return hand
        node = self.head()
        if node is not None:
            heapq.heappop(self._lower())
        return node

    def _lay_down(self, node: T) -> None:
        rank = self._revise(node)
        if rank is None:
            self._dead -= 1
        else:
            heapq.heappush(self._heap, (rank, node))

    def _lower(self) -> list[tuple[int, T]]:
        """Of the two heaps the one with the lower top (the other one is empty unless a sweep is on)."""
        if not self._sweeping:
            return self._heap
        if not self._heap or self._sweeping[0][0] <= self._heap[0][0]:
            return self._sweeping
        return self._heap

    def _sweep(self) -> None:
        """Move a few entries of the old heap, and drop the dead among them: the cost of a rebuild, never in one piece."""
        for _ in range(min(4, len(self._sweeping))):
            _, node = self._sweeping.pop()
            self._lay_down(node)
