"""The synthetic trace: stable bytes, a well-formed trace for every workload, and knobs that do what they say."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.errors import ConfigurationError
from kvprefix.replay import SHIPPED, Request, TraceReader, line_of
from kvprefix.replay.generate import Spread, Workload, generate

ONE = Spread.parse("1")


def text_of(workload: Workload) -> str:
    return "".join(map(line_of, generate(workload)))


def test_the_shipped_trace_is_what_the_generator_makes() -> None:
    shipped = SHIPPED["small"].read_bytes()
    assert text_of(Workload()).encode() == shipped
    assert 200 < shipped.count(b"\n") < 1000
    assert len(shipped) < 100_000


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from kvprefix.replay import line_of\n"
        "from kvprefix.replay.generate import generate\n"
        "print(*map(line_of, generate()), sep='', end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": "77"}, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == SHIPPED["small"].read_bytes()


def test_another_seed_gives_another_trace() -> None:
    assert text_of(Workload(seed=2)) != text_of(Workload(seed=1))


spreads = st.lists(st.integers(1, 3000), min_size=4, max_size=4).map(lambda numbers: Spread(*sorted(numbers)))


@given(
    workload=st.builds(
        Workload,
        seed=st.integers(0, 2**64),
        sessions=st.integers(1, 12),
        turns=st.lists(st.integers(1, 9), min_size=4, max_size=4).map(lambda numbers: Spread(*sorted(numbers))),
        branching=st.sampled_from([0.0, 0.5, 1.0]),
        system_prompts=st.integers(1, 4),
        system_tokens=spreads,
        prompt_tokens=spreads,
        output_tokens=spreads,
        arrival_ms=spreads,
        think_ms=spreads,
        max_tokens=st.sampled_from([1000, 10_000, 131_072]),
    )
)
@settings(max_examples=60, deadline=None)
def test_every_workload_gives_a_well_formed_trace(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "generated.jsonl"
    text = text_of(workload)
    if text:  # with few tokens allowed, no conversation may get a first turn
        path.write_text(text)
        assert list(TraceReader(path)) == list(generate(workload))
        assert max(request.input_length for request in generate(workload)) <= workload.max_tokens


def test_a_constant_workload_gives_the_expected_requests() -> None:
    """One conversation of three turns: 512 tokens of system prompt, 256 of prompt, 512 of output, a second apart."""
    workload = Workload(
        sessions=1,
        turns=Spread.parse("3"),
        branching=0.0,
        system_prompts=1,
        system_tokens=Spread.parse("512"),
        prompt_tokens=Spread.parse("256"),
        output_tokens=Spread.parse("512"),
        think_ms=Spread.parse("1000"),
    )
    assert list(generate(workload)) == [
        Request(0, 768, 512, (0, 1)),  # system prompt and a partial block
        Request(1000, 1536, 512, (0, 2, 3)),  # the partial block has become another, full one
        Request(2000, 2304, 512, (0, 2, 3, 4, 5)),
    ]


def test_conversations_share_their_system_prompt() -> None:
    workload = Workload(sessions=5, turns=ONE, system_prompts=1, system_tokens=Spread.parse("1024"))
    assert {request.hash_ids[:2] for request in generate(workload)} == {(0, 1)}


def test_no_two_conversations_share_more_than_their_system_prompt() -> None:
    workload = Workload(sessions=30, turns=ONE, system_prompts=2, system_tokens=Spread.parse("1024"))
    behind = [block for request in generate(workload) for block in request.hash_ids[2:]]
    assert len(set(behind)) == len(behind)


def forks(workload: Workload) -> int:
    """How many full blocks have a second child, a third, ..."""
    children: dict[int, set[int]] = {}
    for request in generate(workload):
        full = request.hash_ids[: request.input_length // 512]
        for parent, child in itertools.pairwise(full):
            children.setdefault(parent, set()).add(child)
    return sum(len(each) - 1 for each in children.values())


def test_branching_forks_conversations() -> None:
    long: dict[str, Any] = {"sessions": 1, "turns": Spread.parse("40"), "system_prompts": 1, "prompt_tokens": Spread.parse("600")}
    assert forks(Workload(branching=0.0, **long)) == 0
    assert forks(Workload(branching=0.5, **long)) > 5


def test_draws_of_a_spread_keep_its_quantiles() -> None:
    workload = Workload(sessions=2000, turns=ONE, system_tokens=ONE, prompt_tokens=Spread(100, 1000, 5000, 20000))
    lengths = sorted(request.input_length - 1 for request in generate(workload))
    assert lengths[0] >= 100
    assert lengths[-1] < 20000
    assert 850 < lengths[1000] < 1250
    assert 4500 < lengths[1800] < 5500


@pytest.mark.parametrize("text", ["", "a", "1,2", "4,3,2,1", "-1,2,3,4", "1.5"])
def test_a_bad_spread_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Spread.parse(text)


@pytest.mark.parametrize(
    "knobs",
    [
        {"sessions": 0},
        {"system_prompts": 0},
        {"max_tokens": 0},
        {"branching": 1.5},
        {"branching": float("nan")},
        {"turns": Spread.parse("0")},
        {"prompt_tokens": Spread.parse("0")},
    ],
)
def test_a_workload_without_sense_is_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Workload(**knobs)


def test_the_shipped_trace_is_packed_with_the_code() -> None:
    assert SHIPPED["small"].parent.parent == Path(sys.modules["kvprefix.replay"].__file__ or "").parent
