"""Object keys, forms ``strict`` and ``lineage``: injective, they parse back, and they commit to what makes bytes compatible.

    kvp1@<namespace>@<model>@<fingerprint>@tp0@pcp0@dcp0@pp0@full0@b16@<hash>                       strict   (KEY-4, 6, 7, 9, 10)
    kvp1@<namespace>@<model>@<fingerprint>@tp0@pcp0@dcp0@pp0@full0@b16@<hash>@parent:<hash or root> lineage  (KEY-8)

Names are percent-escaped, so that a separator is always one; all output is printable ASCII. Parsing accepts only what formatting
makes, so that one key has one string. The lineage form is the strict string and the parent's hash: a store that sees it knows the
parent's own key, and can rebuild the forest from keys alone (:func:`lineage_of`).
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import attrs

from kvprefix.api import ROOT, CacheGroup, Root
from kvprefix.errors import KeyInputError, KeyParseError
from kvprefix.keys._checks import LIMIT_U32, octets, plain_text, whole
from kvprefix.keys.chunks import chunks, coarse_hashes, units_of
from kvprefix.keys.compat import CompatKey, format_compat, model_name
from kvprefix.keys.fingerprint import FINGERPRINT_DIGITS, Compatibility, fingerprint
from kvprefix.keys.ranks import Rank

#: What every strict and lineage key begins with; raised when the form changes meaning.
VERSION: Final = "kvp1"
_PARENT: Final = "@parent:"
_ROOT: Final = "root"
_MAX_HASH_BYTES: Final = 64


class SpanKind(enum.Enum):
    """What a stored object covers; the letter stands in the key."""

    #: One hash unit: the tokens that its own hash covers.
    BLOCK = "b"
    #: Several hash units, named by the last one's hash (KEY-9).
    CHUNK = "c"
    #: The beginning of a chunk, named by the hash of the prefix that ends there (KEY-10).
    TAIL = "t"


@attrs.frozen
class Span:
    """How many tokens an object covers, and as what: the same hash names a block, a chunk and a tail (KEY-9, KEY-10)."""

    kind: SpanKind
    #: Tokens of a full one.
    block_size: int
    #: Tokens of this one: less than a full one for a TAIL only.
    tokens: int

    def __attrs_post_init__(self) -> None:
        whole(self.block_size, "the block size", least=1, below=LIMIT_U32)
        whole(self.tokens, "the number of tokens", least=1, below=LIMIT_U32)
        if self.kind is SpanKind.TAIL and self.tokens >= self.block_size:
            raise KeyInputError(f"a tail of {self.tokens} tokens is no part of a block of {self.block_size}.")
        if self.kind is not SpanKind.TAIL and self.tokens != self.block_size:
            raise KeyInputError(f"a full block of {self.block_size} tokens does not hold {self.tokens}.")

    @staticmethod
    def of(block_size: int, hash_unit: int, tokens: int | None = None) -> Span:
        """The span of a stored block of this size over this hash unit; ``tokens`` where it is not full.

        KeyInputError unless both are multiples of the hash unit: no hash names any other.
        """
        units_of(block_size, hash_unit)
        if tokens is not None and tokens != block_size:
            units_of(tokens, hash_unit)
            return Span(SpanKind.TAIL, block_size, tokens)
        return Span(SpanKind.BLOCK if block_size == hash_unit else SpanKind.CHUNK, block_size, block_size)

    @property
    def text(self) -> str:
        """The span as it stands in a key: b16, c64, t64.48."""
        tokens = f".{self.tokens}" if self.kind is SpanKind.TAIL else ""
        return f"{self.kind.value}{self.block_size}{tokens}"

    @property
    def of_parent(self) -> Span:
        """The span of the parent: before a block a block, before a chunk or a tail a chunk."""
        return self if self.kind is not SpanKind.TAIL else Span(SpanKind.CHUNK, self.block_size, self.block_size)


@attrs.frozen
class KeySpace:
    """What all objects of one rank and cache group share. Two spaces that differ anywhere never share a key (KEY-4)."""

    #: The model's full name, organisation included.
    model: str
    #: :func:`kvprefix.keys.fingerprint.fingerprint` (KEY-7).
    fingerprint: str
    #: Keeps deployments apart that share a store; vLLM's cache prefix. May be empty.
    namespace: str = ""
    #: As keys name it (:func:`kvprefix.keys.ranks.key_rank`).
    rank: Rank = Rank()
    cache_group: CacheGroup = CacheGroup.FULL
    group_id: int = 0

    def __attrs_post_init__(self) -> None:
        plain_text(self.namespace, "the namespace")
        if not plain_text(self.model, "the model"):
            raise KeyInputError("the model has no name.")
        if not re.fullmatch(rf"[0-9a-f]{{{FINGERPRINT_DIGITS}}}", plain_text(self.fingerprint, "the fingerprint")):
            raise KeyInputError(f"a fingerprint has {FINGERPRINT_DIGITS} lower-case hexadecimal digits, not {self.fingerprint!r}.")
        for name in ("tp", "pcp", "dcp", "pp"):
            whole(getattr(self.rank, name), f"the {name.upper()} rank", below=LIMIT_U32)
        whole(self.group_id, "the cache-group number", below=LIMIT_U32)

    @property
    def text(self) -> str:
        """The beginning of every key of this space."""
        rank = self.rank
        return (
            f"{VERSION}@{_escape(self.namespace)}@{_escape(self.model)}@{self.fingerprint}"
            f"@tp{rank.tp}@pcp{rank.pcp}@dcp{rank.dcp}@pp{rank.pp}@{self.cache_group.value}{self.group_id}"
        )


def key_space(compatibility: Compatibility, **fields: Any) -> KeySpace:
    """The space of a deployment, from what makes its bytes compatible (KEY-7); further fields of KeySpace by name."""
    return KeySpace(model=compatibility.model, fingerprint=fingerprint(compatibility), **fields)


def _hash(value: object) -> bytes:
    data = octets(value, "a block hash")
    if not 1 <= len(data) <= _MAX_HASH_BYTES:
        raise KeyInputError(f"a block hash has 1 to {_MAX_HASH_BYTES} bytes, not {len(data)}.")
    return data


@attrs.frozen
class BlockKey:
    """One object: one rank's part of one block of one cache group. Formats to the strict form."""

    space: KeySpace
    span: Span
    hash: bytes = attrs.field(converter=_hash, repr=lambda value: value.hex())


