"""Faulty backends that the suite does not fail yet. Each is an open hole of the suite, and turns red when it is closed."""

from __future__ import annotations

#: Fault -> why the whole suite, or the oracle on the hand-written scenario, does not see it.
UNKILLED = {
    "force-leaves-attempt-open": "no driver commits an attempt that a forced clear should have made STALE",
}
UNSEEN = {
    "snapshot-number-is-ahead": "the oracle takes a snapshot's number as it comes when no event follows it",
}
