"""A child process under control: lines to its stdin, lines from its stdout, each within a deadline, whatever the child does.

No threads: one poll over the three pipes. Each child leads a process group of its own, which is killed as a whole, at exit too, so
that nothing of an adapter outlives the suite. POSIX only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from typing import NoReturn

from kvprefix.errors import AdapterError
from kvprefix_conformance.wire.codec import shown
from kvprefix_conformance.wire.messages import MAX_LINE_BYTES

#: How much of stderr is kept, and how many of its last lines a message shows.
_LOG_BYTES = 64 * 1024
_LOG_LINES = 5
_CHUNK_BYTES = 256 * 1024
_LAST_READS = 8
#: How long a child may take to end by itself after it was asked to, in seconds.
_GRACE_SECONDS = 3.0

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def hosted(spec: str) -> tuple[str, ...]:
    """The command that serves the Python backend ``pkg.mod:factory`` over stdio in a process of its own."""
    return (sys.executable, "-m", "kvprefix_conformance.wire.host", spec)


class Child:
    """One child process. After any error that it raises, it is dead and stays so."""

    def __init__(self, command: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._received = bytearray()
        self._searched = 0
        self._log = bytearray()
        self._owner = os.getpid()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            raise AdapterError("died", f"cannot start {command[0]!r}: {problem}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in, self._out, self._err = (p.fileno() for p in (self._process.stdin, self._process.stdout, self._process.stderr))
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._poll = select.poll()
        self._poll.register(self._out, _READABLE)
        self._poll.register(self._err, _READABLE)
        self._alive = True
        _children.add(self)

    # -- one exchange -----------------------------------------------------------------------------------------------------------

    def exchange(self, line: bytes, seconds: float, what: str) -> bytes:
        """Send a line and return the next one, without its newline. ``what`` names the exchange in messages.

        Raises :class:`AdapterError`: "timeout" after so many seconds (the child is killed: its state is unknown), "died" when it
        ended, "protocol" for output that nobody asked for or a line without end.
        """
        end = time.monotonic() + seconds
        if self._received:
            self.fail("protocol", f"wrote {shown(bytes(self._received[:200]))} that nobody asked for, before {what}")
        self._send(line, end, seconds, what)
        while True:
            newline = self._received.find(b"\n", self._searched)
            if newline >= 0:
                found = bytes(self._received[:newline])
                del self._received[: newline + 1]
                self._searched = 0
                return found
            self._searched = len(self._received)
            if self._searched > self._max_line_bytes:
                begins = shown(bytes(self._received[:40]))
                self.fail("protocol", f"{self._searched} bytes without a newline in answer to {what}, beginning {begins}")
            self._wait(end, seconds, what)

    def _send(self, line: bytes, end: float, seconds: float, what: str) -> None:
        rest = memoryview(line)
        try:
            while rest := rest[_write(self._in, rest) :]:
                self._poll.register(self._in, select.POLLOUT)
                try:
                    self._wait(end, seconds, what)
                finally:
                    self._poll.unregister(self._in)
        except BrokenPipeError:
            self._read_rest_of_log()
            self._ended(what)

    def _wait(self, end: float, seconds: float, what: str) -> None:
        """Wait until something can be read or written, and read it."""
        left = end - time.monotonic()
        ready = self._poll.poll(max(0.0, left) * 1000) if left > 0 else []
        if not ready:
            self._timed_out(seconds, what)
        for pipe, _event in ready:
            if pipe == self._err:
                self._read_log()
            elif pipe == self._out:
                chunk = _read(self._out)
                if chunk == b"":
                    self._read_rest_of_log()
                    self._ended(what)
                self._received += chunk or b""

    def _read_log(self) -> None:
        chunk = _read(self._err)
        if chunk == b"":
            self._poll.unregister(self._err)
        self._log += chunk or b""
        del self._log[:-_LOG_BYTES]

    def _read_rest_of_log(self) -> None:
        """What is left in stderr, within reason: what writes there may never stop."""
        for _ in range(_LAST_READS):
            chunk = _read(self._err)
            if not chunk:
                return
            self._log += chunk
            del self._log[:-_LOG_BYTES]

    # -- ends -------------------------------------------------------------------------------------------------------------------

    def _timed_out(self, seconds: float, what: str) -> NoReturn:
        code = self._process.poll()
        end = "" if code is None else f"; the process has {_how_it_ended(code)}, but something holds its output open"
        half = f", only {shown(bytes(self._received[:200]))} without a newline" if self._received else ""
        self.fail("timeout", f"no answer to {what} within {seconds * 1000:.0f} ms{half}{end}")

    def _ended(self, what: str) -> NoReturn:
        """The child closed its output: say how it ended."""
        code = self._exit_code(1.0)
        how = "closed its output but goes on" if code is None else _how_it_ended(code)
        half = f" in the middle of a line: {shown(bytes(self._received[:200]))}" if self._received else ""
        self.fail("died", f"{how} at {what}{half}")

    def fail(self, kind: str, detail: str) -> NoReturn:
        """Kill the child and raise the error, with the child's own last words."""
        with contextlib.suppress(OSError):
            self._read_rest_of_log()
        self.kill()
        raise AdapterError(kind, f"{detail}{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of stderr, for the end of a message; empty where there are none."""
        lines = [line.strip() for line in self._log.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"; its last words: {' | '.join(line[:200] for line in lines[-_LOG_LINES:])}" if lines else ""

    def _exit_code(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def finish(self) -> None:
        """Close its stdin, let it end by itself for a moment, then kill what is left of its group."""
        if self._alive and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._drain(time.monotonic() + _GRACE_SECONDS)
            self.kill()

    def _drain(self, end: float) -> None:
        """Read and drop until the child ends, so that it never waits for us to read."""
        ended = _ended_signal(self._process.pid)
        if ended is not None:
            self._poll.register(ended, select.POLLIN)
        try:
            while (left := end - time.monotonic()) > 0:
                for pipe, _event in self._poll.poll(left * 1000):
                    if pipe == self._err:
                        self._read_log()
                    elif pipe == ended or _read(self._out) == b"":
                        self._exit_code(max(0.0, end - time.monotonic()))
                        return
        finally:
            if ended is not None:
                self._poll.unregister(ended)
                os.close(ended)

    def kill(self) -> None:
        """Kill the whole process group at once. Safe to call again, and in a forked copy, where it does nothing."""
        if not self._alive or self._owner != os.getpid():
            return
        self._alive = False
        _children.discard(self)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _read(pipe: int) -> bytes | None:
    """What can be read now; None: nothing yet; empty: the other end is closed."""
    try:
        return os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return None


def _ended_signal(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended (Linux); what it started may hold its output open for longer."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _write(pipe: int, data: memoryview) -> int:
    """How many bytes could be written now."""
    try:
        return os.write(pipe, data)
    except BlockingIOError:
        return 0


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


_children: weakref.WeakSet[Child] = weakref.WeakSet()


@atexit.register
def kill_all() -> None:
    """Kill every child that this process has left."""
    for child in list(_children):
        child.kill()
