"""Real servers for the tests that need them; skipped, with what to install, where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvprefix.errors import MissingDependencyError
from kvprefix_conformance.backends.mooncake import MooncakeBackend, open_backend


@pytest.fixture(scope="session")
def mooncake_installed() -> None:
    """Skip unless a real server can be started."""
    try:
        open_backend().close()
    except MissingDependencyError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def start_mooncake(mooncake_installed: None) -> Iterator[Callable[..., MooncakeBackend]]:
    """Start backends with options of the test's choice; all are closed at its end."""
    backends: list[MooncakeBackend] = []

    def start(capacity: int = 4096, **options: Any) -> MooncakeBackend:
        backend = open_backend(**options)
        backends.append(backend)
        backend.start(capacity)
        return backend

    yield start
    for backend in backends:
        backend.close()
