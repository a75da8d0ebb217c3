"""What a user may write for a backend, and what is said to one who wrote something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvprefix.errors import ConfigurationError
from kvprefix_conformance.targets import resolve


def said(spec: str, command: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve(spec, command)
    return str(caught.value)


def test_the_reference_opens_and_keeps_the_name_that_was_typed() -> None:
    target = resolve("reference")
    assert (target.name, target.spec) == ("reference", "reference")
    assert target.open().capabilities.name == "reference"


@pytest.mark.parametrize("spec", ["reference:flat-lru", "reference:FLAT_LRU"])
def test_a_preset_is_found_in_either_spelling(spec: str) -> None:
    target = resolve(spec)
    assert target.spec == spec
    assert target.open().capabilities.lineage == frozenset()


def test_a_factory_is_not_imported_by_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "explosive.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert resolve("explosive:Backend").spec == "explosive:Backend"
    assert "explosive" not in sys.modules


def test_a_command_is_printed_so_that_it_can_be_pasted() -> None:
    assert resolve("", (sys.executable, "-c", "two words")).spec == f"-- {sys.executable} -c 'two words'"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no backend was named. There are: reference, reference:PRESET, mooncake, fault:NAME"),
        ("redis", "unknown backend 'redis'. There are: reference"),
        ("./adapter", "unknown backend './adapter'. To run a command, put -- before it: kvprefix check -- ./adapter"),
        ("reference:", "the reference has no preset ''; known are: cascade"),
        ("reference:casc", "the reference has no preset 'casc'; did you mean cascade?"),
        ("no_such_package.mod:make", "there is no Python module 'no_such_package' (for no_such_package.mod:make)"),
        ("mod:", "'mod:' is no backend"),
        ("a:b:c", "'a:b:c' is no backend"),
        ("fault:nothing-like-it", "there is no fault 'nothing-like-it'; known are:"),
        ("variant:nothing-like-it", "there is no variant 'nothing-like-it'; known are:"),
    ],
)
def test_an_unknown_backend_is_answered_with_what_exists(spec: str, message: str) -> None:
    assert said(spec).startswith(message)


def test_a_program_that_is_not_there_is_told() -> None:
    assert said("", ("./no-such-adapter",)).startswith("there is no program './no-such-adapter'")


def test_a_file_that_cannot_be_executed_is_told(tmp_path: Path) -> None:
    script = tmp_path / "adapter.py"
    script.write_text("")
    assert said("", (str(script),)) == f"{script} cannot be executed. Make it executable: chmod +x {script}"


def test_a_backend_and_a_command_together_are_refused() -> None:
    assert said("reference", ("true",)).startswith("both a backend ('reference') and a command")
