"""The parent's side of the Mooncake worker: starts the child process, calls it with a deadline per call, ends it without a trace.

No requirement is carried here. A child that dies or hangs becomes an AdapterError, and what is missing on the machine a
MissingDependencyError that names the package to install.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from kvprefix.errors import AdapterError, MissingDependencyError

#: The wheel without CUDA; the one with CUDA has the same modules.
DISTRIBUTIONS: Final = ("mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine")
#: Shared library that the wheel needs from the system -> Debian and Ubuntu package.
SYSTEM_LIBRARIES: Final[Mapping[str, str]] = {
    "libibverbs.so.1": "libibverbs1",
    "libnuma.so.1": "libnuma1",
    "libcurl.so.4": "libcurl4",
    "librdmacm.so.1": "librdmacm1",
}
#: What the child runs; it finds its modules where we find ours. Arguments: file descriptors of the socket and of the lifeline.
BOOTSTRAP: Final = (
    "import sys; sys.path[:] = {path!r}; from kvprefix_conformance.backends.mooncake_worker import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)
_LOG_TAIL_BYTES = 2000
_STOP_DEADLINE_S = 5.0
#: A missing shared library, as the dynamic loader words it for a module and for a program.
_MISSING_LIBRARY = re.compile(
    r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file|loading shared libraries: (lib[\w.+-]+\.so[\w.]*)"
)


# --------------------------------------------------------------------------------------------------------------------------------
# What must be installed


def find_binary(package: Callable[[str], Any] = importlib.util.find_spec) -> Path:
    """The mooncake_master binary inside the installed wheel; MissingDependencyError if package or binary is missing."""
    spec = package("mooncake")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not any(found for place in places for found in Path(place).glob("store*.so")):
        raise MissingDependencyError(
            "The Python package of Mooncake Store is not installed.", f"Run: pip install {DISTRIBUTIONS[0]}"
        )
    binary = next((found for place in places if (found := Path(place) / "mooncake_master").is_file()), None)
    if binary is None:
        raise MissingDependencyError(
            f"The installed Mooncake package has no mooncake_master binary in {places[0]}.",
            f"Run: pip install --force-reinstall {DISTRIBUTIONS[0]}",
        )
    if not os.access(binary, os.X_OK):
        raise MissingDependencyError(f"{binary} may not be executed.", f"Run: chmod +x {binary}")
    return binary


def check_libraries(load: Callable[[str], Any] = ctypes.CDLL) -> None:
    """MissingDependencyError unless every shared library that the wheel leaves to the system can be loaded."""
    missing = [library for library in SYSTEM_LIBRARIES if not _loads(library, load)]
    if missing:
        raise missing_libraries(missing)


def _loads(library: str, load: Callable[[str], Any]) -> bool:
    try:
        load(library)
    except OSError:
        return False
    return True


def missing_libraries(names: Sequence[str]) -> MissingDependencyError:
    """The error that names the libraries and the packages that bring them."""
    packages = [SYSTEM_LIBRARIES.get(name, f"(the package that has {name})") for name in names]
    return MissingDependencyError(
        f"Mooncake Store needs shared libraries that are not installed: {', '.join(names)}.",
        f"Run: apt-get install {' '.join(packages)}",
    )


# --------------------------------------------------------------------------------------------------------------------------------
# The child


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """Mooncake's binding refused the arguments (a key that is no UTF-8, a wrong type)."""


