"""A real mooncake_master: what it leaves behind, and that it evicts in the order that its authors describe."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from kvprefix.api import Answer, Pin, PutItem, PutOptions
from kvprefix.errors import AdapterError
from kvprefix_conformance.backends.mooncake import MooncakeBackend

pytestmark = pytest.mark.mooncake

Start = Callable[..., MooncakeBackend]
DEADLINE_S = 30.0
SLOT = b"x" * 256
HARD = PutOptions(pin=Pin.HARD)
SOFT = PutOptions(pin=Pin.SOFT)


def processes(backend: MooncakeBackend) -> tuple[int, int]:
    """The worker and its master."""
    assert backend._worker is not None
    return backend._worker._process.pid, backend._worker.facts["pid"]


def ended(pid: int) -> bool:
    """Wait, within a deadline, until a process is gone; one that is gone already has no descriptor."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE_S)[0])
    finally:
        os.close(descriptor)


def fill(backend: MooncakeBackend, count: int = 16) -> list[str]:
    keys = [f"k{index:02}" for index in range(count)]
    for key in keys:
        assert backend.client().put(key, SLOT).answer is Answer.STORED
    return keys


# --------------------------------------------------------------------------------------------------------------------------------
# Life


def test_nothing_runs_after_close(start_mooncake: Start) -> None:
    backend = start_mooncake()
    worker, master = processes(backend)
    backend.close()
    for pid in (worker, master):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    backend.close()


