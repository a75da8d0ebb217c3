"""The child process that owns a Mooncake client and the mooncake_master it talks to; the adapter drives it over a socket.

Mooncake's client ends the interpreter when misused, and its threads outlive a normal exit: all of that stays in here. No
requirement is carried here; each request is one call of Mooncake's Python API, and its code goes back unchanged.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

#: prctl(2): the kernel sends this signal when the parent ends.
_PR_SET_PDEATHSIG = 1
_PORT_ATTEMPTS = 5
#: Setup takes 90 s to give up, so it is only tried against a master that answers.
_MASTER_DEADLINE_S = 30.0


class StartError(Exception):
    """The master or the client did not come up; ``args`` are a word for the kind and one line of detail."""


def main(connection_fd: int, lifeline_fd: int) -> NoReturn:
    """Serve until told to stop, or until the other end is gone; ends with os._exit because the client's threads never do."""
    die_when_closed(lifeline_fd)
    connection = Connection(connection_fd)
    master: Master | None = None
    try:
        config = connection.recv()
        master = start_master(config)
        calls = Calls(open_store(config, master.rpc_port))
        connection.send(("ready", {"pid": master.process.pid, "rpc_port": master.rpc_port, "admin_port": master.admin_port}))
        serve(connection, calls)
    except (StartError, ImportError) as failure:
        kind, detail = failure.args if isinstance(failure, StartError) else ("import", str(failure))
        connection.send(("failed", kind, detail))
    except (EOFError, OSError):
        pass  # the adapter is gone: nobody to tell
    finally:
        if master is not None:
            master.stop()
        connection.close()
        os._exit(0)


def die_when_closed(lifeline_fd: int) -> None:
    """Have the kernel end this process as soon as the other end of the pipe is closed, even while a call hangs."""
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    if select.select([lifeline_fd], [], [], 0)[0]:
        os._exit(0)  # closed before we looked


def serve(connection: Connection, calls: Calls) -> None:
    """Answer requests (id, name, arguments) one by one; "stop" ends it."""
    while True:
        number, name, arguments = connection.recv()
        if name == "stop":
            connection.send((number, "ok", None))
            return
        try:
            reply = ("ok", getattr(calls, name)(*arguments))
        except (TypeError, ValueError) as refusal:  # UnicodeEncodeError is a ValueError
            reply = ("refused", f"{type(refusal).__name__}: {refusal}")
        except Exception as failure:
            reply = ("raised", f"{type(failure).__name__}: {failure}")
        connection.send((number, *reply))


# --------------------------------------------------------------------------------------------------------------------------------
# The server


class Master:
    """A running mooncake_master, child of this process; the kernel ends it with us."""

    def __init__(self, process: subprocess.Popen[bytes], rpc_port: int, admin_port: int) -> None:
        self.process = process
        self.rpc_port = rpc_port
        self.admin_port = admin_port

    def stop(self) -> None:
        """Kill it and wait: SIGTERM would take a second."""
        self.process.kill()
        self.process.wait()


def start_master(config: Mapping[str, Any]) -> Master:
    """Start the binary on two free loopback ports; another process may take one first, then try again."""
    for _attempt in range(_PORT_ATTEMPTS):
        rpc_port, admin_port = free_ports()
        process = subprocess.Popen(
            [
                str(config["binary"]), "--rpc_address=127.0.0.1", f"--rpc_port={rpc_port}",
                "--metrics_host=127.0.0.1", f"--metrics_port={admin_port}",
                "--logtostderr=1", "--minloglevel=2", "--enable_metric_reporting=false", *config["flags"],
            ],
            stdin=subprocess.DEVNULL, cwd="/", preexec_fn=_die_with_parent(),
        )  # fmt: skip
        if _comes_up(process, (rpc_port, admin_port)):
            return Master(process, rpc_port, admin_port)
        code = process.poll()
        process.kill()
        process.wait()
        if code is not None:
            raise StartError("master", f"mooncake_master ended with code {code} before it listened")
    raise StartError("ports", f"no free pair of loopback ports in {_PORT_ATTEMPTS} attempts")


def free_ports() -> tuple[int, int]:
    """Two ports that are free right now."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _die_with_parent() -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return arm


def _comes_up(process: subprocess.Popen[bytes], ports: Sequence[int]) -> bool:
    """Wait until this very process listens on all ports. False: it ended, or somebody else has one of them."""
    deadline = time.monotonic() + _MASTER_DEADLINE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        listening = _listening(Path("/proc/net/tcp").read_text(encoding="ascii"))
        if all(port in listening for port in ports):
            return {listening[port] for port in ports} <= _sockets_of(process.pid)
        time.sleep(0.005)
    return False


def _listening(table: str) -> dict[int, str]:
    """Port -> inode of the sockets that listen on an IPv4 address."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16): row[9] for row in rows if row[3] == "0A"}


