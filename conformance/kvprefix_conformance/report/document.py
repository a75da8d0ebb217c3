"""A report as one JSON document (schemas/report.schema.json). Strings from the backend are kept as they came, escaped to ASCII."""

from __future__ import annotations

import json
from typing import Any

from kvprefix_conformance import scenario_io
from kvprefix_conformance.records import Report, Result

#: Version of the report schema; raised only when an old reader could misread a new file.
REPORT_SCHEMA = 1

Json = Any


def dumps(report: Report) -> str:
    """The document as text, one field a line, the same bytes for equal reports."""
    return json.dumps(document(report), indent=2, ensure_ascii=True) + "\n"


def document(report: Report) -> dict[str, Json]:
    """The document as JSON values."""
    return {
        "schema": REPORT_SCHEMA,
        "kind": "kvprefix-report",
        "backend": report.backend,
        "backend_version": report.backend_version,
        "suite_version": report.suite_version,
        "spec_version": report.spec_version,
        "date": report.date,
        "seconds": round(report.seconds, 3),
        "seed": report.seed,
        "profiles": list(report.profiles),
        "requirements": list(report.requirements),
        "verdict": report.verdict.name,
        "exit_code": report.exit_code,
        "counts": dict(report.counts),
        "results": [_result(result) for result in report.results],
        "stale": list(report.stale),
        "interrupted": report.interrupted,
        "broken": report.broken,
        "geometry": dict(report.geometry),
        "capabilities": dict(report.capabilities),
    }


def _result(result: Result) -> dict[str, Json]:
    return {
        "requirement": result.requirement,
        "verdict": result.verdict.name,
        "reason": result.reason,
        "evidence": result.evidence,
        "exercised": dict(result.exercised),
        "checks": list(result.checks),
        "scenario": None if result.scenario is None else json.loads(scenario_io.dumps(result.scenario)),
    }
