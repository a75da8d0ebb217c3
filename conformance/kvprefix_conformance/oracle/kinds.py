"""The table of violation kinds: a short stable name for each way in which a requirement can be broken. Expected failures name them.

A kind belongs to one requirement, except those of ANY: what an adapter does outside the contract is charged to the requirement that
the call serves (CHARGED_TO), or, where that is not under test, to the first one that is.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

#: Kinds that belong to no single requirement.
ANY = "*"


@attrs.frozen
class Kind:
    """One way to break a requirement."""

    name: str
    requirement: str
    meaning: str


def _table(rows: str) -> Mapping[str, Kind]:
    kinds = [Kind(*(cell.strip() for cell in row.split("|"))) for row in rows.strip().splitlines()]
    return {kind.name: kind for kind in kinds}


KINDS: Mapping[str, Kind] = _table(
    """
    lost                     | STO-1  | A stored object is a miss though nothing may have taken it.
    wrong-bytes              | STO-1  | get returns bytes of the right length that nobody wrote.
    duplicate-answer         | STO-2  | A put of a resident key is answered otherwise than declared.
    overwritten              | STO-2  | After a put of a resident key get returns the new value.
    duplicate-evicted        | STO-2  | A put of a resident key took other objects.
    foreign                  | STO-3  | get returns the value of another key.
    torn                     | STO-3  | get returns a value of another length than was written.
    empty-for-miss           | STO-3  | A miss is answered with an empty value.
    empty-value              | STO-3  | An empty value is neither refused nor stored as declared.
    phantom                  | STO-4  | A key that is not stored is a hit.
    effect-on-absent         | STO-4  | lease or pin of a key that is not resident is answered OK.
    visible-before-commit    | STO-5  | A PENDING key is a hit.
    attempt-overrun          | STO-5  | A put of a PENDING key is not answered IN_PROGRESS.
    key-blocked              | STO-5  | A key without an open attempt is answered IN_PROGRESS.
    attempt-lost             | STO-5  | commit or abort of an open attempt is answered STALE or refused.
    stale-completed          | STO-5  | commit or abort with the token of an ended or unknown attempt is not answered STALE.
    size-not-checked         | STO-5  | A commit of another length than begun is not answered INVALID.
    over-capacity            | STO-6  | More bytes are in use than the capacity.
    drift                    | STO-6  | stats().used_bytes is not the sum over the objects.
    count-drift              | STO-6  | stats().resident_objects is not the number of resident objects.
    trace-left               | STO-7  | A refused put left its key behind.
    too-large-answer         | STO-7  | A value that can never fit is not answered TOO_LARGE, or one that fits is.
    refused-put-evicted      | STO-7  | A put that was refused took objects.
    unreported-eviction      | STO-7  | An object was evicted that the put did not report.
    false-report             | STO-7  | A put reports an eviction that did not happen.
    batch-length             | STO-8  | A batch answers another number of members than it was given.
    batch-not-singles        | STO-8  | A member of a batch is answered otherwise than a single call would be.
    batch-not-atomic         | STO-8  | A batch that is declared atomic stored a part.
    remove-answer            | STO-9  | remove of an absent or PENDING key is answered otherwise than NOT_FOUND, IN_PROGRESS.
    remove-refused           | STO-9  | remove or clear is refused though nothing protects anything.
    removed-though-protected | STO-9  | remove or clear without force took a protected object.
    cleared-events           | STO-9  | clear did not emit exactly one cleared event.
    hostile-key              | STO-10 | A hostile key is aliased, lost or answered otherwise than stored or INVALID.
    evicted-protected        | PRT-1  | An object was evicted while its own lease or pin, or a write, protected it.
    removed-protected        | PRT-1  | An object was removed without force while its own lease or pin, or a write, protected it.
    lease-shortened          | PRT-2  | A later, shorter grant ended an earlier, longer lease.
    lease-overstays          | PRT-2  | An object is still protected at or after its deadline.
    derived-lease-kept       | PRT-2  | An ancestor stays protected by the lease of a descendant that is gone.
    lease-not-granted        | PRT-3  | A read call that leases by declaration did not protect what it matched.
    undeclared-lease         | PRT-3  | A read call that does not lease by declaration protected an object.
    undeclared-touch         | PRT-3  | probe, or a read that does not touch by declaration, moved an object's recency.
    hard-pin-evicted         | PRT-4  | A hard-pinned object was evicted.
    soft-pin-order           | PRT-4  | A soft-pinned object was evicted while an evictable leaf was left that was not.
    soft-pin-overstays       | PRT-4  | A soft pin still holds after the deadline that was fixed at write.
    pin-undeclared           | PRT-4  | A kind of pin that is not declared is not answered UNSUPPORTED.
    wall-clock               | PRT-5  | A jump of wall time ended a protection early or kept one late.
    ancestor-evicted         | PFX-1  | An object was evicted while a descendant was resident or PENDING.
    orphan                   | PFX-2  | An object is resident and its declared parent is not.
    orphan-admitted          | PFX-3  | A put without its parent is not answered as declared (PARENT_MISSING, DEFERRED).
    parent-refused           | PFX-3  | A put whose parent is resident is refused or deferred for its parent.
    cycle-accepted           | PFX-3  | A lineage that closes a cycle is not answered INVALID.
    admission-undeclared     | PFX-3  | The store admits children without parents and declares no admission.
    deferred-visible         | PFX-3  | A deferred object is a hit before its parent is resident.
    deferred-not-promoted    | PFX-3  | A deferred object is a miss after its parent became resident.
    deferred-outlived        | PFX-3  | A deferred object stayed while resident ones were evicted.
    match-over               | PFX-4  | match counts a block that is not resident, or past a hole.
    match-short              | PFX-4  | match stops before a block that is resident.
    guarded-ancestor-evicted | PFX-5  | An ancestor of a protected object was evicted.
    refused-with-room        | PFX-6  | NO_SPACE though evicting unprotected objects would make room.
    stored-without-room      | PFX-6  | Stored though protected objects left too little room.
    no-progress              | PFX-6  | An eventual store still refuses after its declared time.
    own-ancestor-evicted     | PFX-6  | A put took its own ancestor to make room for itself.
    evicts-undeclared        | PFX-6  | A store that declares that it never evicts did.
    over-evicted             | PFX-7  | A pass went on after its target was met.
    evicted-without-need     | PFX-7  | Objects were evicted though there was room.
    removed-over-children    | PFX-8  | An object with descendants was removed where removal is declared refuse.
    cascade-incomplete       | PFX-8  | A cascade left a descendant.
    cascade-order            | PFX-8  | A cascade took an ancestor before its descendant.
    cascade-overreach        | PFX-8  | A removal took an object that is no descendant.
    cascade-over-protected   | PFX-8  | A cascade without force took a protected descendant, or took a part and refused.
    removal-undeclared       | PFX-8  | An object with descendants was removed and neither refuse nor cascade is declared.
    not-the-victim           | PFX-9  | Another evictable leaf was due before the one that went.
    orphan-across-calls      | PFX-10 | An ancestor that was stored by another call went before its descendant.
    non-full-bound           | PFX-12 | An object of a window, state or blob cache group was bound by lineage.
    cache-group-undeclared   | PFX-12 | A cache group that is not declared is not answered UNSUPPORTED.
    sequence-gap             | EVT-1  | Event sequence numbers do not rise by one.
    event-missing            | EVT-1  | The events do not tell of an object that came or went.
    event-unfounded          | EVT-1  | An event tells of an object that did not come or go.
    snapshot-differs         | EVT-1  | Snapshot and events do not rebuild the resident set.
    event-parent             | EVT-2  | A stored event carries another parent than was declared.
    event-order              | EVT-2  | A stored event before its parent's, or a removed event after its parent's.
    put-event-order          | EVT-2  | A put's stored event before its removed events.
    adapter-raised           | *      | The adapter raised an exception.
    adapter-died             | *      | The adapter died or closed its end.
    adapter-timeout          | *      | The adapter did not answer within the deadline.
    adapter-protocol         | *      | The adapter broke the wire protocol.
    nonsense                 | *      | The adapter answered with a value that the contract does not know.
    unsupported              | *      | A call or option that is offered by declaration is answered UNSUPPORTED.
    """
)

#: The requirement that a call serves: charged when the adapter raises, dies, hangs, talks nonsense or answers UNSUPPORTED in it.
CHARGED_TO: Mapping[str, str] = {
    "put": "STO-1", "get": "STO-1", "exists": "STO-4", "probe": "PRT-3", "match": "PFX-4",
    "put_begin": "STO-5", "put_commit": "STO-5", "put_abort": "STO-5",
    "put_many": "STO-8", "get_many": "STO-8", "exists_many": "STO-8",
    "remove": "STO-9", "clear": "STO-9", "pin": "PRT-1", "unpin": "PRT-1", "lease": "PRT-2", "register": "PFX-1",
    "events": "EVT-1", "snapshot": "EVT-1", "stats": "STO-6",
    "advance": "PRT-2", "quiesce": "STO-6", "jump_wall_clock": "PRT-5", "resident": "STO-1",
}  # fmt: skip
