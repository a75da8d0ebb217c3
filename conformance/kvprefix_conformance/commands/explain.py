"""``kvprefix explain ID``: one requirement in full, with the checks that judge it and the faulty backends that break it."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterator

import click

from kvprefix_conformance import runner
from kvprefix_conformance.commands.check import requirement_ids
from kvprefix_conformance.oracle.claims import MUST_HITS
from kvprefix_conformance.oracle.kinds import KINDS
from kvprefix_conformance.requirements import Requirement, catalogue

_WIDTH = 100


def _one_id(ctx: click.Context, parameter: click.Parameter, rid: str) -> str:
    return requirement_ids(ctx, parameter, (rid,))[0]


@click.command()
@click.argument("requirement", metavar="ID", callback=_one_id)
def command(requirement: str) -> None:
    """Explain a requirement: sentence, reason, checks, faults that break it."""
    click.echo(explanation(catalogue().requirements[requirement]))


def explanation(requirement: Requirement) -> str:
    """The whole text."""
    head = f"{requirement.id}  {requirement.level}  {requirement.status}  ({', '.join(requirement.profiles)})"
    parts = [head, _filled(requirement.sentence), f"Why\n{_filled(requirement.why)}"]
    parts += [f"{title}\n" + "\n".join(lines) for title, lines in _sections(requirement) if lines]
    if requirement.status == "planned":
        parts.append("Planned: no check judges it yet, so no run passes it.")
    return "\n\n".join(parts)


def _sections(requirement: Requirement) -> Iterator[tuple[str, list[str]]]:
    checks = [check for check in runner.checks() if requirement.id in check.requirements]
    yield "Checks", [_item(check.name, _with_needs(check.doc, check.needs)) for check in checks]
    seen = [hit.label for hit in MUST_HITS.get(requirement.id, ())]
    yield "A run must have seen, where it applies (else the verdict is inconclusive)", [_filled(label) for label in seen]
    yield "Broken by", [_item(kind.name, kind.meaning) for kind in KINDS.values() if kind.requirement == requirement.id]
    yield "Faulty backends that break it (kvprefix check fault:NAME)", [_item(name, doc) for name, doc in _faults(requirement.id)]


def _with_needs(doc: str, needs: tuple[str, ...]) -> str:
    return f"{doc} Needs {', '.join(needs)}." if needs else doc


def _faults(requirement: str) -> list[tuple[str, str]]:
    """Name and one line of each faulty backend made for the requirement; none where they are not installed."""
    try:
        faulty = importlib.import_module("kvprefix_conformance.faulty")
    except ModuleNotFoundError:
        return []
    return [(fault.name, fault.doc) for fault in faulty.FAULTS if fault.requirement == requirement]


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _item(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {' '.join(text.split())}", _WIDTH, initial_indent="  ", subsequent_indent="      ")
