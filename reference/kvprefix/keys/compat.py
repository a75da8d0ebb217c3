"""Object keys, form ``compat``: exactly vLLM's string, its ambiguities found and named (KEY-3, KEY-4, KEY-6).

The string escapes nothing. Its tail, from ``@tp_rank:`` on, reads back from the right; its head, ``[prefix@]model[namespace]``, may
read in several ways. Model organisation, revision, dtype, block size, hash recipe and split are not in it at all.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from kvprefix.errors import KeyInputError, KeyParseError
from kvprefix.keys._checks import plain_text, whole
from kvprefix.keys.ranks import Rank

#: What Mooncake group ids of vLLM begin with.
GROUP_PREFIX: Final = "vllm-mooncake-store:"
#: Numbers of up to 19 digits are written, and read back.
_LIMIT: Final = 10**19


@attrs.frozen
class CompatKey:
    """The fields of vLLM's ``PoolKey``. Ranks and cache group are integers, negative ones too, as vLLM lets them be."""

    model_name: str
    #: Lower-case hexadecimal.
    chunk_hash: str
    rank: Rank = Rank()
    group_id: int = 0
    #: Set by the operator; keeps deployments apart that share a store.
    cache_prefix: str = ""
    #: Empty, or begins with "@" (:mod:`kvprefix.keys.ranks`).
    store_namespace: str = ""

    def __attrs_post_init__(self) -> None:
        for name in ("model_name", "chunk_hash", "cache_prefix", "store_namespace"):
            plain_text(getattr(self, name), f"the {name.replace('_', ' ')}")
        for number in (*attrs.astuple(self.rank), self.group_id):
            whole(number, "a rank or cache-group number", least=1 - _LIMIT, below=_LIMIT)
        if not re.fullmatch(r"[0-9a-f]+", self.chunk_hash):
            raise KeyInputError(f"the block hash {self.chunk_hash!r} is not lower-case hexadecimal.")
        if self.store_namespace and not self.store_namespace.startswith("@"):
            raise KeyInputError(f"the store namespace {self.store_namespace!r} does not begin with '@'.")


def model_name(model: str) -> str:
    """What of a model's name or path enters the key: its last component (KEY-3). The organisation is lost."""
    return plain_text(model, "the model").rstrip("/").split("/")[-1]


def _head(key: CompatKey) -> str:
    prefix = f"{key.cache_prefix}@" if key.cache_prefix else ""
    return f"{prefix}{key.model_name}{key.store_namespace}"


def compat_prefix(key: CompatKey) -> str:
    """The key without its hash: what all blocks of one rank and cache group share (KEY-3)."""
    rank = key.rank
    return f"{_head(key)}@tp_rank:{rank.tp}@pcp{rank.pcp}@dcp{rank.dcp}@pp_rank:{rank.pp}@group:{key.group_id}"


def format_compat(key: CompatKey) -> str:
    """The object key, byte for byte vLLM's (KEY-3)."""
    return f"{compat_prefix(key)}@{key.chunk_hash}"


def mooncake_group_id(key: CompatKey) -> str:
    """The Mooncake object group that vLLM puts the object in: one per block, over all ranks and cache groups (KEY-3)."""
    return f"{GROUP_PREFIX}{_head(key)}@{key.chunk_hash}"


# --------------------------------------------------------------------------------------------------------------------------------
# Reading back


_NUMBER: Final = r"(0|-?[1-9][0-9]{0,18})"
_COMPAT: Final = re.compile(
    rf"(.*)@tp_rank:{_NUMBER}@pcp{_NUMBER}@dcp{_NUMBER}@pp_rank:{_NUMBER}@group:{_NUMBER}@([0-9a-f]+)", re.DOTALL
)
#: The namespaces that vLLM makes; a model name may look like one, too.
_NAMESPACE: Final = re.compile(
    r"@store_tp:[1-9][0-9]*@store_pp:[1-9][0-9]*@store_format:tp_shared_(?:lbhnc|lbnhc)"
    r"|@store_pp:[1-9][0-9]*@store_format:(?:tp_shared_mqa|rank_local_tp[1-9][0-9]*_layout_[A-Za-z0-9_]+)"
)


@attrs.frozen
class Names:
    """The three names that make the head of a compat key."""

    cache_prefix: str
    model_name: str
    store_namespace: str = ""

    @property
    def clean(self) -> bool:
        """Whether no "@" occurs in prefix and model: with vLLM's own namespaces, no two clean triples have one head (KEY-6)."""
        return "@" not in self.cache_prefix and "@" not in self.model_name


def _head_readings(head: str) -> tuple[Names, ...]:
    """Every way to read a head, clean ones first."""
    separators = [at for at, char in enumerate(head) if char == "@"]
    models_end = [at for at in separators if _NAMESPACE.fullmatch(head, at)]
    found = []
    for start in [0, *(at + 1 for at in separators if at > 0)]:
        prefix = head[: start - 1] if start else ""
        found.append(Names(prefix, head[start:]))
        found += [Names(prefix, head[start:end], head[end:]) for end in models_end if end >= start]
    return tuple(sorted(found, key=lambda names: not names.clean))


def is_compat(text: str) -> bool:
    """Whether a string has the shape of a compat key."""
    return _COMPAT.fullmatch(text) is not None


def compat_readings(text: str) -> tuple[CompatKey, ...]:
    """Every key that formats to this string, clean names first; more than one: the string is ambiguous (KEY-6).

    Only namespaces that vLLM makes are read as such. KeyParseError for a string of another shape.
    """
    match = _COMPAT.fullmatch(text)
    if match is None:
        raise KeyParseError(text, "it does not end in @tp_rank:…@pcp…@dcp…@pp_rank:…@group:…@<hash>")
    head, tp, pcp, dcp, pp, group, chunk_hash = match.groups()
    rank = Rank(int(tp), int(pcp), int(dcp), int(pp))
    try:
        return tuple(
            CompatKey(names.model_name, chunk_hash, rank, int(group), names.cache_prefix, names.store_namespace)
            for names in _head_readings(head)
        )
    except KeyInputError as error:
        raise KeyParseError(text, str(error)) from None


@attrs.frozen
class Ambiguity:
    """Whether names can be told from the keys that they make."""

    names: Names
    #: Other names whose keys are the same strings.
    collisions: tuple[Names, ...]

    @property
    def ambiguous(self) -> bool:
        """Whether a reader of the string has a choice."""
        return bool(self.collisions)

    @property
    def at_fault(self) -> bool:
        """Whether these names make it so: one of them holds an "@". Keys of clean names never collide with each other."""
        return not self.names.clean


def ambiguity(cache_prefix: str, model: str, store_namespace: str = "") -> Ambiguity:
    """What else keys of these names can be read as (KEY-6). ``model`` is the name as it enters the key (:func:`model_name`)."""
    key = CompatKey(model, "00", cache_prefix=cache_prefix, store_namespace=store_namespace)
    names = Names(key.cache_prefix, key.model_name, key.store_namespace)
    return Ambiguity(names, tuple(other for other in _head_readings(_head(key)) if other != names))


def compat_collisions(key: CompatKey) -> tuple[CompatKey, ...]:
    """All other keys that format to the same string (KEY-4)."""
    return tuple(other for other in compat_readings(format_compat(key)) if other != key)
