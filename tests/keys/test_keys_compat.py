"""Compat object keys: vLLM's string, what it can be read as, and its known collisions (KEY-3, KEY-4, KEY-6)."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvprefix.errors import KeyInputError, KeyParseError
from kvprefix.keys import (
    BlockKey,
    Collision,
    CompatKey,
    KeySpace,
    Names,
    Rank,
    SharedFormat,
    Span,
    ambiguity,
    collision_json,
    collision_vectors,
    compat_collisions,
    compat_key,
    compat_readings,
    format_compat,
    format_key,
    format_strict,
    is_compat,
    model_name,
    mooncake_group_id,
    mqa_namespace,
    parse,
    rank_local_namespace,
    shared_namespace,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=200)

NAMESPACES = ["", shared_namespace(SharedFormat.LBHNC, 4, 1), mqa_namespace(1), rank_local_namespace(2, 1, "LBHNC")]
#: With numbers of two digits, and every kind of character that a layout's name may have.
WIDE_NAMESPACES = [
    shared_namespace(SharedFormat.LBNHC, 16, 12), mqa_namespace(10), rank_local_namespace(32, 10, "nl_HC2"),
]  # fmt: skip
PIECES = st.lists(st.sampled_from(["a", "b\n", "@", "@tp_rank:0", *(n for n in NAMESPACES if n)]), max_size=4).map("".join)
CLEAN = PIECES.map(lambda text: text.replace("@", ""))
NUMBERS = st.sampled_from([-1, 0, 1, 12])
RANKS = st.builds(Rank, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def keys(names: st.SearchStrategy[str]) -> st.SearchStrategy[CompatKey]:
    return st.builds(
        CompatKey, names, st.sampled_from(["ab", "0c"]), RANKS, NUMBERS, names, st.sampled_from(NAMESPACES + WIDE_NAMESPACES)
    )


# --------------------------------------------------------------------------------------------------------------------------------
# Reading back


@FIXED
@given(keys(PIECES))
def test_the_key_itself_is_among_the_readings_and_every_reading_formats_to_the_string(key: CompatKey) -> None:
    text = format_compat(key)
    readings = compat_readings(text)
    assert key in readings
    assert {format_compat(reading) for reading in readings} == {text}
    assert len(set(readings)) == len(readings)


@FIXED
@given(keys(PIECES), keys(PIECES))
def test_whoever_shares_a_string_is_listed_as_a_collision(first: CompatKey, second: CompatKey) -> None:
    assume(first != second)
    assert (format_compat(first) == format_compat(second)) is (second in compat_collisions(first))


@FIXED
@given(keys(CLEAN), keys(CLEAN))
def test_keys_of_clean_names_never_collide(first: CompatKey, second: CompatKey) -> None:
    assert (format_compat(first) == format_compat(second)) is (first == second)
    clean = [key for key in compat_readings(format_compat(first)) if "@" not in key.cache_prefix + key.model_name]
    assert clean == [first]


def test_readings_with_clean_names_come_first() -> None:
    readings = compat_readings("p@m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab")
    assert readings == (CompatKey("m", "ab", cache_prefix="p"), CompatKey("p@m", "ab"))


def test_the_tail_is_read_from_the_right() -> None:
    key = CompatKey("m@tp_rank:7@pcp0@dcp0@pp_rank:0@group:0@ab", "cd", Rank(1, 2, 3, 4), 5)
    assert {reading.rank for reading in compat_readings(format_compat(key))} == {Rank(1, 2, 3, 4)}


@pytest.mark.parametrize(
    "text",
    ["", "m", "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0", "m@tp_rank:-0@pcp0@dcp0@pp_rank:0@group:0@ab",
     "m@tp_rank:00@pcp0@dcp0@pp_rank:0@group:0@ab", "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@AB",
     "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:1" + "0" * 19 + "@ab", "m@tp_rank:+1@pcp0@dcp0@pp_rank:0@group:0@ab",
     "m@tp_rank:1_0@pcp0@dcp0@pp_rank:0@group:0@ab", "m@tp_rank:٣@pcp0@dcp0@pp_rank:0@group:0@ab",
     "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab\n", "m@pp_rank:0@tp_rank:0@pcp0@dcp0@group:0@ab"],
)  # fmt: skip
def test_a_string_of_another_shape_is_refused(text: str) -> None:
    assert not is_compat(text)
    with pytest.raises(KeyParseError):
        compat_readings(text)


def test_a_key_with_a_name_that_no_wire_carries_is_refused_as_a_key() -> None:
    with pytest.raises(KeyParseError, match="lone surrogate"):
        compat_readings("a\ud800@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab")


@pytest.mark.parametrize("number", [10**19 - 1, 1 - 10**19])
def test_the_largest_numbers_that_are_written_are_read_back(number: int) -> None:
    key = CompatKey("m", "ab", Rank(number, number, number, number), number)
    assert compat_readings(format_compat(key)) == (key,)


def test_a_namespace_that_occurs_many_times_is_read_where_it_ends_the_head() -> None:
    namespace = mqa_namespace(1)
    readings = compat_readings(f"m{namespace * 300}@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab")
    ends = [reading for reading in readings if reading.store_namespace]
    assert ends[0] == CompatKey(f"m{namespace * 299}", "ab", store_namespace=namespace)
    # The prefix ends at any "@" before the namespace, or there is none.
    assert len(ends) == 2 * 299 + 1


# --------------------------------------------------------------------------------------------------------------------------------
# Ambiguity of names


def test_names_without_a_separator_are_unambiguous() -> None:
    seen = ambiguity("", "Llama-3.1-8B")
    assert (seen.ambiguous, seen.at_fault, seen.collisions) == (False, False, ())


def test_a_name_with_a_separator_is_at_fault_and_its_collisions_are_listed() -> None:
    seen = ambiguity("", "a@b")
    assert (seen.ambiguous, seen.at_fault) == (True, True)
    assert seen.collisions == (Names("a", "b"),)


def test_clean_names_are_not_at_fault_for_what_another_name_could_pass_for() -> None:
    seen = ambiguity("prod", "m")
    assert (seen.ambiguous, seen.at_fault) == (True, False)
    assert seen.collisions == (Names("", "prod@m"),)


def test_a_model_can_pass_for_a_store_namespace() -> None:
    namespace = NAMESPACES[1]
    assert Names("", f"m{namespace}") in ambiguity("", "m", namespace).collisions


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-4: the known collisions

COLLISIONS = collision_vectors()


@pytest.mark.parametrize("collision", [pytest.param(c, id=c.id) for c in COLLISIONS])
def test_each_known_collision_is_one_in_compat_and_none_in_strict(collision: Collision) -> None:
    first, second = collision.first, collision.second
    assert format_compat(first.compat) == format_compat(second.compat) == collision.text
    assert format_strict(first.strict) != format_strict(second.strict)
    for side in (first, second):
        # The two forms speak of the same object.
        assert side.compat == compat_key(side.strict, side.compat.store_namespace)
        assert parse(format_strict(side.strict)) == side.strict
    if collision.id.startswith("names/"):
        assert second.compat in compat_collisions(first.compat)


def test_collisions_have_ids_of_their_own_and_a_reason() -> None:
    assert len({collision.id for collision in COLLISIONS}) == len(COLLISIONS)
    assert all(len(collision.because) > 20 for collision in COLLISIONS)


def test_every_dimension_that_compat_leaves_out_has_a_collision() -> None:
    lost = {c.id.removeprefix("lost/") for c in COLLISIONS if c.id.startswith("lost/")}
    assert lost >= {"organisation", "revision", "kv-dtype", "quantization", "layout", "block-size", "partial-tail",
                    "tp-size", "pp-size", "pcp-size", "dcp-size", "kv-heads", "cache-group-kind"}  # fmt: skip
    assert sum(c.id.startswith("names/") for c in COLLISIONS) >= 6


def test_collisions_are_plain_json_vectors() -> None:
    vectors = json.loads(json.dumps([collision_json(collision) for collision in COLLISIONS]))
    for vector in vectors:
        for side in ("first", "second"):
            fields = dict(vector[side]["compat"])
            rank = Rank(*(fields.pop(f"{name}_rank") for name in ("tp", "pcp", "dcp", "pp")))
            assert format_compat(CompatKey(rank=rank, **fields)) == vector["compat"]
            assert format_key(parse(vector[side]["strict"])) == vector[side]["strict"]


# --------------------------------------------------------------------------------------------------------------------------------
# Names


@pytest.mark.parametrize(("model", "name"), [("org/m", "m"), ("/models/m/", "m"), ("m", "m"), ("a/b/c", "c"), ("/", ""), ("", "")])
def test_only_the_last_component_of_a_model_is_in_the_key(model: str, name: str) -> None:
    assert model_name(model) == name


def test_a_block_of_the_strict_form_has_its_compat_name() -> None:
    space = KeySpace("org/m", "0" * 32, "prod", Rank(1, 0, 0, 2), group_id=3)
    key = compat_key(BlockKey(space, Span.of(16, 16), b"\xab"), "@store_pp:1@store_format:tp_shared_mqa")
    assert format_compat(key) == (
        "prod@m@store_pp:1@store_format:tp_shared_mqa@tp_rank:1@pcp0@dcp0@pp_rank:2@group:3@ab"
    )  # fmt: skip
    assert mooncake_group_id(key) == "vllm-mooncake-store:prod@m@store_pp:1@store_format:tp_shared_mqa@ab"


@FIXED
@given(keys(PIECES), RANKS, NUMBERS)
def test_a_mooncake_group_is_the_same_for_all_ranks_and_cache_groups(key: CompatKey, rank: Rank, group: int) -> None:
    assert mooncake_group_id(attrs.evolve(key, rank=rank, group_id=group)) == mooncake_group_id(key)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CompatKey("m", "AB"),
        lambda: CompatKey("m", ""),
        lambda: CompatKey("m", "ab", store_namespace="store"),
        lambda: CompatKey(None, "ab"),  # type: ignore[arg-type]
        lambda: CompatKey("m", "ab", cache_prefix="\ud800"),
        lambda: ambiguity("", 3),  # type: ignore[arg-type]
        lambda: CompatKey("m", "ab", group_id=True),
        lambda: CompatKey("m", "ab", group_id=10**19),
        lambda: CompatKey("m", "ab", Rank(tp="0@pcp1")),  # type: ignore[arg-type]
        lambda: CompatKey("m", "ab", Rank(pp=-(10**19))),
    ],
)
def test_bad_input_is_a_typed_error(make: Any) -> None:
    with pytest.raises(KeyInputError):
        make()
