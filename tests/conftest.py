"""What all tests need: a process that was started with Ctrl-C ignored (in the background) hands that on, and tests send it."""

from __future__ import annotations

import contextlib
import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive() -> None:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)
