"""Runs the checks against a target and makes the report; reruns scenarios; smokes adapters.

``run`` never raises for what a backend does: a backend that cannot be tested is told in the report. What the user must fix
(ConfigurationError, MissingDependencyError) passes through.
"""

from __future__ import annotations

import datetime
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from kvprefix.errors import ConfigurationError
from kvprefix_conformance.bench import Bench, BenchError, replay
from kvprefix_conformance.codec import parent_to_json, record_to_json
from kvprefix_conformance.minimize import Budget, Minimal, minimize
from kvprefix_conformance.oracle.claims import missing, skip_reason
from kvprefix_conformance.oracle.draw import state_of
from kvprefix_conformance.oracle.judge import Oracle, explained
from kvprefix_conformance.oracle.ledger import Ledger, Terms
from kvprefix_conformance.plan import CheckInfo, Observer, Plan, Rerun, Silent, Smoke
from kvprefix_conformance.records import Report, Result, Scenario, Step, Verdict, Violation
from kvprefix_conformance.requirements import Requirement, catalogue
from kvprefix_conformance.smoke import smoke_on
from kvprefix_conformance.suites.catalogue import CHECKS, Check, needs_missing
from kvprefix_conformance.suites.machine import drive
from kvprefix_conformance.suites.world import SHARED_UNITS, Run
from kvprefix_conformance.target import Target
from kvprefix_conformance.version import suite_version
from kvprefix_conformance.watch import Finding, Watch

__all__ = ["CheckInfo", "Observer", "Plan", "Rerun", "Smoke", "checks", "rerun", "run", "smoke"]

#: A machine's share of the time, in shares of a directed scenario.
_MACHINE_SHARE = 12
#: A backend that could not be emptied or opened so often in one check is given up for that check.
_MOST_BENCH_ERRORS = 3
#: A directed scenario that found something runs again, at most so often, to see what lies behind.
_MOST_REPEATS = 8
#: Seconds for the shrinking of one finding.
_SHRINK_SECONDS = 8.0


def checks() -> tuple[CheckInfo, ...]:
    """The catalogue of checks, nothing run."""
    return tuple(check.info for check in CHECKS)


def smoke(target: Target) -> Smoke:
    """A few operations on a fresh instance."""
    with Bench(target, Plan().capacity) as bench:
        return smoke_on(bench)


def rerun(scenario: Scenario, target: Target) -> Rerun:
    """The same steps through a fresh instance, judged by the same oracle under what that instance declares.

    Violations are told of the requirements that the instance declares, and of the one that the scenario records.
    """
    recorded = scenario.violation
    with Bench(target, scenario.capacity) as bench:
        try:
            replayed = replay(bench, scenario.steps)
        except BenchError as error:
            return Rerun((), (), reproduced=False, broken=str(error))
        wanted = {r.id for profile in bench.terms.capabilities.profiles for r in catalogue().of_profile(profile)}
        wanted |= {recorded.requirement} if recorded is not None else set()
    steps = tuple(each.step for each in replayed.history)
    violations = tuple(violation for violation in replayed.violations if violation.requirement in wanted)
    same = [v for v in violations if recorded is not None and (v.requirement, v.kind) == (recorded.requirement, recorded.kind)]
    differs = tuple(i for i, (new, old) in enumerate(zip(steps, scenario.steps, strict=False)) if new.answer != old.answer)
    return Rerun(steps, violations, bool(same) if recorded is not None else not violations, differs, replayed.broken)


# --------------------------------------------------------------------------------------------------------------------------------
# The run


def run(target: Target, plan: Plan = Plan(), observer: Observer | None = None) -> Report:
    """Test the target. A KeyboardInterrupt ends the run and gives the report of what ran."""
    return _Execution(target, plan, observer or Silent()).report()


_STALE: Mapping[Verdict, str] = {
    Verdict.PASS: "it passed",
    Verdict.SKIPPED: "it was skipped",
    Verdict.EXPECTED_FAILURE: "only other kinds were seen",
}