def _parent(value: object) -> bytes | Root:
    return value if isinstance(value, Root) else _hash(value)


@attrs.frozen
class LineageKey:
    """An object and its parent's hash, ROOT for the first block. Formats to the lineage form (KEY-8)."""

    block: BlockKey
    parent: bytes | Root = attrs.field(converter=_parent, repr=lambda value: value.name if value is ROOT else value.hex())

    def __attrs_post_init__(self) -> None:
        if self.block.space.cache_group is not CacheGroup.FULL:
            raise KeyInputError(
                f"an object of a {self.block.space.cache_group.value} cache group has no parent for a store.",
                "Only full-attention groups need every ancestor; use the strict form.",
            )
        if not isinstance(self.parent, Root) and len(self.parent) != len(self.block.hash):
            raise KeyInputError(f"a parent hash of {len(self.parent)} bytes and a block hash of {len(self.block.hash)} bytes.")


def parent_of(key: LineageKey) -> BlockKey | Root:
    """The parent's own key (KEY-8)."""
    if isinstance(key.parent, Root):
        return key.parent
    return attrs.evolve(key.block, span=key.block.span.of_parent, hash=key.parent)


# --------------------------------------------------------------------------------------------------------------------------------
# Formatting


def _escape(name: str) -> str:
    """Percent-escaped UTF-8, but for letters, digits and ``_ . - ~``."""
    return quote(name, safe="")


def format_strict(key: BlockKey) -> str:
    """The strict form (KEY-4, KEY-6, KEY-7)."""
    return f"{key.space.text}@{key.span.text}@{key.hash.hex()}"


def format_lineage(block: BlockKey, parent: bytes | Root) -> str:
    """The lineage form (KEY-8); KeyInputError for a cache group whose objects have no parent."""
    return format_key(LineageKey(block, parent))


def format_key(key: BlockKey | LineageKey | CompatKey) -> str:
    """The string of any key, in the form that its type stands for."""
    if isinstance(key, CompatKey):
        return format_compat(key)
    if isinstance(key, BlockKey):
        return format_strict(key)
    parent = _ROOT if isinstance(key.parent, Root) else key.parent.hex()
    return f"{format_strict(key.block)}{_PARENT}{parent}"


# --------------------------------------------------------------------------------------------------------------------------------
# Parsing


_NUMBER: Final = r"(0|[1-9][0-9]{0,9})"
_NAME: Final = r"([A-Za-z0-9_.~%-]*)"
_STRICT: Final = re.compile(
    rf"{VERSION}@{_NAME}@{_NAME}@([0-9a-f]+)@tp{_NUMBER}@pcp{_NUMBER}@dcp{_NUMBER}@pp{_NUMBER}"
    rf"@({'|'.join(group.value for group in CacheGroup)}){_NUMBER}@([bct]){_NUMBER}(?:\.{_NUMBER})?@([0-9a-f]+)"
)
_HEX: Final = re.compile(r"(?:[0-9a-f]{2}){1,64}")


