"""What stands for a trace's block in a store: its object key, and bytes that can be checked without keeping them.

Keys are readable (``replay/17``), or in lineage form for a store that learns parents from keys alone (KEY-8). A value depends on
its key in every byte, so that a torn or a foreign value shows (STO-1, STO-3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from kvprefix.api import Capabilities, Transport
from kvprefix.keys import Compatibility, KeySpace, chain_keys, format_key, key_space
from kvprefix.replay.trace import BLOCK_TOKENS

#: A request's block ids, root first -> their object keys.
Naming: TypeAlias = Callable[[Sequence[int]], list[str]]

_ID_BYTES: Final = 8


def naming_for(capabilities: Capabilities, namespace: str) -> Naming:
    """The key form that this store needs: lineage keys where they are the only way for lineage to reach it."""
    return lineage_keys(namespace) if capabilities.lineage == {Transport.KEY} else plain_keys(namespace)


def plain_keys(namespace: str) -> Naming:
    """Keys ``<namespace>/<id>``."""
    head = f"{namespace}/"
    return lambda ids: [f"{head}{block}" for block in ids]


def lineage_keys(namespace: str) -> Naming:
    """Keys that carry the parent; a block's id stands where its hash would."""
    space: KeySpace = key_space(Compatibility(model="trace", kv_dtype="none", layout="none"), namespace=namespace)

    def name(ids: Sequence[int]) -> list[str]:
        hashes = [block.to_bytes(_ID_BYTES, "big") for block in ids]
        return [format_key(key) for key in chain_keys(space, hashes, hash_unit=BLOCK_TOKENS)]

    return name


def value_of(key: str, size: int) -> bytes:
    """The value of the object: ``size`` bytes that follow from the key alone."""
    return hashlib.shake_128(key.encode()).digest(size)
