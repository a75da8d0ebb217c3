"""Object keys as plain JSON documents: their fields, what a string tells and what it does not (KEY-6, KEY-8).

``kvprefix keys parse`` and ``explain`` print these.
"""

from __future__ import annotations

from typing import Any

import attrs

from kvprefix.api import Root
from kvprefix.errors import KeyParseError
from kvprefix.keys.chain import event_hash
from kvprefix.keys.compat import CompatKey, Names, compat_readings, is_compat
from kvprefix.keys.strict import BlockKey, KeySpace, LineageKey, SpanKind, format_strict, parent_of, parse

#: Hash lengths in bytes -> recipes that make them.
_RECIPES = {32: "sha256 or sha256_cbor", 16: "xxhash or xxhash_cbor"}

_NEVER = [
    "the position of the block in its prompt",
    "its token ids, LoRA, multimodal items, salt and embeddings (they are in the hash, and a hash cannot be walked back)",
]
_PARENT_LOST = "the parent: only the request's list of hashes, an event, or a lineage key tells it"
_COMPAT_LOST = [
    "the block size, and whether the object is a block, a coarse chunk or a partial tail",
    "the organisation and the revision of the model",
    "the KV dtype, the layout and the quantization",
    "the hash recipe and the root seed",
    "the TP, PP, PCP and DCP sizes (except in a store namespace)",
]
_FINGERPRINTED = (
    "the dtype, layout, revision, recipe, root seed and split behind the fingerprint: it can be compared, and computed from a "
    "description, but not read back"
)


def _space_json(space: KeySpace) -> dict[str, Any]:
    rank = space.rank
    return {
        "namespace": space.namespace,
        "model": space.model,
        "fingerprint": space.fingerprint,
        "rank": {"tp": rank.tp, "pcp": rank.pcp, "dcp": rank.dcp, "pp": rank.pp},
        "cache_group": space.cache_group.value,
        "group_id": space.group_id,
    }


def key_json(key: BlockKey) -> dict[str, Any]:
    """A key's fields as JSON values."""
    span = {"kind": key.span.kind.name.lower(), "block_size": key.span.block_size, "tokens": key.span.tokens}
    return {**_space_json(key.space), "span": span, "hash": key.hash.hex()}


def compat_json(key: CompatKey) -> dict[str, Any]:
    """A compat key's fields as JSON values, by vLLM's names."""
    return {
        "cache_prefix": key.cache_prefix,
        "model_name": key.model_name,
        "store_namespace": key.store_namespace,
        "tp_rank": key.rank.tp,
        "pcp_rank": key.rank.pcp,
        "dcp_rank": key.rank.dcp,
        "pp_rank": key.rank.pp,
        "group_id": key.group_id,
        "chunk_hash": key.chunk_hash,
    }


def parse_key(text: str) -> dict[str, Any]:
    """The fields of a key of any form; a compat key with every reading. KeyParseError for any other string."""
    if is_compat(text):
        return {"form": "compat", "readings": [compat_json(key) for key in compat_readings(text)]}
    key = _strict(text)
    if isinstance(key, LineageKey):
        parent = "root" if isinstance(key.parent, Root) else key.parent.hex()
        return {"form": "lineage", **key_json(key.block), "parent": parent}
    return {"form": "strict", **key_json(key)}


def _strict(text: str) -> BlockKey | LineageKey:
    try:
        return parse(text)
    except KeyParseError as error:
        raise KeyParseError(text, f"{error.problem}; nor is it a compat key, which ends in @tp_rank:…@group:…@<hash>") from None


def explain_key(text: str) -> dict[str, Any]:
    """What is and what is not recoverable from a key, and whether it is ambiguous. KeyParseError for any other string."""
    return _explain_compat(text) if is_compat(text) else _explain_strict(_strict(text))


def _explain_compat(text: str) -> dict[str, Any]:
    first, *others = readings = compat_readings(text)
    told = compat_json(first)
    told["hash"] = _hash_told(told.pop("chunk_hash"))
    notes = [
        "tp_rank is the rank divided by the number of ranks that hold the same bytes",
        "group_id counts the cacheable groups of the store, which need not be the engine's own numbering",
    ]
    if others:
        # With a choice of readings these three are not known.
        for name in ("cache_prefix", "model_name", "store_namespace"):
            del told[name]
        clean = "one reading is left if no name holds an '@'" if _names(first).clean else "every reading has an '@' inside a name"
        notes.append(f"the head [prefix@]model[namespace] is not escaped; {clean}")
    return {
        "form": "compat",
        "recoverable": told,
        "not_recoverable": [_PARENT_LOST, *_NEVER, *_COMPAT_LOST],
        "ambiguous": bool(others),
        "readings": [{**attrs.asdict(_names(key)), "a_name_holds_an_at": not _names(key).clean} for key in readings],
        "notes": notes,
    }


def _names(key: CompatKey) -> Names:
    return Names(key.cache_prefix, key.model_name, key.store_namespace)


def _hash_told(digits: str) -> dict[str, Any]:
    told: dict[str, Any] = {"hex": digits, "recipe": "unknown"}
    if len(digits) % 2 == 0:
        data = bytes.fromhex(digits)
        told["recipe"] = _RECIPES.get(len(data), "unknown")
        told["event_hash"] = event_hash(data)
    return told


def _explain_strict(key: BlockKey | LineageKey) -> dict[str, Any]:
    block = key.block if isinstance(key, LineageKey) else key
    told = key_json(block)
    told["hash"] = _hash_told(block.hash.hex())
    lost, notes = [*_NEVER, _FINGERPRINTED], [_span_note(block)]
    if isinstance(key, LineageKey):
        parent = parent_of(key)
        told["identity"] = format_strict(block)
        told["parent"] = "root" if isinstance(parent, Root) else format_strict(parent)
        notes.append("the parent is named by its strict key; its own parent stands in its own lineage key")
    else:
        lost.insert(0, _PARENT_LOST)
    form = "lineage" if isinstance(key, LineageKey) else "strict"
    return {"form": form, "recoverable": told, "not_recoverable": lost, "ambiguous": False, "notes": notes}


def _span_note(block: BlockKey) -> str:
    span = block.span
    return {
        SpanKind.BLOCK: f"a full block of {span.tokens} tokens",
        SpanKind.CHUNK: f"a coarse chunk of {span.tokens} tokens, named by its last sub-hash",
        SpanKind.TAIL: f"a partial tail: the first {span.tokens} tokens of a chunk of {span.block_size}",
    }[span.kind]
