"""Golden values: what real vLLM 0.33.0 returned for the same inputs (KEY-1, KEY-3). One test a vector, one function a family."""

from __future__ import annotations

import json
import pickletools
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from kvprefix.errors import KeyInputError, WireFormatError
from kvprefix.keys import (
    Algorithm,
    ChainHasher,
    CompatKey,
    EventHash,
    Extras,
    HashScheme,
    LayerKind,
    Lora,
    MediaItem,
    PackedHashes,
    PromptEmbeds,
    Rank,
    SharedFormat,
    Sharing,
    Split,
    ambiguity,
    chunks,
    coarse_hashes,
    compat_collisions,
    compat_prefix,
    compat_readings,
    digest,
    event_extra_keys,
    event_hash,
    extra_keys,
    format_compat,
    hash_block,
    hash_chain,
    key_rank,
    lookup_ranks,
    model_name,
    mooncake_group_id,
    mqa_namespace,
    pack_group,
    placeholder_tokens,
    put_step_rank,
    rank_local_namespace,
    rank_of,
    replication_factor,
    resolve_store_tp,
    root_hash,
    seed_text,
    serialise,
    shared_namespace,
    unpack_group,
    wire,
)
from kvprefix.keys.extra import EMBEDS_TAG, LORA_TAG, MEDIA_TAG, SALT_TAG

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "vllm_0.33.json"

#: Families that other rooms answer for: the connector's hit rules and masks, its disk batches, the events' msgpack.
ELSEWHERE = {"hit", "store_mask", "load_mask", "lookup_mask", "lookup", "disk_split", "event", "meta"}

Family = Callable[[str, Any, Any], None]
FAMILIES: dict[str, Family] = {}


def family(function: Family) -> Family:
    """Register the check of one family of vectors; its name is that of the function."""
    FAMILIES[function.__name__.removeprefix("check_")] = function
    return function


def load() -> list[dict[str, Any]]:
    if not VECTORS.exists():
        return []
    vectors: list[dict[str, Any]] = json.loads(VECTORS.read_text())
    return vectors


def family_of(vector: dict[str, Any]) -> str:
    return str(vector["id"]).split("/")[0]


LOADED = load()
needs_vectors = pytest.mark.skipif(not LOADED, reason="golden values of vLLM not found beside the project (../shared/vectors)")


# --------------------------------------------------------------------------------------------------------------------------------
# Decoding


def plain(value: Any) -> Any:
    """A JSON value of the vectors as a Python one; object identity of strings is not kept."""
    return decode(value, Sharing.EQUAL)


def decode(value: Any, sharing: Sharing) -> Any:
    """The same, with equal strings as one object or as two, and one object per tag in either case."""
    known = {tag: tag for tag in (LORA_TAG, MEDIA_TAG, SALT_TAG, EMBEDS_TAG)}

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            if part in (LORA_TAG, MEDIA_TAG, SALT_TAG, EMBEDS_TAG) or sharing is Sharing.EQUAL:
                return known.setdefault(part, part)
            return part.encode().decode()
        if isinstance(part, dict) and set(part) == {"hex"}:
            return bytes.fromhex(part["hex"])
        if isinstance(part, dict) and set(part) == {"tuple"}:
            return tuple(walk(item) for item in part["tuple"])
        if isinstance(part, dict):
            return {name: walk(item) for name, item in part.items()}
        return [walk(item) for item in part] if isinstance(part, list) else part

    return walk(value)


def shared_hashes() -> list[bytes]:
    """The hash run that several families share: 16 hashes of 4 tokens 0, 1, 2, ... under PYTHONHASHSEED 0."""
    return hash_chain(HashScheme(block_size=4, hash_seed="0"), range(64))


# --------------------------------------------------------------------------------------------------------------------------------
# Recipes


@family
def check_none_hash(name: str, given: Any, want: Any) -> None:
    algorithm = Algorithm(given["algo"])
    assert root_hash(algorithm, given["PYTHONHASHSEED"]) == want["none_hash"]
    if "seed_text" in want:
        assert seed_text(algorithm, given["PYTHONHASHSEED"]) == want["seed_text"]


