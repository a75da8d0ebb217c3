"""The catalogue: IDs are a published contract, so their set is pinned; a broken entry is refused by name."""

from __future__ import annotations

import pytest

from kvprefix.api import PROFILES
from kvprefix.errors import ConfigurationError
from kvprefix_conformance.requirements import catalogue, parse

COUNTS = {"KEY": 10, "STO": 12, "PRT": 6, "PFX": 12, "GRP": 3, "TEN": 1, "EVT": 2, "CON": 10, "ENC": 4}


def test_the_ids_are_exactly_those_of_the_specification() -> None:
    expected = [f"{family}-{n}" for family, count in COUNTS.items() for n in range(1, count + 1)]
    assert list(catalogue().requirements) == expected


def test_every_profile_has_requirements_and_every_requirement_a_profile() -> None:
    assert [p for p in PROFILES if not catalogue().of_profile(p)] == []
    assert [r.id for r in catalogue().requirements.values() if not r.profiles] == []


def test_profiles_nest_as_the_specification_says() -> None:
    def ids(profile: str) -> set[str]:
        return {r.id for r in catalogue().of_profile(profile)}

    assert ids("object-store") < ids("protected-store") < ids("eviction-safe") < ids("prefix-aware")
    assert ids("prefix-aware") - ids("eviction-safe") == {"PFX-2", "PFX-3", "EVT-2"}
    assert ids("prefix-index") == {"PFX-4", "EVT-1"}


ENTRY = """
spec_version = "9"
[requirement.ABC-1]
level = "MUST"
sentence = "A  thing\\n holds."
why = "Because."
profiles = ["object-store"]
status = "done"
"""


def test_white_space_in_a_sentence_is_folded() -> None:
    assert parse(ENTRY).requirements["ABC-1"].sentence == "A thing holds."


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('level = "MUST"', 'level = "OUGHT"', "unknown level"),
        ('status = "done"', 'status = "soon"', "unknown level, status"),
        ('"object-store"', '"objects"', "profile"),
        ('why = "Because."\n', "", "lacks ['why']"),
    ],
)
def test_a_broken_entry_is_refused_by_name(old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(ENTRY.replace(old, new))
    assert "ABC-1" in str(caught.value)
    assert says in str(caught.value)
