"""From what a user writes to what is tested: a name of the suite's own, package.module:factory, or a command after --.

Nothing is opened here, and nothing of a user's is imported: a Python factory is served from a process of its own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvprefix.api import Backend
from kvprefix.errors import ConfigurationError
from kvprefix_conformance.target import Target
from kvprefix_conformance.wire.client import DEFAULT_DEADLINE_MS, connect
from kvprefix_conformance.wire.codec import near
from kvprefix_conformance.wire.isolation import hosted

#: Real systems with an adapter in backends/, each a module with ``open_backend(deadline_ms=)``.
_REAL = ("mooncake",)

KINDS = (
    "reference",
    "reference:PRESET",
    *_REAL,
    "fault:NAME",
    "variant:NAME",
    "package.module:factory",
    "-- COMMAND ARGUMENTS",
)


def resolve(spec: str, command: Sequence[str] = (), deadline_ms: int = DEFAULT_DEADLINE_MS) -> Target:
    """The target that ``spec``, or else the command, names. Raises :class:`ConfigurationError` that says what exists."""
    if command:
        if spec:
            raise ConfigurationError(f"both a backend ({spec!r}) and a command after -- were given.", "Name one of them.")
        return _command(tuple(command), deadline_ms)
    if not spec:
        raise ConfigurationError("no backend was named.", _what_exists())
    kind, _, name = spec.partition(":")
    if kind == "reference":
        return _reference(spec, name)
    if kind in ("fault", "variant") and ":" in spec:
        return _faulty(spec, kind, name)
    if spec in _REAL:
        module = importlib.import_module(f"kvprefix_conformance.backends.{spec}")
        return Target(spec, functools.partial(module.open_backend, deadline_ms=deadline_ms), spec)
    if ":" in spec:
        return _factory(spec, kind, name, deadline_ms)
    raise ConfigurationError(f"unknown backend {spec!r}.", _hint(spec))


def _what_exists() -> str:
    return f"There are: {', '.join(KINDS)}."


def _hint(spec: str) -> str:
    if "/" in spec or Path(spec).exists():
        return f"To run a command, put -- before it: kvprefix check -- {shlex.quote(spec)}"
    return _what_exists()


# --------------------------------------------------------------------------------------------------------------------------------
# The kinds


def _command(command: tuple[str, ...], deadline_ms: int) -> Target:
    program = command[0]
    if shutil.which(program) is None:
        path = Path(program)
        if path.is_file() and not os.access(path, os.X_OK):
            raise ConfigurationError(f"{program} cannot be executed.", f"Make it executable: chmod +x {shlex.quote(program)}")
        raise ConfigurationError(f"there is no program {program!r}.", "Check the path; a bare name is looked up in PATH.")
    return Target(Path(program).name, functools.partial(connect, command, deadline_ms), f"-- {shlex.join(command)}")


def _factory(spec: str, module: str, name: str, deadline_ms: int) -> Target:
    """A Python factory. Only the outermost package is looked for here: to look further would run code of the user's."""
    if not name or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ConfigurationError(f"{spec!r} is no backend.", _what_exists())
    package = module.partition(".")[0]
    if not _can_be_found(package):
        raise ConfigurationError(
            f"there is no Python module {package!r} (for {spec}).",
            "Run kvprefix in the Python environment where it is installed, or in the folder that holds it.",
        )
    return Target(spec, functools.partial(connect, hosted(spec), deadline_ms), spec)


def _can_be_found(package: str) -> bool:
    here = str(Path.cwd())
    try:
        return importlib.util.find_spec(package) is not None or (
            importlib.machinery.PathFinder.find_spec(package, [here, *sys.path]) is not None
        )
    except (ImportError, ValueError):
        return False


def _reference(spec: str, name: str) -> Target:
    from kvprefix.store import ReferenceBackend
    from kvprefix.store.presets import PRESETS

    if ":" not in spec:
        return Target("reference", ReferenceBackend, spec)
    wanted = name.replace("-", "_").upper()
    if wanted not in PRESETS:
        exists = [each.lower().replace("_", "-") for each in PRESETS]
        raise ConfigurationError(f"the reference has no preset {name!r};", near(name.lower().replace("_", "-"), exists))
    return Target(spec, functools.partial(ReferenceBackend, PRESETS[wanted]), spec)


def _faulty(spec: str, kind: str, name: str) -> Target:
    module: Any = importlib.import_module("kvprefix_conformance.faulty")
    known: Mapping[str, Callable[[], Backend]] = {
        each.name: each.open for each in (module.FAULTS if kind == "fault" else module.VARIANTS)
    }
    if name not in known:
        raise ConfigurationError(f"there is no {kind} {name!r};", near(name, known))
    return Target(spec, known[name], spec)
