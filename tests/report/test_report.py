"""The report in its three forms, from one made-up run with a hostile backend: text (a snapshot), JSON against its schema, files."""

from __future__ import annotations

import errno
import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest
from rich.console import Console

from kvprefix_conformance.plan import CheckInfo
from kvprefix_conformance.records import ObjectState, Report, Result, Scenario, Step, Verdict, Violation
from kvprefix_conformance.report import document, files
from kvprefix_conformance.report.console import MEANINGS, show, summary, text_of
from kvprefix_conformance.report.progress import Lines, Live, progress_on
from kvprefix_conformance.scenario_io import loads

SCENARIO = Scenario(
    steps=(
        Step("put", {"key": "a", "value": {"fill": 1, "size": 8}}, {"answer": "STORED", "evicted": []}),
        Step("put", {"key": "b", "value": {"fill": 1, "size": 8}, "parent": "a"}, {"answer": "STORED", "evicted": ["a"]}),
    ),
    capacity=8,
    seed=7,
    backend="evil\x1b[31m",
    check="eviction-safe/machine",
    violation=Violation(
        "PFX-1", "ancestor-evicted", "b is there, its parent a went at step 2", 1, "a stays", "a evicted", "events"
    ),
    state=(ObjectState("a", "@root", "resident"),),
    spec="evil:Backend",
)

REPORT = Report(
    backend="evil\x1b[31m",
    backend_version="2",
    profiles=("eviction-safe",),
    requirements=(),
    seed=7,
    suite_version="0.1.0",
    spec_version="0.1.0",
    results=(
        Result("STO-1", Verdict.PASS, evidence="events", exercised={"a value read back": 12, "a key removed": 3}, checks=("c",)),
        Result("STO-2", Verdict.SKIPPED, "no [bold]hook[/bold] :smile:"),
        Result("STO-3", Verdict.EXPECTED_FAILURE, "known upstream https://example.org/1", "answers"),
        Result("STO-4", Verdict.INCONCLUSIVE, "the run never saw: a removed key read", "events"),
        Result("PFX-1", Verdict.FAIL, "ancestor-evicted: b is there", "events", {"an eviction": 5}, SCENARIO, ("c",)),
        Result("PFX-2", Verdict.ERROR, "the adapter\ndied"),
    ),
    counts={"checks": 3, "examples": 40, "operations": 900, "evictions": 17},
    seconds=1.25,
    date="2026-01-01T00:00:00+00:00",
    stale=("STO-9 remove-answer: it passed",),
)

TEXT = """\
requirement  verdict           must-hits          evidence  why
STO-1        pass              2, rarest 3 times  events
STO-2        skipped                                        no [bold]hook[/bold] :smile:
STO-3        expected failure                     answers   known upstream https://example.org/1
STO-4        inconclusive                         events    the run never saw: a removed key read
PFX-1        FAIL              1, rarest 5 times  events    ancestor-evicted: b is there
PFX-2        ERROR                                          the adapter died

PFX-1 FAIL ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
PFX-1  No eviction removes an object while a descendant of it is resident or PENDING, in the order of events and not only at rest.
broken by evil\\x1b[31m (ancestor-evicted), seen by events

  1. put a 8 bytes            -> STORED
> 2. put b 8 bytes, parent a  -> STORED, evicted a

expected  a stays
got       a evicted
because   b is there, its parent a went at step 2

before step 2:
  ● a  resident

rerun     kvprefix rerun SCENARIO.json evil:Backend

PFX-2 ERROR ────────────────────────────────────────────────────────────────────────────────────────────────────────────
the adapter died

stale expected failure: STO-9 remove-answer: it passed

evil\\x1b[31m 2: does not conform (exit 1). 1 ERROR, 1 FAIL, 1 inconclusive, 1 expected failure, 1 pass, 1 skipped; 3 checks, \
40 examples, 900 operations, 17 evictions; seed 7; 1.2 s

What the run really saw (times)
STO-1: a value read back (12), a key removed (3)
PFX-1: an eviction (5)
"""


# --------------------------------------------------------------------------------------------------------------------------------
# Text


def test_the_text_is_as_it_always_was() -> None:
    assert text_of(REPORT) == TEXT


def shown(report: Report, *, quiet: bool = False, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)
    show(report, Console(file=file, width=120, markup=False, emoji=False, highlight=False), quiet=quiet)
    file.seek(0)
    return file.read()


def test_quiet_leaves_the_failures_and_the_summary() -> None:
    text = shown(REPORT, quiet=True)
    assert "requirement" not in text
    assert "PFX-1 FAIL" in text
    assert "does not conform (exit 1)" in text


def test_a_console_without_unicode_gets_a_tree_that_it_can_show() -> None:
    assert "  * a  resident" in shown(REPORT, encoding="ascii")


