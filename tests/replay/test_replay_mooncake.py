"""A real Mooncake Store under replay: its orphans on a real server, and a server that dies midway."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from kvprefix.errors import MissingDependencyError
from kvprefix.replay import SHIPPED, Request, TraceReader
from kvprefix.replay.outcome import Evidence, Outcome, StopKind
from kvprefix.replay.run import Options, Order, replay
from kvprefix_conformance.backends.mooncake import MooncakeBackend, open_backend

pytestmark = pytest.mark.mooncake

#: A fifth of the blocks that the trace names.
CAPACITY = 320
BLOCK_BYTES = 4096


@pytest.fixture
def start() -> Iterator[Callable[[], MooncakeBackend]]:
    """Open backends with the watermark and ratio of production; a lease of 1 ms protects next to nothing."""
    backends: list[MooncakeBackend] = []

    def opened() -> MooncakeBackend:
        try:
            backends.append(open_backend(lease_ttl_ms=1, watermark=0.95, ratio=0.05))
        except MissingDependencyError as missing:
            pytest.skip(str(missing))
        return backends[-1]

    yield opened
    for backend in backends:
        backend.close()


def run(backend: MooncakeBackend, trace: Iterator[Request], order: Order = Order.ROOT_FIRST) -> Outcome:
    return replay(trace, backend, Options(CAPACITY, block_bytes=BLOCK_BYTES, order=order, sample_every=5))


def small() -> Iterator[Request]:
    return itertools.islice(TraceReader(SHIPPED["small"]), 150)


def test_mooncake_has_orphans_and_a_touch_from_leaf_to_root_leaves_fewer(start: Callable[[], MooncakeBackend]) -> None:
    plain, touched = run(start(), small()), run(start(), small(), Order.LEAF_FIRST)
    for outcome in (plain, touched):
        counters = outcome.counters
        assert outcome.stop is None
        assert outcome.evidence is Evidence.SNAPSHOTS
        assert counters.requests == 150
        assert counters.hits > 0
        assert (counters.evictions or 0) > 0
        assert counters.bytes_verified == counters.gets * BLOCK_BYTES > 0
    assert (plain.orphans_mean or 0.0) > (touched.orphans_mean or 0.0)


def test_a_server_that_dies_midway_leaves_what_ran(start: Callable[[], MooncakeBackend]) -> None:
    backend = start()

    def trace() -> Iterator[Request]:
        for number, request in enumerate(small()):
            if number == 50:
                assert backend._worker is not None
                os.kill(backend._worker.facts["pid"], signal.SIGKILL)
            yield request

    outcome = run(backend, trace())
    assert outcome.stop is not None
    assert outcome.stop.kind is StopKind.BACKEND
    assert 50 <= outcome.counters.requests < 150
    assert [sample.request for sample in outcome.samples][-1] >= 50
