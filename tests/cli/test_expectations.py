"""Expected failures are read strictly; what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvprefix.errors import ConfigurationError
from kvprefix_conformance.expectations import builtin, load, parse
from kvprefix_conformance.records import Expectation


def test_entries_are_read_with_all_their_fields() -> None:
    text = """
        [[expect]]
        requirement = "STO-1"
        kind = "lost"
        reason = "a race"
        link = "https://example.org/1"
        flaky = true

        [[expect]]
        requirement = "PFX-1"
        kind = "ancestor-evicted"
        reason = "flat"
    """
    assert parse(text, "f") == (
        Expectation("STO-1", "lost", "a race", "https://example.org/1", flaky=True),
        Expectation("PFX-1", "ancestor-evicted", "flat"),
    )


def test_a_file_without_entries_expects_nothing() -> None:
    assert parse("# nothing is wrong\n", "f") == ()


ENTRY = '[[expect]]\nrequirement = "STO-1"\nkind = "lost"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[expect]]\nrequirement STO-1", "f: Expected '=' after a key"),
        ("[expect]\n", "f: expect must be a list of tables"),
        ("expect = 3", "f: expect must be a list of tables"),
        ("[[expected]]\n", "f: unknown 'expected'"),
        (ENTRY + "\n[[expect]]\n", "f:6: requirement is missing"),
        (ENTRY + 'note = "x"', "f:1: unknown field 'note'; known are: flaky, kind, link, reason, requirement."),
        (ENTRY + 'flakey = true', "f:1: unknown field 'flakey'; did you mean flaky?"),
        (ENTRY + 'flaky = "yes"', "f:1: flaky must be true or false, is 'yes'"),
        (ENTRY.replace('"r"', "7"), "f:1: reason must be a string, is 7"),
        (ENTRY.replace('"r"', '" "'), "f:1: reason is missing"),
        (ENTRY.replace("STO-1", "STO-99"), "f:1: unknown requirement 'STO-99'; did you mean STO-9"),
        (ENTRY.replace("lost", "los"), "f:1: STO-1 is not broken by a kind 'los'; did you mean lost?"),
        (ENTRY.replace("lost", "orphan"), "f:1: STO-1 is not broken by a kind 'orphan'"),
        (ENTRY + ENTRY, "f:5: STO-1 lost is expected already at f:1"),
        ('expect = [{requirement = "STO-1", kind = "lost"}]', "f: entry 1: reason is missing"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, "f")
    assert str(caught.value).startswith(said)


def test_what_an_adapter_does_outside_the_contract_can_be_expected_of_any_requirement() -> None:
    (entry,) = parse(ENTRY.replace("lost", "adapter-died"), "f")
    assert entry.kind == "adapter-died"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the expected failures in .*nowhere\.toml: .*No such file"):
        load(tmp_path / "nowhere.toml")


def test_a_backend_without_a_shipped_file_has_no_expectations() -> None:
    assert builtin("reference") == ()
