"""Each fault is real: in a few steps, written by hand, the oracle sees it, and sees nothing in them on the plain store."""

from __future__ import annotations

from typing import Any

import pytest
from known_holes import UNSEEN

from kvprefix_conformance.faulty import FAULTS, find_fault
from kvprefix_conformance.faulty.plain import PlainBackend, PlainStore
from kvprefix_conformance.faulty.registry import Fault
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.oracle.ledger import Terms
from kvprefix_conformance.records import Step
from kvprefix_conformance.session import Session, offered

#: Four objects of 16 bytes fill the store.
CAPACITY = 64
HARD: dict[str, Any] = {"pin": "hard"}
SOFT: dict[str, Any] = {"pin": "soft"}
BRIEFLY: dict[str, Any] = {"pin": "soft", "soft_pin_ms": 10}
WINDOW: dict[str, Any] = {"cache_group": "window"}


def item(key: str, parent: str = "", size: int = 16, fill: int = 0, **options: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"parent": parent} if parent else {}
    return {"key": key, "value": {"fill": fill, "size": size}, "options": options, **told}


def put(key: str, parent: str = "", size: int = 16, fill: int = 0, **options: Any) -> Step:
    return Step("put", item(key, parent, size, fill, **options))


def many(*items: dict[str, Any]) -> Step:
    return Step("put_many", {"items": list(items)})


def begin(key: str, parent: str = "", size: int = 16, token: str = "t", **options: Any) -> Step:
    told: dict[str, Any] = {"parent": parent} if parent else {}
    return Step("put_begin", {"key": key, "size": size, "as": token, "options": options, **told})


def commit(key: str, token: str = "t", size: int = 16) -> Step:
    return Step("put_commit", {"key": key, "token": token, "value": {"fill": 0, "size": size}})


def abort(key: str, token: str = "t") -> Step:
    return Step("put_abort", {"key": key, "token": token})


def one(op: str, key: str, **args: Any) -> Step:
    return Step(op, {"key": key, **args})


def get(key: str) -> Step:
    return one("get", key)


def remove(key: str, *, force: bool = False) -> Step:
    return one("remove", key, force=force)


def lease(key: str, ms: int) -> Step:
    return one("lease", key, ttl_ms=ms)


def pin(key: str, label: str) -> Step:
    return one("pin", key, **{"as": label})


def match(*chain: str, start: int = 0) -> Step:
    return Step("match", {"chain": list(chain), "start": start})


def reads(op: str, *keys: str) -> Step:
    return Step(op, {"keys": list(keys)})


def wait(ms: int = 1) -> Step:
    return Step("advance", {"ms": ms})


def jump(ms: int) -> Step:
    return Step("jump_wall_clock", {"ms": ms})


CLEAR, FORCED_CLEAR = Step("clear"), Step("clear", {"force": True})
STATS, SNAPSHOT, EVENTS = Step("stats"), Step("snapshot"), Step("events", {"after": 0})
LONG = "k" * 300
#: a is the oldest root, x, y and z are younger, each in its own millisecond.
FULL = [put("a"), wait(), put("x"), wait(), put("y"), wait(), put("z"), wait()]
#: b hangs below a, both older than x and y.
CHAIN = [put("a"), wait(), put("b", "a"), wait(), put("x"), wait(), put("y"), wait()]

