"""Hash recipes: the four of vLLM, byte for byte, and the root seed that each starts a chain from (KEY-1, KEY-3).

A recipe is a serialiser (pickle protocol 5, or canonical CBOR) and a digest (SHA-256, or XXH3-128). Nothing here reads the
environment: what vLLM takes from PYTHONHASHSEED is an argument.

Pickle writes an object that occurs twice once, and refers back to it. So the pickle recipes hash *identity*, too: equal strings
that are one object and equal strings that are two give different bytes. :func:`digest` takes values as they are; what makes the
identity of a block's extra keys an explicit input is :mod:`kvprefix.keys.extra`.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import pickle
import secrets
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kvprefix.errors import KeyInputError, MissingDependencyError
from kvprefix.keys._checks import plain_text

#: What vLLM hashes in place of an unset PYTHONHASHSEED, for the cryptographic recipes.
DEFAULT_SEED_TEXT: Final = "vllm-none-hash"
#: Fixed, not HIGHEST_PROTOCOL: a later Python may raise that, and the bytes must stay (KEY-1).
PICKLE_PROTOCOL: Final = 5

Serialise: TypeAlias = Callable[[object], bytes]
Digest: TypeAlias = Callable[[bytes], bytes]


class Algorithm(enum.Enum):
    """A recipe, by the name that vLLM's ``prefix_caching_hash_algo`` gives it."""

    SHA256 = "sha256"
    SHA256_CBOR = "sha256_cbor"
    XXHASH = "xxhash"
    XXHASH_CBOR = "xxhash_cbor"

    @property
    def cryptographic(self) -> bool:
        """Whether the digest resists chosen collisions, so that the root seed needs no secret."""
        return self in (Algorithm.SHA256, Algorithm.SHA256_CBOR)

    @property
    def digest_size(self) -> int:
        """Length of a block hash, in bytes."""
        return 32 if self.cryptographic else 16

    @property
    def identity_sensitive(self) -> bool:
        """Whether equal strings hash differently as one object and as two (the pickle recipes)."""
        return self in (Algorithm.SHA256, Algorithm.XXHASH)


def algorithm_of(name: str | Algorithm) -> Algorithm:
    """The recipe of this name; KeyInputError for any other."""
    try:
        return Algorithm(name)
    except ValueError:
        known = ", ".join(a.value for a in Algorithm)
        raise KeyInputError(f"unknown hash algorithm {name!r}.", f"Known are: {known}.") from None


class RandomRoot(enum.Enum):
    """The explicit choice of a root seed that no other process shares (KEY-1)."""

    RANDOM_ROOT = "random-root"


RANDOM_ROOT: Final = RandomRoot.RANDOM_ROOT

#: What decides the root seed: the text of PYTHONHASHSEED, None where it is unset, or RANDOM_ROOT.
HashSeed: TypeAlias = str | RandomRoot | None


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, PICKLE_PROTOCOL)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _cbor_serialiser() -> Serialise:
    try:
        import cbor2
    except ImportError as error:
        raise MissingDependencyError("the CBOR recipes need the package cbor2.", "pip install cbor2") from error
    return functools.partial(cbor2.dumps, canonical=True)


def _xxh3() -> Digest:
    try:
        import xxhash
    except ImportError as error:
        raise MissingDependencyError("the xxhash recipes need the package xxhash.", "pip install xxhash") from error
    return xxhash.xxh3_128_digest


@functools.cache
def codec(algorithm: Algorithm) -> tuple[Serialise, Digest]:
    """Serialiser and digest of a recipe.

    Libraries are imported on first use of a recipe that needs them: a host that is not allowed a non-cryptographic hash, or has no
    CBOR, still computes the others.
    """
    serialise = _pickled if algorithm.identity_sensitive else _cbor_serialiser()
    return serialise, _sha256 if algorithm.cryptographic else _xxh3()


def serialise(algorithm: Algorithm, value: Any) -> bytes:
    """The bytes that a recipe hashes for this value, its object identity included (KEY-3)."""
    return codec(algorithm)[0](value)


def digest(algorithm: Algorithm, value: Any) -> bytes:
    """The hash of a value, its object identity included (KEY-3): what vLLM's function of that name returns."""
    to_bytes, to_digest = codec(algorithm)
    return to_digest(to_bytes(value))


def seed_text(algorithm: Algorithm, hash_seed: HashSeed = None) -> str:
    """The text whose hash is the root of every chain (KEY-3).

    ``hash_seed`` is the value of PYTHONHASHSEED, taken literally ("" and "random" too), or None where it is unset. Unset means a
    fixed text for the cryptographic recipes. For the others vLLM draws 32 random bytes per process; here that is KeyInputError,
    and RANDOM_ROOT asks for it by name (KEY-1).
    """
    if hash_seed is RANDOM_ROOT:
        return secrets.token_hex(32)
    if hash_seed is not None:
        return plain_text(hash_seed, "the hash seed")
    if algorithm.cryptographic:
        return DEFAULT_SEED_TEXT
    raise KeyInputError(
        f"{algorithm.value} has no fixed root seed: unset, vLLM draws a random one in each process.",
        "Give the hash seed (PYTHONHASHSEED) that all processes share, or ask for RANDOM_ROOT by name.",
    )


def root_hash(algorithm: Algorithm, hash_seed: HashSeed = None) -> bytes:
    """The parent of every first block (vLLM's NONE_HASH); see :func:`seed_text` for ``hash_seed`` and errors (KEY-3)."""
    return digest(algorithm, seed_text(algorithm, hash_seed))
