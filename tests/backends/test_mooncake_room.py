"""When a put that found no room is repeated and when it is given up, by counters that the test drives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvprefix.errors import AdapterError, ConfigurationError
from kvprefix_conformance.backends.mooncake import declared, segment_size
from kvprefix_conformance.backends.mooncake_client import Options, Passes, Room, split_keys

FULL = -200


class Server:
    """A store of free slots and an eviction thread that passes once per look, as long as an eviction is wanted."""

    def __init__(self, evictable: int = 0, free: int = 0, protected: int = 1) -> None:
        self.evictable = evictable
        self.free = free
        self.protected = protected
        self.flag = False
        self.attempted = 0
        self.successful = 0
        self.seconds = 0.0

    def put(self, slots: int = 1) -> int:
        if self.free < slots:
            self.flag = True
            return FULL
        self.free -= slots
        return 0

    def read(self) -> Passes:
        if self.flag:
            self.attempted += 1
            if self.evictable:
                self.evictable, self.free, self.successful, self.flag = (
                    self.evictable - 1,
                    self.free + 1,
                    self.successful + 1,
                    False,
                )
            elif not self.protected:
                self.flag = False
        return Passes(self.attempted, self.successful)

    def room(self, evicts: bool = True) -> Room:
        return Room(self.read, evicts, 10.0, lambda: self.seconds, self.wait)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_put_that_fits_asks_for_nothing() -> None:
    server = Server(free=1)
    room = server.room()
    assert room.make(server.put) == 0
    assert server.attempted == 0
    assert not room.wanted


@pytest.mark.parametrize("slots", [1, 3])
def test_a_put_evicts_exactly_what_it_needs(slots: int) -> None:
    server = Server(evictable=5)
    room = server.room()
    assert room.make(lambda: server.put(slots)) == 0
    assert server.successful == slots
    assert not room.wanted


def test_a_put_is_given_up_when_passes_evict_nothing() -> None:
    server = Server(evictable=1)
    room = server.room()
    assert room.make(lambda: server.put(2)) == FULL
    assert server.successful == 1
    assert room.wanted


def test_a_hopeless_put_waits_for_the_one_pass_that_it_caused() -> None:
    server = Server(evictable=5)
    room = server.room()
    assert room.make(lambda: server.put(99), hopeless=True) == FULL
    assert server.successful == 1
    assert not room.wanted


def test_a_store_that_never_evicts_refuses_at_once() -> None:
    server = Server()
    room = server.room(evicts=False)
    assert room.make(server.put) == FULL
    assert server.attempted == 0


def test_an_eviction_that_came_after_the_answer_is_noticed_by_the_next_put() -> None:
    server = Server()
    room = server.room()
    assert room.make(server.put) == FULL
    server.evictable = 1
    assert room.make(server.put) == 0
    assert not room.wanted


def test_a_wanted_eviction_is_absorbed_by_what_is_fed_to_it() -> None:
    server = Server()
    room = server.room()
    room.make(server.put)

    def feed() -> None:
        server.evictable += 1

    room.absorb(feed)
    assert (server.evictable, server.successful, room.wanted) == (0, 1, False)


def test_a_pass_without_any_candidate_is_not_counted_and_ends_the_search() -> None:
    server = Server(protected=0)
    room = server.room()
    assert room.make(lambda: server.put(99), hopeless=True) == FULL
    assert not room.wanted
    assert server.seconds < 1.0


# --------------------------------------------------------------------------------------------------------------------------------
# Keys, sizes, options


def _asking(present: frozenset[str]) -> Callable[[str], bool | None]:
    return lambda key: None if "," in key else key in present


@pytest.mark.parametrize(
    "present",
    [
        frozenset(),
        frozenset({"a\nb"}),
        frozenset({"a", "b"}),
        frozenset({"a\nb", "a", "b", "c"}),
        frozenset({"a,\nb"}),
        frozenset({"a,\nb", "a\nb", "c,c"}),
        frozenset({"\n", "a\n"}),
    ],
)
def test_keys_with_newlines_are_told_apart(present: frozenset[str]) -> None:
    known = frozenset({"a\nb", "a,\nb", "\n", "a\n"})
    lines = [line for key in sorted(present) for line in key.split("\n")]
    assert split_keys(lines, known, _asking(present)) == present


def test_a_list_with_two_readings_is_no_evidence() -> None:
    with pytest.raises(AdapterError, match="cannot be told apart"):
        split_keys(["a,", "b,"], frozenset({"a,\nb,"}), _asking(frozenset()))


@pytest.mark.parametrize(
    ("capacity", "segment"),
    [(1, 4096), (4096, 4096), (4097, 8192), (10_000, 12_288), (100_000, 106_496), (300 << 20, 320 << 20), (1 << 30, 1 << 30)],
)
def test_a_segment_is_rounded_up_to_what_one_value_can_fill(capacity: int, segment: int) -> None:
    assert segment_size(capacity) == segment


@pytest.mark.parametrize("wrong", [{"lease_ttl_ms": 0}, {"pending_timeout_ms": 999}, {"deadline_ms": 0}])
def test_options_that_mooncake_cannot_have_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Options(**wrong)


def test_a_server_without_eviction_is_declared_so() -> None:
    assert not declared(Options(ratio=0.0)).evicts
    assert declared(Options()).evicts