def _sockets_of(pid: int) -> set[str]:
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue  # closed while we looked
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    return inodes


# --------------------------------------------------------------------------------------------------------------------------------
# The client


def open_store(config: Mapping[str, Any], rpc_port: int) -> Any:
    """A client with one segment of exactly the wanted size.

    The size given to setup is rounded up to 16 MiB; a mounted file may have any size, so that few small objects fill it. The
    file lives in memory and has no name.
    """
    store = importlib.import_module("mooncake.store").MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, config["local_buffer"], "tcp", "", f"127.0.0.1:{rpc_port}")
    if code != 0:
        raise StartError("setup", f"MooncakeDistributedStore.setup answered {code}")
    memory = os.memfd_create("segment")
    os.ftruncate(memory, config["capacity"])
    mounted = store.mount_segment(f"/proc/self/fd/{memory}", config["capacity"])
    os.close(memory)
    if mounted.get("ret") != 0:
        raise StartError("mount", f"mount_segment of {config['capacity']} bytes answered {mounted}")
    return store


class Calls:
    """What the adapter may ask for, by name. Answers are Mooncake's own codes and bytes."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._module = importlib.import_module("mooncake.store")
        self._staging: Any = None

    def put(self, key: str, value: bytes, pin: str, soft_pin_ms: int | None) -> int:
        """0 also where the key is there already."""
        code: int = self._store.put(key, value, self._config(pin, soft_pin_ms))
        return code

    def put_many(self, keys: Sequence[str], values: Sequence[bytes], pin: str, soft_pin_ms: int | None) -> list[int]:
        """One native call; a code per key."""
        sizes = [len(value) for value in values]
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        base = self._stage(b"".join(values))
        codes: list[int] = self._store.batch_put_from(
            list(keys), [base + start for start in starts], sizes, self._config(pin, soft_pin_ms)
        )
        return codes

    def get(self, key: str) -> bytes:
        """Empty for a miss and for every failure."""
        value: bytes = self._store.get(key)
        return value

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Empty for a miss and for every failure."""
        return [bytes(value) for value in self._store.get_batch(list(keys))]

    def exists(self, key: str) -> int:
        """1, 0 or a negative code."""
        code: int = self._store.is_exist(key)
        return code

    def exists_many(self, keys: Sequence[str]) -> list[int]:
        """1, 0 or a negative code for each."""
        codes: list[int] = self._store.batch_is_exist(list(keys))
        return codes

    def remove(self, key: str, force: bool) -> int:
        """0 or a negative code."""
        code: int = self._store.remove(key, force)
        return code

    def remove_all(self, force: bool) -> int:
        """How many went."""
        count: int = self._store.remove_all(force)
        return count

    def begin(self, key: str, size: int, pin: str, soft_pin_ms: int | None) -> int:
        """Reserve room; the session is known by its key."""
        codes: list[int] = self._store.batch_put_session_start([key], [size], self._config(pin, soft_pin_ms))
        return codes[0]

    def commit(self, key: str, value: bytes) -> int:
        """Write the bytes and make them readable; the first code that is no success."""
        written: list[int] = self._store.batch_put_from_multi_buffer_ranges([key], [[self._stage(value)]], [[len(value)]], [[0]])
        if written[0] != len(value):
            return written[0]
        codes: list[int] = self._store.batch_put_session_end([key])
        return codes[0]

    def revoke(self, key: str) -> int:
        """Give the session up."""
        codes: list[int] = self._store.batch_put_session_revoke([key])
        return codes[0]

    def _stage(self, value: bytes) -> int:
        """The address of a registered buffer that holds the bytes."""
        if self._staging is None or len(self._staging) < len(value):
            self._unregister()
            self._staging = (ctypes.c_char * max(len(value), 1 << 16))()
            code = self._store.register_buffer(ctypes.addressof(self._staging), len(self._staging))
            if code != 0:
                raise RuntimeError(f"register_buffer answered {code}")
        ctypes.memmove(self._staging, value, len(value))
        return ctypes.addressof(self._staging)

    def _unregister(self) -> None:
        if self._staging is not None:
            self._store.unregister_buffer(ctypes.addressof(self._staging))
            self._staging = None

    def _config(self, pin: str, soft_pin_ms: int | None) -> Any:
        config = self._module.ReplicateConfig()
        if pin == "hard":
            config.with_hard_pin = True
        if pin == "soft":
            config.soft_pin_action = self._module.SoftPinAction.ENABLE
            if soft_pin_ms is not None:
                config.soft_pin_ttl_ms = soft_pin_ms
        return config
