"""Printed failures, word for word: they are what a vendor sees."""

from __future__ import annotations

from typing import Any

import pytest

from kvprefix_conformance.narrate import answer_text, call_text, narrate, shown_key, tree
from kvprefix_conformance.records import ObjectState, Scenario, Step, Violation


def put(key: str, answer: str = "STORED", **args: Any) -> Step:
    evicted = args.pop("evicted", [])
    return Step("put", {"key": key, "value": {"fill": 1, "size": 100}, **args}, {"answer": answer, "evicted": evicted})


LOSES_A_ROOT = Scenario(
    steps=(put("a"), put("b", parent="a"), Step("lease", {"key": "b", "ttl_ms": 50}, "OK"), put("c", parent="a", evicted=["a"])),
    capacity=200,
    seed=7,
    backend="some-store",
    check="eviction-safe/fork-under-pressure",
    violation=Violation(
        "PFX-1",
        "ancestor-evicted",
        "b is resident, its parent a was evicted at step 4",
        3,
        expected="a stays while b is there",
        got="a evicted",
        evidence="answers",
    ),
    state=(
        ObjectState("a", "@root", "resident", ("protected by a descendant",)),
        ObjectState("b", "a", "resident", ("leased until 50 ms",)),
        ObjectState("d", "a", "deferred"),
        ObjectState("e", "d", "pending"),
        ObjectState("x", "@unknown", "absent", ("evicted at step 2",)),
        ObjectState("y", "z", "resident?", ("orphan",)),
    ),
    spec="my.adapter:factory",
)

TEXT = """\
PFX-1  No eviction removes an object while a descendant of it is resident or PENDING, in the order of events and not only at rest.
broken by some-store (ancestor-evicted), seen by answers

  1. put a 100 bytes            -> STORED
  2. put b 100 bytes, parent a  -> STORED
  3. lease b for 50 ms          -> OK
> 4. put c 100 bytes, parent a  -> STORED, evicted a

expected  a stays while b is there
got       a evicted
because   b is resident, its parent a was evicted at step 4

before step 4:
  \u25cf a  resident, protected by a descendant
  \u251c\u2500 \u25cf b  resident, leased until 50 ms
  \u2514\u2500 \u25cc d  deferred
     \u2514\u2500 \u25d0 e  pending
  \u25cb x  absent, evicted at step 2
  ? y  resident?, orphan, its parent z was never stored

rerun     kvprefix rerun SCENARIO.json my.adapter:factory
"""


def test_a_failure_on_one_screen() -> None:
    assert narrate(LOSES_A_ROOT) == TEXT


def test_the_same_in_ascii() -> None:
    assert narrate(LOSES_A_ROOT, unicode=False).split("before step 4:\n")[1] == (
        "  * a  resident, protected by a descendant\n"
        "  |- * b  resident, leased until 50 ms\n"
        "  `- ~ d  deferred\n"
        "     `- + e  pending\n"
        "  o x  absent, evicted at step 2\n"
        "  ? y  resident?, orphan, its parent z was never stored\n"
        "\n"
        "rerun     kvprefix rerun SCENARIO.json my.adapter:factory\n"
    )


def test_a_backend_that_is_not_deterministic_says_how_often_it_was_shown_again() -> None:
    import attrs

    text = narrate(attrs.evolve(LOSES_A_ROOT, shown=(1, 3)), rerun="kvprefix rerun out/PFX-1.json store")
    assert text.endswith(
        "shown again by 1 of 3 reruns; the backend is not deterministic\nrerun     kvprefix rerun out/PFX-1.json store\n"
    )


def test_a_scenario_without_a_violation() -> None:
    text = narrate(Scenario((put("a"),), 100, 1, "some-store", check="mine"))
    assert text.splitlines()[0] == "scenario of mine on some-store: no violation is recorded"
    assert "expected" not in text


def test_a_cycle_is_drawn_once() -> None:
    state = (ObjectState("a", "b", "deferred"), ObjectState("b", "a", "deferred"))
    assert tree(state, unicode=False) == ["  ~ a  deferred", "  `- ~ b  deferred"]


