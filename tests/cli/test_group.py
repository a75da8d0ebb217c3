"""The command as a whole: what it lists, what it says to a mistake, and that no bad input ever ends in a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kvprefix.errors import AdapterError, ConfigurationError
from kvprefix_conformance.cli import main
from kvprefix_conformance.commands import group as group_module
from kvprefix_conformance.version import suite_version


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_version_is_that_of_the_distribution() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.output) == (0, f"kvprefix {suite_version()}\n")


def test_help_lists_exactly_the_commands_that_are_there() -> None:
    folder = Path(group_module.__file__).parent
    there = {path.stem for path in folder.glob("*.py")} & set(group_module.COMMANDS)
    section = invoke("--help").output.split("Commands:")[1]
    assert {line.split()[0] for line in section.splitlines() if line.startswith("  ") and line[2] != " "} == there
    assert {"check", "list", "explain", "smoke", "rerun"} <= there


def test_an_unknown_command_is_answered_with_what_is_near() -> None:
    result = invoke("chek", "reference")
    assert result.exit_code == 2
    assert "no command 'chek'; did you mean check?" in result.output


def test_a_planned_command_that_is_not_there_is_unknown() -> None:
    planned = next(name for name in group_module.COMMANDS if not (Path(group_module.__file__).parent / f"{name}.py").exists())
    assert invoke(planned).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [("check", "--sed", "1"), ("list", "extra"), ("explain",), ("check", "reference", "--seed", "x")]
)
def test_wrong_usage_exits_with_2_and_no_traceback(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.output
    assert "Traceback" not in result.output


class Raising(click.Command):
    """Stands in for a command that fails in one way."""

    def __init__(self, error: BaseException) -> None:
        def run() -> None:
            raise error

        super().__init__("raising", callback=run)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigurationError("no good.", "Mend it."), 2, "kvprefix: no good. Mend it.\n"),
        (AdapterError("died", "at once \x1b[2J"), 4, "kvprefix: adapter died: at once \\x1b[2J\n"),
        (click.UsageError("not so"), 2, "Error: not so"),
        (KeyboardInterrupt(), 130, "kvprefix: interrupted"),
        (ZeroDivisionError("oh"), 70, "ZeroDivisionError: oh\nkvprefix: this is a bug in kvprefix"),
        (SystemExit(3), 3, ""),
    ],
)
def test_every_error_has_its_exit_code(error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module.KvprefixGroup, "get_command", lambda self, ctx, name: Raising(error))
    result = invoke("check")
    assert result.exit_code == code
    assert said in result.output
    assert ("Traceback" in result.output) == (code == 70)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_without_the_extra_it_says_what_to_install() -> None:
    blocked = "import sys; sys.modules.update({name: None for name in ('click', 'rich', 'hypothesis', 'attr', 'attrs')})"
    done = python(f"{blocked}; from kvprefix_conformance.cli import main; main()")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "kvprefix: the command line needs click, rich, hypothesis, which is not installed.",
        "Install it with:  pip install 'kvprefix[conformance]'",
    ]


def test_help_imports_no_command() -> None:
    done = python(
        "import sys; from kvprefix_conformance.cli import main\ntry: main(['--help'])\nfinally: print(sorted(sys.modules))"
    )
    assert "'hypothesis'" not in done.stdout
    assert "'kvprefix_conformance.commands.check'" not in done.stdout


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m kvprefix_conformance.cli list --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_was_closed_before_the_start_is_no_bug_of_ours(closed: str) -> None:
    command = f'"{sys.executable}" -m kvprefix_conformance.cli list {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
