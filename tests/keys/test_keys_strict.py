"""Strict and lineage object keys: separated, injective, readable, committed to what makes bytes compatible (KEY-4, 6 to 10)."""

from __future__ import annotations

import random
import re
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.api import ROOT, CacheGroup
from kvprefix.errors import KeyInputError, KeyParseError
from kvprefix.keys import (
    Algorithm,
    BlockKey,
    Compatibility,
    Extras,
    HashScheme,
    KeySpace,
    Lineage,
    LineageKey,
    Lora,
    MediaItem,
    PromptEmbeds,
    Rank,
    Sharing,
    Span,
    SpanKind,
    Split,
    chain_keys,
    fingerprint,
    format_key,
    format_lineage,
    format_strict,
    hash_chain,
    key_space,
    lineage_of,
    parent_of,
    parse,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=150)

#: Names that meet each other, and every separator and escape of the forms.
NAMES = st.sampled_from(["a", "b", "a@b", "@", "%40", "%", "b16", "tp0", "@parent:root", "org/m", "ä\n\0", "~.-_"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6
)
COUNTS = st.sampled_from([0, 1, 2, 10, 1 << 31, (1 << 32) - 1])
STAMPS = st.sampled_from(["0" * 32, "0" * 31 + "1", "f" * 32])
RANKS = st.builds(Rank, COUNTS, COUNTS, COUNTS, COUNTS)
HASHES = st.sampled_from([b"\0", b"\1", bytes(16), bytes(32), b"\xff" * 32])


@st.composite
def spans(draw: Any) -> Span:
    kind = draw(st.sampled_from(list(SpanKind)))
    size = draw(st.sampled_from([2, 4, 16, 24]))
    return Span(kind, size, draw(st.integers(1, size - 1)) if kind is SpanKind.TAIL else size)


SPACES = st.builds(
    KeySpace,
    model=NAMES,
    fingerprint=STAMPS,
    namespace=NAMES | st.just(""),
    rank=RANKS,
    cache_group=st.sampled_from(list(CacheGroup)),
    group_id=COUNTS,
)
BLOCKS = st.builds(BlockKey, SPACES, spans(), HASHES)


@st.composite
def lineage_keys(draw: Any) -> LineageKey:
    block = draw(BLOCKS)
    block = attrs.evolve(block, space=attrs.evolve(block.space, cache_group=CacheGroup.FULL))
    return LineageKey(block, draw(st.just(ROOT) | st.binary(min_size=len(block.hash), max_size=len(block.hash))))


KEYS = BLOCKS | lineage_keys()

HASH = bytes(range(32))
SPACE = KeySpace("org/m", "0123456789abcdef" * 2)
FULL = Span.of(16, 16)
BLOCK = BlockKey(SPACE, FULL, HASH)


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-6, KEY-8: one string a key, one key a string


@FIXED
@given(KEYS)
def test_parsing_gives_back_the_key(key: BlockKey | LineageKey) -> None:
    assert parse(format_key(key)) == key


@FIXED
@given(KEYS, KEYS)
def test_two_keys_share_a_string_only_if_they_are_equal(first: BlockKey | LineageKey, second: BlockKey | LineageKey) -> None:
    assert (format_key(first) == format_key(second)) is (first == second)


@FIXED
@given(KEYS)
def test_output_is_printable_ascii_without_spaces(key: BlockKey | LineageKey) -> None:
    assert re.fullmatch(r"[!-~]+", format_key(key))


def mutated(text: str, at: int, instead: str, drop: int) -> str:
    at %= len(text) + 1
    return text[:at] + instead + text[at + drop :]


MUTANTS = st.builds(
    mutated,
    KEYS.map(format_key),
    st.integers(0, 400),
    st.sampled_from(["", "0", "a", "@", "%", "%41", "%ff", ".", "\n", "@parent:", "@parent:root", "ß", "F"]),
    st.integers(0, 3),
)


@FIXED
@given(MUTANTS | st.text(max_size=20))
def test_a_string_is_refused_or_is_what_formatting_makes(text: str) -> None:
    try:
        key = parse(text)
    except KeyParseError:
        return
    assert format_key(key) == text


@FIXED
@given(KEYS.map(format_key) | MUTANTS)
def test_lineage_is_found_in_lineage_keys_and_in_nothing_else(text: str) -> None:
    try:
        key = parse(text)
    except KeyParseError:
        key = None
    if not isinstance(key, LineageKey):
        assert lineage_of(text) is None
        return
    parent = parent_of(key)
    assert lineage_of(text) == Lineage(format_strict(key.block), ROOT if parent is ROOT else format_strict(parent))


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-4, KEY-7: separation by every dimension, from the request to the string

BASE: dict[str, Any] = {
    "tokens": list(range(32)),
    "extras": Extras(lora=Lora("x", "y"), media=(MediaItem("i", 0, 4),), salt="s", prompt_embeds=PromptEmbeds(bytes(range(64)), 2)),
    "compatibility": Compatibility(
        "org/m",
        "bfloat16",
        "LBHNC",
        revision="v1",
        block_sizes=(16,),
        num_kv_heads=8,
        details={"rope": "1"},
    ),
    "namespace": "n",
    "rank": Rank(),
    "cache_group": CacheGroup.FULL,
    "group_id": 0,
    "block_size": 16,
    "num_tokens": None,
}


def key_of(given: dict[str, Any]) -> str:
    """From the request to the strict string of its last stored block."""
    scheme = given["compatibility"].scheme
    hashes = hash_chain(scheme, given["tokens"], given["extras"])
    space = key_space(
        given["compatibility"],
        namespace=given["namespace"],
        rank=given["rank"],
        cache_group=given["cache_group"],
        group_id=given["group_id"],
    )
    size = given["block_size"]
    tokens = given["num_tokens"] or len(hashes) * scheme.block_size
    span = Span.of(size, scheme.block_size, tokens % size or None)
    return format_strict(BlockKey(space, span, hashes[tokens // scheme.block_size - 1]))


def base(**changes: Any) -> dict[str, Any]:
    return {**BASE, **changes}


def extras(**changes: Any) -> dict[str, Any]:
    return base(extras=attrs.evolve(BASE["extras"], **changes))


def deployed(**changes: Any) -> dict[str, Any]:
    return base(compatibility=attrs.evolve(BASE["compatibility"], **changes))


def hashed(**changes: Any) -> dict[str, Any]:
    return deployed(scheme=attrs.evolve(HashScheme(), **changes))


#: Every dimension, each changed alone; and values that moved from one dimension to another.
SITUATIONS: dict[str, dict[str, Any]] = {
    "base": base(),
    "first token": base(tokens=[99, *range(1, 32)]),
    "last token": base(tokens=[*range(31), 99]),
    "no lora": extras(lora=None),
    "lora name": extras(lora=Lora("x2", "y")),
    "lora path": extras(lora=Lora("x", "y2")),
    "lora name and path swapped": extras(lora=Lora("y", "x")),
    "no item": extras(media=()),
    "item identity": extras(media=(MediaItem("i2", 0, 4),)),
    "item offset": extras(media=(MediaItem("i", 1, 4),)),
    "item offset, second block": extras(media=(MediaItem("i", 16, 4),)),
    "no salt": extras(salt=None),
    "salt": extras(salt="s2"),
    "salt and item swapped": extras(salt="i", media=(MediaItem("s", 0, 4),)),
    "salt and lora swapped": extras(salt="x", lora=Lora("s", "y")),
    "no embeddings": extras(prompt_embeds=None),
    "embeddings": extras(prompt_embeds=PromptEmbeds(bytes(range(1, 65)), 2)),
    "embeddings of another width": extras(prompt_embeds=PromptEmbeds(bytes(range(64)), 4)),
    "model": deployed(model="org/m2"),
    "organisation": deployed(model="org2/m"),
    "no organisation": deployed(model="m"),
    "revision": deployed(revision="v2"),
    "kv dtype": deployed(kv_dtype="fp8_e4m3"),
    "layout": deployed(layout="LBNHC"),
    "dtype and layout swapped": deployed(kv_dtype="LBHNC", layout="bfloat16"),
    "quantization": deployed(quantization="awq"),
    "quantization for revision": deployed(quantization="v1", revision=""),
    "kv heads": deployed(num_kv_heads=4),
    "block sizes of the groups": deployed(block_sizes=(16, 16)),
    "a detail": deployed(details={"rope": "2"}),
    "tp": deployed(split=Split(tp=2)),
    "pp": deployed(split=Split(pp=2)),
    "pcp": deployed(split=Split(pcp=2)),
    "dcp": deployed(split=Split(tp=2, dcp=2)),
    "algorithm": hashed(algorithm=Algorithm.SHA256_CBOR),
    "seed": hashed(hash_seed="0"),
    "look-ahead": hashed(lookahead=1),
    "sharing": hashed(sharing=Sharing.EQUAL),
    "hash unit": hashed(block_size=8),
    "namespace": base(namespace="n2"),
    "no namespace": base(namespace=""),
    "namespace and model swapped": base(namespace="org/m", compatibility=attrs.evolve(BASE["compatibility"], model="n")),
    "tp rank": base(rank=Rank(tp=1)),
    "pcp rank": base(rank=Rank(pcp=1)),
    "dcp rank": base(rank=Rank(dcp=1)),
    "pp rank": base(rank=Rank(pp=1)),
    "cache group": base(group_id=1),
    "cache group kind": base(cache_group=CacheGroup.WINDOW),
    "coarse chunk": base(block_size=32),
    "partial tail": base(block_size=64, num_tokens=32),
    "another partial tail": base(block_size=48, num_tokens=32),
}


def test_no_two_situations_share_a_key() -> None:
    keys = {name: key_of(given) for name, given in SITUATIONS.items()}
    owners: dict[str, str] = {}
    for name, key in keys.items():
        assert key not in owners, f"{name!r} and {owners[key]!r} share {key}"
        owners[key] = name


def test_no_two_deployments_share_a_fingerprint() -> None:
    """On its own, whatever the hashes are: a look-ahead or a root seed must not be told apart by luck of the other part."""
    deployments = {given["compatibility"] for given in SITUATIONS.values()}
    assert len({fingerprint(compatibility) for compatibility in deployments}) == len(deployments) > 20


def test_the_same_hash_is_still_told_apart() -> None:
    """For these the block hash is the same: only the form keeps them apart, where vLLM's does not."""
    same = ["revision", "organisation", "kv dtype", "layout", "tp", "pp", "dcp", "coarse chunk", "partial tail", "cache group kind"]
    hashes = {key_of(SITUATIONS[name]).rpartition("@")[2] for name in ["base", *same]}
    assert len(hashes) == 1


FIELDS: dict[str, Any] = {
    "tokens": st.lists(st.integers(0, 1), min_size=16, max_size=16),
    "salt": st.sampled_from(["", "a", "b"]),
    "lora": st.none() | st.builds(Lora, st.sampled_from(["a", "b"]), st.sampled_from(["a", "b"])),
    "media": st.sampled_from([(), (MediaItem("a", 0, 1),), (MediaItem("b", 0, 1),), (MediaItem("a", 1, 1),)]),
    "model": st.sampled_from(["a", "b", "a/b"]),
    "namespace": st.sampled_from(["", "a", "b", "a@b"]),
    "kv_dtype": st.sampled_from(["a", "b"]),
    "rank": st.builds(Rank, st.integers(0, 1), st.integers(0, 1)),
    "group_id": st.integers(0, 1),
}


def situation_key(given: dict[str, Any]) -> str:
    return key_of(
        base(
            tokens=given["tokens"],
            extras=Extras(given["lora"], given["media"], given["salt"]),
            compatibility=Compatibility(given["model"], given["kv_dtype"], "LBHNC"),
            namespace=given["namespace"],
            rank=given["rank"],
            group_id=given["group_id"],
        )
    )


@FIXED
@given(st.fixed_dictionaries(FIELDS), st.fixed_dictionaries(FIELDS), st.sets(st.sampled_from(sorted(FIELDS))))
def test_situations_share_a_key_only_if_they_agree_in_every_dimension(
    first: dict[str, Any], other: dict[str, Any], kept: set[str]
) -> None:
    second = {name: first[name] if name in kept else other[name] for name in FIELDS}
    assert (situation_key(first) == situation_key(second)) is (first == second)


def test_fingerprint_ignores_sharing_where_the_recipe_does() -> None:
    def stamp(algorithm: Algorithm, sharing: Sharing) -> str:
        return fingerprint(Compatibility("m", "d", "l", HashScheme(algorithm, hash_seed="0", sharing=sharing)))

    assert stamp(Algorithm.SHA256_CBOR, Sharing.EQUAL) == stamp(Algorithm.SHA256_CBOR, Sharing.DISTINCT)
    assert stamp(Algorithm.XXHASH, Sharing.EQUAL) != stamp(Algorithm.XXHASH, Sharing.DISTINCT)


def test_fingerprint_is_the_same_in_any_order_of_details() -> None:
    first = Compatibility("m", "d", "l", details={"a": "1", "b": "2"})
    assert fingerprint(first) == fingerprint(attrs.evolve(first, details={"b": "2", "a": "1"}))


def test_fingerprint_of_a_deployment_is_pinned() -> None:
    """A change of this value makes every stored object unreadable: raise the version inside it on purpose only."""
    assert fingerprint(Compatibility("org/m", "bfloat16", "LBHNC")) == PINNED_FINGERPRINT


PINNED_FINGERPRINT = "3c8eb49c935622a88779e49f55195461"


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-8: lineage


def test_the_forms_are_pinned() -> None:
    start = "kvp1@@org%2Fm@0123456789abcdef0123456789abcdef@tp0@pcp0@dcp0@pp0@full0"
    assert format_strict(BLOCK) == f"{start}@b16@{HASH.hex()}"
    assert format_lineage(BLOCK, ROOT) == f"{start}@b16@{HASH.hex()}@parent:root"
    assert format_lineage(BLOCK, bytes(32)) == f"{start}@b16@{HASH.hex()}@parent:{'00' * 32}"
    assert format_strict(attrs.evolve(BLOCK, span=Span.of(64, 16))) == f"{start}@c64@{HASH.hex()}"
    assert format_strict(attrs.evolve(BLOCK, span=Span.of(64, 16, 48))) == f"{start}@t64.48@{HASH.hex()}"


@pytest.mark.parametrize(("block_size", "num_tokens"), [(4, None), (8, None), (8, 36), (12, 44)])
def test_a_forest_is_rebuilt_from_key_strings_alone(block_size: int, num_tokens: int | None) -> None:
    scheme = HashScheme(block_size=4)
    prompts = [list(range(44)), [*range(24), *range(100, 120)], list(range(500, 544))]
    chains = [
        chain_keys(SPACE, hash_chain(scheme, prompt), hash_unit=4, block_size=block_size, num_tokens=num_tokens)
        for prompt in prompts
    ]
    texts = [format_key(key) for chain in chains for key in chain]
    random.Random(7).shuffle(texts)

    parents = {}
    for text in texts:
        lineage = lineage_of(text)
        assert lineage is not None
        parents[lineage.identity] = lineage.parent

    for chain in chains:
        walk, at = [], format_strict(chain[-1].block)
        while True:
            walk.append(at)
            above = parents[at]
            if above is ROOT:
                break
            assert isinstance(above, str)
            at = above
        assert walk[::-1] == [format_strict(key.block) for key in chain]


@pytest.mark.parametrize("group", [CacheGroup.WINDOW, CacheGroup.STATE, CacheGroup.BLOB])
def test_only_full_cache_groups_have_a_lineage(group: CacheGroup) -> None:
    key = attrs.evolve(BLOCK, space=attrs.evolve(SPACE, cache_group=group))
    with pytest.raises(KeyInputError, match="no parent"):
        format_lineage(key, ROOT)
    assert parse(format_strict(key)) == key
    assert lineage_of(format_strict(key)) is None
    assert lineage_of(format_strict(key) + "@parent:root") is None


def test_lineage_of_keys_of_other_kinds_is_none() -> None:
    for text in ("", "k", "@parent:root", format_strict(BLOCK), "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab", "x@parent:root"):
        assert lineage_of(text) is None


def test_a_lineage_key_keeps_a_parent_of_its_own() -> None:
    buffer = bytearray(32)
    key = LineageKey(BLOCK, buffer)
    buffer[0] = 1
    assert key == LineageKey(BLOCK, bytes(32))
    assert len({key, LineageKey(BLOCK, bytes(32))}) == 1


def test_a_parent_hash_has_the_length_of_the_blocks_own() -> None:
    with pytest.raises(KeyInputError, match="parent hash"):
        format_lineage(BLOCK, bytes(16))
    with pytest.raises(KeyParseError, match="parent hash"):
        parse(format_strict(BLOCK) + "@parent:" + "00" * 16)
    assert lineage_of(format_strict(BLOCK) + "@parent:" + "00" * 16) is None


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-9, KEY-10


def test_one_hash_names_a_block_a_chunk_and_a_tail_under_three_keys() -> None:
    spans_ = [Span.of(4, 4), Span.of(16, 4), Span.of(32, 4), Span.of(32, 4, 16), Span.of(64, 4, 16), Span.of(64, 4, 48)]
    assert len({format_strict(attrs.evolve(BLOCK, span=span)) for span in spans_}) == len(spans_)


def test_chunks_and_tails_of_a_prompt_are_named_by_the_hash_at_their_end() -> None:
    hashes = hash_chain(HashScheme(block_size=4), range(44))
    keys = chain_keys(SPACE, hashes, hash_unit=4, block_size=16, num_tokens=40)
    assert [key.block.hash for key in keys] == [hashes[3], hashes[7], hashes[9]]
    assert [key.block.span.text for key in keys] == ["c16", "c16", "t16.8"]
    assert [key.parent for key in keys] == [ROOT, hashes[3], hashes[7]]


def test_without_a_length_a_chain_ends_at_its_last_full_block() -> None:
    hashes = hash_chain(HashScheme(block_size=4), range(44))
    assert len(chain_keys(SPACE, hashes, hash_unit=4, block_size=16)) == 2


# --------------------------------------------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeySpace("", "0" * 32),
        lambda: KeySpace("m", "0" * 31),
        lambda: KeySpace("m", "0" * 31 + "A"),
        lambda: KeySpace("m\udfff", "0" * 32),
        lambda: KeySpace("m", "0" * 32, namespace=None),  # type: ignore[arg-type]
        lambda: KeySpace("m", "0" * 32, rank=Rank(tp=-1)),
        lambda: KeySpace("m", "0" * 32, group_id=1 << 32),
        lambda: Span(SpanKind.TAIL, 16, 16),
        lambda: Span(SpanKind.BLOCK, 16, 8),
        lambda: Span.of(16, 4, 0),
        lambda: Span.of(16, 4, 6),
        lambda: Span.of(18, 4),
        lambda: Span.of(8, 16),
        lambda: Span.of(16, 0),
        lambda: Span(SpanKind.BLOCK, 1 << 32, 1 << 32),
        lambda: Span(SpanKind.TAIL, 1 << 32, 4),
        lambda: LineageKey(BLOCK, None),
        lambda: LineageKey(BLOCK, "00" * 32),
        lambda: chain_keys(SPACE, [HASH], hash_unit=0),
        lambda: chain_keys(SPACE, [HASH], hash_unit=4, block_size=0),
        lambda: chain_keys(SPACE, [HASH], hash_unit=4, block_size=6),
        lambda: BlockKey(SPACE, FULL, b""),
        lambda: BlockKey(SPACE, FULL, bytes(65)),
        lambda: BlockKey(SPACE, FULL, "00"),
        lambda: Compatibility("", "d", "l"),
        lambda: Compatibility("m", "", "l"),
        lambda: Compatibility("m", "d", ""),
        lambda: Compatibility("m", "d", "l", block_sizes=(0,)),
        lambda: Compatibility("m", "d", "l", num_kv_heads=0),
        lambda: Compatibility("m", "d", "l", details={"a": 1}),  # type: ignore[dict-item]
        lambda: Split(tp=0),
        lambda: Split(tp=4, dcp=3),
    ],
)
def test_bad_input_is_a_typed_error(make: Any) -> None:
    with pytest.raises(KeyInputError):
        make()


GOOD = format_strict(BLOCK)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kvp1",
        GOOD.replace("kvp1", "kvp2"),
        GOOD.replace("tp0@", "tp00@"),
        GOOD.replace("tp0@", "tp-1@"),
        GOOD.replace("tp0@", "tp4294967296@"),
        GOOD.replace("org%2Fm", "org/m"),
        GOOD.replace("org%2Fm", "org%2fm"),
        GOOD.replace("org%2Fm", "%6Frg%2Fm"),
        GOOD.replace("org%2Fm", "%FF"),
        GOOD.replace("org%2Fm", "%"),
        GOOD.replace("org%2Fm", ""),
        GOOD.replace("full0", "half0"),
        GOOD.replace("b16", "b0"),
        GOOD.replace("b16", "b16.8"),
        GOOD.replace("b16", "t16"),
        GOOD.replace("b16", "t16.16"),
        GOOD[:-1],
        GOOD.upper(),
        GOOD + "\n",
        " " + GOOD,
        GOOD + "@parent:",
        GOOD + "@parent:ROOT",
        GOOD + "@parent:root@parent:root",
    ],
)
def test_what_formatting_does_not_make_is_refused_with_the_string_and_a_reason(text: str) -> None:
    with pytest.raises(KeyParseError) as raised:
        parse(text)
    assert repr(text) in str(raised.value)
    assert lineage_of(text) is None