@family
def check_none_hash_fresh_process(name: str, given: Any, want: Any) -> None:
    check_none_hash(name, given, want)


def check_recipes(value: Any, want: Any) -> None:
    for algorithm in Algorithm:
        assert digest(algorithm, value) == want[algorithm.value]
    if "pickle" in want:
        assert serialise(Algorithm.SHA256, value) == want["pickle"]
    if "cbor" in want:
        assert serialise(Algorithm.SHA256_CBOR, value) == want["cbor"]


@family
def check_hash_fn(name: str, given: Any, want: Any) -> None:
    if name != "hash_fn/multi_frame":
        return check_recipes(given["value"], want)
    value = (bytes(32), tuple(100000 + i for i in range(20000)), None)
    check_recipes(value, want)
    pickled = serialise(Algorithm.SHA256, value)
    frames = [[at, op.name, arg] for op, arg, at in pickletools.genops(pickled) if op.name == "FRAME"]
    assert (len(pickled), frames) == (want["pickle_len"], want["pickle_frames"])
    assert len(serialise(Algorithm.SHA256_CBOR, value)) == want["cbor_len"]
    return None


SHARING_OF = {"same_object": Sharing.EQUAL, "equal_but_distinct_objects": Sharing.DISTINCT}


@family
def check_identity(name: str, given: Any, want: Any) -> None:
    check_recipes(given["value"], want)
    if "identity" in given:
        # The same through the extra keys of a request: what the sharing is called there gives these bytes.
        parent, tokens, extra = given["value"]
        start = 100
        tagged = {LORA_TAG: [], MEDIA_TAG: []}  # type: dict[str, list[Any]]
        for tag, *rest in extra:
            tagged[tag].append(rest)
        extras = Extras(
            lora=Lora(*tagged[LORA_TAG][0]) if tagged[LORA_TAG] else None,
            media=tuple(MediaItem(identifier, start + offset, 1) for identifier, offset in tagged[MEDIA_TAG]),
        )
        made = extra_keys(extras, start, start + len(tokens), SHARING_OF[given["identity"]])
        scheme = HashScheme(block_size=len(tokens))
        assert hash_block(scheme, parent, tokens, made) == want["sha256"]


# --------------------------------------------------------------------------------------------------------------------------------
# Chains


def scheme_of(given: Any) -> HashScheme:
    return HashScheme(
        algorithm=Algorithm(given.get("algo", "sha256")),
        block_size=given.get("block_size", 4),
        hash_seed=given.get("PYTHONHASHSEED"),
        lookahead=given.get("num_hash_lookahead_tokens", 0),
        sharing=Sharing.EQUAL,
    )


def check_grown(scheme: HashScheme, tokens: Sequence[int], extras: Extras, want: list[bytes]) -> None:
    """One-shot, and token by token."""
    assert hash_chain(scheme, tokens, extras) == want
    hasher = ChainHasher(scheme, extras)
    for token in tokens:
        hasher.extend([token])
    assert list(hasher.hashes) == want


@family
def check_chain(name: str, given: Any, want: Any) -> None:
    if name == "chain/parent_none_empty_nonehash":
        scheme = HashScheme()
        scheme = attrs.evolve(scheme, block_size=len(given["tokens"]))
        assert [hash_block(scheme, parent, given["tokens"]) for parent in given["parents"]] == want["hashes"]
        return
    scheme = scheme_of(given)
    if "none_hash" in want:
        assert scheme.root == want["none_hash"]
    check_grown(scheme, given["token_ids"], Extras(), want["block_hashes"])


@family
def check_chain_len(name: str, given: Any, want: Any) -> None:
    check_chain(name, given, want)


@family
def check_lookahead(name: str, given: Any, want: Any) -> None:
    check_chain(name, given, want)


@family
def check_chain_growth(name: str, given: Any, want: Any) -> None:
    hasher = ChainHasher(HashScheme(Algorithm(name.split("/")[1]), block_size=given["block_size"]))
    hasher.extend(given["prompt"])
    assert list(hasher.hashes) == want["after_prompt"]
    for appended, after in zip(given["appended"], ("after_first", "after_second"), strict=True):
        hasher.extend(appended)
        assert list(hasher.hashes) == want[after]


