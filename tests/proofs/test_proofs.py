"""Each theorem is proved and each broken variant is refuted: so the proofs can fail."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("z3", reason="the optional extra 'proof' (z3-solver) is not installed")

MODULES = ["closure", "progress", "recency"]


@pytest.mark.parametrize("name", MODULES)
def test_every_claim_of_the_theorem_is_proved(name: str) -> None:
    outcomes = list(importlib.import_module(f"kvprefix.proofs.{name}").prove())
    assert outcomes
    assert [o.claim for o in outcomes if not o.proved] == []


@pytest.mark.parametrize("name", MODULES)
def test_every_broken_variant_is_refuted_with_a_counterexample(name: str) -> None:
    outcomes = list(importlib.import_module(f"kvprefix.proofs.{name}").refute())
    assert outcomes
    assert [o.claim for o in outcomes if o.proved or not o.counterexample] == []


def test_contradicting_assumptions_prove_nothing() -> None:
    logic = importlib.import_module("kvprefix.proofs.logic")
    state = logic.State.named()
    never = logic.every(lambda o: state.resident.has(o) != state.resident.has(o))
    with pytest.raises(ValueError, match="contradict"):
        logic.ask("anything", [never], never)


def test_the_command_says_what_was_proved(capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module("kvprefix.proofs.__main__").main
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"proved", "refuted"}
