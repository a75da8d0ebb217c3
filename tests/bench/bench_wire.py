"""Operations per second over stdio between two Python processes, against a bare echo of the same lines in the same run.

    python tests/bench/bench_wire.py [--operations 20000]

The echo is what two pipes and two processes cost; the rest is the protocol. Ratios are to be trusted, absolute figures are not: the
clock of a shared machine swings.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from kvprefix_conformance.wire.client import connect
from kvprefix_conformance.wire.isolation import hosted

ECHO = "import sys\nwhile line := sys.stdin.buffer.readline(): sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


def rate(operations: int, call: Callable[[int], object]) -> float:
    """Calls per second."""
    begun = time.perf_counter()
    for number in range(operations):
        call(number)
    return operations / (time.perf_counter() - begun)


def echo_rate(operations: int, line: bytes) -> float:
    """Lines per second through a process that sends each back."""
    with subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def once(_number: int) -> bytes:
            into.write(line)
            into.flush()
            return out.readline()

        found = rate(operations, once)
        into.close()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=20_000)
    operations = parser.parse_args(arguments).operations
    backend = connect(hosted("kvprefix.store:ReferenceBackend"))
    backend.start(1 << 30)
    client = backend.client(0)
    value = bytes(256)
    calls: dict[str, Callable[[int], object]] = {
        "put 256 bytes": lambda number: client.put(f"key-{number}", value),
        "get a hit": lambda number: client.get(f"key-{number}"),
        "get a miss": lambda number: client.get(f"none-{number}"),
        "exists": lambda number: client.exists(f"key-{number}"),
    }
    bare = echo_rate(operations, b'{"id":1,"op":"exists","key":"key-1"}\n')
    print(f"{'bare echo':<16} {bare:>8.0f} lines/s")
    for name, call in calls.items():
        found = rate(operations, call)
        print(f"{name:<16} {found:>8.0f} operations/s  {found / bare:.2f} of the echo")
    backend.close()


if __name__ == "__main__":
    main()
