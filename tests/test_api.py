"""The contract: capabilities that contradict themselves are refused with a remedy; geometry charges as declared."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kvprefix.api import (
    HOOKS,
    OPTIONAL_CALLS,
    ROOT,
    UNKNOWN,
    Admission,
    Capabilities,
    EvictionOrder,
    FullClient,
    Geometry,
    HookedBackend,
    Progress,
    StoreClient,
    Transport,
    offers,
)
from kvprefix.errors import ConfigurationError

ARGUMENT = frozenset({Transport.ARGUMENT})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"profiles": frozenset({"prefix-awre"})}, "unknown profiles"),
        ({"lease_calls": frozenset({"put"}), "lease_ttl_ms": 5}, "lease_calls names"),
        ({"touch_calls": frozenset({"probe"})}, "touch_calls names"),
        ({"eviction_order": EvictionOrder.DESCENDANTS_FIRST}, "needs lineage"),
        ({"admission": Admission.REJECT}, "needs lineage at put"),
        ({"admission": Admission.DEFER, "lineage": frozenset({Transport.EVENT})}, "needs lineage at put"),
        ({"lease_calls": frozenset({"get"})}, "lease of 0 ms"),
        ({"evicts": False}, "never evicts"),
        ({"watermark": 0.0}, "watermark"),
        ({"evict_ratio": 1.0}, "watermark"),
        ({"clients": 0}, "clients"),
    ],
)
def test_contradicting_capabilities_are_refused_by_name(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Capabilities(name="vendor", **fields)
    assert says in str(caught.value)
    assert "vendor" in str(caught.value)


def test_every_field_of_capabilities_carries_its_definition() -> None:
    undocumented = [f.name for f in attrs.fields(Capabilities) if not f.metadata.get("doc")]
    assert undocumented == []


def test_every_disputed_point_is_a_field_or_two() -> None:
    points = {p for f in attrs.fields(Capabilities) for p in f.metadata["point"].split()}
    # D14 to D19 and all before; each is somewhere among the declared fields.
    assert points == {f"D{n}" for n in range(1, 20)}


@pytest.mark.parametrize(
    ("admission", "order", "closed"),
    [
        (Admission.REJECT, EvictionOrder.DESCENDANTS_FIRST, True),
        (Admission.DEFER, EvictionOrder.DESCENDANTS_FIRST, True),
        (Admission.PLACEHOLDER, EvictionOrder.DESCENDANTS_FIRST, False),
        (Admission.REJECT, EvictionOrder.ANY, False),
    ],
)
def test_closure_is_meant_only_where_admission_and_eviction_both_respect_it(
    admission: Admission, order: EvictionOrder, closed: bool
) -> None:
    caps = Capabilities(lineage=ARGUMENT, admission=admission, eviction_order=order)
    assert caps.prefix_closed is closed


@pytest.mark.parametrize(
    ("geometry", "value", "charge"),
    [
        (Geometry(100), 7, 7),
        (Geometry(100, overhead_bytes=3), 7, 10),
        (Geometry(100, quantum_bytes=8), 7, 8),
        (Geometry(100, quantum_bytes=8), 8, 8),
        (Geometry(100, overhead_bytes=1, quantum_bytes=8), 8, 16),
        (Geometry(100, quantum_bytes=8), 0, 0),
    ],
)
def test_an_object_is_charged_for_overhead_and_rounded_up_to_the_quantum(geometry: Geometry, value: int, charge: int) -> None:
    assert geometry.charge(value) == charge


def test_root_and_unknown_are_different_values() -> None:
    assert len({ROOT, UNKNOWN}) == 2


def test_optional_calls_and_hooks_are_those_of_the_protocols() -> None:
    def calls(protocol: type) -> set[str]:
        return {name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_")}

    assert set(OPTIONAL_CALLS) == calls(FullClient) - calls(StoreClient)
    assert set(HOOKS) == calls(HookedBackend) - {"start", "client", "reset", "close"}


def test_an_absent_method_is_an_unsupported_call() -> None:
    class Client:
        match = None

        def probe(self, key: str) -> bool:
            return key == ""

    assert offers(Client(), "probe")
    assert not offers(Client(), "match")
    assert not offers(Client(), "remove")


def test_reject_is_the_progress_of_a_store_that_never_evicts() -> None:
    assert not Capabilities(evicts=False, progress=Progress.REJECT).evicts
