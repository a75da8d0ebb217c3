"""The event log: every change of the resident set, numbered without a gap (EVT-1, EVT-2)."""

from __future__ import annotations

from kvprefix.api import UNKNOWN, Event, EventKind, Parent


class EventLog:
    """All events since start. Two references an event; Event values are made only when somebody asks for them."""

    def __init__(self, *, removals: bool = True) -> None:
        self._removals = removals
        self._keys: list[str] = []
        #: STORED: the declared parent; else the kind.
        self._what: list[Parent | EventKind] = []

    @property
    def sequence(self) -> int:
        """Number of the latest event; 0: none yet."""
        return len(self._keys)

    def stored(self, key: str, parent: Parent) -> None:
        """The object became readable."""
        self._keys.append(key)
        self._what.append(parent)

    def removed(self, key: str) -> None:
        """The object was evicted or removed; said only where removals are declared (D14)."""
        if not self._removals:
            return
        self._keys.append(key)
        self._what.append(EventKind.REMOVED)

    def cleared(self) -> None:
        """Everything went at once."""
        self._keys.append("")
        self._what.append(EventKind.CLEARED)

    def after(self, sequence: int, *, parents: bool) -> list[Event]:
        """Events above this number, oldest first; with their parents where the store declares that (O(their number))."""
        start = max(sequence, 0)
        events = []
        for number, (key, what) in enumerate(zip(self._keys[start:], self._what[start:], strict=True), start + 1):
            if isinstance(what, EventKind):
                events.append(Event(number, what, key))
            else:
                events.append(Event(number, EventKind.STORED, key, what if parents else UNKNOWN))
        return events