WITNESSES: dict[str, list[Step]] = {
    # values
    "forgets-at-once": [put("a"), get("a")],
    "always-misses": [put("a"), get("a")],
    "flips-last-byte": [put("a"), get("a")],
    "loses-read-values": [put("a"), get("a"), get("a")],
    "overwrites-duplicates": [put("a"), put("a", fill=1), get("a")],
    "duplicate-takes-room": [*FULL, put("a"), get("x")],
    "duplicate-fails-when-full": [*FULL, put("a")],
    "empty-for-miss": [get("a")],
    "torn-value": [put("a"), get("a")],
    "foreign-value": [*FULL, *(get(key) for key in "axyz"), remove("a", force=True), put("b"), *(get(key) for key in "bxyz")],
    "empty-value-reads-as-miss": [put("a", size=0), get("a")],
    "removed-key-still-exists": [put("a"), remove("a"), one("exists", "a")],
    "abort-publishes": [begin("a"), abort("a"), get("a")],
    "lease-of-absent-key-is-ok": [lease("a", 5)],
    "pins-pending-objects": [begin("a"), pin("a", "p")],
    "pending-visible": [begin("a"), one("probe", "a")],
    "stale-commit-completes": [begin("a", token="t"), abort("a", "t"), begin("a", token="u"), commit("a", "t")],
    "dead-writer-blocks-key": [begin("a"), wait(2_000), put("a")],
    "times-out-one-late": [begin("a"), wait(2_000), put("a")],
    "commit-ignores-size": [begin("a"), commit("a", size=8)],
    "second-writer-supersedes": [begin("a"), put("a")],
    "truncates-long-keys": [put(LONG + "a"), put(LONG + "b")],
    "stops-at-nul": [put("a"), put("a\0b")],
    "normalises-paths": [put("b"), put("a/../b")],
    "normalises-unicode": [put("\u00e9"), put("e\u0301")],
    # space
    "remove-keeps-bytes": [put("a"), remove("a"), STATS],
    "abort-keeps-bytes": [begin("a"), abort("a"), STATS],
    "timeout-keeps-bytes": [begin("a"), wait(2_000), STATS],
    "duplicate-counted-twice": [put("a"), put("a"), STATS],
    "pending-not-counted": [begin("a"), STATS],
    "deferred-not-counted": [put("b", "a"), STATS],
    "overhead-not-counted": [put("a"), STATS],
    "capacity-is-advice": [*FULL, put("b")],
    "refused-put-evicts": [put("a"), put("x", size=40, **HARD), put("b", size=32)],
    "too-large-evicts": [put("a"), put("b", size=65)],
    "hides-evictions": [*FULL, put("b")],
    "claims-to-evict": [*FULL, put("b"), get("a")],
    "refused-put-leaves-key": [put("a", size=64, **HARD), put("b"), one("exists", "b")],
    "batch-answers-twice": [reads("exists_many", "a")],
    "batch-answers-sorted": [put("a"), put("b"), reads("get_many", "b", "a")],
    "batch-stops-at-first-failure": [many(item("a", "x"), item("b"))],
    "batch-sees-other-keys": [put("a"), put("b"), reads("exists_many", "a", "b")],
    "atomic-batch-half-stored": [many(item("a"), item("b", "x"))],
    "removes-protected": [put("a"), lease("a", 5), remove("a")],
    "clear-ignores-protection": [put("a"), lease("a", 5), CLEAR],
    "remove-of-absent-is-ok": [remove("a")],
    "remove-takes-pending": [begin("a"), remove("a")],
    "clear-tells-one-by-one": [put("a"), CLEAR],
    "force-leaves-attempt-open": [begin("a"), FORCED_CLEAR, commit("a")],
    # protection
    "evicts-leased": [*FULL, lease("a", 99), put("b")],
    "evicts-in-use": [*FULL, pin("a", "p"), put("b")],
    "evicts-pending": [begin("a"), put("x", size=48), put("b", size=64)],
    "removes-in-use": [put("a"), pin("a", "p"), remove("a")],
    "unpin-drops-all-pins": [put("a"), pin("a", "p"), pin("a", "q"), one("unpin", "", token="p"), remove("a")],
    "lease-ends-one-early": [put("a"), lease("a", 5), wait(4), remove("a")],
    "short-grant-shortens": [put("a"), lease("a", 9), lease("a", 5), wait(6), remove("a")],
    "lease-holds-at-deadline": [put("a"), lease("a", 5), wait(5), remove("a")],
    "lease-is-copied-to-ancestors": [put("a"), put("b", "a"), lease("b", 5), remove("b", force=True), remove("a")],
    "exists-leases-anyway": [put("a"), one("exists", "a"), remove("a")],
    "probe-leases": [put("a"), one("probe", "a"), remove("a")],
    "probe-touches": [*FULL, one("probe", "a"), wait(), put("b")],
    "match-leases-nothing": [put("a"), match("a"), remove("a")],
    "leases-behind-the-hole": [put("a"), put("b"), match("a", "c", "b"), remove("b")],
    "last-hit-leases-the-first": [put("a"), put("b"), match("a", "b"), remove("b")],
    "get-leases-undeclared": [put("a"), get("a"), remove("a")],
    "evicts-hard-pinned": [put("a", **HARD), wait(), put("x", size=48), wait(), put("b")],
    "soft-pins-count-for-nothing": [put("a", **SOFT), wait(), put("x", size=48), wait(), put("b")],
    "soft-pin-of-child-ignored": [put("a"), wait(), put("b", "a", **SOFT), wait(), put("x", size=32), wait(), put("c")],
    "read-revives-soft-pin": [put("a", **BRIEFLY), wait(11), get("a"), wait(), put("x", size=48), wait(), put("b")],
    "soft-pin-never-ends": [put("a", **BRIEFLY), wait(11), put("x", size=48), wait(), put("b")],
    "undeclared-pin-accepted": [put("a", **SOFT)],
    "leases-by-wall-clock": [put("a"), lease("a", 5), jump(9), remove("a")],
    "protected-child-is-out-of-the-way": [put("a"), put("b", "a"), lease("b", 99), put("x", size=48)],
    "only-the-leased-block-is-kept": [put("a"), put("b", "a"), match("a", "b"), put("x", size=48)],
    # eviction
    "evicts-by-plain-lru": [*CHAIN, put("c")],
    "evicts-by-plain-fifo": [*CHAIN, put("c")],
    "evicts-by-lease-order": [*CHAIN, put("c")],
    "pending-child-holds-nothing": [put("a"), begin("b", "a"), put("x", size=48)],
    "evicts-top-down": [put("a"), put("b", "a"), put("x", size=64)],
    "last-child-decides": [put("a"), put("b", "a"), put("c", "a"), wait(), remove("c"), put("x", size=48)],
    "duplicate-put-reparents": [put("a"), put("x"), put("b", "a"), put("b", "x"), put("c", "x", size=32)],
    "never-evicts": [*FULL, put("b")],
    "refuses-everything": [put("a")],
    "gives-up-after-one-victim": [*FULL, put("b", size=32)],
    "soft-pins-are-hard": [put("a", size=64, **SOFT), put("b")],
    "evicts-its-own-ancestors": [put("a", size=48), put("b", "a", size=32)],
    "never-leaf-again": [put("a", size=48), put("b", "a"), remove("b"), put("c", size=64)],
    "evicts-one-more": [*FULL, put("b")],
    "evicts-everything-evictable": [*FULL, put("b")],
    "keeps-reserve": [*FULL[:-2], put("z")],
    "touches-the-fetched-block-only": [
        put("a"), wait(), put("x"), wait(), put("b", "a"), wait(), get("b"), remove("b"), put("y", size=48),
    ],
    "recency-leaves-with-the-child": [
        put("a"), wait(), put("x"), wait(), put("b", "a"), wait(), get("b"), remove("b"), put("y", size=48),
    ],
    "reads-touch-nothing": [*FULL, get("a"), wait(), put("b")],
    "counts-uses": [*FULL, get("a"), get("a"), wait(), *(get(key) for key in "xyz"), wait(), put("b")],
    "duplicate-put-refreshes-nothing": [*FULL, put("a"), wait(), put("b")],
    "duplicate-put-refreshes": [*FULL, put("a"), wait(), put("b")],
    "put-of-child-stamps-nothing": [put("a"), wait(), put("x"), wait(), put("b", "a"), remove("b"), put("y", size=48)],
    "tail-first-within-one-call": [many(item("a"), item("b", "a")), many(item("c", "b"), item("d", "c")), put("x")],
    "match-touches-in-hash-order": [*CHAIN, match("a", "b"), put("c", size=48)],
    "suffix-calls-skip-the-head": [put("a"), put("b", "a"), put("c", "b"), get("c"), put("x", size=32)],
    "equal-timestamps-break-ties": [put("a"), put("b", "a"), put("x", size=48)],
    # lineage
    "remove-orphans-children": [put("a"), put("b", "a"), remove("a")],
    "commits-under-removed-parent": [put("a"), begin("b", "a"), remove("a", force=True), commit("b")],
    "deferred-visible": [put("b", "a"), get("b")],
    "admits-orphans": [put("b", "a")],
    "pending-parent-is-enough": [begin("a"), put("b", "a")],
    "never-releases-deferred": [put("b", "a"), put("a"), get("b")],
    "releases-one-level": [put("c", "b"), put("b", "a"), put("a"), get("c")],
    "drops-deferred-at-once": [put("b", "a"), put("a"), get("b")],
    "evicts-residents-for-deferred": [put("x", size=32), put("b", "a"), put("y", size=32), put("a")],
    "deferred-never-dropped": [put("b", "a"), wait(3_000), put("a"), get("b")],
    "accepts-cycles": [put("a", "a")],
    "parent-of-another-namespace": [put("a", namespace="n"), put("b", "a")],
    "cascade-takes-protected": [put("a"), put("b", "a"), lease("b", 5), remove("a")],
    "cascade-top-down": [put("a"), put("b", "a"), remove("a")],
    "cascade-one-level": [put("a"), put("b", "a"), put("c", "b"), remove("a")],
    "cascade-takes-siblings": [put("a"), put("b", "a"), put("c", "a"), put("d", "b"), remove("b")],
    "refuses-for-resident-children-only": [put("a"), begin("b", "a"), remove("a", force=True)],
    "window-objects-are-bound": [put("a"), put("w", "a", **WINDOW)],
    "window-objects-are-parents": [put("w", **WINDOW), put("b", "w")],
    "undeclared-cache-group-accepted": [put("s", cache_group="state")],
    # lookups and events
    "match-counts-past-the-hole": [put("a"), put("b"), match("a", "c", "b")],
    "match-loses-the-last-block": [put("a"), match("a")],
    "match-from-the-last-hit": [put("a"), put("b"), match("a", "c", "b")],
    "match-walks-parent-links": [put("a"), put("b"), match("a", "b")],
    "match-counts-pending": [begin("a"), match("a")],
    "empty-chain-raises": [match()],
    "evictions-send-no-event": [*FULL, put("b")],
    "removals-send-no-event": [put("a"), remove("a")],
    "clear-sends-no-event": [put("a"), CLEAR],
    "duplicates-send-stored": [put("a"), put("a")],
    "commit-sends-no-event": [begin("a"), commit("a")],
    "sequence-has-gaps": [*FULL, put("b")],
    "event-log-is-short": [*FULL, put("b"), EVENTS],
    "snapshot-is-stale": [put("a"), SNAPSHOT],
    "snapshot-number-is-ahead": [put("a"), SNAPSHOT],
    "stored-events-lack-parents": [put("a"), put("b", "a")],
    "stored-events-name-the-root": [put("a"), put("b", "a"), put("c", "b")],
    "cascade-events-top-down": [put("a"), put("b", "a"), remove("a")],
    "stored-before-removed": [*FULL, put("b")],
    "released-child-is-told-first": [put("b", "a"), put("a")],
}  # fmt: skip


