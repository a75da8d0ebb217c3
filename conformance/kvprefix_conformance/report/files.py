"""The files of ``--out``: report.json, report.txt and scenarios/REQUIREMENT-KIND.json, each written whole or not at all."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

from kvprefix_conformance import scenario_io
from kvprefix_conformance.records import Report, Result, Verdict
from kvprefix_conformance.report import document
from kvprefix_conformance.report.console import text_of

_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")


class Folder:
    """The folder that a run reports into. Problems come back as one line, never as an exception: the report must not be lost."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self) -> str:
        """Make the folder, before the run; what is wrong with it, or nothing."""
        try:
            (self._path / "scenarios").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            return self._problem(problem)
        return ""

    def write(self, report: Report) -> str:
        """Write everything; what could not be written, or nothing. What an earlier run left here is taken away first."""
        try:
            self.prepare()
            scenarios = self._path / "scenarios"
            for old in (*scenarios.glob("*.json"), self._path / "report.json", self._path / "report.txt"):
                old.unlink(missing_ok=True)
            for result in report.results:
                if result.scenario is not None and result.verdict >= Verdict.EXPECTED_FAILURE:
                    _write(self._scenario(result), scenario_io.dumps(result.scenario))
            _write(self._path / "report.txt", text_of(report, self.rerun))
            _write(self._path / "report.json", document.dumps(report))
        except OSError as problem:
            return self._problem(problem)
        return ""

    def rerun(self, result: Result) -> str:
        """The command that runs the failure's scenario again."""
        spec = result.scenario.spec or result.scenario.backend if result.scenario is not None else ""
        return f"kvprefix rerun {shlex.quote(str(self._scenario(result)))} {spec}"

    def _scenario(self, result: Result) -> Path:
        violation = result.scenario.violation if result.scenario is not None else None
        kind = violation.kind if violation is not None else "scenario"
        return self._path / "scenarios" / f"{_UNUSUAL.sub('-', f'{result.requirement}-{kind}')}.json"

    def _problem(self, problem: OSError) -> str:
        return f"cannot write the report into {self._path}: {problem.strerror or problem}"


def _write(path: Path, text: str) -> None:
    """Through a neighbouring file, so that nobody ever finds half a report."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
