"""``kvprefix check``: what its options become, what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from kvprefix_conformance.cli import main
from kvprefix_conformance.plan import Plan
from kvprefix_conformance.records import Expectation, Report, Scenario, Step, Verdict, Violation
from kvprefix_conformance.records import Result as Judged
from kvprefix_conformance.target import Target

PASSED = Report(
    backend="reference", backend_version="1", profiles=("object-store",), requirements=(), seed=1, suite_version="0",
    spec_version="0", results=(Judged("STO-1", Verdict.PASS),), counts={"operations": 9}, seconds=0.5,
    date="2026-01-01T00:00:00+00:00",
)  # fmt: skip
FAILED = attrs.evolve(PASSED, results=(Judged("STO-1", Verdict.FAIL, "lost: it is gone"),))


@attrs.define
class Runner:
    """In the place of runner.run: notes what it is asked, answers with a report."""

    report: Report = PASSED
    target: Target | None = None
    plan: Plan | None = None
    observed: bool = False

    def run(self, target: Target, plan: Plan, observer: object) -> Report:
        self.target, self.plan, self.observed = target, plan, observer is not None
        return self.report


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Runner:
    runner = Runner()
    monkeypatch.setattr("kvprefix_conformance.runner.run", runner.run)
    return runner


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


# --------------------------------------------------------------------------------------------------------------------------------
# Options


def test_without_options_the_plan_is_the_default_one(run: Runner) -> None:
    assert check("reference").exit_code == 0
    assert run.plan == Plan()
    assert run.observed


def test_every_option_reaches_the_plan(run: Runner, tmp_path: Path) -> None:
    expect = tmp_path / "expect.toml"
    expect.write_text('[[expect]]\nrequirement = "STO-1"\nkind = "lost"\nreason = "r"\n')
    options = (
        "--profile eviction-safe --profile prefix-aware --requirement pfx-1 --requirement STO-1 --seed 7 --explore --examples 3 "
        f"--max-seconds 1.5 --deadline 250 --quiet --no-color --expect {expect}"
    )
    check("reference", *options.split())
    assert run.plan == Plan(
        profiles=("eviction-safe", "prefix-aware"),
        requirements=("PFX-1", "STO-1"),
        seed=7,
        explore=True,
        examples=3,
        max_seconds=1.5,
        deadline_ms=250,
        expectations=(Expectation("STO-1", "lost", "r"),),
    )
    assert not run.observed


def test_what_follows_two_dashes_is_the_command_options_and_all(run: Runner) -> None:
    check("--seed", "3", "--", sys.executable, "--seed", "4", "--", "x")
    assert run.target is not None
    assert run.target.spec == f"-- {sys.executable} --seed 4 -- x"
    assert run.plan is not None
    assert run.plan.seed == 3


SHIPPED = (Expectation("STO-2", "overwritten", "known"),)


@pytest.mark.parametrize(
    ("options", "used"),
    [((), SHIPPED), (("--profile", "object-store"), ()), (("--requirement", "STO-2"), ()), (("--seed", "1"), SHIPPED)],
)
def test_shipped_expectations_are_used_unless_something_special_is_asked(
    run: Runner, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], used: tuple[Expectation, ...]
) -> None:
    monkeypatch.setattr("kvprefix_conformance.expectations.builtin", lambda name: SHIPPED if name == "reference" else ())
    check("reference", *options)
    assert run.plan is not None
    assert run.plan.expectations == used


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no backend was named. There are: reference"),
        (("--",), "-- must be followed by the command of an adapter"),
        (("reference", "--", "true"), "both a backend ('reference') and a command after -- were given"),
        (("reference", "--requirement", "PFX-99"), "unknown requirement 'PFX-99'; did you mean PFX-9"),
        (("reference", "--profile", "evict-safe"), "unknown profile 'evict-safe'; did you mean eviction-safe"),
        (("reference", "--seed", "-1"), "-1 is not in the range x>=0"),
        (("reference", "--examples", "0"), "0 is not in the range x>=1"),
        (("reference", "--max-seconds", "0"), "0.0 is not in the range x>0"),
        (("reference", "--deadline", "0"), "0 is not in the range x>=1"),
        (("reference", "--expect", "nowhere.toml"), "File 'nowhere.toml' does not exist"),
        (("reference", "--sed", "1"), "No such option"),
        (("referense",), "unknown backend 'referense'"),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_run(run: Runner, arguments: tuple[str, ...], said: str) -> None:
    result = check(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert run.plan is None


def test_a_wrong_expectations_file_is_told_with_its_line(run: Runner, tmp_path: Path) -> None:
    expect = tmp_path / "expect.toml"
    expect.write_text('\n[[expect]]\nrequirement = "STO-1"\n')
    result = check("reference", "--expect", str(expect))
    assert result.exit_code == 2
    assert result.output.startswith(f"kvprefix: {expect}:2: kind is missing.")
    assert run.plan is None


# --------------------------------------------------------------------------------------------------------------------------------
# Output


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (PASSED, 0),
        (FAILED, 1),
        (attrs.evolve(PASSED, results=(Judged("STO-1", Verdict.SKIPPED),)), 3),
        (attrs.evolve(FAILED, broken="no"), 4),
        (attrs.evolve(PASSED, stale=("STO-1 lost: it passed",)), 5),
        (attrs.evolve(FAILED, stale=("x",)), 1),
    ],
)
def test_the_exit_code_is_that_of_the_report(run: Runner, report: Report, code: int) -> None:
    run.report = report
    assert check("reference").exit_code == code


def test_json_alone_is_on_stdout(run: Runner) -> None:
    result = check("reference", "--json")
    assert json.loads(result.stdout)["verdict"] == "PASS"
    assert "conforms to all that was tested (exit 0)" in result.stderr


def test_quiet_prints_one_line_where_nothing_is_wrong(run: Runner) -> None:
    result = check("reference", "--quiet")
    assert result.output.split("\n", 1)[1].startswith("reference 1: conforms to all that was tested (exit 0). 1 pass; 9 operations")


def test_without_out_the_failure_names_a_command_that_finds_it_again(run: Runner) -> None:
    run.report = attrs.evolve(FAILED, results=(Judged("STO-1", Verdict.FAIL, "gone", scenario=_scenario()),))
    assert "rerun     kvprefix check --requirement STO-1 --seed 1 --out DIR reference\n" in check("reference").stdout


def test_with_out_the_failure_names_the_file_that_shows_it(run: Runner, tmp_path: Path) -> None:
    run.report = attrs.evolve(FAILED, results=(Judged("STO-1", Verdict.FAIL, "gone", scenario=_scenario()),))
    result = check("reference", "--out", str(tmp_path))
    assert f"rerun     kvprefix rerun {tmp_path}/scenarios/STO-1-lost.json reference\n" in result.stdout
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == result.exit_code == 1


def _scenario() -> Scenario:
    step = Step("get", {"key": "a"}, None)
    return Scenario((step,), 8, 1, "reference", violation=Violation("STO-1", "lost", "a is gone", 0), spec="reference")


@pytest.mark.parametrize(("report", "code"), [(PASSED, 2), (FAILED, 1)])
def test_where_files_cannot_be_written_the_report_is_still_printed(run: Runner, tmp_path: Path, report: Report, code: int) -> None:
    run.report = report
    (tmp_path / "file").touch()
    result = check("reference", "--out", str(tmp_path / "file" / "out"))
    assert result.exit_code == code
    assert "STO-1" in result.stdout
    assert result.stderr.count(f"kvprefix: cannot write the report into {tmp_path}/file/out: Not a directory") == 2


# --------------------------------------------------------------------------------------------------------------------------------
# Real runs

#: A store that never loses anything; at its 10th get it does INTERRUPT.
ADAPTER = """
    import os, signal
    from kvprefix_conformance.adapter import *

    class Store:
        capabilities = Capabilities(name="little", evicts=False, progress=Progress.REJECT, accounting=Accounting.NONE)
        served = 0
        def start(self, capacity): self.objects, self.room = {}, capacity; return Geometry(capacity)
        def client(self, index=0): return self
        def reset(self): self.objects.clear()
        def close(self): pass
        def put(self, key, value, *, parent=UNKNOWN, options=PutOptions()):
            if not key or not value: return PutResult(Answer.INVALID, ())
            if key in self.objects: return PutResult(Answer.EXISTS, ())
            if options != PutOptions(): return PutResult(Answer.UNSUPPORTED, ())
            if len(value) > self.room: return PutResult(Answer.TOO_LARGE, ())
            if sum(map(len, self.objects.values())) + len(value) > self.room: return PutResult(Answer.NO_SPACE, ())
            self.objects[key] = value
            return PutResult(Answer.STORED, ())
        def get(self, key):
            self.served += 1
            if self.served == 10: INTERRUPT
            return self.objects.get(key)
        def exists(self, key): return key in self.objects