class Worker:
    """One child process and one request at a time. Raises AdapterError for whatever goes wrong with it.

    ``bootstrap`` is Python source; the tests put a child of their own there.
    """

    def __init__(self, config: Mapping[str, Any], deadline_s: float, bootstrap: str = "") -> None:
        ours, theirs = socket.socketpair()
        lifeline_read, self._lifeline = os.pipe()
        self._log = os.memfd_create("log")
        self._lock = threading.Lock()
        self._number = 0
        self._hung = False
        self._connection = Connection(ours.detach())
        self._process = subprocess.Popen(
            [sys.executable, "-c", bootstrap or BOOTSTRAP.format(path=sys.path), str(theirs.fileno()), str(lifeline_read)],
            pass_fds=(theirs.fileno(), lifeline_read),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is for us: we end it in our own order
        )
        theirs.close()
        os.close(lifeline_read)
        try:
            self._send(config)
            self.facts: Mapping[str, Any] = self._ready(self._receive(time.monotonic() + deadline_s, "start"))
        except BaseException:
            self.kill()
            raise

    def call(self, name: str, *arguments: Any, deadline_s: float) -> Any:
        """One call of the child's table; Refusal if the binding did not take the arguments."""
        with self._lock:
            if self._hung:
                raise AdapterError("died", "the Mooncake worker hung in an earlier call")
            self._number += 1
            deadline = time.monotonic() + deadline_s
            self._send((self._number, name, arguments))
            number = -1
            while number != self._number:  # an interrupted call left its answer behind
                number, verdict, result = self._receive(deadline, name)
        if verdict == "refused":
            raise Refusal(result)
        if verdict == "raised":
            raise AdapterError("raised", f"{name}: {result}")
        return result

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Have it stop its server and end; kill it if it does not. Safe to call twice."""
        if self.alive and not self._hung and not self._connection.closed:
            with contextlib.suppress(AdapterError, Refusal):
                self.call("stop", deadline_s=_STOP_DEADLINE_S)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_DEADLINE_S)
        self.kill()

    def kill(self) -> None:
        """End it now; the kernel ends its server with it. Safe to call twice."""
        if self._connection.closed:
            return
        self._process.kill()
        self._process.wait()
        self._connection.close()
        os.close(self._lifeline)
        os.close(self._log)

    # -- inside -----------------------------------------------------------------------------------------------------------------

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise self._died() from None

    def _receive(self, deadline: float, name: str) -> Any:
        try:
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                self._hung = True
                raise AdapterError("timeout", f"{name} did not answer within its deadline{self._words()}")
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self) -> AdapterError:
        if self._connection.closed:
            return AdapterError("died", "the Mooncake worker is closed")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_DEADLINE_S)
        code = self._process.poll()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"code {code}"
        return AdapterError("died", f"the Mooncake worker ended with {how}{self._words()}")

    def _ready(self, message: Any) -> Mapping[str, Any]:
        if message[0] == "ready":
            facts: Mapping[str, Any] = message[1]
            return facts
        _failed, kind, detail = message
        lost = [one or other for one, other in _MISSING_LIBRARY.findall(f"{detail}\n{self._tail()}")]
        if lost:
            raise missing_libraries(sorted(set(lost)))
        if kind == "import":
            raise MissingDependencyError(
                f"The Python package of Mooncake Store does not load: {detail}.", f"Run: pip install {DISTRIBUTIONS[0]}"
            )
        raise AdapterError("died", f"{detail}{self._words()}")

    def _tail(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES)).decode("utf-8", "replace")

    def _words(self) -> str:
        """Its own last line, if it said anything."""
        lines = self._tail().strip().splitlines()
        return f" (its last line: {lines[-1][:200]})" if lines else ""


def _environment() -> dict[str, str]:
    """Ours, with the client quiet and checksums on (a torn value becomes a miss)."""
    return {**os.environ, "MC_LOG_LEVEL": "ERROR", "MOONCAKE_STORE_CHECKSUM": "1", "PYTHONWARNINGS": "ignore"}


# --------------------------------------------------------------------------------------------------------------------------------
# The master's admin port


class Admin:
    """HTTP requests to the master: what can be seen there touches and leases nothing."""

    def __init__(self, port: int, deadline_s: float) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=deadline_s)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def metrics(self, names: Sequence[str]) -> dict[str, int]:
        """The named counters and gauges."""
        found = {}
        for line in self._get("/metrics").decode("utf-8", "replace").splitlines():
            name, _space, value = line.partition(" ")
            if name in names:
                found[name] = int(float(value))
        if len(found) != len(set(names)):
            raise AdapterError("protocol", f"/metrics lacks {sorted(set(names) - set(found))}")
        return found

    def all_keys(self) -> bytes:
        """Every readable key, each followed by a newline."""
        return self._get("/get_all_keys")

    def resident(self, key: str) -> bool | None:
        """Whether the key is readable; None where this cannot be asked (the query splits at commas)."""
        if not key:
            return False  # never stored
        if "," in key:
            return None
        answer = json.loads(self._get("/batch_query_keys?keys=" + urllib.parse.quote(key, safe="")))
        found = answer.get("data", {}).get(key)
        return None if found is None else bool(found["ok"])

    def _get(self, path: str) -> bytes:
        try:
            status, body = self._ask(path)
        except TimeoutError:
            self._connection.close()
            raise AdapterError("timeout", f"mooncake_master did not answer GET {path[:80]}") from None
        except (OSError, http.client.HTTPException) as failure:
            self._connection.close()
            raise AdapterError("died", f"mooncake_master does not serve GET {path[:80]}: {failure}") from None
        if status != 200:
            raise AdapterError("protocol", f"GET {path[:80]} answered {status}")
        return body

    def _ask(self, path: str) -> tuple[int, bytes]:
        try:
            return self._exchange(path)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._connection.close()  # an idle connection may have been dropped; a fresh one tells the truth
            return self._exchange(path)

    def _exchange(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        return response.status, response.read()