def extras_of(given: Any) -> Extras:
    embeds = given["prompt_embeds"]
    if embeds is not None:
        rows, width = embeds["shape"]
        assert (embeds["dtype"], embeds["values"]) == ("float32", "arange(2*N)")
        embeds = PromptEmbeds(struct.pack(f"<{rows * width}f", *range(rows * width)), 4 * width)
    return Extras(
        lora=Lora(*given["lora"][:2]) if given["lora"] else None,
        media=tuple(MediaItem(item["identifier"], item["offset"], item["length"]) for item in given["mm"]),
        salt=given["cache_salt"],
        prompt_embeds=embeds,
    )


@family
def check_extra_keys(name: str, given: Any, want: Any) -> None:
    if name == "extra_keys/mixed_prompt_embeds_zeroes_placeholders":
        tokens = placeholder_tokens(given["prompt_token_ids"], given["prompt_is_token_ids"])
        assert list(tokens) == want["all_token_ids"]
        # The input does not list the embeddings: they are arange(2*N) in rows of two, as in extra_keys/prompt_embeds; seed "0".
        extras = Extras(prompt_embeds=PromptEmbeds(struct.pack(f"<{2 * len(tokens)}f", *range(2 * len(tokens))), 8))
        assert hash_chain(HashScheme(block_size=4, hash_seed="0"), tokens, extras) == want["block_hashes"]["sha256"]
        return
    if name == "extra_keys/salt_changes_whole_chain":
        scheme = HashScheme(block_size=given["block_size"], hash_seed="0")
        assert hash_chain(scheme, given["token_ids"]) == want["without"]
        assert hash_chain(scheme, given["token_ids"], Extras(salt="x")) == want["with_salt_x"]
        return
    extras, tokens, size = extras_of(given), given["token_ids"], given["block_size"]
    keys = [extra_keys(extras, start, start + size) for start in range(0, len(tokens) - size + 1, size)]
    assert keys == want["extra_keys_per_block"]
    assert [event_extra_keys(key) for key in keys] == want["event_extra_keys"]
    for algorithm in Algorithm:
        check_grown(scheme_of({**given, "algo": algorithm.value}), tokens, extras, want["block_hashes"][algorithm.value])


# --------------------------------------------------------------------------------------------------------------------------------
# Forms of a hash


@family
def check_group_pack(name: str, given: Any, want: Any) -> None:
    if "error" in want:
        with pytest.raises(KeyInputError, match="cache-group number"):
            pack_group(given["block_hash"], given["group_id"])
        return
    packed = pack_group(given["block_hash"], given["group_id"])
    assert packed == want["packed"]
    assert unpack_group(packed) == (want["get_block_hash"], want["get_group_id"])


