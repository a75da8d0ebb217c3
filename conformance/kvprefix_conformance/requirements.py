"""The catalogue of requirements: every ID once, with level, sentence, reason, profiles and status.

Source is spec/requirements.toml, which is also shipped inside the wheel, so that ``list`` and ``explain`` work without a checkout.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import attrs

from kvprefix.api import PROFILES
from kvprefix.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the 3.10 arm
    import tomli as tomllib

LEVELS = ("MUST", "SHOULD", "MAY")
STATUSES = ("done", "planned")


@attrs.frozen
class Requirement:
    """One numbered sentence of the specification."""

    id: str
    #: MUST, SHOULD or MAY.
    level: str
    sentence: str
    #: The field fault that it prevents.
    why: str
    profiles: tuple[str, ...]
    #: "done": code and a check that can fail exist. "planned": shown, never judged.
    status: str


@attrs.frozen
class Catalogue:
    """All requirements, in the order of the specification."""

    spec_version: str
    requirements: Mapping[str, Requirement]

    def of_profile(self, profile: str) -> tuple[Requirement, ...]:
        """The requirements that a profile is made of."""
        return tuple(r for r in self.requirements.values() if profile in r.profiles)


def _text() -> str:
    """The packaged file, or the one in the source tree (an editable install has no packaged copy)."""
    packaged = resources.files("kvprefix_conformance") / "requirements.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "spec" / "requirements.toml").read_text(encoding="utf-8")


def parse(text: str) -> Catalogue:
    """Read a catalogue; raises :class:`ConfigurationError` for a wrong level, status, profile or a missing field."""
    raw = tomllib.loads(text)
    requirements = {rid: _requirement(rid, entry) for rid, entry in raw["requirement"].items()}
    return Catalogue(spec_version=raw["spec_version"], requirements=requirements)


def _requirement(rid: str, entry: Mapping[str, Any]) -> Requirement:
    missing = {"level", "sentence", "why", "profiles", "status"} - set(entry)
    if missing:
        raise ConfigurationError(f"requirement {rid} lacks {sorted(missing)}", "Every requirement has all five fields.")
    if entry["level"] not in LEVELS or entry["status"] not in STATUSES or not set(entry["profiles"]) <= set(PROFILES):
        raise ConfigurationError(
            f"requirement {rid} has an unknown level, status or profile",
            f"Levels {LEVELS}, statuses {STATUSES}, profiles {PROFILES}.",
        )
    return Requirement(
        id=rid,
        level=entry["level"],
        sentence=" ".join(entry["sentence"].split()),
        why=" ".join(entry["why"].split()),
        profiles=tuple(entry["profiles"]),
        status=entry["status"],
    )


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue of this suite."""
    return parse(_text())
