"""Stored blocks of a request: coarse chunks, partial tails, masks and strides (KEY-3, KEY-9, KEY-10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.errors import KeyInputError
from kvprefix.keys import HashScheme, PackedHashes, chunks, coarse_hashes, hash_chain, prefix_hash

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=100)

HASHES = hash_chain(HashScheme(block_size=4), range(64))


@FIXED
@given(
    units=st.integers(0, 16),
    per_block=st.sampled_from([1, 2, 3, 4]),
    skip=st.integers(0, 70),
    mask=st.none() | st.lists(st.booleans(), max_size=8),
    step=st.integers(1, 3),
    data=st.data(),
)
def test_chunks_are_the_blocks_that_no_option_leaves_out(
    units: int, per_block: int, skip: int, mask: list[bool] | None, step: int, data: st.DataObject
) -> None:
    size, length = 4 * per_block, 4 * units
    rank = data.draw(st.integers(0, step - 1))
    made = list(
        chunks(length, HASHES, block_size=size, hash_unit=4, skip_tokens=skip, mask=mask, put_step=step, put_step_rank=rank)
    )
    starts = [start for start in range(0, length, size) if start >= skip]
    if mask is not None:
        starts = [start for start, take in zip(starts, mask, strict=False) if take]
    starts = [start for start in starts if start // size % step == rank]
    assert [chunk.start for chunk in made] == starts
    for chunk in made:
        assert chunk.end == min(chunk.start + size, length)
        assert chunk.hash == HASHES[chunk.hash_index] == prefix_hash(HASHES, 4, chunk.end)


@FIXED
@given(st.sampled_from([4, 8, 16, 32]))
def test_a_chunk_is_named_by_its_last_sub_hash(size: int) -> None:
    assert list(coarse_hashes(HASHES, 4, size)) == [prefix_hash(HASHES, 4, end) for end in range(size, 65, size)]


def test_a_partial_tail_is_named_by_the_prefix_that_ends_there() -> None:
    *_, tail = chunks(40, HASHES, block_size=16, hash_unit=4)
    assert (tail.start, tail.end) == (32, 40)
    assert tail.hash == hash_chain(HashScheme(block_size=4), range(40))[-1]


def test_no_hashes_no_chunks() -> None:
    assert list(chunks(64, [], block_size=16, hash_unit=4)) == []


def test_packed_hashes_are_read_where_they_lie() -> None:
    packed = PackedHashes(b"".join(HASHES) + b"rest", 32)
    assert list(packed) == HASHES
    assert packed[-1] == HASHES[-1]
    assert packed[::-3] == HASHES[::-3]
    assert list(coarse_hashes(packed, 4, 16)) == HASHES[3::4]
    assert len(PackedHashes(b"abc", 0)) == 0
    with pytest.raises(IndexError):
        packed[-17]


@pytest.mark.parametrize(
    "make",
    [
        lambda: chunks(64, HASHES, block_size=6, hash_unit=4),
        lambda: chunks(62, HASHES, block_size=16, hash_unit=4),
        lambda: chunks(68, HASHES, block_size=16, hash_unit=4),
        lambda: chunks(64, HASHES, block_size=16, hash_unit=0),
        lambda: chunks(-4, HASHES, block_size=4),
        lambda: chunks(64, HASHES, block_size=4, skip_tokens=-1),
        lambda: chunks(64, HASHES, block_size=4, put_step=0),
        lambda: chunks(64, HASHES, block_size=4, put_step=2, put_step_rank=2),
        lambda: coarse_hashes(HASHES, 4, 6),
        lambda: prefix_hash(HASHES, 4, 0),
        lambda: prefix_hash(HASHES, 4, 6),
        lambda: prefix_hash(HASHES, 4, 68),
        lambda: PackedHashes(b"", -1),
    ],
)
def test_bad_input_is_a_typed_error_at_the_call(make: Any) -> None:
    with pytest.raises(KeyInputError):
        make()
