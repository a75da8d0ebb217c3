"""From hashes to stored blocks: coarse chunks, partial tails, and which chunk which rank stores (KEY-3, KEY-9, KEY-10).

A stored block may span several hash units. It is named by the hash at its end: the chain makes that one hash stand for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import attrs

from kvprefix.errors import KeyInputError
from kvprefix.keys._checks import whole


class PackedHashes(Sequence[bytes]):
    """A sequence over hashes of one length that lie back to back in a buffer; nothing is copied before it is asked for.

    A fragment at the end is not a hash and is ignored, as vLLM does; a length of 0 means none.
    """

    def __init__(self, blob: bytes | bytearray | memoryview, hash_length: int) -> None:
        self._blob = memoryview(blob)
        self._length = whole(hash_length, "the hash length")
        self._count = len(blob) // hash_length if hash_length else 0

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        position = index + self._count if index < 0 else index
        if not 0 <= position < self._count:
            # What Python asks of a sequence; iteration ends by it.
            raise IndexError(index)
        return bytes(self._blob[position * self._length : (position + 1) * self._length])


def units_of(tokens: int, hash_unit: int) -> int:
    """How many hash units a stored block of this many tokens spans; KeyInputError where they do not fit."""
    whole(hash_unit, "the hash unit", least=1)
    whole(tokens, "the block size", least=1)
    if tokens % hash_unit:
        raise KeyInputError(f"a stored block of {tokens} tokens is not a multiple of the hash unit of {hash_unit} tokens.")
    return tokens // hash_unit


def coarse_hashes(hashes: Sequence[bytes], hash_unit: int, block_size: int) -> Sequence[bytes]:
    """One hash per full chunk of ``block_size`` tokens: its last sub-hash (KEY-9)."""
    units = units_of(block_size, hash_unit)
    return hashes[units - 1 :: units] if units > 1 else hashes


def prefix_hash(hashes: Sequence[bytes], hash_unit: int, num_tokens: int) -> bytes:
    """The hash of the prefix of this many tokens: it keys the partial tail that ends there (KEY-10).

    KeyInputError unless ``num_tokens`` is a positive multiple of the hash unit that the hashes reach.
    """
    whole(num_tokens, "the prefix length", least=1)
    index = num_tokens // whole(hash_unit, "the hash unit", least=1) - 1
    if num_tokens % hash_unit:
        raise KeyInputError(f"a prefix of {num_tokens} tokens ends inside a hash unit of {hash_unit}; no hash names it.")
    if index >= len(hashes):
        raise KeyInputError(f"a prefix of {num_tokens} tokens lies beyond the {len(hashes)} hashes of {hash_unit} tokens.")
    return hashes[index]


@attrs.frozen
class Chunk:
    """One stored block of a request: tokens [start, end) and the hash that names it."""

    start: int
    end: int
    #: Position of ``hash`` in the request's list of hashes.
    hash_index: int
    hash: bytes


def chunks(
    num_tokens: int,
    hashes: Sequence[bytes],
    *,
    block_size: int,
    hash_unit: int | None = None,
    skip_tokens: int = 0,
    mask: Sequence[bool] | None = None,
    put_step: int = 1,
    put_step_rank: int = 0,
) -> Iterator[Chunk]:
    """The stored blocks of the first ``num_tokens`` tokens, in order (KEY-3; vLLM's ``process_tokens``).

    ``skip_tokens`` leaves out every block that begins before it. ``mask`` says of the blocks from there on which to take, and none
    beyond its end. With ``put_step`` only the blocks whose number is ``put_step_rank`` modulo it are taken: how ranks that hold the
    same bytes share the work. The last block may be a partial tail: it is named by the hash of the prefix that ends there (KEY-10).

    KeyInputError unless ``num_tokens`` is a multiple of the hash unit that the hashes reach. No hashes: no blocks.
    """
    unit = block_size if hash_unit is None else hash_unit
    units_of(block_size, unit)
    whole(num_tokens, "the number of tokens")
    whole(skip_tokens, "the number of tokens to skip")
    whole(put_step, "the put step", least=1)
    whole(put_step_rank, "the rank within the put step", below=put_step)
    if not hashes or not num_tokens:
        return iter(())
    prefix_hash(hashes, unit, num_tokens)
    first = -(-skip_tokens // block_size)
    past = -(-num_tokens // block_size)
    if mask is not None:
        past = min(past, first + len(mask))
    return (
        _chunk(number * block_size, min((number + 1) * block_size, num_tokens), hashes, unit)
        for number in range(first, past)
        if number % put_step == put_step_rank and (mask is None or mask[number - first])
    )


def _chunk(start: int, end: int, hashes: Sequence[bytes], unit: int) -> Chunk:
    return Chunk(start, end, end // unit - 1, hashes[end // unit - 1])