def test_an_adapter_that_cannot_be_tested_and_a_cut_run_say_why() -> None:
    broken = attrs.evolve(REPORT, results=(), broken="cannot start\nat all")
    assert "the adapter cannot be tested: cannot start at all" in shown(broken)
    cut = attrs.evolve(REPORT, interrupted="Ctrl-C after 2 of 9 checks")
    assert "cut short: Ctrl-C after 2 of 9 checks; this is what ran" in shown(cut)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"results": REPORT.results[:1], "stale": ()}, 0),
        ({}, 1),
        ({"results": REPORT.results[:4], "stale": ()}, 3),
        ({"broken": "no"}, 4),
        ({"results": REPORT.results[:1]}, 5),
    ],
)
def test_the_summary_names_the_exit_code_and_its_meaning(changes: dict[str, Any], code: int) -> None:
    assert f"{MEANINGS[code]} (exit {code})." in summary(attrs.evolve(REPORT, **changes))


# --------------------------------------------------------------------------------------------------------------------------------
# JSON


def test_the_document_fits_its_schema_and_escapes_what_the_backend_said() -> None:
    schema = json.loads((resources.files("kvprefix_conformance") / "schemas" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    text = document.dumps(REPORT)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert text.isascii()
    assert "\x1b" not in text


def test_the_document_carries_the_whole_scenario() -> None:
    result = document.document(REPORT)["results"][4]
    assert loads(json.dumps(result["scenario"])) == SCENARIO


def test_equal_reports_give_equal_bytes() -> None:
    assert document.dumps(REPORT) == document.dumps(attrs.evolve(REPORT))


# --------------------------------------------------------------------------------------------------------------------------------
# Files


def test_a_folder_gets_report_text_and_one_scenario_for_each_failure(tmp_path: Path) -> None:
    folder = files.Folder(tmp_path / "new" / "out")
    assert folder.prepare() == ""
    assert folder.write(REPORT) == ""
    assert sorted(str(p.relative_to(tmp_path / "new" / "out")) for p in (tmp_path / "new" / "out").rglob("*") if p.is_file()) == [
        "report.json",
        "report.txt",
        "scenarios/PFX-1-ancestor-evicted.json",
    ]
    scenario = tmp_path / "new" / "out" / "scenarios" / "PFX-1-ancestor-evicted.json"
    assert loads(scenario.read_text(encoding="utf-8")) == SCENARIO
    assert f"rerun     kvprefix rerun {scenario} evil:Backend\n" in (tmp_path / "new" / "out" / "report.txt").read_text("utf-8")


def test_scenarios_of_an_earlier_run_are_taken_away(tmp_path: Path) -> None:
    folder = files.Folder(tmp_path)
    folder.write(REPORT)
    folder.write(attrs.evolve(REPORT, results=REPORT.results[:1]))
    assert list((tmp_path / "scenarios").iterdir()) == []


def test_a_disk_without_room_is_one_line_and_leaves_neither_half_nor_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.Folder(tmp_path).write(REPORT) == ""

    def no_room(self: Path, *_args: object, **_kw: object) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    assert files.Folder(tmp_path).write(REPORT) == f"cannot write the report into {tmp_path}: No space left on device"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_place_that_cannot_be_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert files.Folder(tmp_path / "file" / "out").prepare().endswith("/file/out: Not a directory")


# --------------------------------------------------------------------------------------------------------------------------------
# Progress

CHECK = CheckInfo("object-store/machine", "object-store", ("STO-1",), "machine", "doc")


def test_without_a_terminal_each_check_is_one_line() -> None:
    file = io.StringIO()
    progress = progress_on(Console(file=file, width=120))
    assert isinstance(progress, Lines)
    progress.run_started((CHECK,), ("STO-1",))
    progress.check_started(CHECK, 1, 1)
    progress.progress(CHECK, 5, 70)
    progress.violation(CHECK, Violation("STO-1", "lost", "a is\x1b gone", 3))
    progress.check_finished(CHECK, 1.26)
    progress.run_finished(())
    progress.stop()
    assert file.getvalue().splitlines() == [
        "1 checks for 1 requirements",
        "STO-1 broken in object-store/machine (lost): a is\\x1b gone",
        "[1/1] object-store/machine: 5 examples, 70 operations, 1.3 s",
    ]


def test_on_a_terminal_a_bar_moves_and_goes_away() -> None:
    file = io.StringIO()
    progress = progress_on(Console(file=file, width=120, force_terminal=True, highlight=False))
    assert isinstance(progress, Live)
    progress.run_started((CHECK,), ("STO-1",))
    progress.check_started(CHECK, 1, 1)
    progress.progress(CHECK, 5, 70)
    progress.violation(CHECK, Violation("STO-1", "lost", "a is gone", 3))
    progress.check_finished(CHECK, 1.26)
    progress.run_finished(())
    progress.stop()
    assert "STO-1 broken in object-store/machine (lost): a is gone" in file.getvalue()
    assert "5 examples, 70 operations" in file.getvalue()
    assert file.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is back, the line is empty


def test_a_bar_that_never_started_can_be_stopped() -> None:
    file = io.StringIO()
    progress_on(Console(file=file, force_terminal=True)).stop()
    assert file.getvalue() == ""
