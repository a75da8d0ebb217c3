"""The reference store as a backend: hooks, presets, and declarations that it cannot keep."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kvprefix.api import (
    HOOKS,
    ROOT,
    Accounting,
    Answer,
    Batch,
    Clock,
    EvictUnit,
    ExistsLeases,
    FamilyMode,
    Geometry,
    PutOptions,
    offers,
)
from kvprefix.errors import ConfigurationError
from kvprefix.store import ReferenceBackend, ReferenceStore, presets


def started(capacity: int = 8) -> ReferenceBackend:
    backend = ReferenceBackend()
    backend.start(capacity)
    return backend


def test_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="holds nothing"):
        ReferenceBackend().start(0)


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_stores_a_block(name: str) -> None:
    backend = ReferenceBackend(presets.PRESETS[name])
    assert backend.start(8) == Geometry(8)
    client = backend.client()
    assert client.put("a", b"v", parent=ROOT).answer is Answer.STORED
    assert backend.resident() == {"a"}
    assert (client.get("a") == b"v") is backend.capabilities.values
    backend.close()


def test_default_is_prefix_aware() -> None:
    assert ReferenceBackend().capabilities is presets.PREFIX_AWARE


def test_names_of_presets_are_told_apart_in_reports() -> None:
    assert len({caps.name for caps in presets.PRESETS.values()}) == len(presets.PRESETS)


def test_clients_share_one_store() -> None:
    backend = started()
    backend.client(0).put("a", b"v", parent=ROOT)
    assert backend.client(3).get("a") == b"v"


@pytest.mark.parametrize(("index", "tenant"), [(4, ""), (-1, ""), (0, "somebody")])
def test_client_that_was_not_declared_is_refused(index: int, tenant: str) -> None:
    with pytest.raises(ConfigurationError):
        started().client(index, tenant)


def test_reset_empties_and_starts_again() -> None:
    backend = started()
    backend.client().put("a", b"v", parent=ROOT)
    backend.advance(5)
    backend.reset()
    assert (backend.resident(), backend.now(), backend.client().stats().used_bytes) == (frozenset(), 0, 0)
    assert backend.client().events() == []


def test_wall_clock_moves_no_deadline() -> None:
    backend = started()
    client = backend.client()
    client.put("a", b"v", parent=ROOT, options=PutOptions(lease_ms=10))
    backend.jump_wall_clock(1_000_000)
    assert client.remove("a").answer is Answer.PROTECTED
    backend.jump_wall_clock(-1_000_000)
    backend.advance(10)
    assert client.remove("a").answer is Answer.OK


def test_close_twice_is_safe_and_nothing_works_after_it() -> None:
    backend = started()
    backend.close()
    backend.close()
    with pytest.raises(ConfigurationError, match="not started"):
        backend.resident()


def test_hooks_that_are_planned_are_not_offered() -> None:
    assert {hook for hook in HOOKS if not offers(ReferenceBackend(), hook)} == {"crash", "restart", "fail_next"}


@pytest.mark.parametrize(
    "changes",
    [
        {"tenants": frozenset({"t"})},
        {"durability": frozenset({"restart"})},
        {"expires": True},
        {"clock": Clock.REAL},
        {"steady_clock": False},
        {"accounting": Accounting.BOUNDED},
        {"hit_extension": "implied"},
        {"get_after_lease": "fail"},
        {"evict_unit": EvictUnit.NODE},
        {"evict_unit": EvictUnit.FAMILY},
        {"watermark": 0.9},
        {"hit_reserves": True, "exists_leases": ExistsLeases.NONE},
        {"families": FamilyMode.ALL_OR_NONE, "evict_unit": EvictUnit.FAMILY, "batch": Batch.ATOMIC},
    ],
    ids=str,
)
def test_declaration_that_it_would_break_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="the reference store cannot be"):
        ReferenceStore(attrs.evolve(presets.PREFIX_AWARE, **changes), Geometry(8))
