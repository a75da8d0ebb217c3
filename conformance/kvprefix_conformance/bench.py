"""The workbench: one opened backend, emptied for each example, opened again when it died. All that can go wrong there is one error.

A check asks the bench for a session on an empty store; it never touches the backend itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from kvprefix.api import Backend
from kvprefix.errors import AdapterError, ConfigurationError, KvprefixError, MissingDependencyError
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.oracle.ledger import Terms
from kvprefix_conformance.records import Step, Violation
from kvprefix_conformance.session import Recorded, Session, offered
from kvprefix_conformance.target import Target

T = TypeVar("T")


@attrs.frozen
class BenchError(KvprefixError):
    """The backend cannot be opened, started or emptied; the run says so and ends, or fails the check it was in."""

    #: One line.
    problem: str

    def __str__(self) -> str:
        return self.problem


class Bench:
    """One instance of a target at a time. Raises :class:`BenchError`; what the user must fix (exit code 2) passes through."""

    def __init__(self, target: Target, capacity: int) -> None:
        self.target = target
        self.capacity = capacity
        self._backend: Backend | None = None
        self._terms: Terms | None = None
        self._last: Session | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def terms(self) -> Terms:
        """Under what the backend is judged; opens it if need be."""
        self._open()
        assert self._terms is not None
        return self._terms

    def session(
        self,
        oracle: Oracle,
        stop: Callable[[Violation], bool] = lambda _violation: False,
        shun: frozenset[str] = frozenset(),
    ) -> Session:
        """A session on an empty store. The one before is over."""
        if self._last is not None and self._last.broken:
            self.close()
        backend = self._open()
        if self._last is not None:
            _guarded("reset", backend.reset)
        self._last = _guarded("open a client of", lambda: Session(backend, self.terms.geometry, oracle, stop, shun))
        return self._last

    def close(self) -> None:
        """Close what is open; a backend that cannot even close is left to its proxy."""
        backend, self._backend, self._last = self._backend, None, None
        if backend is not None:
            with contextlib.suppress(Exception):
                backend.close()

    def _open(self) -> Backend:
        if self._backend is None:
            backend = _guarded("open", self.target.open)
            try:
                capabilities = _guarded("ask the capabilities of", lambda: backend.capabilities)
                geometry = _guarded("start", lambda: backend.start(self.capacity))
                self._terms = Terms(capabilities, geometry, _guarded("open a client of", lambda: offered(backend)))
            except BaseException:
                with contextlib.suppress(Exception):
                    backend.close()
                raise
            self._backend = backend
        return self._backend


def _guarded(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except (ConfigurationError, MissingDependencyError, BenchError):
        raise
    except AdapterError as failure:
        raise BenchError(f"cannot {what} the backend: {failure}") from failure
    except (Exception, SystemExit) as failure:
        text = next(iter(str(failure).splitlines()), "")
        raise BenchError(f"cannot {what} the backend: {type(failure).__name__}: {text}") from failure


@attrs.frozen
class Replayed:
    """Steps that were run again."""

    history: tuple[Recorded, ...]
    violations: tuple[Violation, ...]
    oracle: Oracle
    #: The backend died or hung.
    broken: str = ""


def replay(bench: Bench, steps: Sequence[Step], until: Callable[[Violation], bool] = lambda _violation: False) -> Replayed:
    """The same steps on an empty store, judged afresh; ends with the first violation that ``until`` names."""
    oracle = Oracle(bench.terms)
    session = bench.session(oracle, until)
    for step in steps:
        session.run(attrs.evolve(step, answer=None, allowed=(), indefinite=False))
        if session.over:
            break
    return Replayed(tuple(session.history), tuple(session.violations), oracle, session.broken)
