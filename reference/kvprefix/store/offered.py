"""Which declarations the reference store can keep; the others are refused at start, not quietly ignored."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix.api import Accounting, Batch, Capabilities, Clock, EvictUnit, ExistsLeases, FamilyMode, Progress
from kvprefix.errors import ConfigurationError


def check_offered(capabilities: Capabilities) -> None:
    """Raise ConfigurationError for the first declaration that the reference store would break."""
    for problem in (*_of_another_kind(capabilities), *_that_contradict(capabilities)):
        raise ConfigurationError(f"the reference store cannot be {capabilities.name!r}: {problem}")


def _of_another_kind(caps: Capabilities) -> Iterator[str]:
    """What only other stores are."""
    if caps.tenants or caps.shared_pool:
        yield "it has no tenants"
    if caps.durability:
        yield "it lives in memory, nothing survives it"
    if caps.expires:
        yield "its objects have no time to live"
    if caps.clock is not Clock.DRIVEN or not caps.steady_clock:
        yield "its clock is driven and steady"
    if caps.accounting is not Accounting.EXACT or caps.progress is Progress.NONE:
        yield "its accounting is exact, its progress exact or eventual"
    if caps.hit_extension != "exact" or caps.get_after_lease != "serve":
        yield "it hits exactly what is stored, and serves it"


def _that_contradict(caps: Capabilities) -> Iterator[str]:
    """What it is, but not together."""
    families = caps.families is not FamilyMode.NONE
    if caps.evict_unit is EvictUnit.NODE or (caps.evict_unit is EvictUnit.FAMILY) is not families:
        yield f"it does not evict by {caps.evict_unit.value}"
    if caps.progress is Progress.EVENTUAL and (caps.lineage or families):
        yield "eventual progress is that of a flat store"
    if caps.progress is not Progress.EVENTUAL and (caps.watermark < 1.0 or caps.evict_ratio > 0.0):
        yield "it evicts below its capacity only where progress is eventual"
    if caps.hit_reserves and (caps.exists_leases is ExistsLeases.NONE or "match" not in caps.lease_calls):
        yield "a match that leases nothing reserves nothing"
    if caps.batch is Batch.ATOMIC and caps.families is FamilyMode.ALL_OR_NONE:
        yield "an atomic batch is not offered with families that leave as one"
