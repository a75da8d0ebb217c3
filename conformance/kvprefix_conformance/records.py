"""The suite's own values: steps, violations, scenarios, verdicts, results. Frozen, JSON-able, no behaviour beyond derivation.

A scenario is a recorded sequence of store operations; it can be rerun against any backend. It names values by (key, fill, size), so
that no bytes need to be written down and any language can make the same ones.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

#: Version of the scenario schema; raised only when an old reader could misread a new file.
SCENARIO_SCHEMA = 1


def value_of(key: str, fill: int, size: int) -> bytes:
    """The bytes that every scenario means by (key, fill, size): SHA-256 of key, NUL and fill in decimal, repeated and cut to size.

    Two keys, or two fills, never share a value of 8 bytes or more, so a foreign value is seen as such (STO-3).
    """
    block = hashlib.sha256(key.encode("utf-8", "surrogatepass") + b"\0" + str(fill).encode("ascii")).digest()
    return (block * (size // len(block) + 1))[:size]


@attrs.frozen
class Step:
    """One operation and what came back."""

    #: A call of the contract ("put", "get", ...) or a hook ("advance", "resident", ...).
    op: str
    #: Arguments as JSON values; a value is {"fill": int, "size": int}; a parent is a key, "@root" or "@unknown".
    args: Mapping[str, Any] = attrs.field(factory=dict)
    #: What the backend answered, as a JSON value; None before it ran.
    answer: Any = None
    #: Answers that the oracle would have accepted, in words; empty where it has no opinion.
    allowed: tuple[str, ...] = ()
    client: int = 0
    #: The call ended without an answer (deadline, death): it may have happened.
    indefinite: bool = False


@attrs.frozen
class Violation:
    """A requirement broken, and the proof as a contradiction."""

    requirement: str
    #: Short stable name of the way in which it was broken; expected failures name it.
    kind: str
    #: One line that says why, as a contradiction.
    because: str
    #: Index of the step at which it showed.
    step: int
    expected: str = ""
    got: str = ""
    #: What the verdict rests on: "events", "resident", "probe", "exists" or "answers".
    evidence: str = "answers"


@attrs.frozen
class ObjectState:
    """One object as it was known right before the last step of a scenario: one line of the drawing."""

    key: str
    #: Declared parent: a key, "@root" or "@unknown".
    parent: str
    #: "resident", "pending", "deferred", "absent", or "resident?" and the like where it is not known for sure.
    status: str
    #: What protects it, how it left, "orphan".
    marks: tuple[str, ...] = ()


@attrs.frozen
class Scenario:
    """Steps, with all that is needed to run them again."""

    steps: tuple[Step, ...]
    capacity: int
    seed: int
    backend: str
    backend_version: str = ""
    suite_version: str = ""
    spec_version: str = ""
    #: The check that made it, and the violation it shows, if any.
    check: str = ""
    violation: Violation | None = None
    #: Declared lineage, for drawing: key -> parent key, "@root" or "@unknown".
    lineage: Mapping[str, str] = attrs.field(factory=dict)
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    geometry: Mapping[str, Any] = attrs.field(factory=dict)
    #: The objects right before the last step, for drawing.
    state: tuple[ObjectState, ...] = ()
    #: How the user named the backend, for the line that reruns it.
    spec: str = ""
    #: Nondeterministic backends: how many of how many reruns showed it again.
    shown: tuple[int, int] | None = None


class Verdict(enum.IntEnum):
    """The lattice: the verdict of the whole is the maximum of its parts."""

    SKIPPED = 0
    PASS = 1
    EXPECTED_FAILURE = 2
    INCONCLUSIVE = 3
    FAIL = 4
    ERROR = 5


@attrs.frozen
class Result:
    """What one run says about one requirement."""

    requirement: str
    verdict: Verdict
    #: Why skipped, inconclusive, expected or error; empty for a plain pass.
    reason: str = ""
    evidence: str = ""
    #: Must-hits: name -> how often the run really exercised it. Zero of a needed one makes a pass inconclusive.
    exercised: Mapping[str, int] = attrs.field(factory=dict)
    scenario: Scenario | None = None
    checks: tuple[str, ...] = ()


@attrs.frozen
class Report:
    """All that one run of ``check`` found."""

    backend: str
    backend_version: str
    profiles: tuple[str, ...]
    #: Requirements asked for by --requirement; empty: all of the profiles.
    requirements: tuple[str, ...]
    seed: int
    suite_version: str
    spec_version: str
    results: tuple[Result, ...]
    #: "operations", "examples", "evictions", ... -> count.
    counts: Mapping[str, int]
    seconds: float
    #: ISO date and time, UTC.
    date: str
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    geometry: Mapping[str, Any] = attrs.field(factory=dict)
    #: Entries of the expected-failure list that matched nothing, or whose requirement passed.
    stale: tuple[str, ...] = ()
    #: The run was cut short (Ctrl-C, --max-seconds): what is here is what ran.
    interrupted: str = ""
    #: The adapter was broken before the first check (exit code 4): why.
    broken: str = ""

    @property
    def verdict(self) -> Verdict:
        """The maximum over all requirements; SKIPPED for an empty run."""
        return max((r.verdict for r in self.results), default=Verdict.SKIPPED)

    @property
    def exit_code(self) -> int:
        """0 conforms, 1 does not, 3 inconclusive, 4 broken adapter, 5 stale expectations; precedence 4 > 1 > 5 > 3.

        All skipped is never 0: nothing was shown.
        """
        if self.broken:
            return 4
        if self.verdict >= Verdict.FAIL:
            return 1
        if self.stale:
            return 5
        shown = self.verdict in (Verdict.PASS, Verdict.EXPECTED_FAILURE)
        return 0 if shown and not self.interrupted else 3


@attrs.frozen
class Expectation:
    """One entry of an expected-failure list."""

    requirement: str
    kind: str
    reason: str
    link: str = ""
    #: A rare race: neither its presence nor its absence is news.
    flaky: bool = False

    def matches(self, violation: Violation) -> bool:
        """Same requirement and same kind of violation; another kind is a new failure."""
        return self.requirement == violation.requirement and self.kind == violation.kind


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The maximum of the lattice; SKIPPED for none."""
    return max(verdicts, default=Verdict.SKIPPED)
