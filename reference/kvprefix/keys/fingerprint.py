"""The compatibility fingerprint: one short value that stands for everything that makes KV bytes interchangeable (KEY-7).

Two deployments may read each other's objects only where all of it is equal. vLLM's own keys hold none of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from kvprefix.errors import KeyInputError
from kvprefix.keys._checks import plain_text, whole
from kvprefix.keys.chain import HashScheme
from kvprefix.keys.ranks import Split

#: 128 bits: no two deployments that meet will share one by accident.
FINGERPRINT_DIGITS: Final = 32
#: Part of what is hashed; raised when the fields below change meaning.
_VERSION: Final = "kvprefix-compatibility-1"


def _details(value: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((plain_text(k, "the name of a detail"), plain_text(v, f"detail {k!r}")) for k, v in dict(value).items()))


def _sizes(value: Iterable[int]) -> tuple[int, ...]:
    return tuple(whole(size, "the block size of a cache group", least=1) for size in value)


@attrs.frozen
class Compatibility:
    """What must be equal before one deployment may use another's bytes."""

    #: Full name, organisation included: org1/X and org2/X are different models.
    model: str
    #: As stored in the cache ("bfloat16", "fp8_e4m3"), not the dtype of the weights.
    kv_dtype: str
    #: Order of layers, heads, tokens and content in an object ("LBHNC"), with the store's own format where it has one.
    layout: str
    #: Recipe, root seed, hash unit, look-ahead and sharing.
    scheme: HashScheme = HashScheme()
    split: Split = Split()
    #: A commit or tag of the weights; empty where the name alone fixes them.
    revision: str = ""
    #: Of the weights ("awq", "fp8"): it changes the KV values.
    quantization: str = ""
    #: Tokens per stored block of each cache group, by its number; empty: all equal the hash unit.
    block_sizes: tuple[int, ...] = attrs.field(default=(), converter=_sizes)
    num_kv_heads: int | None = None
    #: Whatever else a deployment must agree on (rope scaling, store format, ...).
    details: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=_details)

    def __attrs_post_init__(self) -> None:
        for name in ("model", "kv_dtype", "layout"):
            if not plain_text(getattr(self, name), f"the {name}"):
                raise KeyInputError(f"{name} is empty.", "Say what it is; empty would pass for any.")
        plain_text(self.revision, "the revision")
        plain_text(self.quantization, "the quantization")
        if self.num_kv_heads is not None:
            whole(self.num_kv_heads, "the number of KV heads", least=1)


def fingerprint(compatibility: Compatibility) -> str:
    """32 lower-case hexadecimal digits: the beginning of the SHA-256 of all fields as sorted JSON (KEY-7)."""
    scheme = compatibility.scheme
    fields = attrs.asdict(compatibility)
    fields["scheme"] = {
        "algorithm": scheme.algorithm.value,
        "block_size": scheme.block_size,
        "lookahead": scheme.lookahead,
        "root": scheme.root.hex(),
        # The CBOR recipes do not see object identity: there it separates nothing.
        "sharing": scheme.sharing.value if scheme.algorithm.identity_sensitive else "",
    }
    text = json.dumps({"version": _VERSION, **fields}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:FINGERPRINT_DIGITS]
