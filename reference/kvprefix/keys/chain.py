"""Block hashes: each is the digest of (parent hash, token ids, extra keys), so that it names a whole prefix (KEY-1, KEY-2, KEY-3).

One-shot (:func:`hash_chain`) and incremental (:class:`ChainHasher`) give the same hashes. Only full blocks are hashed.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from kvprefix.errors import KeyInputError
from kvprefix.keys._checks import octets, token_ids, whole
from kvprefix.keys.extra import NO_EXTRAS, BlockExtras, ExtraKeys, Extras, Sharing, sharing_of
from kvprefix.keys.recipes import RANDOM_ROOT, Algorithm, HashSeed, algorithm_of, codec, root_hash, seed_text

#: What vLLM hashes with when nothing is configured.
DEFAULT_BLOCK_SIZE: Final = 16


@attrs.frozen
class HashScheme:
    """How a deployment hashes: two processes find each other's blocks only where all of this is equal (KEY-1)."""

    algorithm: Algorithm = attrs.field(default=Algorithm.SHA256, converter=algorithm_of)
    #: Tokens per hash: the hash unit.
    block_size: int = DEFAULT_BLOCK_SIZE
    #: PYTHONHASHSEED, or None where it is unset, or RANDOM_ROOT: that one is drawn once and kept as text, so that the scheme can be
    #: handed on. KeyInputError where a recipe without a fixed root seed is given none.
    hash_seed: HashSeed = attrs.field(default=None, eq=False)
    #: Tokens after a block that its hash covers as well (drafters). Always 0 where a connector is configured.
    lookahead: int = 0
    sharing: Sharing = attrs.field(default=Sharing.DISTINCT, converter=sharing_of)
    #: The parent of every first block (vLLM's NONE_HASH).
    root: bytes = attrs.field(init=False, repr=lambda value: value.hex())

    def __attrs_post_init__(self) -> None:
        whole(self.block_size, "the block size", least=1)
        whole(self.lookahead, "the look-ahead")
        if self.hash_seed is RANDOM_ROOT:
            object.__setattr__(self, "hash_seed", seed_text(self.algorithm, RANDOM_ROOT))
        object.__setattr__(self, "root", root_hash(self.algorithm, self.hash_seed))


def hash_block(scheme: HashScheme, parent: bytes | None, tokens: Sequence[int], extra: ExtraKeys = None) -> bytes:
    """The hash of one full block; a parent of None or b"" means the root (KEY-3).

    ``extra`` is hashed as given, object identity included: the way to any sharing of equal strings that
    :class:`~kvprefix.keys.extra.Sharing` has no name for.
    """
    ids = token_ids(tokens)
    if len(ids) != scheme.block_size:
        raise KeyInputError(f"a block holds {scheme.block_size} tokens, not {len(ids)}.", "Only full blocks are hashed.")
    above = parent_hash(scheme, parent)
    serialise, digest = codec(scheme.algorithm)
    return digest(serialise((above, ids, extra)))


def parent_hash(scheme: HashScheme, parent: bytes | None) -> bytes:
    """The parent as it enters the hash: the root for None and b"", else a hash of the right length."""
    if not parent:
        return scheme.root
    above = octets(parent, "the parent hash")
    if len(above) != scheme.algorithm.digest_size:
        raise KeyInputError(
            f"a parent hash of {scheme.algorithm.value} has {scheme.algorithm.digest_size} bytes, not {len(above)}."
        )
    return above


def hash_chain(scheme: HashScheme, tokens: Sequence[int], extras: Extras = NO_EXTRAS) -> list[bytes]:
    """The hashes of all full blocks of a prompt, root first (KEY-2, KEY-3).

    With look-ahead L a block is hashed only once the L tokens after it are there.
    """
    return _run(scheme, extras, token_ids(tokens), 0, scheme.root)


class ChainHasher:
    """Hashes a request as it grows; keeps the hashes, and only those tokens that no hash covers yet."""

    def __init__(self, scheme: HashScheme, extras: Extras = NO_EXTRAS) -> None:
        self.scheme = scheme
        self.extras = extras
        self._hashes: list[bytes] = []
        self._pending: tuple[int, ...] = ()

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """Hashes of all full blocks so far, root first."""
        return tuple(self._hashes)

    @property
    def num_tokens(self) -> int:
        """All tokens so far."""
        return len(self._hashes) * self.scheme.block_size + len(self._pending)

    def extend(self, tokens: Sequence[int]) -> list[bytes]:
        """Append tokens; the hashes of the blocks that they completed. All hashes equal those of one :func:`hash_chain` (KEY-2)."""
        ids = self._pending + token_ids(tokens)
        parent = self._hashes[-1] if self._hashes else self.scheme.root
        fresh = _run(self.scheme, self.extras, ids, len(self._hashes) * self.scheme.block_size, parent)
        self._hashes += fresh
        self._pending = ids[len(fresh) * self.scheme.block_size :]
        return fresh


def _run(scheme: HashScheme, extras: Extras, ids: tuple[int, ...], origin: int, parent: bytes) -> list[bytes]:
    """Hashes of the full blocks of ``ids``, whose first token stands at ``origin`` of the prompt and follows ``parent``."""
    size, ahead = scheme.block_size, scheme.lookahead
    serialise, digest = codec(scheme.algorithm)
    hashes: list[bytes] = []
    stop = len(ids) - ahead - size + 1
    if extras.empty and not ahead:
        # The plain path is what a prompt costs: one slice, one serialisation, one digest a block.
        for start in range(0, stop, size):
            parent = digest(serialise((parent, ids[start : start + size], None)))
            hashes.append(parent)
        return hashes
    block_extras = BlockExtras(extras, scheme.sharing)
    for start in range(0, stop, size):
        end = start + size
        extra = block_extras.of(origin + start, origin + end + ahead)
        if ahead:
            extra = (extra, *ids[end : end + ahead])
        parent = digest(serialise((parent, ids[start:end], extra)))
        hashes.append(parent)
    return hashes


# --------------------------------------------------------------------------------------------------------------------------------
# Other forms of a block hash


GROUP_BYTES: Final = 4


def pack_group(block_hash: bytes, group_id: int) -> bytes:
    """Block hash and cache-group number in one value: the number as 4 bytes, big endian, behind the hash (KEY-3).

    KeyInputError for a number below 0 or of more than 32 bits.
    """
    whole(group_id, "the cache-group number", below=1 << (8 * GROUP_BYTES))
    return octets(block_hash, "the block hash") + group_id.to_bytes(GROUP_BYTES, "big")


def unpack_group(packed: bytes) -> tuple[bytes, int]:
    """Block hash and cache-group number of a packed value."""
    packed = octets(packed, "the packed value")
    if len(packed) < GROUP_BYTES:
        raise KeyInputError(f"{len(packed)} bytes hold no cache-group number; it takes {GROUP_BYTES}.")
    return packed[:-GROUP_BYTES], int.from_bytes(packed[-GROUP_BYTES:], "big")


class EventHash(enum.Enum):
    """How KV events publish a block hash (vLLM: VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES)."""

    #: The low 64 bits as an integer: the default. Two blocks may share one.
    INT = "int"
    BYTES = "bytes"


def event_hash(block_hash: bytes, form: EventHash = EventHash.INT) -> int | bytes:
    """A block hash as KV events publish it (KEY-3)."""
    data = octets(block_hash, "the block hash")
    return int.from_bytes(data[-8:], "big") if form is EventHash.INT else data
