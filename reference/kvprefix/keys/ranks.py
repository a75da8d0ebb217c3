"""Ranks and their shares: which object names a rank writes, which a lookup must find, and the namespaces of shared layouts (KEY-3).

A logical block is spread over tensor (TP), pipeline (PP), prefill-context (PCP) and decode-context (DCP) ranks. Where TP ranks hold
the same bytes (MLA, or fewer KV heads than ranks), they share one name, and stride over the blocks when they write.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from kvprefix.errors import KeyInputError
from kvprefix.keys._checks import whole


@attrs.frozen
class Split:
    """Into how many ranks a model is split. DCP subdivides TP: it adds no ranks."""

    tp: int = 1
    pcp: int = 1
    dcp: int = 1
    pp: int = 1

    def __attrs_post_init__(self) -> None:
        for name in ("tp", "pcp", "dcp", "pp"):
            whole(getattr(self, name), f"the {name.upper()} size", least=1)
        if self.tp % self.dcp:
            raise KeyInputError(f"DCP size {self.dcp} does not divide TP size {self.tp}.", "DCP is a subdivision of TP.")


@attrs.frozen
class Rank:
    """One rank, by its place in each kind of parallelism."""

    tp: int = 0
    pcp: int = 0
    dcp: int = 0
    pp: int = 0


class LayerKind(enum.Enum):
    """The attention kinds that vLLM tells apart when it counts replicas, by the names of its specs."""

    FULL = "FullAttentionSpec"
    MLA = "MLAAttentionSpec"
    SLIDING_WINDOW = "SlidingWindowSpec"
    SLIDING_WINDOW_MLA = "SlidingWindowMLASpec"
    CHUNKED_LOCAL = "ChunkedLocalAttentionSpec"
    MAMBA = "MambaSpec"


_REPLICATED: Final = frozenset({LayerKind.MLA, LayerKind.SLIDING_WINDOW_MLA})


def rank_of(split: Split, tp: int, *, pcp: int = 0, pp: int = 0) -> Rank:
    """The rank at this place; its DCP rank follows from its TP rank."""
    whole(tp, "the TP rank", below=split.tp)
    whole(pcp, "the PCP rank", below=split.pcp)
    whole(pp, "the PP rank", below=split.pp)
    return Rank(tp, pcp, tp % split.dcp, pp)


def replication_factor(kinds: Iterable[LayerKind], split: Split, num_kv_heads: int) -> int:
    """How many TP ranks hold the same bytes of a cache group whose layers are of these kinds (KEY-3).

    1 under DCP and where any layer has rank-specific state (Mamba); all of TP for pure MLA; else TP size over KV heads.
    """
    layers = frozenset(kinds)
    whole(num_kv_heads, "the number of KV heads", least=1)
    if not layers:
        raise KeyInputError("a cache group has no layers.")
    if split.dcp > 1 or LayerKind.MAMBA in layers:
        return 1
    if layers <= _REPLICATED:
        return split.tp
    return max(1, split.tp // num_kv_heads)


def key_rank(rank: Rank, factor: int) -> Rank:
    """The rank as object keys name it: ranks that hold the same bytes have one name (KEY-3)."""
    return attrs.evolve(rank, tp=rank.tp // whole(factor, "the replication factor", least=1))


def put_step_rank(tp_rank: int, group_id: int, factor: int) -> int:
    """Which blocks, by number modulo ``factor``, a rank writes; cache groups are shifted, so that the load is even."""
    return (tp_rank + group_id) % whole(factor, "the replication factor", least=1)


def lookup_ranks(split: Split, factor: int) -> tuple[Rank, ...]:
    """All ranks, as keys name them, whose objects must be there for a block to count as present, in vLLM's order (CON-4)."""
    if split.dcp > 1:
        return tuple(
            Rank(tp, pcp, tp % split.dcp, pp) for pcp in range(split.pcp) for tp in range(split.tp) for pp in range(split.pp)
        )
    shares = split.tp // whole(factor, "the replication factor", least=1)
    return tuple(Rank(tp, pcp, 0, pp) for pcp in range(split.pcp) for tp in range(shares) for pp in range(split.pp))


# --------------------------------------------------------------------------------------------------------------------------------
# Namespaces of layouts that several TP sizes can share


