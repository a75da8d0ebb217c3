"""Expected failures: a TOML file of [[expect]] entries, read strictly.

An entry excuses one kind of violation of one requirement. The runner applies them, since it knows every kind that a run has seen:
another kind is a new failure, and an entry that matched nothing is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from kvprefix.errors import ConfigurationError
from kvprefix_conformance.oracle.kinds import ANY, KINDS
from kvprefix_conformance.records import Expectation
from kvprefix_conformance.requirements import catalogue
from kvprefix_conformance.wire.codec import near, shown

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the 3.10 arm
    import tomli as tomllib

_HEADER = re.compile(r"\s*\[\[\s*expect\s*\]\]")
_FIELDS: Mapping[str, type] = {"requirement": str, "kind": str, "reason": str, "link": str, "flaky": bool}
_REQUIRED = ("requirement", "kind", "reason")
_REMEDY = "An entry is [[expect]] with requirement, kind and reason, and optionally link and flaky."


def load(path: Path) -> tuple[Expectation, ...]:
    """Read a file. Raises :class:`ConfigurationError` that names the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"cannot read the expected failures in {path}: {problem}.") from None
    return parse(text, str(path))


def builtin(backend: str) -> tuple[Expectation, ...]:
    """The expected failures that the suite ships for a backend; none for most."""
    file = resources.files("kvprefix_conformance") / "backends" / f"{backend}.expect.toml"
    return parse(file.read_text(encoding="utf-8"), file.name) if file.is_file() else ()


def parse(text: str, source: str) -> tuple[Expectation, ...]:
    """Read entries. Raises :class:`ConfigurationError` that names source and line."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigurationError(f"{source}: {problem}.", "Expected failures are a TOML file.") from None
    strangers = sorted(set(raw) - {"expect"})
    if strangers:
        raise ConfigurationError(f"{source}: unknown {shown(strangers[0])}.", _REMEDY)
    entries = raw.get("expect", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{source}: expect must be a list of tables.", _REMEDY)
    places = _places(text, len(entries), source)
    read = tuple(_entry(entry, place) for entry, place in zip(entries, places, strict=True))
    _no_doubles(read, places)
    return read


def _places(text: str, count: int, source: str) -> list[str]:
    """Where each entry begins: "file:line", or its number where the lines cannot be told (inline tables)."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    if len(lines) == count:
        return [f"{source}:{line}" for line in lines]
    return [f"{source}: entry {number}" for number in range(1, count + 1)]


def _entry(entry: Mapping[str, Any], place: str) -> Expectation:
    for name, value in entry.items():
        if name not in _FIELDS:
            raise ConfigurationError(f"{place}: unknown field {name!r}; {near(name, _FIELDS)}")
        if type(value) is not _FIELDS[name]:
            wanted = "true or false" if _FIELDS[name] is bool else "a string"
            raise ConfigurationError(f"{place}: {name} must be {wanted}, is {shown(value)}.")
    for name in _REQUIRED:
        if not str(entry.get(name, "")).strip():
            raise ConfigurationError(f"{place}: {name} is missing.", _REMEDY)
    known = catalogue().requirements
    if entry["requirement"] not in known:
        raise ConfigurationError(f"{place}: unknown requirement {entry['requirement']!r}; {near(entry['requirement'], known)}")
    possible = [kind.name for kind in KINDS.values() if kind.requirement in (entry["requirement"], ANY)]
    if entry["kind"] not in possible:
        raise ConfigurationError(
            f"{place}: {entry['requirement']} is not broken by a kind {entry['kind']!r}; {near(entry['kind'], possible)}"
        )
    return Expectation(**entry)


def _no_doubles(entries: Sequence[Expectation], places: Sequence[str]) -> None:
    first: dict[tuple[str, str], str] = {}
    for entry, place in zip(entries, places, strict=True):
        if (entry.requirement, entry.kind) in first:
            earlier = first[entry.requirement, entry.kind]
            raise ConfigurationError(f"{place}: {entry.requirement} {entry.kind} is expected already at {earlier}.")
        first[entry.requirement, entry.kind] = place
