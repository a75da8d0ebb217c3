"""Every exception of kvprefix, as frozen records in one file; each says when it happens and what to do about it.

Bad input never meets a bare ``assert``: it raises one of these, and the command line turns them into a message and an exit code.
"""

from __future__ import annotations

import attrs


class KvprefixError(Exception):
    """Base of all errors raised on purpose by this project."""


@attrs.frozen
class ConfigurationError(KvprefixError):
    """Capabilities, options or a geometry that contradict each other; fix the declaration (exit code 2)."""

    #: What is wrong.
    problem: str
    #: What to do about it.
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}".strip()


@attrs.frozen
class KeyInputError(KvprefixError):
    """Inputs from which no block hash or object key can be made (a negative token id, a wrong hash length, ...)."""

    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}".strip()


@attrs.frozen
class KeyParseError(KvprefixError):
    """A string that is not an object key of the expected form."""

    #: The string, as given.
    text: str
    problem: str

    def __str__(self) -> str:
        return f"not a valid object key: {self.problem} (in {self.text!r})"


@attrs.frozen
class TraceError(KvprefixError):
    """A request trace, or a line of one, that cannot be used (exit code 2)."""

    #: The file, or a name for the stream.
    source: str
    #: 1-based line number; 0: the source as a whole.
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.problem}" if self.line else f"{self.source}: {self.problem}"


@attrs.frozen
class UnknownTokenError(KvprefixError):
    """A pin or attempt token that was never given out, where an answer cannot say so."""

    token: str

    def __str__(self) -> str:
        return f"token {self.token!r} was never given out by this store"


@attrs.frozen
class AdapterError(KvprefixError):
    """A backend under test did not answer as the contract says; the check it was in fails and the run goes on."""

    #: "died", "timeout", "protocol" or "raised".
    kind: str
    #: One line for the report; the tail of the adapter's own words where there are any.
    detail: str

    def __str__(self) -> str:
        return f"adapter {self.kind}: {self.detail}"


@attrs.frozen
class MissingDependencyError(KvprefixError):
    """Something that must be installed first; says what and how (exit code 2)."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}"


@attrs.frozen
class ScenarioError(KvprefixError):
    """A scenario document that cannot be read, or a step of it that cannot be run (exit code 2)."""

    #: Where in the document.
    where: str
    problem: str

    def __str__(self) -> str:
        return f"scenario: {self.where}: {self.problem}"


@attrs.frozen
class WireFormatError(KvprefixError):
    """A message of the wire protocol, or a part of one, that is not what the protocol says."""

    problem: str
    #: Path to the part, outermost first: ("results", "[2]", "answer").
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'.'.join(self.where).replace('.[', '[')}: {self.problem}" if self.where else self.problem

    def inside(self, part: str) -> WireFormatError:
        """The same problem, seen from the thing that holds the part."""
        return WireFormatError(self.problem, (part, *self.where))


@attrs.frozen
class NotAllowed(KvprefixError):  # noqa: N818 - reads as what it says: the rules do not allow this
    """The abstract model was given a choice (victims, a refusal) that its rules forbid, or an action that its store lacks."""

    #: The requirement that it would break.
    requirement: str
    problem: str

    def __str__(self) -> str:
        return f"{self.requirement} does not allow this: {self.problem}"