def parse(text: str) -> BlockKey | LineageKey:
    """The key that formats to this string (KEY-6, KEY-8); KeyParseError for any string that formatting does not make."""
    identity, mark, above = text.rpartition(_PARENT)
    if not mark:
        return _parse_strict(text, text)
    block = _parse_strict(identity, text)
    if above != _ROOT and not _HEX.fullmatch(above):
        raise KeyParseError(text, "the parent is neither 'root' nor a hash")
    try:
        return LineageKey(block, ROOT if above == _ROOT else bytes.fromhex(above))
    except KeyInputError as error:
        raise KeyParseError(text, str(error)) from None


def _parse_strict(strict: str, text: str) -> BlockKey:
    match = _STRICT.fullmatch(strict)
    if match is None:
        raise KeyParseError(text, f"it is not {VERSION}@namespace@model@fingerprint@tp…@pcp…@dcp…@pp…@group@span@hash")
    namespace, model, stamp, tp, pcp, dcp, pp, group, group_id, kind, size, tokens, digest = match.groups()
    try:
        space = KeySpace(
            model=unquote_to_bytes(model).decode(),
            fingerprint=stamp,
            namespace=unquote_to_bytes(namespace).decode(),
            rank=Rank(int(tp), int(pcp), int(dcp), int(pp)),
            cache_group=CacheGroup(group),
            group_id=int(group_id),
        )
        key = BlockKey(space, Span(SpanKind(kind), int(size), int(size if tokens is None else tokens)), bytes.fromhex(digest))
    except UnicodeDecodeError:
        raise KeyParseError(text, "an escaped name is not UTF-8") from None
    except ValueError:
        raise KeyParseError(text, "the hash has an odd number of digits") from None
    except KeyInputError as error:
        raise KeyParseError(text, str(error)) from None
    if format_strict(key) != strict:
        raise KeyParseError(text, "a field is not written as formatting writes it")
    return key


# --------------------------------------------------------------------------------------------------------------------------------
# Lineage for stores


@attrs.frozen
class Lineage:
    """Whose child an object is, as its key says it. Matched by identity: a child knows its parent's, but no grandparent."""

    #: The strict form of the object's own key.
    identity: str
    #: The strict form of the parent's key, or ROOT.
    parent: str | Root


@functools.lru_cache(maxsize=4096)
def _parent_head(head: str) -> str | None:
    """For the beginning of a strict key, up to its hash: that of its parent's key, or None where there is none to have."""
    try:
        key = _parse_strict(f"{head}@00", head)
    except KeyParseError:
        return None
    return f"{key.space.text}@{key.span.of_parent.text}" if key.space.cache_group is CacheGroup.FULL else None


def lineage_of(key: str) -> Lineage | None:
    """What a key in lineage form says of its parent; None for every other string (KEY-8).

    Meant for every put: what all keys of a rank and cache group share is parsed once, the rest is cut and checked.
    """
    identity, mark, above = key.rpartition(_PARENT)
    if not mark:
        return None
    head, _, own = identity.rpartition("@")
    parent_head = _parent_head(head)
    if parent_head is None or not _HEX.fullmatch(own):
        return None
    if above == _ROOT:
        return Lineage(identity, ROOT)
    if len(above) != len(own) or not _HEX.fullmatch(above):
        return None
    return Lineage(identity, f"{parent_head}@{above}")


# --------------------------------------------------------------------------------------------------------------------------------
# All keys of a prompt


def chain_keys(
    space: KeySpace, hashes: Sequence[bytes], *, hash_unit: int, block_size: int | None = None, num_tokens: int | None = None
) -> list[LineageKey]:
    """The keys of a prompt's blocks, root first, each with its parent's hash (KEY-8, KEY-9, KEY-10).

    ``block_size`` is the cache group's own, a multiple of the hash unit; None: equal to it. ``num_tokens`` ends the prompt at a
    multiple of the hash unit, where the last block may be a tail; None: at the last full block.
    """
    size = hash_unit if block_size is None else block_size
    length = len(coarse_hashes(hashes, hash_unit, size)) * size if num_tokens is None else num_tokens
    keys: list[LineageKey] = []
    parent: bytes | Root = ROOT
    for chunk in chunks(length, hashes, block_size=size, hash_unit=hash_unit):
        keys.append(LineageKey(BlockKey(space, Span.of(size, hash_unit, chunk.end - chunk.start), chunk.hash), parent))
        parent = chunk.hash
    return keys


def compat_key(key: BlockKey, store_namespace: str = "") -> CompatKey:
    """The same object as vLLM names it; what the compat form leaves out is lost (:mod:`kvprefix.keys.collisions`)."""
    space = key.space
    return CompatKey(model_name(space.model), key.hash.hex(), space.rank, space.group_id, space.namespace, store_namespace)