PARENT = f"""
import sys
sys.path[:] = {sys.path!r}
from kvprefix_conformance.backends.mooncake import open_backend
backend = open_backend()
backend.start(4096)
print(backend._worker._process.pid, backend._worker.facts["pid"], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_nothing_runs_after_the_death_of_the_parent(mooncake_installed: None, how: signal.Signals | None) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        if how is not None:
            parent.send_signal(how)
        assert parent.stdin is not None
        parent.stdin.close()  # without a signal: it ends by itself, and did not close its backend
        assert all(ended(pid) for pid in pids)


def test_two_servers_keep_apart(start_mooncake: Start) -> None:
    one, other = start_mooncake(), start_mooncake()
    one.client().put("k", b"one")
    assert other.client().get("k") is None
    assert other.resident() == frozenset()


def test_a_crashed_worker_takes_its_master_along_and_reset_starts_anew(start_mooncake: Start) -> None:
    backend = start_mooncake()
    worker, master = processes(backend)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(AdapterError, match="SIGKILL"):
        backend.client().put("k", b"v")
    assert ended(master)
    backend.reset()
    assert backend.client().put("k", b"v").answer is Answer.STORED


def test_a_dead_master_is_noticed_and_reset_starts_anew(start_mooncake: Start) -> None:
    backend = start_mooncake()
    _worker, master = processes(backend)
    os.kill(master, signal.SIGKILL)
    assert ended(master)
    with pytest.raises(AdapterError) as error:
        backend.resident()
    assert error.value.kind == "died"
    backend.reset()
    assert backend.resident() == frozenset()


def test_a_frozen_worker_times_out(start_mooncake: Start) -> None:
    backend = start_mooncake(deadline_ms=200)
    worker, _master = processes(backend)
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(AdapterError) as error:
        backend.client().exists("k")
    assert error.value.kind == "timeout"


def test_reset_empties_a_store_whose_objects_are_leased_pinned_and_pending(start_mooncake: Start) -> None:
    backend = start_mooncake(lease_ttl_ms=60_000)
    client = backend.client()
    client.put("hard", SLOT, options=HARD)
    client.put("line\nline", SLOT)
    client.put_begin("pending", 256)
    fill(backend, 13)
    for key in backend.resident():
        assert client.exists(key)
    assert client.put("more", SLOT).answer is Answer.NO_SPACE
    backend.reset()
    assert backend.resident() == frozenset()
    assert backend.client().stats().used_bytes == 0
    fill(backend)
    assert len(backend.resident()) == 16


# --------------------------------------------------------------------------------------------------------------------------------
# Behaviour


def test_a_put_into_a_full_store_evicts_the_oldest_object_and_no_other(start_mooncake: Start) -> None:
    backend = start_mooncake()
    keys = fill(backend)
    for index, victim in enumerate(keys):
        assert backend.client().put(f"new{index}", SLOT).answer is Answer.STORED
        assert victim not in backend.resident()
        assert len(backend.resident()) == 16
    assert backend.client().stats().evicted_objects == 16


def test_a_chain_that_is_stored_root_first_loses_its_root_first(start_mooncake: Start) -> None:
    backend = start_mooncake()
    root, *rest = fill(backend)
    backend.client().put("new", SLOT)
    assert root not in backend.resident()
    assert set(rest) < backend.resident()


def test_a_chain_that_was_looked_up_from_leaf_to_root_loses_its_leaf_first(start_mooncake: Start) -> None:
    backend = start_mooncake(lease_ttl_ms=20)
    *rest, leaf = fill(backend)
    for key in [leaf, *reversed(rest)]:
        assert backend.client().exists(key)
    backend.advance(20)
    backend.client().put("new", SLOT)
    assert leaf not in backend.resident()
    assert set(rest) < backend.resident()


def test_leased_objects_stay_until_the_lease_ends(start_mooncake: Start) -> None:
    backend = start_mooncake(lease_ttl_ms=2000)
    client = backend.client()
    keys = fill(backend)
    assert client.exists_many(keys) == [True] * 16
    assert client.put("new", SLOT).answer is Answer.NO_SPACE
    assert client.remove(keys[0]).answer is Answer.PROTECTED
    assert backend.resident() == frozenset(keys)
    backend.advance(2000)
    assert client.put("new", SLOT).answer is Answer.STORED


def test_hard_pins_survive_and_soft_pins_go_last(start_mooncake: Start) -> None:
    backend = start_mooncake()
    client = backend.client()
    client.put("hard", SLOT, options=HARD)
    client.put("soft", SLOT, options=SOFT)
    fill(backend, 14)
    for index in range(14):
        client.put(f"new{index}", SLOT)
        assert {"hard", "soft"} < backend.resident()
    for index in range(14):
        client.put(f"pinned{index}", SLOT, options=HARD)
    assert client.put("last", SLOT, options=HARD).answer is Answer.STORED
    assert "soft" not in backend.resident()
    assert client.put("more", SLOT).answer is Answer.NO_SPACE
    assert "hard" in backend.resident()


def test_a_native_batch_answers_for_each_key(start_mooncake: Start) -> None:
    backend = start_mooncake()
    client = backend.client()
    items = [PutItem("a", SLOT), PutItem("b", b""), PutItem("", SLOT), PutItem("d", SLOT)]
    assert [result.answer for result in client.put_many(items)] == [
        Answer.STORED, Answer.INVALID, Answer.INVALID, Answer.STORED,
    ]  # fmt: skip
    assert client.get_many(["a", "c", "d"]) == [SLOT, None, SLOT]
    assert client.exists_many(["a", "c", "d"]) == [True, False, True]


def test_a_value_that_never_fits_still_costs_the_oldest_object(start_mooncake: Start) -> None:
    backend = start_mooncake()
    fill(backend, 2)
    assert backend.client().put("large", b"x" * 5000).answer is Answer.TOO_LARGE
    assert backend.resident() == {"k01"}
    assert [result.answer for result in backend.client().put_many([PutItem("large", b"x" * 5000)])] == [Answer.TOO_LARGE]
    backend.quiesce()
    assert backend.resident() == frozenset()


def test_a_key_that_is_no_unicode_text_is_invalid_and_spoils_no_batch(start_mooncake: Start) -> None:
    client = start_mooncake().client()
    results = client.put_many([PutItem("a", SLOT), PutItem("\ud800", SLOT)])
    assert [result.answer for result in results] == [Answer.STORED, Answer.INVALID]
    assert client.get_many(["a", "\ud800"]) == [SLOT, None]
    assert client.exists_many(["a", "\ud800"]) == [True, False]
    assert client.remove("\ud800").answer is Answer.NOT_FOUND


def test_a_two_phase_put_is_invisible_until_commit(start_mooncake: Start) -> None:
    backend = start_mooncake()
    client = backend.client()
    begun = client.put_begin("k", 256)
    assert begun.answer is Answer.OK
    assert begun.token is not None
    assert client.get("k") is None
    assert client.stats().used_bytes == 256
    assert client.put_begin("k", 256).answer is Answer.IN_PROGRESS
    assert client.put_commit("k", begun.token, SLOT[1:]).answer is Answer.INVALID
    assert client.put_commit("k", begun.token, SLOT).answer is Answer.STORED
    assert client.get("k") == SLOT
    assert client.put_commit("k", begun.token, SLOT).answer is Answer.STALE


def test_an_aborted_put_leaves_nothing(start_mooncake: Start) -> None:
    backend = start_mooncake()
    client = backend.client()
    begun = client.put_begin("k", 256)
    assert begun.token is not None
    assert client.put_abort("k", begun.token) is Answer.OK
    assert client.stats().used_bytes == 0
    assert client.put_abort("k", begun.token) is Answer.STALE
    assert client.put("k", SLOT).answer is Answer.STORED


def test_what_mooncake_cannot_honour_is_unsupported(start_mooncake: Start) -> None:
    backend = start_mooncake()
    client = backend.client()
    for options in (PutOptions(lease_ms=5), PutOptions(namespace="n"), PutOptions(family="f"), PutOptions(object_group="g")):
        assert client.put("k", SLOT, options=options).answer is Answer.UNSUPPORTED
    assert backend.resident() == frozenset()


def test_a_replay_sized_store_holds_small_values_up_to_its_capacity(start_mooncake: Start) -> None:
    backend = start_mooncake(4 << 20, lease_ttl_ms=5000, watermark=0.95, ratio=0.05, local_buffer=1 << 20)
    client = backend.client()
    for index in range(3000):
        assert client.put(f"block{index}", index.to_bytes(4, "big") * 1024).answer is Answer.STORED
    assert client.get("block2999") == (2999).to_bytes(4, "big") * 1024
    assert client.stats().used_bytes <= 4 << 20
    assert client.stats().evicted_objects