@family
def check_event_hash(name: str, given: Any, want: Any) -> None:
    form = EventHash.INT if given["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] else EventHash.BYTES
    assert event_hash(given["hash"], form) == want["external"]


@family
def check_compact(name: str, given: Any, want: Any) -> None:
    unit = given["hash_block_size"]
    if name == "compact/same_key_other_block_size":
        hashes = hash_chain(HashScheme(block_size=unit, hash_seed="0"), given["token_ids"])
        assert hashes[3] == want["bs4_chunk3"]
        assert coarse_hashes(hashes, unit, 16)[0] == want["bs16_chunk0"]
        return
    if "error" in want:
        with pytest.raises(KeyInputError, match="not a multiple"):
            coarse_hashes(given["block_hashes"], unit, given["block_size"])
        return
    coarse = coarse_hashes(given["block_hashes"], unit, given["block_size"])
    assert (len(coarse), list(coarse)) == (want["len"], want["chunk_hashes"])
    assert list(coarse) == [given["block_hashes"][index] for index in want["index_into_block_hashes"]]


@family
def check_blob(name: str, given: Any, want: Any) -> None:
    hashes = shared_hashes()[: given["n"]]
    packed = PackedHashes(b"".join(hashes), given["hash_len"])
    assert len(packed) == want["len"]
    assert (packed[0], packed[-1], packed[1:3]) == (want["at0"], want["at_minus1"], want["slice_1_3"])
    assert list(packed) == hashes
    # IndexError, not one of ours: it is how a sequence ends an iteration.
    with pytest.raises(IndexError, match=want["index_error"]["message"]):
        packed[99]


@family
def check_process_tokens(name: str, given: Any, want: Any) -> None:
    made = chunks(
        given["token_len"],
        shared_hashes()[: given["n_hashes"]],
        block_size=given["block_size"],
        hash_unit=given["hash_block_size"],
        skip_tokens=given.get("mask_num", 0),
        mask=given.get("chunk_mask"),
        put_step=given.get("put_step", 1),
        put_step_rank=given.get("put_step_rank", 0),
    )
    seen = [
        {"start": c.start, "end": c.end, "hash_index": c.hash_index, "key": format_compat(CompatKey("m", c.hash.hex()))}
        for c in made
    ]
    assert seen == want


# --------------------------------------------------------------------------------------------------------------------------------
# Object keys


def compat_of(given: Any, chunk_hash: str | None = None) -> CompatKey:
    return CompatKey(
        model_name=given["model_name"],
        chunk_hash=given["chunk_hash"] if chunk_hash is None else chunk_hash,
        rank=Rank(given["tp_rank"], given["pcp_rank"], given["dcp_rank"], given["pp_rank"]),
        group_id=given.get("group_id", 0),
        cache_prefix=given.get("cache_prefix", ""),
        store_namespace=given.get("store_namespace", ""),
    )


@family
def check_poolkey(name: str, given: Any, want: Any) -> None:
    key = compat_of(given)
    assert (compat_prefix(key), format_compat(key)) == (want["build_prefix"], want["to_string"])
    assert key in compat_readings(want["to_string"])


@family
def check_poolkey_override(name: str, given: Any, want: Any) -> None:
    key = compat_of(given, "00")
    changed = {field.removesuffix("_rank"): value for field, value in given["override"].items()}
    assert compat_prefix(attrs.evolve(key, rank=attrs.evolve(key.rank, **changed))) == want


@family
def check_poolkey_collision(name: str, given: Any, want: Any) -> None:
    first, second = compat_of(given["a"], given["chunk_hash"]), compat_of(given["b"], given["chunk_hash"])
    assert first != second
    assert (format_compat(first), format_compat(second)) == (want["a"], want["b"])
    if want["strings_equal"]:
        assert second in compat_collisions(first)
        assert first in compat_collisions(second)
        assert ambiguity(first.cache_prefix, first.model_name, first.store_namespace).ambiguous


@family
def check_store_namespace(name: str, given: Any, want: Any) -> None:
    form = name.split("/")[1]
    if form in [shared.value for shared in SharedFormat]:
        assert shared_namespace(SharedFormat(form), given["store_tp_size"], given["pp_size"]) == want
    elif form == "tp_shared_mqa":
        assert mqa_namespace(given["pp_size"]) == want
    else:
        assert rank_local_namespace(given["tp_size"], given["pp_size"], given["layout"]) == want


@family
def check_model_name(name: str, given: Any, want: Any) -> None:
    assert model_name(given["model"]) == want


@family
def check_mooncake_group_id(name: str, given: Any, want: Any) -> None:
    if name == "mooncake_group_id/rank_and_group_independent":
        key = CompatKey("m", "ab")
        others = [attrs.evolve(key, rank=Rank(1, 2, 3, 4)), attrs.evolve(key, group_id=5)]
        assert all(mooncake_group_id(other) == mooncake_group_id(key) for other in others) is want
        return
    assert mooncake_group_id(compat_of(given)) == want


# --------------------------------------------------------------------------------------------------------------------------------
# Lookup channel


@family
def check_wire(name: str, given: Any, want: Any) -> None:
    kind = name.split("/")[1]
    WIRE[kind](name, given, want)


def wire_reply(given: Any) -> wire.LookupReply:
    pairs = given.get("tail_key_boundaries", [])
    return wire.LookupReply(given["hit_length"], tuple(wire.TailBoundary(group, tokens) for group, tokens in pairs))


def wire_response(name: str, given: Any, want: Any) -> None:
    reply = wire_reply(given)
    assert wire.encode_reply(reply) == want["payload"]
    assert wire.decode_reply(want["payload"]) == reply


def wire_response_bad(name: str, given: Any, want: Any) -> None:
    with pytest.raises(WireFormatError):
        wire.decode_reply(given["payload"])


def wire_response_overflow(name: str, given: Any, want: Any) -> None:
    with pytest.raises(KeyInputError):
        wire.encode_reply(wire_reply(given))


def wire_constants(name: str, given: Any, want: Any) -> None:
    assert (
        want["LOOKUP_MSG"],
        want["RESET_MSG"],
        want["RESP_OK"],
        want["RESP_ERR"],
        want["TAIL_KEY_BOUNDARY_ENTRY_SIZE"],
    ) == (wire.LOOKUP, wire.RESET, wire.OK, wire.ERR, wire.BOUNDARY_BYTES)


def wire_ipc_path(name: str, given: Any, want: Any) -> None:
    made = wire.lookup_address("$BASE", given["lookup_rpc_port"], "$HOST", given["data_parallel_index"])
    assert made == want


def wire_request(name: str, given: Any, want: Any) -> None:
    request = wire.ResetRequest() if "reset" in name else wire.LookupRequest(given["num_tokens"], tuple(given["block_hashes"]))
    assert wire.encode_request(request) == want["frames"]
    assert wire.decode_request(want["frames"]) == request
    if "result" in want:
        assert wire.decode_reset_reply(given["reply"]) is want["result"]
        assert wire.encode_reset_reply(want["result"]) == given["reply"]


WIRE: dict[str, Family] = {
    "response": wire_response,
    "response_bad": wire_response_bad,
    "response_overflow": wire_response_overflow,
    "constants": wire_constants,
    "ipc_path": wire_ipc_path,
    "request": wire_request,
}


# --------------------------------------------------------------------------------------------------------------------------------
# Ranks


@family
def check_resolve_store_tp(name: str, given: Any, want: Any) -> None:
    assert resolve_store_tp(given) == want


@family
def check_rank_layout(name: str, given: Any, want: Any) -> None:
    split = Split(tp=given["tp"], pcp=given.get("pcp", 1), dcp=given.get("dcp", 1), pp=given.get("pp", 1))
    factors = [replication_factor([LayerKind(group)], split, given["nkv"]) for group in given["groups"]]
    assert factors == want["replication_factors"]

    def prefix(rank: Rank, group: int) -> str:
        return compat_prefix(CompatKey("m", "00", rank, group))

    groups = range(len(factors))
    own = [[prefix(key_rank(rank_of(split, tp), factors[g]), g) for g in groups] for tp in range(split.tp)]
    assert own == want["own_prefix_by_tp_rank"]
    assert [[put_step_rank(tp, g, factors[g]) for g in groups] for tp in range(split.tp)] == want["put_step_rank_by_tp_rank"]
    lookups = [[prefix(rank, g) for rank in lookup_ranks(split, factors[g])] for g in groups]
    assert lookups == want["lookup_prefixes_per_group"]


# --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.shared
@needs_vectors
def test_every_family_of_vectors_is_known() -> None:
    families = {family_of(vector) for vector in LOADED}
    assert families <= set(FAMILIES) | ELSEWHERE, "a new kind of vector: check it here, or name the room that does"
    assert set(FAMILIES) <= families, "a family is registered here that no vector belongs to"


@pytest.mark.shared
@needs_vectors
@pytest.mark.parametrize("vector", [pytest.param(v, id=v["id"]) for v in LOADED if family_of(v) in FAMILIES])
def test_equals_vllm(vector: dict[str, Any]) -> None:
    sharing = SHARING_OF.get(vector["input"].get("identity", ""), Sharing.EQUAL)
    given = {name: decode(value, sharing) for name, value in vector["input"].items()}
    FAMILIES[family_of(vector)](vector["id"], given, plain(vector["output"]))