@pytest.mark.parametrize(
    ("op", "args", "text"),
    [
        ("put_begin", {"key": "a", "size": 9, "as": "t1"}, "put_begin a 9 bytes, attempt t1"),
        ("put_commit", {"key": "a", "token": "t1", "value": {"fill": 2, "size": 9}}, "put_commit a 9 bytes (value 2), attempt t1"),
        ("put_abort", {"key": "a", "token": "t1"}, "put_abort a t1"),
        ("put", {"key": "a", "value": {"fill": 1, "size": 9}, "options": {"pin": "hard"}}, "put a 9 bytes, pin hard"),
        ("put", {"key": "a", "value": {"fill": 1, "size": 9}, "parent": "@unknown"}, "put a 9 bytes, parent unknown"),
        (
            "put_many",
            {"items": [{"key": "a", "value": {"fill": 1, "size": 9}, "parent": "@@x"}]},
            "put_many [a 9 bytes, parent @x]",
        ),
        ("match", {"chain": ["a", "b"], "start": 1}, "match [a, b] from 1"),
        ("remove", {"key": "a", "force": True}, "remove a forced"),
        ("advance", {"ms": 5}, "advance 5 ms"),
        ("register", {"key": "b", "parent": "a"}, "register b, parent a"),
        ("events", {"after": 3}, "events after 3"),
        ("unpin", {"token": "p1"}, "unpin p1"),
    ],
)
def test_steps_read_as_calls(op: str, args: dict[str, Any], text: str) -> None:
    assert call_text(Step(op, args)) == text
    assert call_text(Step(op, args, client=1)) == f"{text} (client 1)"


@pytest.mark.parametrize(
    ("op", "answer", "text"),
    [
        ("get", None, "miss"),
        ("get", {"of": "a", "fill": 1, "size": 9}, "value 1 of a"),
        ("get", {"of": "a", "fill": 1, "size": 4, "whole": 9}, "4 of 9 bytes of value 1 of a"),
        ("get", {"size": 9, "begins": "00"}, "9 bytes that nobody wrote"),
        ("get", {"size": 0, "begins": ""}, "an empty value"),
        ("get", {"error": {"kind": "died", "detail": "exit code 1"}}, "died: exit code 1"),
        ("match", {"skipped": "not offered"}, "not run (not offered)"),
        ("exists", True, "hit"),
        ("get_many", [None, {"of": "a", "fill": 1, "size": 9}], "[miss, value 1 of a]"),
        ("advance", None, "done"),
        ("stats", {"used_bytes": 9, "resident_objects": 1}, "9 bytes in use, 1 objects"),
        ("snapshot", {"sequence": 2, "objects": {"a": "@root"}}, "snapshot 2: a"),
        ("events", [{"sequence": 1, "kind": "stored", "key": "a"}, {"sequence": 2, "kind": "cleared"}], "1 stored a, 2 cleared"),
        ("remove", {"answer": "OK", "removed": ["b", "a"]}, "OK, removed b, a"),
        ("match", 3, "3"),
    ],
)
def test_answers_read_as_words(op: str, answer: Any, text: str) -> None:
    assert answer_text(Step(op, {}, answer)) == text


def test_an_operation_without_an_answer_may_have_happened() -> None:
    step = Step("get", {}, {"error": {"kind": "timeout", "detail": "10 s"}}, indefinite=True)
    assert answer_text(step) == "timeout: 10 s (no answer: it may have happened)"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("plain-key.7", "plain-key.7"),
        ("", "''"),
        ("a b", "'a b'"),
        ("line\nbreak", "'line\\nbreak'"),
        ("\u202eevil", "'\\u202eevil'"),
        ("k" * 100, f"'{'k' * 15}...{'k' * 11}' (100 characters)"),
    ],
)
def test_keys_are_printed_on_one_line_and_without_tricks(key: str, text: str) -> None:
    assert shown_key(key) == text