class _Execution:
    """One run, from smoke to report."""

    def __init__(self, target: Target, plan: Plan, observer: Observer) -> None:
        self.target = target
        self.plan = plan
        self.observer = observer
        self.begun = time.monotonic()
        self.seed = random.SystemRandom().randrange(2**31) if plan.explore else plan.seed
        self.bench = Bench(target, plan.capacity)
        self.interrupted = ""
        self.ran: list[CheckInfo] = []
        self.left: list[CheckInfo] = []
        self.scenarios: dict[tuple[str, str], Scenario] = {}
        self.watch = Watch((), (), observer.violation)

    # -- running ----------------------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        try:
            with self.bench:
                broken = smoke_on(self.bench).broken
                if broken:
                    return self._report([], broken=broken)
                return self._judge(self.bench.terms)
        except BenchError as error:
            return self._report([], broken=str(error))
        except KeyboardInterrupt:
            return self._report([], interrupted="Ctrl-C before the first check")

    def _judge(self, terms: Terms) -> Report:
        asked = _asked(self.plan, terms)
        skipped = {r.id: reason for r in asked if (reason := _why_not(r, terms))}
        self.watch = Watch([r.id for r in asked if r.id not in skipped], skipped, self.observer.violation)
        todo = [check for check in CHECKS if self._wanted(check) and not needs_missing(check, terms.offered, terms.capabilities)]
        self.observer.run_started(tuple(check.info for check in todo), self.watch.wanted)
        try:
            self._run_all(todo)
        except KeyboardInterrupt:
            self.interrupted = f"Ctrl-C after {len(self.ran)} of {len(todo)} checks"
        self.left = [check.info for check in todo if check.info not in self.ran]
        results = [self._result(r, terms, skipped.get(r.id, "")) for r in asked]
        self.observer.run_finished(tuple(results))
        return self._report(results, terms=terms)

    def _wanted(self, check: Check) -> bool:
        return bool(set(check.info.requirements) & set(self.watch.wanted))

    def _run_all(self, todo: Sequence[Check]) -> None:
        for number, check in enumerate(todo):
            until = self._until(todo[number:])
            if until is not None and time.monotonic() >= self.begun + (self.plan.max_seconds or 0):
                self.interrupted = f"{self.plan.max_seconds:g} s were spent after {number} of {len(todo)} checks"
                return
            begun = time.monotonic()
            self.observer.check_started(check.info, number + 1, len(todo))
            self._run_check(check, until)
            while self.watch.pending:
                finding = self.watch.pending.pop(0)
                self.scenarios[finding.violation.requirement, finding.violation.kind] = self._scenario(finding)
            self.ran.append(check.info)
            self.observer.check_finished(check.info, time.monotonic() - begun)

    def _until(self, rest: Sequence[Check]) -> float | None:
        """When the first of the remaining checks has had its share."""
        if self.plan.max_seconds is None:
            return None
        shares = [_MACHINE_SHARE if check.info.kind == "machine" else 1 for check in rest]
        now = time.monotonic()
        return now + max(0.0, self.begun + self.plan.max_seconds - now) * shares[0] / sum(shares)

    def _run_check(self, check: Check, until: float | None) -> None:
        example = _Example(self, check, until)
        if isinstance(check.drive, str):
            terms, shunned = self.bench.terms, self.watch.shunned
            drive(
                check.drive,
                example.open,
                lambda *calls: terms.offered.issuperset(calls) and shunned.isdisjoint(calls),
                values=terms.capabilities.values,
                seed=self.seed,
                examples=self.plan.examples,
            )
        else:
            for _ in range(_MOST_REPEATS):
                run = example.open(check.units)
                if run is None:
                    return
                check.drive(run)
                if not example.end():
                    return
        example.end()

    # -- findings ---------------------------------------------------------------------------------------------------------------

    def _scenario(self, finding: Finding) -> Scenario:
        """The smallest scenario of a finding; where no rerun shows it, the history that did."""
        charged = attrs.evolve(finding.violation, requirement=finding.charged)
        minimal = self._minimal(finding.steps, charged)
        if minimal is None or minimal.replayed is None or minimal.violation is None:
            return self._written(finding, finding.steps, finding.violation, minimal.shown if minimal is not None else None, None)
        if minimal.behind is not None and not _stands_alone(minimal.violation):
            self.watch.consequence(finding, minimal.behind)
        steps = explained(minimal.replayed.history, self.bench.terms)
        violation = attrs.evolve(minimal.violation, requirement=finding.violation.requirement)
        return self._written(finding, steps, violation, minimal.shown, minimal.replayed.oracle)

    def _minimal(self, steps: tuple[Step, ...], violation: Violation) -> Minimal | None:
        if not steps:
            return None
        seconds = _SHRINK_SECONDS
        if self.plan.max_seconds is not None:
            seconds = min(seconds, max(1.0, self.plan.max_seconds / 10))
        try:
            return minimize(self.bench, steps, violation, Budget(seconds=seconds))
        except BenchError:
            return None

    def _written(
        self, finding: Finding, steps: tuple[Step, ...], violation: Violation, shown: tuple[int, int] | None, oracle: Oracle | None
    ) -> Scenario:
        terms = self.bench.terms
        before = oracle.before if oracle is not None else Ledger()
        lineage = oracle.ledger.lineage if oracle is not None else {}
        return Scenario(
            steps=steps,
            capacity=self.plan.capacity,
            seed=self.seed,
            backend=terms.capabilities.name if terms.capabilities.name != "unnamed" else self.target.name,
            backend_version=terms.capabilities.version,
            suite_version=suite_version(),
            spec_version=catalogue().spec_version,
            check=finding.check.name,
            violation=violation,
            lineage={key: parent_to_json(parent) for key, parent in lineage.items()},
            capabilities=record_to_json(terms.capabilities),
            geometry=record_to_json(terms.geometry),
            state=tuple(state_of(before)),
            spec=self.target.spec or self.target.name,
            shown=shown,
        )

    # -- results ----------------------------------------------------------------------------------------------------------------

    def _result(self, requirement: Requirement, terms: Terms, skipped: str) -> Result:
        rid = requirement.id
        if skipped and not any(known == rid for known, _ in self.watch.findings):
            return Result(rid, Verdict.SKIPPED, skipped)
        exercised = {label: count for (known, label), count in sorted(self.watch.exercised.items()) if known == rid}
        names = tuple(info.name for info in self.ran if rid in info.requirements)
        failures = [finding.violation for (known, _), finding in self.watch.findings.items() if known == rid]
        proven = [violation for violation in failures if (rid, violation.kind) not in self.watch.behind]
        if proven:
            return self._failed(rid, proven, exercised, names)
        unseen = missing(rid, terms, exercised)
        left = [info.name for info in self.left if rid in info.requirements]
        verdict, reason = Verdict.PASS, ""
        if failures:
            first = self.watch.behind[rid, failures[0].kind]
            verdict = Verdict.INCONCLUSIVE
            reason = f"{failures[0].kind} was seen only behind {first.requirement} {first.kind}, so it proves nothing by itself"
        elif left or not names:
            verdict = Verdict.INCONCLUSIVE
            reason = f"not all its checks ran: {', '.join(left)}" if left else "none of its checks can run on this backend"
        elif unseen:
            verdict, reason = Verdict.INCONCLUSIVE, f"the run never saw: {'; '.join(unseen)}"
        return Result(rid, verdict, reason, _evidence(rid, terms), exercised, None, names)

    def _failed(self, rid: str, failures: Sequence[Violation], exercised: Mapping[str, int], names: tuple[str, ...]) -> Result:
        """A failure that nobody expects comes first; only if all are expected is the result an expected failure."""
        excused = {v.kind: e for v in failures for e in self.plan.expectations if e.matches(v)}
        news = [violation for violation in failures if violation.kind not in excused]
        told = (news or failures)[0]
        others = [violation.kind for violation in failures if violation is not told]
        also = f"; also: {', '.join(others)}" if others else ""
        verdict, reason = Verdict.FAIL, f"{told.kind}: {told.because}{also}"
        if not news:
            expectation = excused[told.kind]
            verdict, reason = Verdict.EXPECTED_FAILURE, " ".join(filter(None, (expectation.reason, expectation.link)))
        scenario = self.scenarios.get((rid, told.kind))
        checks_ = tuple(dict.fromkeys([*names, *(f.check.name for (known, _), f in self.watch.findings.items() if known == rid)]))
        return Result(rid, verdict, reason, told.evidence, exercised, scenario, checks_)

    def _stale(self, results: Sequence[Result]) -> Iterator[str]:
        """Expected failures whose requirement was judged to the end and that did not come."""
        judged = {result.requirement: result for result in results}
        for entry in self.plan.expectations:
            result = judged.get(entry.requirement)
            if entry.flaky or result is None or (entry.requirement, entry.kind) in self.watch.findings:
                continue
            if result.verdict in _STALE:
                yield f"{entry.requirement} {entry.kind}: {_STALE[result.verdict]}"

    def _report(self, results: Sequence[Result], *, broken: str = "", interrupted: str = "", terms: Terms | None = None) -> Report:
        caps = terms.capabilities if terms is not None else None
        cut = interrupted or self.interrupted
        return Report(
            backend=self.target.name,
            backend_version=caps.version if caps is not None else "",
            profiles=self.plan.profiles or (tuple(sorted(caps.profiles)) if caps and not self.plan.requirements else ()),
            requirements=self.plan.requirements,
            seed=self.seed,
            suite_version=suite_version(),
            spec_version=catalogue().spec_version,
            results=tuple(results),
            counts=self._counts(),
            seconds=time.monotonic() - self.begun,
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            capabilities=record_to_json(caps) if caps is not None else {},
            geometry=record_to_json(terms.geometry) if terms is not None else {},
            stale=() if cut or broken else tuple(self._stale(results)),
            interrupted=cut,
            broken=broken,
        )

    def _counts(self) -> dict[str, int]:
        watch = self.watch
        return {
            "checks": len(self.ran),
            "examples": watch.examples,
            "operations": watch.operations,
            "evictions": watch.evictions,
        }


