"""Smoke: is the *adapter* right? A few operations, each answer shown, before anything is judged.

What breaks the contract (raises, dies, a wrong type) in the three required calls makes the adapter unfit to be tested; a wrong
answer is only told here, since to judge stores is the checks' matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvprefix.api import Answer
from kvprefix_conformance.bench import Bench, BenchError
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.plan import Smoke
from kvprefix_conformance.records import Step
from kvprefix_conformance.suites.world import SHARED_UNITS, Run


def smoke_on(bench: Bench) -> Smoke:
    """Try every call once on an empty store, and the reset."""
    try:
        oracle, run = _run_on(bench)
        _try_all(run)
        steps = tuple(recorded.step for recorded in run.session.history)
        problems = [*_wrong(steps, oracle), *_after_reset(bench)]
    except BenchError as error:
        return Smoke((), (str(error),), (), broken=str(error))
    broken = _broken(steps)
    told = tuple(dict.fromkeys([*broken, *_unfit(steps), *problems]))
    return Smoke(steps, told, tuple(sorted(run.session.offered)), next(iter(broken), ""))


def _run_on(bench: Bench) -> tuple[Oracle, Run]:
    """An empty store; on one that others use too, small values under names of our own, and no clear."""
    oracle = Oracle(bench.terms)
    if bench.terms.capabilities.exclusive:
        return oracle, Run(bench.session(oracle), oracle)
    return oracle, Run(bench.session(oracle, shun=frozenset({"clear"})), oracle, units=SHARED_UNITS, prefix="kvprefix-smoke:")


def _try_all(run: Run) -> None:
    """Each required call, then each optional one that is offered. A step whose call breaks ends nothing here."""
    a, b = run.chain("ab")
    c = run.block("c")
    plans: list[tuple[str, dict[str, Any]]] = [
        ("put", run.item(a)),
        ("exists", {"key": a.key}),
        ("exists", {"key": b.key}),
        ("get", {"key": a.key}),
        ("get", {"key": b.key}),
        ("put", run.item(a)),
        ("put", run.item(b)),
        ("probe", {"key": a.key}),
        ("match", {"chain": [a.key, b.key]}),
        ("get_many", {"keys": [a.key, b.key]}),
        ("exists_many", {"keys": [a.key, b.key]}),
        ("events", {"after": 0}),
        ("snapshot", {}),
        ("stats", {}),
        ("quiesce", {}),
        ("advance", {"ms": 1}),
        ("put_begin", {"key": c.key, "size": run.sizes.of(1), "as": "t1"}),
        ("put_abort", {"key": c.key, "token": "t1"}),
        ("pin", {"key": a.key, "as": "p1"}),
        ("unpin", {"token": "p1"}),
        ("remove", {"key": b.key, "force": True}),
        ("clear", {"force": True}),
    ]
    for op, args in plans:
        if run.offers(op) and (run.caps.values or op not in ("get", "get_many")):
            run.session.over = bool(run.session.broken)
            run.session.run(Step(op, args))


def _broken(steps: tuple[Step, ...]) -> list[str]:
    """What broke the contract in the three calls that every backend has."""
    return [text for step, text in _errors(steps) if step.op in ("put", "get", "exists")]


def _unfit(steps: tuple[Step, ...]) -> list[str]:
    return [text for _step, text in _errors(steps)]


def _errors(steps: tuple[Step, ...]) -> Iterator[tuple[Step, str]]:
    for step in steps:
        if isinstance(step.answer, dict) and "error" in step.answer:
            yield step, f"{step.op}: {step.answer['error']['kind']}: {step.answer['error']['detail']}"


def _wrong(steps: tuple[Step, ...], oracle: Oracle) -> list[str]:
    """Answers with which no test can begin."""
    problems = []
    first = steps[0].answer if steps else None
    if isinstance(first, dict) and first.get("answer") not in (Answer.STORED.value, None):
        problems.append(f"the first put into an empty store is answered {first['answer']}")
    if oracle.terms.geometry.capacity_bytes < 1:
        problems.append(f"start gives a capacity of {oracle.terms.geometry.capacity_bytes} bytes")
    hits = [step.answer for step in steps if step.op == "exists"]
    if hits[:2] != [True, False] and len(hits) >= 2 and all(isinstance(hit, bool) for hit in hits):
        problems.append(f"exists of what was stored, and of what was not, is {hits[0]} and {hits[1]}")
    return problems


def _after_reset(bench: Bench) -> list[str]:
    _oracle, run = _run_on(bench)
    step = run.do("exists", run.block("a"))
    return ["a key that was stored before reset is still there"] if step.answer is True else []
