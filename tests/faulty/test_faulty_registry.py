"""The catalogue of faults and variants: names, requirements, reports, lookups."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvprefix.errors import ConfigurationError
from kvprefix_conformance import faulty
from kvprefix_conformance.commands.faults import command
from kvprefix_conformance.faulty import FAULTS, VARIANTS, find_fault, find_variant
from kvprefix_conformance.faulty.registry import name_of
from kvprefix_conformance.requirements import catalogue

FIELD_FAULTS = Path(__file__).parents[3] / "shared" / "cases" / "field_faults.json"


def test_there_are_enough_of_both() -> None:
    assert len(FAULTS) >= 35
    assert len(VARIANTS) >= 12


def test_names_are_unique_and_spelt_as_on_the_command_line() -> None:
    for names in ([fault.name for fault in FAULTS], [variant.name for variant in VARIANTS]):
        assert max(Counter(names).values()) == 1
        assert all(name == name.lower() and name.replace("-", "").isalnum() for name in names)


def test_every_fault_and_variant_says_in_one_line_what_it_does() -> None:
    for doc in [fault.doc for fault in FAULTS] + [variant.doc for variant in VARIANTS]:
        assert doc.endswith(".")
        assert len(doc) <= 140


def test_every_fault_breaks_a_requirement_that_is_done() -> None:
    requirements = catalogue().requirements
    assert {requirements[fault.requirement].status for fault in FAULTS} == {"done"}


@pytest.mark.shared
def test_reports_are_ids_of_the_field_faults() -> None:
    if not FIELD_FAULTS.exists():
        pytest.skip("../shared/cases/field_faults.json is not there")
    known = {entry["id"] for entry in json.loads(FIELD_FAULTS.read_text(encoding="utf-8"))}
    assert {report for fault in FAULTS for report in fault.reports} <= known


def test_each_opens_a_fresh_backend_that_bears_its_name() -> None:
    openers = {f"fault:{fault.name}": fault.open for fault in FAULTS} | {f"variant:{each.name}": each.open for each in VARIANTS}
    for name, opener in openers.items():
        first, second = opener(), opener()
        assert first is not second
        assert first.capabilities.name == name


def test_lookups_say_what_is_near() -> None:
    assert find_fault("torn-value").requirement == "STO-3"
    assert find_variant("tiny-store").name == "tiny-store"
    with pytest.raises(ConfigurationError, match="did you mean torn-value"):
        find_fault("torn-valeu")
    with pytest.raises(ConfigurationError, match="did you mean tiny-store"):
        find_variant("tinystore")
    with pytest.raises(AttributeError, match="NOTHING"):
        faulty.NOTHING  # noqa: B018 - the access is what is tested


def test_importing_the_package_imports_no_store() -> None:
    code = "import sys, kvprefix_conformance.faulty; sys.exit('kvprefix_conformance.faulty.plain' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_class_names_become_names() -> None:
    assert name_of("EvictsByPlainLru") == "evicts-by-plain-lru"


def test_the_command_lists_faults_without_running_them() -> None:
    result = CliRunner().invoke(command, ["--list", "--requirement", "PFX-5", "--json"])
    assert result.exit_code == 0
    listed = json.loads(result.output)
    assert {each["requirement"] for each in listed} == {"PFX-5"}
    assert all(each["doc"] for each in listed)


def test_the_command_shows_a_caught_fault() -> None:
    result = CliRunner().invoke(command, ["--only", "forgets-at-once", "--examples", "3"])
    assert result.exit_code == 0
    assert "1 of 1 faults caught" in result.output


def test_the_command_refuses_an_unknown_requirement() -> None:
    result = CliRunner().invoke(command, ["--requirement", "PFX-99"])
    assert result.exit_code == 2
    assert "no fault breaks 'PFX-99'" in result.output
