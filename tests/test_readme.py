"""The README is true: its console blocks are run and compared, its links lead somewhere, its map names real rooms."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvprefix_conformance.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: (command line after the prompt, expected output)
BLOCKS = re.findall(r"```console\n\$ ([^\n]+)\n(.*?)```", README, flags=re.DOTALL)
#: What differs from run to run.
VOLATILE = re.compile(r"^(time .*|.*\d s$)", flags=re.MULTILINE)


def stable_lines(text: str) -> list[str]:
    return [line.rstrip() for line in VOLATILE.sub("", text).splitlines() if line.strip()]


RUN_HERE = [block for block in BLOCKS if block[0].startswith("kvprefix ")]


def test_the_blocks_were_found() -> None:
    assert len(RUN_HERE) >= 1
    assert len(BLOCKS) > len(RUN_HERE)


@pytest.mark.parametrize(("command", "expected"), RUN_HERE)
def test_a_console_block_shows_what_the_command_prints(command: str, expected: str) -> None:
    result = CliRunner().invoke(main, shlex.split(command)[1:], env={"COLUMNS": "120"})
    assert stable_lines(result.stdout) == stable_lines(expected)


def test_links_lead_to_files() -> None:
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in t]
    assert targets
    assert [t for t in targets if not (ROOT / t).exists()] == []


def test_the_map_names_rooms_that_exist() -> None:
    house = README.split("## The house")[1].split("```")[1]
    base = ROOT
    for line in house.strip().splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            base = ROOT / name
            assert base.exists(), name
        elif (ROOT / "conformance" / name).exists():
            continue
        else:
            assert (base / name).exists(), name


def test_every_command_of_the_table_is_offered() -> None:
    offered = set(main.list_commands(click.Context(main)))
    named = set(re.findall(r"`(?:\.\./)*(?:kvprefix) ([a-z]+)", README))
    assert named
    assert named <= offered