class SharedFormat(enum.Enum):
    """Payload layouts in which a TP rank stores several shards, so that clusters of different TP size can share them."""

    LBHNC = "tp_shared_lbhnc"
    LBNHC = "tp_shared_lbnhc"


def shared_namespace(form: SharedFormat, store_tp: int, pp: int) -> str:
    """Namespace of a layout that is cut into ``store_tp`` shards (KEY-3)."""
    whole(store_tp, "the store TP size", least=1)
    return f"@store_tp:{store_tp}@store_pp:{whole(pp, 'the PP size', least=1)}@store_format:{form.value}"


def mqa_namespace(pp: int) -> str:
    """Namespace of the one-KV-head layout, which every rank holds whole (KEY-3)."""
    return f"@store_pp:{whole(pp, 'the PP size', least=1)}@store_format:tp_shared_mqa"


def rank_local_namespace(tp: int, pp: int, layout: str) -> str:
    """Namespace of a rank-local layout, where sharing over TP sizes was asked for and cannot be had (KEY-3)."""
    whole(tp, "the TP size", least=1)
    return f"@store_pp:{whole(pp, 'the PP size', least=1)}@store_format:rank_local_tp{tp}_layout_{layout}"


def resolve_store_tp(config: Mapping[str, Any]) -> int | None:
    """The store TP size that a connector configuration asks for, or None for none or a bad one (KEY-3).

    As vLLM reads it: ``enable_store_tp_lcm`` counts only as True itself, and then the least common multiple of ``prefill_tp_sizes``
    is taken, or nothing; sizes are positive integers, no bools.
    """
    if config.get("enable_store_tp_lcm") is True:
        sizes = config.get("prefill_tp_sizes")
        if not isinstance(sizes, list) or not sizes or not all(_positive(size) for size in sizes):
            return None
        return math.lcm(*sizes)
    size = config.get("store_tp_size")
    return size if _positive(size) else None


def _positive(value: object) -> bool:
    return type(value) is int and value > 0


@attrs.frozen
class StoreLayout:
    """How one deployment lays its objects out: shards per block (None: rank-local), and the namespace in its keys."""

    store_tp: int | None = None
    namespace: str = ""


def select_store_layout(
    config: Mapping[str, Any], *, split: Split, num_kv_heads: int, layout: str, groups: Sequence[frozenset[LayerKind]]
) -> StoreLayout:
    """The layout that vLLM's connector chooses (KEY-3).

    Nothing asked for: rank-local, no namespace. Asked for and possible: a shared layout. Else rank-local under a namespace that
    names TP size and layout, so that other clusters never take it for their own.
    """
    if config.get("enable_store_tp_lcm") is not True and config.get("store_tp_size") is None:
        return StoreLayout()
    wanted = resolve_store_tp(config)
    form = next((form for form in SharedFormat if form.name == layout), None)
    shareable = (
        form is not None
        and split.pcp == split.dcp == 1
        and list(groups) == [frozenset({LayerKind.FULL})]
        and str(config.get("enable_cross_layers_blocks", "False")).lower() != "true"
    )
    if form is not None and shareable and wanted is not None and wanted % split.tp == 0:
        if num_kv_heads % wanted == 0:
            return StoreLayout(wanted, shared_namespace(form, wanted, split.pp))
        if num_kv_heads == 1:
            return StoreLayout(None, mqa_namespace(split.pp))
    return StoreLayout(None, rank_local_namespace(split.tp, split.pp, layout))


def shard_ranks(rank: Rank, split: Split, store_tp: int) -> tuple[Rank, ...]:
    """Under a shared layout: the shards that one TP rank writes and reads, as keys name them."""
    if whole(store_tp, "the store TP size", least=1) % split.tp:
        raise KeyInputError(f"store TP size {store_tp} is not a multiple of TP size {split.tp}.")
    each = store_tp // split.tp
    return tuple(attrs.evolve(rank, tp=shard) for shard in range(rank.tp * each, (rank.tp + 1) * each))


def lookup_shards(split: Split, store_tp: int) -> tuple[Rank, ...]:
    """Under a shared layout: all shards, as keys name them, that must be there for a block to count as present, in vLLM's order."""
    return tuple(Rank(tp=shard, pp=pp) for shard in range(whole(store_tp, "the store TP size", least=1)) for pp in range(split.pp))
