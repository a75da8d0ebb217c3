"""Chains of block hashes: what a hash depends on and what it does not (KEY-2, KEY-5), growth, and input that has no hash."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvprefix.errors import KeyInputError
from kvprefix.keys import (
    NO_EXTRAS,
    RANDOM_ROOT,
    Algorithm,
    ChainHasher,
    Extras,
    HashScheme,
    Lora,
    MediaItem,
    PromptEmbeds,
    Sharing,
    event_extra_keys,
    event_hash,
    extra_keys,
    hash_block,
    hash_chain,
    pack_group,
    placeholder_tokens,
    root_hash,
    seed_text,
    unpack_group,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=60)

TOKENS = st.lists(st.integers(0, 130_000), min_size=1, max_size=40)
#: Few and short, so that equal values meet across fields.
WORDS = st.sampled_from(["a", "b", "lora", "mm", "img-1", "img-2", "tenant"])
ALGORITHMS = st.sampled_from(list(Algorithm))


@st.composite
def media_items(draw: Any) -> tuple[MediaItem, ...]:
    items, at = [], 0
    for _ in range(draw(st.integers(0, 3))):
        offset = at + draw(st.integers(0, 6))
        length = draw(st.integers(1, 9))
        items.append(MediaItem(draw(WORDS), offset, length))
        at = offset + length
    return tuple(items)


EXTRAS = st.builds(
    Extras,
    lora=st.none() | st.builds(Lora, WORDS, WORDS),
    media=media_items(),
    salt=st.none() | st.just("") | WORDS,
    prompt_embeds=st.none() | st.binary(max_size=60).map(lambda data: PromptEmbeds(data[: len(data) // 2 * 2], 2)),
)


@st.composite
def schemes(draw: Any) -> HashScheme:
    return HashScheme(draw(ALGORITHMS), draw(st.sampled_from([1, 2, 4, 5])), "0", sharing=draw(st.sampled_from(list(Sharing))))


def differ_from(first: int, before: list[bytes], after: list[bytes]) -> None:
    """The hashes are equal below block ``first`` and all different from there on."""
    assert before[:first] == after[:first]
    assert not set(before[first:]) & set(after[first:])


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-2


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.data())
def test_changing_a_token_changes_its_block_and_all_after_and_none_before(
    scheme: HashScheme, tokens: list[int], extras: Extras, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(tokens) - 1))
    changed = [*tokens[:at], tokens[at] + 1, *tokens[at + 1 :]]
    differ_from(at // scheme.block_size, hash_chain(scheme, tokens, extras), hash_chain(scheme, changed, extras))


@pytest.mark.parametrize("position", [0, 3, 4, 7])
def test_every_position_of_a_block_counts_the_last_too(position: int) -> None:
    tokens = list(range(8))
    scheme = HashScheme(block_size=4)
    changed = [*tokens[:position], 99, *tokens[position + 1 :]]
    differ_from(position // 4, hash_chain(scheme, tokens), hash_chain(scheme, changed))


@FIXED
@given(schemes(), TOKENS, EXTRAS, TOKENS)
def test_hashes_depend_on_nothing_after_their_block(scheme: HashScheme, tokens: list[int], extras: Extras, more: list[int]) -> None:
    before = hash_chain(scheme, tokens, extras)
    assert hash_chain(scheme, tokens + more, extras)[: len(before)] == before


@FIXED
@given(schemes(), TOKENS, EXTRAS, WORDS, WORDS)
def test_a_lora_separates_every_block_by_name_and_by_path(
    scheme: HashScheme, tokens: list[int], extras: Extras, name: str, path: str
) -> None:
    assume(extras.lora != Lora(name, path))
    changed = attrs.evolve(extras, lora=Lora(name, path))
    differ_from(0, hash_chain(scheme, tokens, extras), hash_chain(scheme, tokens, changed))


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.data())
def test_a_multimodal_item_separates_from_the_first_block_that_it_touches(
    scheme: HashScheme, tokens: list[int], extras: Extras, data: st.DataObject
) -> None:
    assume(extras.media)
    index = data.draw(st.integers(0, len(extras.media) - 1))
    item = extras.media[index]
    other = attrs.evolve(item, identifier=item.identifier + "'")
    changed = attrs.evolve(extras, media=(*extras.media[:index], other, *extras.media[index + 1 :]))
    differ_from(item.offset // scheme.block_size, hash_chain(scheme, tokens, extras), hash_chain(scheme, tokens, changed))


@FIXED
@given(schemes(), TOKENS, st.integers(0, 30), st.integers(1, 9))
def test_moving_a_multimodal_item_separates_from_where_it_stood_first(
    scheme: HashScheme, tokens: list[int], offset: int, length: int
) -> None:
    here = hash_chain(scheme, tokens, Extras(media=(MediaItem("img", offset, length),)))
    there = hash_chain(scheme, tokens, Extras(media=(MediaItem("img", offset + 1, length),)))
    differ_from(offset // scheme.block_size, here, there)


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.data())
def test_an_embedding_separates_from_its_own_block(
    scheme: HashScheme, tokens: list[int], extras: Extras, data: st.DataObject
) -> None:
    rows = bytearray(2 * len(tokens))
    at = data.draw(st.integers(0, len(tokens) - 1))
    before = hash_chain(scheme, tokens, attrs.evolve(extras, prompt_embeds=PromptEmbeds(bytes(rows), 2)))
    rows[2 * at] = 1
    after = hash_chain(scheme, tokens, attrs.evolve(extras, prompt_embeds=PromptEmbeds(bytes(rows), 2)))
    differ_from(at // scheme.block_size, before, after)


def test_a_value_of_one_kind_never_passes_for_a_value_of_another() -> None:
    value = "same"
    kinds = [
        NO_EXTRAS,
        Extras(lora=Lora(value, value)),
        Extras(media=(MediaItem(value, 0, 1),)),
        Extras(salt=value),
        Extras(prompt_embeds=PromptEmbeds(value.encode(), 4)),
        Extras(lora=Lora(value, value), salt=value),
    ]
    hashes = [hash_chain(HashScheme(block_size=1), [0], extras)[0] for extras in kinds]
    assert len(set(hashes)) == len(kinds)


# --------------------------------------------------------------------------------------------------------------------------------
# KEY-5


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.sampled_from(["x", "tenant-b"]))
def test_a_salt_separates_the_whole_chain(scheme: HashScheme, tokens: list[int], extras: Extras, salt: str) -> None:
    differ_from(0, hash_chain(scheme, tokens, extras), hash_chain(scheme, tokens, attrs.evolve(extras, salt=salt)))


@FIXED
@given(schemes(), TOKENS, EXTRAS)
def test_an_absent_and_an_empty_salt_are_the_same(scheme: HashScheme, tokens: list[int], extras: Extras) -> None:
    absent, empty = attrs.evolve(extras, salt=None), attrs.evolve(extras, salt="")
    assert hash_chain(scheme, tokens, absent) == hash_chain(scheme, tokens, empty)
    assert absent == empty


def test_the_salt_itself_stands_in_block_0_only() -> None:
    extras = Extras(salt="x")
    assert extra_keys(extras, 0, 4) == (("cache_salt", "x"),)
    assert extra_keys(extras, 4, 8) is None


# --------------------------------------------------------------------------------------------------------------------------------
# Growth, look-ahead


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.lists(st.integers(1, 9), min_size=1), st.integers(0, 3))
def test_hashes_of_a_growing_request_equal_those_of_the_whole(
    scheme: HashScheme, tokens: list[int], extras: Extras, steps: list[int], lookahead: int
) -> None:
    scheme = attrs.evolve(scheme, lookahead=lookahead)
    hasher, at = ChainHasher(scheme, extras), 0
    fresh: list[bytes] = []
    while at < len(tokens):
        step = steps[at % len(steps)]
        fresh += hasher.extend(tokens[at : at + step])
        at += step
    assert fresh == list(hasher.hashes) == hash_chain(scheme, tokens, extras)
    assert hasher.num_tokens == len(tokens)


@FIXED
@given(schemes(), TOKENS, EXTRAS, st.integers(1, 3), st.data())
def test_with_lookahead_a_hash_covers_the_tokens_after_its_block_and_waits_for_them(
    scheme: HashScheme, tokens: list[int], extras: Extras, lookahead: int, data: st.DataObject
) -> None:
    scheme = attrs.evolve(scheme, lookahead=lookahead)
    hashes = hash_chain(scheme, tokens, extras)
    assert len(hashes) == max(0, (len(tokens) - lookahead) // scheme.block_size)
    assume(hashes)
    at = data.draw(st.integers(0, len(tokens) - 1))
    changed = [*tokens[:at], tokens[at] + 1, *tokens[at + 1 :]]
    differ_from(max(0, (at - lookahead) // scheme.block_size), hashes, hash_chain(scheme, changed, extras))


@FIXED
@given(TOKENS, EXTRAS, st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_with_lookahead_the_extra_keys_cover_the_longer_window(
    tokens: list[int], extras: Extras, size: int, lookahead: int
) -> None:
    scheme = HashScheme(Algorithm.SHA256_CBOR, size, lookahead=lookahead)
    parent = scheme.root
    for number, made in enumerate(hash_chain(scheme, tokens, extras)):
        start, end = number * size, number * size + size
        extra = (extra_keys(extras, start, end + lookahead), *tokens[end : end + lookahead])
        parent = hash_block(scheme, parent, tokens[start:end], extra)
        assert made == parent


@FIXED
@given(media_items(), st.integers(1, 8), st.integers(0, 6))
def test_a_block_lists_exactly_the_items_that_share_a_token_with_it(items: tuple[MediaItem, ...], size: int, block: int) -> None:
    start, stop = block * size, block * size + size
    touched = [item for item in items if set(range(item.offset, item.end)) & set(range(start, stop))]
    want = tuple(("mm", item.identifier, item.offset - start) for item in touched) or None
    assert extra_keys(Extras(media=items), start, stop) == want


def test_items_may_come_in_any_order() -> None:
    first, second = MediaItem("a", 0, 2), MediaItem("b", 5, 2)
    assert Extras(media=(second, first)) == Extras(media=(first, second))


def test_embeddings_past_the_last_row_hash_as_an_empty_slice() -> None:
    keys = extra_keys(Extras(prompt_embeds=PromptEmbeds(bytes(8), 2)), 4, 8)
    assert keys is not None
    assert keys[0][1].hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_event_form_loses_the_tags() -> None:
    lora = event_extra_keys(extra_keys(Extras(lora=Lora("x", "/p")), 0, 4))
    salt = event_extra_keys(extra_keys(Extras(salt="x"), 0, 4))
    assert lora == salt == ("x",)


# --------------------------------------------------------------------------------------------------------------------------------
# Root seeds


@pytest.mark.parametrize("algorithm", [Algorithm.XXHASH, Algorithm.XXHASH_CBOR])
def test_a_recipe_without_a_fixed_root_asks_for_a_seed_or_an_explicit_random_one(algorithm: Algorithm) -> None:
    with pytest.raises(KeyInputError, match="RANDOM_ROOT"):
        root_hash(algorithm)
    with pytest.raises(KeyInputError, match="RANDOM_ROOT"):
        HashScheme(algorithm)
    with pytest.raises(KeyInputError, match="RANDOM_ROOT"):
        attrs.evolve(HashScheme(), algorithm=algorithm)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_random_root_is_drawn_once_and_can_be_handed_on(algorithm: Algorithm) -> None:
    scheme = HashScheme(algorithm, hash_seed=RANDOM_ROOT)
    assert HashScheme(algorithm, hash_seed=RANDOM_ROOT).root != scheme.root
    assert attrs.evolve(scheme, lookahead=1).root == scheme.root
    assert HashScheme(algorithm, hash_seed=scheme.hash_seed) == scheme
    assert isinstance(scheme.hash_seed, str)
    assert len(bytes.fromhex(scheme.hash_seed)) == 32


def test_schemes_are_compared_by_the_root_and_not_by_how_it_was_asked_for() -> None:
    assert HashScheme(hash_seed="vllm-none-hash") == HashScheme()
    assert HashScheme(hash_seed="0") != HashScheme()


@pytest.mark.parametrize("sharing", list(Sharing))
def test_a_sharing_by_name_is_that_sharing(sharing: Sharing) -> None:
    """Taken as it came, the text "distinct" would have been no DISTINCT and hashed as the other arm."""
    assert HashScheme(sharing=sharing.value) == HashScheme(sharing=sharing)
    with pytest.raises(KeyInputError, match="unknown sharing 'both'"):
        HashScheme(sharing="both")


def test_the_seed_is_taken_literally() -> None:
    assert seed_text(Algorithm.SHA256, "random") == "random"
    assert seed_text(Algorithm.XXHASH, "") == ""
    assert seed_text(Algorithm.SHA256) == "vllm-none-hash"


# --------------------------------------------------------------------------------------------------------------------------------
# Input that has no hash


class Subclass(int):
    """Equal to an int, and pickled otherwise."""


#: Each is wrong in one token; the last ones look like plain ints to a check of bytes that loses count.
BAD_TOKENS: list[list[Any]] = [
    [1, True], [False, 1], [1, -1], [-(1 << 31), 0], [1, 2.0], ["1"], [1, None], [None, None], [1 << 80, -1], [1, Subclass(2)],
    [True, 0x69696969, 0x69696969, 0x69696969, 0x69696969, 0x69696969], [True] * 5, [1.5, 1.5, True, True], [(1,), 2], [b"iiii", 1],
]  # fmt: skip


@pytest.mark.parametrize("tokens", BAD_TOKENS)
def test_tokens_that_are_not_plain_integers_are_refused(tokens: list[Any]) -> None:
    with pytest.raises(KeyInputError, match="token id"):
        hash_chain(HashScheme(block_size=2), tokens)
    with pytest.raises(KeyInputError, match="token id"):
        ChainHasher(HashScheme(block_size=2)).extend(tokens)


def test_tokens_of_any_width_are_hashed() -> None:
    assert len(hash_chain(HashScheme(block_size=1), [1 << 31, 1 << 63, 1 << 64])) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lora("name", ""),
        lambda: Lora(None, "path"),  # type: ignore[arg-type]
        lambda: Lora("a\ud800", "path"),
        lambda: MediaItem("a", -1, 1),
        lambda: MediaItem("a", 0, 0),
        lambda: MediaItem("a", True, 1),
        lambda: MediaItem(b"a", 0, 1),  # type: ignore[arg-type]
        lambda: Extras(media=(MediaItem("a", 0, 3), MediaItem("b", 2, 3))),
        lambda: Extras(salt=5),  # type: ignore[arg-type]
        lambda: PromptEmbeds(b"abc", 2),
        lambda: PromptEmbeds(b"abc", 0),
        lambda: PromptEmbeds("abc", 1),
        lambda: HashScheme(block_size=0),
        lambda: HashScheme(block_size=16.0),  # type: ignore[arg-type]
        lambda: HashScheme("md5"),
        lambda: HashScheme(lookahead=-1),
        lambda: HashScheme(hash_seed="\ud800"),
        lambda: HashScheme(hash_seed=7),  # type: ignore[arg-type]
        lambda: hash_block(HashScheme(block_size=4), None, [1, 2, 3]),
        lambda: hash_block(HashScheme(block_size=1), b"short", [1]),
        lambda: extra_keys(NO_EXTRAS, 4, 4),
        lambda: placeholder_tokens([1, 2], [True]),
        lambda: pack_group(b"h", 1 << 32),
        lambda: pack_group("h", 0),  # type: ignore[arg-type]
        lambda: unpack_group(b"abc"),
        lambda: unpack_group("abcdef"),  # type: ignore[arg-type]
        lambda: event_hash("abcdefgh"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_a_typed_error_with_a_sentence(make: Any) -> None:
    with pytest.raises(KeyInputError) as raised:
        make()
    assert len(str(raised.value)) > 15


def test_event_hash_is_the_low_64_bits() -> None:
    assert event_hash(bytes(24) + b"\x00" * 7 + b"\x05") == 5