TOO_LONG = "00" * 65
LINEAGE = format_lineage(BLOCK, bytes(32))


@pytest.mark.parametrize(
    "text",
    [
        GOOD[:-64] + TOO_LONG + "@parent:root",
        GOOD[:-64] + TOO_LONG + "@parent:" + TOO_LONG,
        GOOD[:-64] + "@parent:root",
        GOOD[:-64] + "0F" * 32 + "@parent:root",
        GOOD[:-1] + "@parent:root",
        GOOD[:-1] + "@parent:" + "0" * 63,
        LINEAGE[:-64] + "A" * 64,
        LINEAGE[:-64] + "٣" * 64,
        LINEAGE[:-2] + "\n0",
        LINEAGE + "\n",
        LINEAGE.replace("tp0", "tp٣"),
        LINEAGE.replace("tp0", "tp1_0"),
        LINEAGE.replace("tp0", "tp+1"),
        LINEAGE.replace("full0", "full00"),
        LINEAGE.replace("b16", "b4294967296"),
        LINEAGE.replace("b16", "t16.016"),
        LINEAGE.replace("org%2Fm", "%ED%A0%80"),
        LINEAGE.replace("org%2Fm", "%C0%AF"),
        LINEAGE.replace("org%2Fm", "\ud800"),
        "@" * 5000 + "@parent:root",
    ],
)
def test_what_is_nearly_a_lineage_key_is_none_for_a_store_and_an_error_for_a_reader(text: str) -> None:
    assert lineage_of(text) is None
    with pytest.raises(KeyParseError):
        parse(text)


def test_names_that_only_unicode_takes_for_equal_are_different() -> None:
    names = ["\u00c5", "\u212b", "A\u030a", "%C3%85", "\u00e5", "a", "A"]
    keys = {format_strict(attrs.evolve(BLOCK, space=attrs.evolve(SPACE, namespace=name))) for name in names}
    assert len(keys) == len(names)