class _Example:
    """Opens the examples of one check, and takes in each when the next one opens."""

    def __init__(self, execution: _Execution, check: Check, until: float | None) -> None:
        self._execution = execution
        self._check = check
        self._until = until
        self._run: Run | None = None
        self._examples = 0
        self._operations = 0

    def open(self, units: int) -> Run | None:
        """A run on an empty store; None when the check has had its share of the time, or the backend is beyond repair."""
        self.end()
        if self._until is not None and time.monotonic() >= self._until:
            return None
        for _ in range(_MOST_BENCH_ERRORS):
            self._run = self._try(units)
            if self._run is not None:
                break
        return self._run

    def _try(self, units: int) -> Run | None:
        execution = self._execution
        try:
            return self._open(execution, units)
        except BenchError as error:
            execution.bench.close()
            kind = "adapter-died" if "died" in str(error) else "adapter-raised"
            execution.watch.add(self._check.info, Violation("STO-1", kind, str(error), 0))
            return None

    @staticmethod
    def _open(execution: _Execution, units: int) -> Run:
        terms, watch = execution.bench.terms, execution.watch
        oracle = Oracle(terms)
        if terms.capabilities.exclusive:
            session = execution.bench.session(oracle, watch.new, frozenset(watch.shunned))
            return Run(session, oracle, units=units)
        # Others use the store too: small values under names of this run, and never everybody's objects.
        session = execution.bench.session(oracle, watch.new, frozenset(watch.shunned | {"clear"}))
        return Run(session, oracle, units=SHARED_UNITS, prefix=f"kvprefix-{execution.seed:x}:")

    def end(self) -> bool:
        """Take in what the example showed; whether that was news."""
        run, self._run = self._run, None
        if run is None or not run.session.history:
            return False
        found = self._execution.watch.end_example(self._check.info, run.session, Counter(run.oracle.exercised))
        self._examples += 1
        self._operations += len(run.session.history)
        self._execution.observer.progress(self._check.info, self._examples, self._operations)
        return bool(found)


