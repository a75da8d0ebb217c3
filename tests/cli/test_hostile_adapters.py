"""Adapters that do everything wrong, through the commands: one clear message, the right exit code, and the run goes on."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvprefix_conformance.cli import main
from kvprefix_conformance.wire import client, isolation

#: A correct little store that never evicts. After the request of this number it does WRONG instead of answering.
SCRIPT = """
    import base64, json, os, signal, sys, time

    def send(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def reply(**fields):
        send(json.dumps({"id": number, "ok": True, **fields}) + "\\n")

    def flood():
        while True: send("x" * 65536)

    declared = {"name": "script", "evicts": False, "progress": "reject", "accounting": "none"}
    objects, capacity, served = {}, 0, 0
    for line in sys.stdin:
        request = json.loads(line)
        number, op, key = request["id"], request["op"], request.get("key")
        served += 1
        if served >= AFTER and op in OPS:
            WRONG
        elif op == "hello": reply(protocol=1, capabilities=declared)
        elif op == "start":
            capacity = request["capacity"]
            reply(geometry={"capacity_bytes": capacity})
        elif op == "reset": objects.clear(); reply()
        elif op == "get": reply(value=objects.get(key))
        elif op == "exists": reply(found=key in objects)
        elif op == "put":
            size, used = len(base64.b64decode(request["value"])), sum(len(base64.b64decode(v)) for v in objects.values())
            if not key or not size: reply(answer="INVALID")
            elif key in objects: reply(answer="EXISTS")
            elif request.get("options"): reply(answer="UNSUPPORTED")
            elif size > capacity: reply(answer="TOO_LARGE")
            elif used + size > capacity: reply(answer="NO_SPACE")
            else: objects[key] = request["value"]; reply(answer="STORED", evicted=[])
        else: reply()
        if op == "close": break
"""

Write = Callable[..., tuple[str, str]]


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write an adapter that does something wrong; the arguments that name it."""
    monkeypatch.setattr(client, "START_DEADLINE_MS", 1500)
    monkeypatch.setattr(client, "SLOW_DEADLINE_MS", 1500)

    def write(wrong: str = "pass", *, after: int = 10**9, ops: tuple[str, ...] = ("get",)) -> tuple[str, str]:
        source = textwrap.dedent(SCRIPT).replace("AFTER", str(after)).replace("OPS", repr(ops)).replace("WRONG", wrong)
        path = tmp_path / "adapter"
        path.write_text(f"#!{sys.executable}\n{source}")
        path.chmod(0o755)
        return "--", str(path)

    return write


def invoke(*arguments: str) -> Result:
    """Run a command; whatever the adapter does, there is no traceback and no process is left."""
    result = CliRunner().invoke(main, arguments)
    assert "Traceback" not in result.stdout
    assert not isolation._children
    return result


def check(target: tuple[str, str], *options: str) -> Result:
    return invoke("check", "--examples", "3", "--deadline", "1000", *options, *target)


# --------------------------------------------------------------------------------------------------------------------------------
# Nothing wrong


def test_the_script_without_a_fault_is_fit_and_conforms(adapter: Write) -> None:
    smoke = invoke("smoke", *adapter())
    assert smoke.exit_code == 0
    assert "put a 682 bytes" in smoke.stdout
    assert "-> STORED" in smoke.stdout
    assert f"fit to be tested: kvprefix check {' '.join(adapter())}" in smoke.stdout
    assert check(adapter(), "--requirement", "STO-1").exit_code == 0


# --------------------------------------------------------------------------------------------------------------------------------
# Broken before the first check

AT_HELLO = [
    ("sys.exit(0)", "died: exited with status 0 at hello"),
    ("print('no module named store', file=sys.stderr); sys.exit(3)", "exited with status 3 at hello; its last words: no module"),
    ("send('ready'); time.sleep(60)", "timeout: no answer to hello within 1500 ms, only b'ready' without a newline"),
    ('send(\'{"id": 1, "ok": tr\'); sys.exit(0)', "in the middle of a line"),
    ("send('Welcome!\\n')", "protocol: the answer to hello is no JSON: b'Welcome!'"),
    ("number = 99; reply(protocol=1, capabilities=declared)", "the answer to hello has id 99, the request had 1"),
    ("reply(protocol=9, capabilities=declared)", "the adapter speaks protocol 9, this suite 1 to 1"),
    ("reply(protocol=1, capabilities={'leases': True})", "capabilities: unknown field 'leases'"),
    ("flood()", "bytes without a newline in answer to hello"),
]


@pytest.mark.parametrize("command", ["check", "smoke"])
@pytest.mark.parametrize(("wrong", "said"), AT_HELLO)
def test_an_adapter_that_cannot_be_greeted_is_broken(adapter: Write, command: str, wrong: str, said: str) -> None:
    result = invoke(command, "--deadline", "1000", *adapter(wrong, after=1, ops=("hello",)))
    assert result.exit_code == 4
    assert said in result.output


@pytest.mark.parametrize(
    ("wrong", "ops", "said"),
    [
        ("sys.exit(5)", ("start",), "cannot start the backend: adapter died: exited with status 5 at start"),
        ("reply(geometry={'capacity': 4096})", ("start",), "the answer to start: geometry: unknown field 'capacity'; did you mean"),
        ("reply(answer='YES')", ("put",), "the answer to put: answer: should be one of STORED, OK"),
        ("reply(value='####')", ("get",), "the answer to get: value: is no base64"),
        ("time.sleep(60)", ("reset",), "adapter timeout: no answer to reset within"),
        ("reply(hit=1)", ("exists",), "the answer to exists: unknown field 'hit'; known are: found."),
        ("send('what\\n')", ("exists",), "the answer to exists is no JSON: b'what'"),
    ],
)
def test_an_adapter_that_fails_smoke_is_broken(adapter: Write, wrong: str, ops: tuple[str, ...], said: str) -> None:
    for command in ("smoke", "check"):
        result = invoke(command, "--deadline", "1000", *adapter(wrong, after=1, ops=ops))
        assert result.exit_code == 4
        assert said in result.output


# --------------------------------------------------------------------------------------------------------------------------------
# Broken midway: a failure, and the run goes on


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("sys.exit(3)", "exited with status 3 at get"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL at get"),
        ("time.sleep(60)", "no answer to get within 1000 ms"),
        ("time.sleep(1.5); reply(value=None)", "no answer to get within 1000 ms"),
        ("send('oops\\n')", "the answer to get is no JSON: b'oops'"),
        ("number += 1; reply(value=None)", "has id"),
        ("reply(value=None, cached=True)", "unknown field 'cached'"),
        ("send(json.dumps({'id': number, 'ok': False, 'error': {'kind': 'raised', 'detail': 'disk'}}) + '\\n')", "get: disk"),
    ],
)
def test_an_adapter_that_breaks_midway_fails_the_check_it_was_in(adapter: Write, wrong: str, said: str) -> None:
    result = check(adapter(wrong, after=40), "--requirement", "STO-1", "--requirement", "STO-10", "--max-seconds", "20")
    assert result.exit_code == 1
    assert said in result.output
    assert "does not conform (exit 1)" in result.output
