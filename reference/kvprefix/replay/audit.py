"""The watcher of a replay: what is resident as far as the store tells, and whether its answers fit that.

The first answer that does not raises a Breach with the requirement: bytes read (STO-1), no phantom (STO-4), bytes in use (STO-6),
reported evictions (STO-7), descendants before ancestors (PFX-1), closure (PFX-2), match against what is resident (PFX-4).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import attrs

from kvprefix.api import (
    Accounting,
    Admission,
    Answer,
    Backend,
    Capabilities,
    EvictionOrder,
    FullClient,
    Geometry,
    HookedBackend,
    PutResult,
    Stats,
    offers,
)
from kvprefix.replay.blocks import value_of
from kvprefix.replay.outcome import Counters, Evidence, Sample
from kvprefix.replay.residents import ResidentForest, count_orphans, leading


@attrs.frozen
class Breach(Exception):  # noqa: N818 - the store's, not an error of ours
    """The store broke a requirement that it is held to."""

    requirement: str
    message: str


class Audit:
    """Sees every answer of one replay and counts it.

    Memory: where evictions are reported, in the number of resident blocks; where there are only snapshots, in that of all blocks
    ever stored.
    """

    def __init__(self, backend: Backend, client: FullClient, geometry: Geometry, block_bytes: int) -> None:
        self._backend = backend
        self._client = client
        self._capabilities = backend.capabilities
        self._geometry = geometry
        self._block_bytes = block_bytes
        self._charge = max(1, geometry.charge(block_bytes))
        self.evidence = _evidence_of(backend, client)
        self._follows = self.evidence is Evidence.EVICTIONS
        self._ordered = self._capabilities.eviction_order is EvictionOrder.DESCENDANTS_FIRST
        self._is_closed = self._capabilities.prefix_closed
        #: Kept up to date where evictions are reported.
        self._forest = ResidentForest()
        #: Where there are snapshots: whatever was stored, with its parent.
        self._parents: dict[str, str | None] = {}
        self.counters = Counters()
        self.samples: list[Sample] = []
        if self._follows:
            self.counters.evictions = self.counters.orphans_max = 0

    @property
    def capacity_blocks(self) -> int:
        """Blocks that fit into what the backend really obtained."""
        return self._geometry.capacity_bytes // self._charge

    @property
    def orphans(self) -> int | None:
        """At this instant; None where that is not known."""
        return self._forest.orphans if self._follows else None

    def resident(self, chain: Sequence[str]) -> list[bool] | None:
        """Which blocks of the chain are resident; None where that is not known without asking."""
        return self._forest.which(chain) if self._follows else None

    # -- one answer -------------------------------------------------------------------------------------------------------------

    def matched(self, chain: Sequence[str], matched: int, call: str, resident: Sequence[bool] | None) -> None:
        """``call`` found this many leading blocks; ``resident`` is what :meth:`resident` said before."""
        if not 0 <= matched <= len(chain):
            raise Breach("PFX-4", f"{call} of {len(chain)} blocks finds {matched}")
        self.counters.matched += matched
        if resident is None or matched == (expected := leading(resident)):
            return
        if matched > expected:
            requirement, told = "STO-4", f"{chain[expected]!r} is a hit, but it was never stored or its eviction was reported"
        else:
            requirement, told = "STO-1", f"{chain[matched]!r} is a miss, but it was stored and no eviction of it was reported"
        raise Breach(
            "PFX-4" if call == "match" else requirement, f"{call} finds {matched} leading blocks instead of {expected}: {told}"
        )

    def got(self, key: str, value: bytes | None) -> bool:
        """Whether the read hit; every byte is verified."""
        counters = self.counters
        counters.gets += 1
        if self._follows and (value is not None) is not (key in self._forest):
            if value is None:
                raise Breach("STO-1", f"get of {key!r} misses, but it was stored and no eviction of it was reported")
            raise Breach("STO-4", f"get of {key!r} hits, but it was never stored or its eviction was reported")
        if value is None:
            return False
        expected = value_of(key, self._block_bytes)
        if value != expected:
            wrong = sum(got != meant for got, meant in zip(value, expected, strict=False)) + abs(len(value) - len(expected))
            counters.wrong_bytes += wrong
            raise Breach(
                "STO-1", f"get of {key!r} returns {len(value)} bytes; {wrong} of {len(expected)} are wrong, missing or too many"
            )
        counters.bytes_verified += len(value)
        return True

    def put(self, key: str, parent: str | None, result: PutResult) -> None:
        """The store answered a put; ``parent`` None: the first block of a chain."""
        counters, answer = self.counters, result.answer
        there = key in self._forest
        if self._follows:
            self._evicted(key, result)
        if answer is Answer.STORED and not there:
            counters.stored += 1
            self._stored(key, parent)
        elif answer in (Answer.STORED, Answer.EXISTS):
            counters.duplicates += 1
            if self._follows and not there:
                raise Breach(
                    "STO-4", f"the put of {key!r} answers {answer.value}, but it was never stored or its eviction was reported"
                )
        else:
            counters.refused[answer.value] = counters.refused.get(answer.value, 0) + 1

    def _evicted(self, key: str, result: PutResult) -> None:
        if result.evicted is None:
            raise Breach("STO-7", f"the put of {key!r} does not say what it evicted, as is declared")
        for victim in result.evicted:
            if victim not in self._forest:
                raise Breach("STO-7", f"the put of {key!r} reports the eviction of {victim!r}, which was not resident")
            if self._ordered and (children := self._forest.children(victim)):
                raise Breach("PFX-1", f"the put of {key!r} evicts {victim!r} while its child {min(children)!r} is resident")
            self._forest.evicted(victim)
        self.counters.evictions = (self.counters.evictions or 0) + len(result.evicted)

    def _stored(self, key: str, parent: str | None) -> None:
        if self._follows:
            self._forest.stored(key, parent)
            if orphans := self._forest.orphans:
                self._closed(orphans, f"after the put of {key!r}")
        elif self.evidence is Evidence.SNAPSHOTS:
            self._parents[key] = parent

    def _closed(self, orphans: int, when: str) -> None:
        self.counters.orphans_max = max(self.counters.orphans_max or 0, orphans)
        if orphans and self._is_closed:
            raise Breach("PFX-2", f"{orphans} resident blocks have a missing ancestor {when}")

    # -- the whole store --------------------------------------------------------------------------------------------------------

    def request_done(self) -> None:
        """After each request: bytes in use, where asking is cheap because the store is followed anyway."""
        if self._follows:
            self._space()

    def sample(self, timestamp: int) -> None:
        """Look at the whole store."""
        counters = self.counters
        count = orphans = None
        if self._follows:
            count, orphans = len(self._forest), self._forest.orphans
        elif self.evidence is Evidence.SNAPSHOTS:
            keys = [key for key in _residents(self._backend, self._client) if key in self._parents]
            count, orphans = len(keys), count_orphans(keys, self._parents)
            self._closed(orphans, "in a snapshot")
        stats = self._space()
        if stats is not None and not self._follows:
            counters.evictions = stats.evicted_objects
        used = None if stats is None else stats.used_bytes
        self.samples.append(Sample(counters.requests, timestamp, counters.accesses, counters.hits, count, orphans, used))

    def finish(self, timestamp: int) -> None:
        """A last sample; and what is resident must be what follows from the reports."""
        if not self.samples or self.samples[-1].request != self.counters.requests:
            self.sample(timestamp)
        if self._follows and _offers_residents(self._backend, self._client):
            resident = frozenset(_residents(self._backend, self._client))
            if unreported := sorted(frozenset(self._forest) - resident):
                raise Breach("STO-7", f"{len(unreported)} blocks left without a report, {unreported[0]!r} among them")
            if phantoms := sorted(resident - frozenset(self._forest)):
                raise Breach(
                    "STO-4", f"{len(phantoms)} resident blocks were never stored or were reported as evicted: {phantoms[0]!r}"
                )

    def _space(self) -> Stats | None:
        """STO-6, where the store accounts for its bytes."""
        accounting = self._capabilities.accounting
        if accounting is Accounting.NONE or not offers(self._client, "stats"):
            return None
        stats = self._client.stats()
        if stats.used_bytes > self._geometry.capacity_bytes:
            raise Breach("STO-6", f"{stats.used_bytes} bytes are in use, of {self._geometry.capacity_bytes}")
        exact = accounting is Accounting.EXACT and not self._capabilities.reclaim_ms
        if self._follows and exact and stats.used_bytes != len(self._forest) * self._charge:
            raise Breach("STO-6", f"{stats.used_bytes} bytes are in use by {len(self._forest)} blocks of {self._charge} bytes")
        return stats


def _evidence_of(backend: Backend, client: FullClient) -> Evidence:
    """Reports count where nothing else makes a block appear or leave: no expiry, no watermark pass, no deferred block."""
    capabilities: Capabilities = backend.capabilities
    unseen = capabilities.expires or capabilities.watermark < 1.0 or capabilities.admission is Admission.DEFER
    if capabilities.reports_evictions and not unseen:
        return Evidence.EVICTIONS
    return Evidence.SNAPSHOTS if _offers_residents(backend, client) else Evidence.NONE


def _offers_residents(backend: Backend, client: FullClient) -> bool:
    return offers(backend, "resident") or offers(client, "snapshot")


def _residents(backend: Backend, client: FullClient) -> Collection[str]:
    if offers(backend, "resident"):
        return cast("HookedBackend", backend).resident()
    return client.snapshot().objects.keys()