def judged(backend: PlainBackend, steps: list[Step]) -> list[tuple[str, str]]:
    """(requirement, kind) of all violations that the steps show."""
    geometry = backend.start(CAPACITY)
    session = Session(backend, geometry, Oracle(Terms(backend.capabilities, geometry, offered(backend))))
    for step in steps:
        session.run(step)
    return [(violation.requirement, violation.kind) for violation in session.violations]


def opened(fault: Fault) -> PlainBackend:
    backend = fault.open()
    assert isinstance(backend, PlainBackend)
    return backend


def test_each_fault_has_a_witness() -> None:
    assert sorted(WITNESSES) == sorted(fault.name for fault in FAULTS)


@pytest.mark.parametrize("name", WITNESSES)
def test_the_oracle_sees_the_fault_and_nothing_on_the_plain_store(name: str, request: pytest.FixtureRequest) -> None:
    if name in UNSEEN:
        request.applymarker(pytest.mark.xfail(reason=UNSEEN[name], strict=True))
    fault = find_fault(name)
    backend = opened(fault)
    assert fault.requirement in {requirement for requirement, _ in judged(backend, WITNESSES[name])}
    plain = PlainBackend(
        backend.capabilities, PlainStore, overhead_bytes=backend.overhead_bytes, quantum_bytes=backend.quantum_bytes
    )
    assert judged(plain, WITNESSES[name]) == []