# --------------------------------------------------------------------------------------------------------------------------------
# What is asked


def _stands_alone(violation: Violation) -> bool:
    """Whether it is seen at one instant, so that nothing that went wrong before can have misled the oracle."""
    return (violation.kind, violation.evidence) in (("orphan", "resident"), ("over-capacity", "resident"))


def _asked(plan: Plan, terms: Terms) -> list[Requirement]:
    """The requirements of the run, in the order of the specification."""
    known = catalogue().requirements
    unknown = [rid for rid in plan.requirements if rid not in known]
    if unknown:
        raise ConfigurationError(f"unknown requirements {', '.join(unknown)}.", "kvprefix list names them all.")
    profiles = set(plan.profiles) if plan.profiles or plan.requirements else set(terms.capabilities.profiles)
    return [r for r in known.values() if r.id in plan.requirements or profiles & set(r.profiles)]


def _why_not(requirement: Requirement, terms: Terms) -> str:
    if requirement.status == "planned":
        return "planned: no check judges it yet"
    if not any(requirement.id in check.info.requirements for check in CHECKS):
        return "no check of this suite judges it yet"
    return skip_reason(requirement.id, terms)


def _evidence(rid: str, terms: Terms) -> str:
    """What a pass rests on: the strongest that the backend lets the suite see."""
    if rid.startswith("EVT"):
        return "events"
    names: list[str] = [name for name in ("events", "resident", "probe") if name in terms.offered] or ["exists"]
    reported = ["reported evictions"] if terms.capabilities.reports_evictions else []
    return ", ".join([*names[:2], *reported] if rid.startswith(("PFX", "PRT")) else names[:1])
