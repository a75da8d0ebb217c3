"""What a replay counts, what it samples on the way, and how it ended. Values, and their JSON form.

A hit is a block of the longest resident prefix of its request, and counts only if it was really read. A key hit is any resident
block of the request; one behind a hole is unreachable, as no walk from the root finds it.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import attrs

from kvprefix.api import Geometry

#: Raised when a field of the JSON form changes meaning.
JSON_VERSION: Final = 1


class Evidence(enum.Enum):
    """How the replay knows what is resident: strongest first."""

    #: Every put reports what it evicted, so orphans are known at every instant.
    EVICTIONS = "reported evictions"
    #: The resident keys are asked for every so many requests.
    SNAPSHOTS = "snapshots"
    #: The store tells neither: orphans are unknown.
    NONE = "none"


@attrs.define
class Counters:
    """Counts over the whole replay. None: this store does not let it be known."""

    requests: int = 0
    #: Blocks of all requests.
    accesses: int = 0
    #: Blocks of longest resident prefixes, as looked up.
    matched: int = 0
    #: Those of them that were then read, up to the first that had gone: the hits.
    hits: int = 0
    #: Resident blocks at the time of lookup, behind a hole too.
    key_hits: int | None = None
    stored: int = 0
    #: Puts of blocks that were resident behind a hole.
    duplicates: int = 0
    #: Puts that were not taken, by answer; each ends the saving of its request.
    refused: dict[str, int] = attrs.field(factory=dict)
    #: Blocks behind a refused one that were therefore not put.
    not_tried: int = 0
    evictions: int | None = None
    #: Largest number of orphans seen: at any instant where evictions are reported, else over the samples.
    orphans_max: int | None = None
    #: Reads that missed although the lookup had just hit (a store that evicts in the background).
    vanished: int = 0
    gets: int = 0
    bytes_verified: int = 0
    wrong_bytes: int = 0

    @property
    def unreachable_hits(self) -> int | None:
        """Key hits that no walk from the root finds."""
        return None if self.key_hits is None else self.key_hits - self.matched

    @property
    def hit_ratio(self) -> float:
        """Hits per block access."""
        return self.hits / self.accesses if self.accesses else 0.0


@attrs.frozen
class Sample:
    """One look at the store, after a request."""

    #: Number of the request, from 1, and its timestamp in milliseconds.
    request: int
    timestamp: int
    #: So far.
    accesses: int
    hits: int
    #: Resident blocks, and those of them with a missing ancestor; None: not known.
    resident: int | None
    orphans: int | None
    #: As the store accounts for them; None: it does not say.
    used_bytes: int | None


@attrs.frozen
class Step:
    """What one request met; handed to the observer."""

    #: From 1.
    number: int
    accesses: int
    hits: int
    key_hits: int | None
    #: Resident blocks with a missing ancestor after the request, where known at every instant.
    orphans: int | None


class StopKind(enum.Enum):
    """Why a replay ended before its trace did."""

    #: The store broke a requirement.
    BREACH = "breach"
    #: The backend died, hung or talked nonsense.
    BACKEND = "backend"
    #: The trace has a line that cannot be used.
    TRACE = "trace"
    #: Ctrl-C.
    INTERRUPTED = "interrupted"


@attrs.frozen
class Stop:
    """Why and where the replay ended early."""

    kind: StopKind
    #: Number of the request, from 1.
    request: int
    message: str
    #: BREACH: the requirement's ID.
    requirement: str = ""

    def __str__(self) -> str:
        told = {
            StopKind.BREACH: f"{self.requirement} is broken at request {self.request}",
            StopKind.BACKEND: f"the backend failed at request {self.request}",
            StopKind.TRACE: "the trace cannot be used",
            StopKind.INTERRUPTED: f"interrupted at request {self.request}",
        }[self.kind]
        return f"{told}: {self.message}" if self.message else told


@attrs.frozen
class Outcome:
    """All that a replay found, of what ran."""

    backend: str
    backend_version: str
    geometry: Geometry
    #: Blocks that fit into what the backend really obtained.
    capacity_blocks: int
    block_bytes: int
    #: The options that shape the numbers, by name.
    settings: dict[str, str]
    evidence: Evidence
    counters: Counters
    samples: tuple[Sample, ...]
    stop: Stop | None = None

    @property
    def orphans(self) -> int | None:
        """At the last sample."""
        return self.samples[-1].orphans if self.samples else None

    @property
    def orphans_mean(self) -> float | None:
        """Over the samples."""
        known = [sample.orphans for sample in self.samples if sample.orphans is not None]
        return sum(known) / len(known) if known else None


def to_json(outcome: Outcome) -> dict[str, Any]:
    """A document of plain JSON values; ``version`` is raised when a field changes meaning."""
    counters = outcome.counters
    return {
        "format": "kvprefix-replay",
        "version": JSON_VERSION,
        "backend": {"name": outcome.backend, "version": outcome.backend_version},
        "geometry": attrs.asdict(outcome.geometry),
        "capacity_blocks": outcome.capacity_blocks,
        "block_bytes": outcome.block_bytes,
        "settings": outcome.settings,
        "evidence": outcome.evidence.value,
        "counters": {
            **attrs.asdict(counters),
            "unreachable_hits": counters.unreachable_hits,
            "hit_ratio": counters.hit_ratio,
            "orphans": outcome.orphans,
            "orphans_mean": outcome.orphans_mean,
        },
        "samples": [attrs.asdict(sample) for sample in outcome.samples],
        "stop": None if outcome.stop is None else {**attrs.asdict(outcome.stop), "kind": outcome.stop.kind.value},
    }
