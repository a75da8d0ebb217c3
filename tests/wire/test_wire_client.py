"""A real process on the other side of the wire, well behaved and not: what the suite is told, and that nothing is left running."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvprefix.api import Answer, Geometry, PutResult, Root, offers
from kvprefix.errors import AdapterError
from kvprefix_conformance.wire.client import connect
from kvprefix_conformance.wire.isolation import Child, hosted

STORE = """
    from kvprefix_conformance.adapter import *

    class Store:
        capabilities = Capabilities(name="little", evicts=False, progress=Progress.REJECT)
        def __init__(self): self.objects = {}
        def start(self, capacity): return Geometry(capacity)
        def client(self, index=0): return self
        def reset(self): self.objects.clear()
        def close(self): pass
        def put(self, key, value, *, parent=UNKNOWN, options=PutOptions()):
            if key in self.objects: return PutResult(Answer.EXISTS, ())
            self.objects[key] = value
            return PutResult(Answer.STORED, ())
        def get(self, key): return self.objects.get(key)
        def exists(self, key): return key in self.objects
        def resident(self): return frozenset(self.objects)
"""

#: An adapter in a few lines: answers hello and start, then does what the test says at "get".
SCRIPT = """
    import json, os, signal, sys, time
    def reply(number, **fields):
        print(json.dumps({"id": number, "ok": True, **fields}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        number, op = request["id"], request["op"]
        if op == "hello": reply(number, protocol=1, capabilities={"name": "script"}, ops=[], hooks=[])
        elif op == "start": reply(number, geometry={"capacity_bytes": request["capacity"]})
        elif op == "get":
            DO
        elif op == "exists": reply(number, found=False)
        else: reply(number)
"""


@pytest.fixture
def python_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[str, ...]]:
    """Write a module and give the command that hosts its ``Store``."""

    def write(source: str) -> tuple[str, ...]:
        (tmp_path / "adapter_under_test.py").write_text(textwrap.dedent(source))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        return hosted("adapter_under_test:Store")

    return write


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """The command of an adapter that does this at get."""

    def write(at_get: str) -> tuple[str, ...]:
        return program(tmp_path, SCRIPT.replace("DO", at_get))

    return write


def program(folder: Path, source: str) -> tuple[str, ...]:
    path = folder / "adapter.py"
    path.write_text(textwrap.dedent(source))
    return (sys.executable, str(path))


def opened(command: tuple[str, ...], deadline_ms: int = 10_000) -> tuple[Any, Any]:
    backend: Any = connect(command, deadline_ms)
    backend.start(4096)
    return backend, backend.client(0)


def failure(command: tuple[str, ...], deadline_ms: int = 10_000) -> AdapterError:
    """What get raises."""
    backend, client = opened(command, deadline_ms)
    with pytest.raises(AdapterError) as caught:
        client.get("a")
    assert_gone(backend)
    backend.close()
    return caught.value


def process_of(backend: Any) -> int:
    pid: int = backend._session._child._process.pid
    return pid


def assert_gone(backend: Any) -> None:
    """No process of its group is left."""
    with pytest.raises(ProcessLookupError):
        os.killpg(process_of(backend), 0)


# --------------------------------------------------------------------------------------------------------------------------------
# A Python store in a process of its own


def test_a_hosted_store_works_and_ends_with_close(python_adapter: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(python_adapter(STORE))
    assert backend.capabilities.name == "little"
    assert client.put("a", b"\x00\xff", parent=Root.ROOT) == PutResult(Answer.STORED, ())
    assert client.get("a") == b"\x00\xff"
    assert backend.resident() == {"a"}
    assert not offers(client, "probe")
    backend.close()
    assert_gone(backend)


def test_two_clients_of_one_backend_see_one_store(python_adapter: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(python_adapter(STORE))
    client.put("a", b"1")
    assert backend.client(1).get("a") == b"1"
    backend.close()


def test_a_megabyte_passes_both_ways(python_adapter: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(python_adapter(STORE))
    value = os.urandom(1 << 20)
    client.put("a", value)
    assert client.get("a") == value
    backend.close()


def test_what_an_adapter_prints_and_reads_does_not_touch_the_protocol(python_adapter: Callable[[str], tuple[str, ...]]) -> None:
    noisy = """
        def noise(self, key):
            import os, sys
            print("to stdout"); os.write(1, b"to file descriptor 1"); os.system("echo from a shell")
            return sys.stdin.read().encode()
        Store.get = noise
    """
    backend, client = opened(python_adapter(textwrap.dedent(STORE) + textwrap.dedent(noisy)))
    assert client.get("a") == b""
    assert client.exists("a") is False
    backend.close()


@pytest.mark.parametrize(
    ("at_get", "kind", "said"),
    [
        ("os._exit(7)", "died", "exited with status 7 at get"),
        ("sys.exit('enough')", "died", "exited with status 1 at get; its last words: enough"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died", "was killed by SIGSEGV at get"),
        ("raise KeyError('a')", "raised", "get: KeyError: 'a'"),
        ("return 5", "protocol", "get: get returned 5: value: should be bytes, is 5 (nonsense)"),
        ("signal.pause()", "timeout", "no answer to get within 300 ms"),
    ],
)
def test_a_misbehaving_store_is_told_in_one_line(
    python_adapter: Callable[[str], tuple[str, ...]], at_get: str, kind: str, said: str
) -> None:
    source = textwrap.dedent(STORE) + f"\nimport os, sys, signal\ndef get(self, key):\n    {at_get}\nStore.get = get\n"
    backend, client = opened(python_adapter(source), 300 if kind == "timeout" else 10_000)
    with pytest.raises(AdapterError) as caught:
        client.get("a")
    assert caught.value.kind == kind
    assert caught.value.detail.startswith(said)
    backend.close()
    assert_gone(backend)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module", "hello: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Stor = 1", "hello: adapter_under_test has no 'Store'; did you mean Stor?"),
        ("Store = 1", "hello: adapter_under_test:Store is 1, which cannot be called"),
        ("class Store:\n    def start(self): pass", "which has no client, reset, close()"),
        (
            "class Store:\n    capabilities = {}\n    def start(self): pass\n    client = reset = close = start",
            "whose capabilities are not kvprefix.api.Capabilities",
        ),
        ("def Store(): raise OSError('no server')", "hello: OSError: no server"),
    ],
)
def test_a_store_that_cannot_be_made_is_told_at_hello(
    python_adapter: Callable[[str], tuple[str, ...]], source: str, said: str
) -> None:
    with pytest.raises(AdapterError) as caught:
        connect(python_adapter(source))
    assert said in caught.value.detail


# --------------------------------------------------------------------------------------------------------------------------------
# A process that breaks the protocol


@pytest.mark.parametrize(
    ("at_get", "kind", "said"),
    [
        ("sys.exit(3)", "died", "exited with status 3 at get"),
        ("print('{\"id\": 3, \"ok', end='', flush=True); sys.exit(0)", "died", "in the middle of a line: b'{\"id\": 3, \"ok'"),
        ("print('half', end='', flush=True); time.sleep(60)", "timeout", "only b'half' without a newline"),
        ("os.close(1); time.sleep(60)", "died", "closed its output but goes on at get"),
        ("print('hello?', flush=True)", "protocol", "the answer to get is no JSON: b'hello?'"),
        ("print('[1]', flush=True)", "protocol", "the answer to get is no JSON object: b'[1]'"),
        ("print('[' * 100000, flush=True)", "protocol", "the answer to get is no JSON: b'[[["),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "protocol", "the answer to get is no JSON: b'\\xff'"),
        ("reply(number + 1, value=None)", "protocol", "the answer to get has id 4, the request had 3"),
        ("print('{\"ok\": true}', flush=True)", "protocol", "the answer to get has id None, the request had 3"),
        ("print('{\"id\": 3, \"ok\": 1}', flush=True)", "protocol", 'the answer to get has "ok" 1'),
        ("print(flush=True)", "protocol", "the answer to get is no JSON: b''"),
        ("print('segmentation fault', file=sys.stderr); os.kill(os.getpid(), signal.SIGABRT)", "died", "words: segmentation fault"),
    ],
)  # fmt: skip
def test_a_broken_stream_is_told_and_the_process_is_stopped(
    script: Callable[[str], tuple[str, ...]], at_get: str, kind: str, said: str
) -> None:
    error = failure(script(at_get), 1000 if kind == "timeout" else 10_000)
    assert error.kind == kind
    assert said in error.detail
    assert len(error.detail.splitlines()) == 1


@pytest.mark.parametrize(
    ("at_get", "said"),
    [
        ("reply(number, value=None, hit=False)", "the answer to get: unknown field 'hit'; known are: value."),
        ("reply(number)", "the answer to get: lacks value"),
        ("reply(number, value='?')", "the answer to get: value: is no base64"),
        ("print(json.dumps({'id': number, 'ok': False}), flush=True)", 'get failed with None; "error" must be'),
        ("print(json.dumps({'id': number, 'ok': False, 'error': {'kind': 'oops', 'detail': ''}}), flush=True)", '"error" must be'),
    ],
)
def test_after_a_wrong_answer_in_step_the_process_lives_on(
    script: Callable[[str], tuple[str, ...]], at_get: str, said: str
) -> None:
    backend, client = opened(script(at_get))
    with pytest.raises(AdapterError) as caught:
        client.get("a")
    assert caught.value.kind == "protocol"
    assert said in caught.value.detail
    assert client.exists("a") is False
    backend.close()


def test_a_flood_without_a_newline_ends_at_the_limit(tmp_path: Path) -> None:
    flood = "import os, sys\nsys.stdin.readline()\nwhile True: os.write(1, b'x' * 65536)\n"
    child = Child(program(tmp_path, flood), max_line_bytes=1 << 20)
    with pytest.raises(AdapterError, match="bytes without a newline in answer to hello, beginning b'xxx") as caught:
        child.exchange(b"hi\n", 60, "hello")
    assert caught.value.kind == "protocol"


def test_a_flood_of_lines_ends_at_the_first(script: Callable[[str], tuple[str, ...]]) -> None:
    error = failure(script("\n            while True: print('x' * 1000)"))
    assert error.kind == "protocol"


def test_a_line_that_nobody_asked_for_is_not_taken_for_an_answer(script: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(script("print(json.dumps({'id': 3, 'ok': True, 'value': None}) + '\\n' + 'extra', flush=True)"))
    assert client.get("a") is None
    with pytest.raises(AdapterError, match="protocol") as caught:
        client.exists("a")
    assert "extra" in caught.value.detail
    assert_gone(backend)


def test_megabytes_of_logs_stop_nobody_and_only_the_last_lines_are_told(script: Callable[[str], tuple[str, ...]]) -> None:
    flood = (
        "sys.stderr.write('log line\\n' * 300000); sys.stderr.write('the end\\n'); sys.stderr.flush(); reply(number, value=None)"
    )
    backend, client = opened(script(flood))
    assert client.get("a") is None
    assert backend._session._child.last_words() == "; its last words: log line | log line | log line | log line | the end"
    backend.close()


def test_an_adapter_that_does_not_read_is_told_at_the_deadline(script: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(script("reply(number, value=None); time.sleep(60)"), 300)
    assert client.get("a") is None
    with pytest.raises(AdapterError, match="no answer to put within 300 ms"):
        client.put("a", bytes(1 << 20))
    assert_gone(backend)


def test_after_a_timeout_the_session_stays_gone(script: Callable[[str], tuple[str, ...]]) -> None:
    backend, client = opened(script("time.sleep(60)"), 200)
    with pytest.raises(AdapterError, match="no answer to get"):
        client.get("a")
    with pytest.raises(AdapterError, match="gone since adapter timeout: no answer to get") as caught:
        client.exists("a")
    assert caught.value.kind == "died"
    backend.close()


# --------------------------------------------------------------------------------------------------------------------------------
# The opening


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('{"protocol": 2, "capabilities": {}}', "protocol: the adapter speaks protocol 2, this suite 1 to 1"),
        ('{"protocol": 1}', "lacks capabilities"),
        ('{"protocol": 1, "capabilities": {"evict": true}}', "capabilities: unknown field 'evict'; did you mean evicts or"),
        ('{"protocol": 1, "capabilities": {"clients": 0}}', "capabilities: capabilities of 'unnamed': clients must be at least 1"),
        ('{"protocol": 1, "capabilities": {"admission": "maybe"}}', "capabilities.admission: should be one of any, reject, defer"),
        ('{"protocol": 1, "capabilities": {}, "ops": ["exist_many"]}', "ops: unknown name 'exist_many'; did you mean exists_many"),
        ('{"protocol": 1, "capabilities": {}, "hooks": ["crush"]}', "hooks: unknown name 'crush'; did you mean crash"),
    ],
)
def test_a_wrong_hello_is_told(tmp_path: Path, answer: str, said: str) -> None:
    source = f"""
        import json, sys
        for line in sys.stdin:
            print(json.dumps({{"id": json.loads(line)["id"], "ok": True, **json.loads('''{answer}''')}}), flush=True)
    """
    with pytest.raises(AdapterError) as caught:
        connect(program(tmp_path, source))
    assert caught.value.kind == "protocol"
    assert caught.value.detail.startswith(f"the answer to hello: {said}")


def test_ops_may_be_announced_at_hello_or_at_start(tmp_path: Path) -> None:
    announced = '["capacity"]}, ops=["probe"])'
    at_start = SCRIPT.replace("ops=[], hooks=[]", 'hooks=["now"]').replace('["capacity"]})', announced)
    backend, client = opened(program(tmp_path, at_start.replace("DO", "pass")))
    assert (offers(client, "probe"), offers(client, "match"), offers(backend, "now")) == (True, False, True)
    backend.close()
    at_hello = SCRIPT.replace("ops=[]", 'ops=["match"]')
    backend, client = opened(program(tmp_path, at_hello.replace("DO", "pass")))
    assert (offers(client, "probe"), offers(client, "match")) == (False, True)
    backend.close()


@pytest.mark.parametrize("source", ["", "import sys; sys.exit(1)", "print('usage: adapter FILE'); raise SystemExit(2)"])
def test_a_program_that_ends_at_once_is_told(tmp_path: Path, source: str) -> None:
    with pytest.raises(AdapterError):
        connect(program(tmp_path, source))


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    path = tmp_path / "adapter"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    with pytest.raises(AdapterError, match="cannot start") as caught:
        connect((str(path),))
    assert caught.value.kind == "died"


def test_geometry_is_what_the_adapter_says(tmp_path: Path) -> None:
    quantum = SCRIPT.replace('["capacity"]})', '["capacity"], "quantum_bytes": "16"})')
    backend: Any = connect(program(tmp_path, quantum.replace("DO", "pass")))
    assert backend.start(100) == Geometry(100, quantum_bytes=16)
    backend.close()


# --------------------------------------------------------------------------------------------------------------------------------
# Nothing is left behind


def grandchild_pid(backend: Any) -> int:
    return int(backend._session._child._log.split()[-1])


@pytest.mark.parametrize("ending", ["close", "timeout"])
def test_a_process_that_the_adapter_started_ends_with_it(script: Callable[[str], tuple[str, ...]], ending: str) -> None:
    start = "import subprocess; p = subprocess.Popen(['sleep', '300']); print(p.pid, file=sys.stderr, flush=True); "
    backend, client = opened(script(start + ("reply(number, value=None)" if ending == "close" else "time.sleep(60)")), 2000)
    if ending == "close":
        client.get("a")
        assert not _ends(grandchild_pid(backend), 0)
    else:
        with pytest.raises(AdapterError, match="timeout"):
            client.get("a")
    backend.close()
    assert _ends(grandchild_pid(backend), 10_000)


def _ends(pid: int, within_ms: int) -> bool:
    """Whether a process is gone, or ends within this time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = bool(poll.poll(within_ms))
    os.close(descriptor)
    return ended


def test_an_adapter_is_stopped_when_the_suite_exits_without_closing_it(script: Callable[[str], tuple[str, ...]]) -> None:
    code = (
        "import sys; from kvprefix_conformance.wire.client import connect; "
        "b = connect(sys.argv[1:]); print(b._session._child._process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code, *script("pass")], capture_output=True, text=True, check=True)
    assert _ends(int(done.stdout), 10_000)