"""


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write the adapter; its name on the command line."""
    monkeypatch.chdir(tmp_path)

    def write(interrupt: str = "pass") -> str:
        (tmp_path / "little_adapter.py").write_text(textwrap.dedent(ADAPTER).replace("INTERRUPT", interrupt))
        return "little_adapter:Store"

    return write


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_still_writes_the_report_of_what_ran(little: Callable[[str], str], tmp_path: Path, how: str) -> None:
    target = little(f"os.kill(os.getppid(), signal.{how})")
    command = [sys.executable, "-m", "kvprefix_conformance.cli", "check", target, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"].startswith("Ctrl-C")
    assert "cut short: Ctrl-C" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_entry_whose_requirement_passes_is_stale(little: Callable[[], str], tmp_path: Path) -> None:
    expect = tmp_path / "expect.toml"
    expect.write_text('[[expect]]\nrequirement = "STO-1"\nkind = "lost"\nreason = "r"\n')
    result = check(little(), "--requirement", "STO-1", "--examples", "5", "--expect", str(expect))
    assert result.exit_code == 5
    assert "stale expected failure: STO-1 lost: it passed" in result.output


def test_an_expected_failure_is_no_failure(little: Callable[[str], str], tmp_path: Path) -> None:
    expect = tmp_path / "expect.toml"
    expect.write_text(
        '[[expect]]\nrequirement = "STO-1"\nkind = "adapter-raised"\nreason = "it trips"\nlink = "https://example.org/9"\n'
    )
    target = little("raise OSError('trip')")
    result = check(target, "--requirement", "STO-1", "--examples", "5", "--expect", str(expect))
    assert "expected failure" in result.stdout
    assert "it trips https://example.org/9" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV at get"),
        ("os._exit(9)", "exited with status 9 at get"),
        ("raise SystemExit(9)", "exited with status 9 at get"),
        ("signal.pause()", "no answer to get within 500 ms"),
        ("return bytearray(3)", "get returned bytearray(b'\\x00\\x00\\x00'): value: should be bytes"),
        ("raise RuntimeError('\\x1b[2Jboom')", "get: RuntimeError: \\x1b[2Jboom"),
    ],
)
def test_a_python_adapter_that_breaks_takes_only_its_own_process_along(little: Callable[[str], str], fault: str, said: str) -> None:
    result = check(little(fault), "--requirement", "STO-1", "--examples", "5", "--deadline", "500")
    assert result.exit_code == 1
    assert said in result.stdout
