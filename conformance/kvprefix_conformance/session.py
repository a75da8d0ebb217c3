"""A session: one backend, step by step. It runs a step, survives whatever the adapter does, records it and asks the oracle.

It judges nothing. What an adapter does outside the contract (raises, dies, hangs, answers with a wrong type) is written down as
the step's answer, ``{"error": {"kind": ..., "detail": ...}}``, and the oracle says what that means.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from kvprefix.api import HOOKS, OPTIONAL_CALLS, Backend, Clock, Event, Geometry, Transport, offers
from kvprefix.errors import AdapterError, ScenarioError
from kvprefix_conformance.calls import CALLS, HOOK_CALLS, OPERATIONS, Names, NonsenseError, expect
from kvprefix_conformance.codec import Json
from kvprefix_conformance.records import Step, Violation

#: Half a clock tick each way, for clocks that the suite does not drive, in milliseconds.
REAL_CLOCK_SLACK_MS = 2


@attrs.frozen
class Seen:
    """What could be seen right after a step, without any side effect on the store."""

    #: The step ran within these milliseconds of the session's clock (equal where the clock is driven).
    at: tuple[int, int]
    #: Hook ``resident``; None where it is not offered or broke.
    resident: frozenset[str] | None = None
    #: Events since the step before; None where they are not offered or broke.
    events: tuple[Event, ...] | None = None
    #: Looks that broke: (call or hook, kind, detail).
    broken: tuple[tuple[str, str, str], ...] = ()


@attrs.frozen
class Recorded:
    """One step of a history. A history can be judged again without the backend that made it."""

    step: Step
    seen: Seen


class Judge(Protocol):
    """What a session asks of an oracle."""

    #: Answers that the last step might have had, in words; empty where there is no opinion.
    allowed: tuple[str, ...]

    def feed(self, recorded: Recorded) -> Sequence[Violation]:
        """Judge the next step of the history."""
        ...


def offered(backend: Backend) -> frozenset[str]:
    """Names of the optional calls and hooks that the backend has, and "get", "put", "exists". Raises what ``client`` raises."""
    client = backend.client(0)
    calls = {call for call in OPTIONAL_CALLS if offers(client, call)}
    return frozenset({"put", "get", "exists"} | calls | {hook for hook in HOOKS if offers(backend, hook)})


class Session:
    """Runs steps on one backend that is empty at the start. After ``over`` is set, nothing is run any more.

    ``stop`` is asked for each violation whether the session shall end there. What ``shun`` names is taken as not offered.
    """

    def __init__(
        self,
        backend: Backend,
        geometry: Geometry,
        judge: Judge,
        stop: Callable[[Violation], bool] = lambda _violation: False,
        shun: frozenset[str] = frozenset(),
    ) -> None:
        self.backend = backend
        self.geometry = geometry
        self.history: list[Recorded] = []
        self.violations: list[Violation] = []
        self.over = False
        #: The adapter died or hung: why. The backend must be opened again.
        self.broken = ""
        self.offered = offered(backend) - shun
        self._judge = judge
        self._stop = stop
        self._real = backend.capabilities.clock is Clock.REAL
        self._driven_ms = 0
        self._epoch = time.monotonic()
        self._clients: dict[int, Any] = {}
        lineage = backend.capabilities.lineage
        self._names = Names(parents_by_argument=not lineage or Transport.ARGUMENT in lineage)
        self._cursor = 0

    # -- running ----------------------------------------------------------------------------------------------------------------

    def do(self, op: str, client: int = 0, **args: Json) -> Step:
        """Run one step and have it judged; the step comes back with its answer."""
        return self.run(Step(op=op, args=args, client=client))

    def run(self, step: Step) -> Step:
        """Run a step again or for the first time; a recorded answer is forgotten."""
        if self.over:
            return attrs.evolve(step, answer={"skipped": "the session is over"})
        begun = self._now()
        answer = self._perform(step)
        indefinite = _is_error(answer) and answer["error"]["kind"] in ("timeout", "died")
        done = attrs.evolve(step, answer=answer, indefinite=indefinite, allowed=())
        if step.op == "advance" and not self._real:
            begun = self._now()
        recorded = Recorded(done, self._look(begun))
        violations = self._judge.feed(recorded)
        self.history.append(attrs.evolve(recorded, step=attrs.evolve(done, allowed=self._judge.allowed)))
        for violation in violations:
            self.violations.append(violation)
            self.over = self._stop(violation) or self.over
        if _is_error(answer):
            self.over = True  # whether it happened is not known: nothing more can be judged
        return self.history[-1].step

    def _perform(self, step: Step) -> Json:
        """The answer of the step as JSON; nothing but a KeyboardInterrupt gets out."""
        if step.op not in OPERATIONS:
            raise ScenarioError(f"op {step.op!r}", f"unknown; known are {sorted(OPERATIONS)}")
        if step.op not in self.offered:
            return {"skipped": "not offered"}
        try:
            return self._call(step)
        except ScenarioError:
            raise
        except NonsenseError as nonsense:
            return _error("nonsense", str(nonsense))
        except AdapterError as failure:
            self._note_failure(failure)
            return _error(failure.kind, failure.detail)
        except (Exception, SystemExit) as failure:
            return _error("raised", f"{step.op} raised {type(failure).__name__}: {_first_line(failure)}")

    def _call(self, step: Step) -> Json:
        if step.op in CALLS:
            return CALLS[step.op](self._client(step.client), self._names, step.args)
        answer = HOOK_CALLS[step.op](self.backend, step.args)
        if step.op == "advance":
            self._driven_ms += step.args["ms"]
        return answer

    def _note_failure(self, failure: AdapterError) -> None:
        """A dead or hung adapter ends the session; one that raised, or broke the protocol once, goes on."""
        if failure.kind in ("died", "timeout"):
            self.broken = str(failure)
            self.over = True

    def _look(self, begun: tuple[int, int]) -> Seen:
        """Look at the store through the hooks that have no effect. What breaks here is seen as nothing, and told."""
        looks: dict[str, Any] = {}
        broken: list[tuple[str, str, str]] = []
        for call, look in (("resident", self._resident), ("events", self._new_events)):
            if call not in self.offered or self.over:
                continue
            try:
                looks[call] = look()
            except AdapterError as failure:
                self._note_failure(failure)
                broken.append((call, failure.kind, failure.detail))
            except NonsenseError as nonsense:
                broken.append((call, "nonsense", str(nonsense)))
            except (Exception, SystemExit) as failure:
                broken.append((call, "raised", f"{call} raised {type(failure).__name__}: {_first_line(failure)}"))
        return Seen((begun[0], self._now()[1]), looks.get("resident"), looks.get("events"), tuple(broken))

    def _resident(self) -> frozenset[str]:
        hooked: Any = self.backend
        value = expect(hooked.resident(), (frozenset, set), "resident")
        for key in value:
            expect(key, str, "a key of resident")
        return frozenset(value)

    def _new_events(self) -> tuple[Event, ...]:
        events = tuple(expect(self._client(0).events(self._cursor), (list, tuple), "events"))
        for event in events:
            expect(event, Event, "events")
        self._cursor = max([self._cursor, *(event.sequence for event in events)])
        return events

    def _now(self) -> tuple[int, int]:
        if not self._real:
            return self._driven_ms, self._driven_ms
        ms = (time.monotonic() - self._epoch) * 1000
        return max(0, math.floor(ms) - REAL_CLOCK_SLACK_MS), math.ceil(ms) + REAL_CLOCK_SLACK_MS

    def _client(self, index: int) -> Any:
        if index not in self._clients:
            self._clients[index] = self.backend.client(index)
        return self._clients[index]


def _is_error(answer: Json) -> bool:
    return isinstance(answer, dict) and "error" in answer


def _error(kind: str, detail: str) -> Json:
    return {"error": {"kind": kind, "detail": detail}}


def _first_line(failure: BaseException) -> str:
    return next(iter(str(failure).splitlines()), "")[:200]
