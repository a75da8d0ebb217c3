"""The lookup channel of vLLM's Mooncake connector: what a scheduler asks rank 0, and what comes back, byte for byte (KEY-3).

A request is a list of frames, a reply one payload; integers are big endian. Encoding refuses what does not fit with KeyInputError,
decoding what is malformed with WireFormatError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from kvprefix.errors import KeyInputError, WireFormatError
from kvprefix.keys._checks import LIMIT_U32, octets, whole
from kvprefix.keys.chunks import PackedHashes

#: First frame of a request.
LOOKUP: Final = b"lookup"
RESET: Final = b"reset"
#: Replies to RESET; an unknown first frame is answered by ERR.
OK: Final = b"\x01"
ERR: Final = b"\x00"
#: Bytes of one tail boundary in a reply.
BOUNDARY_BYTES: Final = 8

_NUM_TOKENS_BYTES: Final = 4
_HASH_LENGTH_BYTES: Final = 2


@attrs.frozen
class LookupRequest:
    """How many of the first ``num_tokens`` tokens are stored? ``hashes`` are the request's block hashes, root first."""

    num_tokens: int
    hashes: tuple[bytes, ...]


@attrs.frozen
class ResetRequest:
    """Wipe the store."""


@attrs.frozen
class TailBoundary:
    """Under which prefix length the tail block of a cache group is keyed (KEY-10)."""

    group_id: int
    num_tokens: int


@attrs.frozen
class LookupReply:
    """The longest prefix that every cache group can use, in tokens, and the tail keys where it alone does not name them."""

    hit_length: int
    boundaries: tuple[TailBoundary, ...] = ()


def encode_request(request: LookupRequest | ResetRequest) -> list[bytes]:
    """The frames of a request."""
    if isinstance(request, ResetRequest):
        return [RESET]
    whole(request.num_tokens, "the number of tokens", below=LIMIT_U32)
    lengths = {len(octets(h, "a block hash")) for h in request.hashes}
    if len(lengths) > 1:
        raise KeyInputError(f"the hashes of one lookup have one length, not {sorted(lengths)} bytes.")
    length = lengths.pop() if lengths else 0
    whole(length, "the length of a hash", below=1 << (8 * _HASH_LENGTH_BYTES))
    return [
        LOOKUP,
        request.num_tokens.to_bytes(_NUM_TOKENS_BYTES, "big"),
        length.to_bytes(_HASH_LENGTH_BYTES, "big"),
        b"".join(request.hashes),
    ]


def decode_request(frames: Sequence[bytes]) -> LookupRequest | ResetRequest:
    """The request in these frames; WireFormatError for an unknown tag and for frames that are missing, too many or torn."""
    tag = bytes(frames[0]) if frames else b""
    if tag == RESET and len(frames) == 1:
        return ResetRequest()
    if tag not in (LOOKUP, RESET):
        raise WireFormatError(f"unknown request {tag!r}; known are {LOOKUP!r} and {RESET!r}")
    if tag == RESET or len(frames) != 4:
        raise WireFormatError(f"a {tag.decode()} request has {4 if tag == LOOKUP else 1} frames, not {len(frames)}")
    for frame, name, size in ((1, "num_tokens", _NUM_TOKENS_BYTES), (2, "hash_len", _HASH_LENGTH_BYTES)):
        if len(frames[frame]) != size:
            raise WireFormatError(f"{size} bytes expected, not {len(frames[frame])}", (name,))
    length, blob = int.from_bytes(frames[2], "big"), frames[3]
    if len(blob) % length if length else blob:
        raise WireFormatError(f"{len(blob)} bytes are not whole hashes of {length} bytes", ("hashes",))
    return LookupRequest(int.from_bytes(frames[1], "big"), tuple(PackedHashes(blob, length)))


def encode_reply(reply: LookupReply) -> bytes:
    """The payload of a lookup's reply."""
    numbers = [reply.hit_length]
    for boundary in reply.boundaries:
        numbers += [boundary.group_id, boundary.num_tokens]
    return b"".join(whole(number, "a number in a lookup reply", below=LIMIT_U32).to_bytes(4, "big") for number in numbers)


def decode_reply(payload: bytes) -> LookupReply:
    """The reply in this payload; WireFormatError for one that is too short or torn."""
    if len(payload) < 4 or (len(payload) - 4) % BOUNDARY_BYTES:
        raise WireFormatError(f"a lookup reply has 4 bytes and {BOUNDARY_BYTES} for each boundary, not {len(payload)}")
    numbers = [int.from_bytes(payload[at : at + 4], "big") for at in range(0, len(payload), 4)]
    pairs = zip(numbers[1::2], numbers[2::2], strict=True)
    return LookupReply(numbers[0], tuple(TailBoundary(group, tokens) for group, tokens in pairs))


def encode_reset_reply(done: bool) -> bytes:
    """The payload of a reset's reply."""
    return OK if done else ERR


def decode_reset_reply(payload: bytes) -> bool:
    """Whether a reset was done; anything but OK means that it was not, as vLLM reads it."""
    return payload == OK


def lookup_address(base_path: str, port: int | str, hostname: str, data_parallel_index: int) -> str:
    """The ZMQ address of rank 0's lookup channel."""
    return f"ipc://{base_path}/lookup_rpc_port_{port}_host_{hostname}_dp_rank{data_parallel_index}"
