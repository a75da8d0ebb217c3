"""``kvprefix list``: the requirements, and the checks that judge each. Nothing is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from kvprefix_conformance import runner
from kvprefix_conformance.commands.check import profile_names
from kvprefix_conformance.report.console import make_console
from kvprefix_conformance.requirements import Requirement, catalogue


@click.command()
@click.option("--profile", "profiles", multiple=True, metavar="P", callback=profile_names, help="Only this profile. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(profiles: tuple[str, ...], as_json: bool) -> None:
    """List requirements and the checks that judge them; nothing is run."""
    wanted = [r for r in catalogue().requirements.values() if not profiles or set(profiles) & set(r.profiles)]
    judges = checks_by_requirement()
    if as_json:
        click.echo(json.dumps(_document(wanted, judges), indent=2))
    else:
        make_console().print(_table(wanted, judges))


def checks_by_requirement() -> Mapping[str, tuple[str, ...]]:
    """Names of the checks that are made for each requirement."""
    found: dict[str, tuple[str, ...]] = {}
    for check in runner.checks():
        for rid in check.requirements:
            found[rid] = (*found.get(rid, ()), check.name)
    return found


def _table(requirements: list[Requirement], judges: Mapping[str, tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("requirement", "level", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("profiles", ratio=1)
    table.add_column("checks", ratio=2)
    for r in requirements:
        status = Text(r.status, style="dim" if r.status == "planned" else "green")
        table.add_row(r.id, r.level, status, ", ".join(r.profiles), ", ".join(judges.get(r.id, ())))
    return table


def _document(requirements: list[Requirement], judges: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    return {
        "spec_version": catalogue().spec_version,
        "requirements": [
            {
                "id": r.id,
                "level": r.level,
                "status": r.status,
                "profiles": list(r.profiles),
                "sentence": r.sentence,
                "checks": list(judges.get(r.id, ())),
            }
            for r in requirements
        ],
        "checks": [
            {
                "name": check.name,
                "profile": check.profile,
                "kind": check.kind,
                "doc": check.doc,
                "requirements": list(check.requirements),
                "needs": list(check.needs),
            }
            for check in runner.checks()
        ],
    }
