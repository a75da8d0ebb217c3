"""The worker link against children of the test's own: whatever they do ends in a typed error, and they end with us."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator

import pytest

from kvprefix.errors import AdapterError, MissingDependencyError
from kvprefix_conformance.backends.mooncake_link import Refusal, Worker

DEADLINE_S = 30.0
#: Says hello, then does what the test wants.
HELLO = """
import os, signal, sys, time
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
config = connection.recv()
connection.send(("ready", {"pid": os.getpid(), "config": config}))
"""
ECHO = HELLO + "while True:\n    number, name, arguments = connection.recv()\n    connection.send((number, *arguments))\n"
HANGS = HELLO + "connection.recv()\ntime.sleep(600)\n"
#: The worker's own way of noticing that the parent is gone.
LIFELINE = """
from kvprefix_conformance.backends.mooncake_worker import die_when_closed
import sys, time
die_when_closed(int(sys.argv[2]))
"""


@pytest.fixture
def start() -> Iterator[Callable[[str], Worker]]:
    workers: list[Worker] = []

    def launch(source: str) -> Worker:
        workers.append(Worker({"capacity": 1}, DEADLINE_S, source))
        return workers[-1]

    yield launch
    for worker in workers:
        worker.kill()


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


def test_the_child_gets_its_configuration_and_answers(start: Callable[[str], Worker]) -> None:
    worker = start(ECHO)
    assert worker.facts["config"] == {"capacity": 1}
    assert worker.call("any", "ok", b"x", deadline_s=DEADLINE_S) == b"x"


def test_keys_that_are_no_unicode_text_reach_the_child(start: Callable[[str], Worker]) -> None:
    assert start(ECHO).call("any", "ok", "\ud800\0\n", deadline_s=DEADLINE_S) == "\ud800\0\n"


def test_a_refusal_and_a_failure_are_told_apart(start: Callable[[str], Worker]) -> None:
    worker = start(ECHO)
    with pytest.raises(Refusal, match="no text"):
        worker.call("put", "refused", "no text", deadline_s=DEADLINE_S)
    with pytest.raises(AdapterError) as error:
        worker.call("put", "raised", "RuntimeError: broken", deadline_s=DEADLINE_S)
    assert (error.value.kind, error.value.detail) == ("raised", "put: RuntimeError: broken")


def test_an_answer_that_an_interrupted_call_left_behind_is_skipped(start: Callable[[str], Worker]) -> None:
    worker = start(HELLO + "n, *_ = connection.recv()\nconnection.send((n - 1, 'ok', 'old'))\nconnection.send((n, 'ok', 'new'))\n")
    assert worker.call("get", deadline_s=DEADLINE_S) == "new"


def test_a_child_that_ends_is_reported_with_its_code_and_last_words(start: Callable[[str], Worker]) -> None:
    worker = start(HELLO + "connection.recv()\nprint('cannot go on', flush=True)\nos._exit(7)\n")
    with pytest.raises(AdapterError) as error:
        worker.call("put", deadline_s=DEADLINE_S)
    assert error.value.kind == "died"
    assert "code 7" in error.value.detail
    assert "cannot go on" in error.value.detail


def test_a_child_that_crashes_is_reported_with_its_signal(start: Callable[[str], Worker]) -> None:
    worker = start(HELLO + "connection.recv()\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    with pytest.raises(AdapterError, match="SIGSEGV"):
        worker.call("put", deadline_s=DEADLINE_S)
    with pytest.raises(AdapterError, match="SIGSEGV"):
        worker.call("put", deadline_s=DEADLINE_S)


def test_a_child_that_hangs_times_out_once_and_is_dead_from_then_on(start: Callable[[str], Worker]) -> None:
    worker = start(HANGS)
    with pytest.raises(AdapterError) as error:
        worker.call("put", deadline_s=0.01)
    assert error.value.kind == "timeout"
    with pytest.raises(AdapterError) as error:
        worker.call("put", deadline_s=DEADLINE_S)
    assert error.value.kind == "died"


def test_close_ends_a_hanging_child(start: Callable[[str], Worker]) -> None:
    worker = start(HANGS)
    with pytest.raises(AdapterError):
        worker.call("put", deadline_s=0.01)
    worker.close()
    assert not worker.alive
    worker.close()


def test_a_closed_worker_says_so(start: Callable[[str], Worker]) -> None:
    worker = start(ECHO)
    worker.kill()
    with pytest.raises(AdapterError, match="closed"):
        worker.call("put", deadline_s=DEADLINE_S)


def test_a_child_that_cannot_start_its_server_is_reported() -> None:
    source = HELLO.replace('("ready", {"pid": os.getpid(), "config": config})', '("failed", "setup", "setup answered -1")')
    with pytest.raises(AdapterError, match="setup answered -1"):
        Worker({}, DEADLINE_S, source)


def test_a_child_that_never_says_hello_times_out() -> None:
    with pytest.raises(AdapterError, match="start did not answer"):
        Worker({}, 0.01, "import time; time.sleep(600)")


def test_a_package_that_does_not_load_is_a_missing_dependency() -> None:
    source = HELLO.replace('("ready", {"pid": os.getpid(), "config": config})', '("failed", "import", "No module named mooncake")')
    with pytest.raises(MissingDependencyError, match="No module named mooncake"):
        Worker({}, DEADLINE_S, source)


@pytest.mark.parametrize(
    "words",
    [
        "libnuma.so.1: cannot open shared object file: No such file or directory",
        "mooncake_master: error while loading shared libraries: libnuma.so.1: cannot open shared object file",
    ],
)
def test_a_library_that_the_loader_misses_is_named_with_its_package(words: str) -> None:
    source = HELLO.replace('("ready", {"pid": os.getpid(), "config": config})', '("failed", "import", "it failed")')
    with pytest.raises(MissingDependencyError) as error:
        Worker({}, DEADLINE_S, f"print({words!r}, flush=True)\n" + source)
    assert error.value.remedy == "Run: apt-get install libnuma1"


def test_a_child_ends_when_the_lifeline_closes_though_it_never_looks() -> None:
    source = f"import sys; sys.path[:] = {__import__('sys').path!r}\n" + LIFELINE + HELLO + "while True: pass\n"
    worker = Worker({}, DEADLINE_S, source)
    try:
        os.close(worker._lifeline)
        worker._lifeline = os.open(os.devnull, os.O_RDONLY)
        assert ended(worker.facts["pid"])
    finally:
        worker.kill()
