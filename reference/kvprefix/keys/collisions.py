"""The known collisions of the compat form: pairs of different objects to which vLLM gives one string, as vectors (KEY-4).

Each pair is made by this package's own formatting, and each is told apart by the strict form. Differences in hash recipe or root
seed are not here: they change the hash, so that deployments merely miss each other.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from kvprefix.api import CacheGroup
from kvprefix.keys.chain import HashScheme, hash_chain
from kvprefix.keys.compat import CompatKey, format_compat
from kvprefix.keys.documents import compat_json, key_json
from kvprefix.keys.fingerprint import Compatibility
from kvprefix.keys.ranks import Rank, SharedFormat, Split, mqa_namespace, shared_namespace
from kvprefix.keys.strict import BlockKey, Span, compat_key, format_strict, key_space


@attrs.frozen
class Side:
    """One object of a pair, as either form names it."""

    strict: BlockKey
    compat: CompatKey


@attrs.frozen
class Collision:
    """Two objects with one compat string."""

    #: "names/..." where a separator inside a name is to blame, "lost/..." where the form leaves a dimension out.
    id: str
    #: What the two are, and what goes wrong.
    because: str
    first: Side
    second: Side

    @property
    def text(self) -> str:
        """The string that both have."""
        return format_compat(self.first.compat)


_UNIT: Final = 4
_SCHEME: Final = HashScheme(block_size=_UNIT)
_HASHES: Final = tuple(hash_chain(_SCHEME, range(64)))
_BASE: Final = Compatibility(model="org/m", kv_dtype="bfloat16", layout="LBHNC", scheme=_SCHEME)
_BLOCK: Final = Span.of(_UNIT, _UNIT)


def _side(compatibility: Compatibility = _BASE, span: Span = _BLOCK, index: int = 0, store: str = "", **space: Any) -> Side:
    key = BlockKey(key_space(compatibility, **space), span, _HASHES[index])
    return Side(key, compat_key(key, store))


def _changed(**fields: Any) -> Side:
    return _side(attrs.evolve(_BASE, **fields))


def _named(prefix: str, model: str, store: str = "") -> Side:
    return _side(attrs.evolve(_BASE, model=model), store=store, namespace=prefix)


def _names() -> list[Collision]:
    shared = shared_namespace(SharedFormat.LBHNC, 4, 1)
    mqa = mqa_namespace(1)
    pairs = {
        "prefix-vs-model": (("a", "b"), ("", "a@b"), "a cache prefix, or the beginning of a model name"),
        "prefix-split": (("a@b", "c"), ("a", "b@c"), "where the prefix ends and the model begins"),
        "prefix-trailing-at": (("a@", "m"), ("a", "@m"), "an @ that ends the prefix or begins the model"),
        "model-vs-namespace": (("", "m", shared), ("", f"m{shared}"), "a store namespace, or the end of a model name"),
        "prefix-model-vs-namespace": (("", "m", mqa), ("m", mqa[1:]), "a store namespace, or a model name behind a prefix"),
        "prefix-hides-namespace": (("p", "m", mqa), ("", f"p@m{mqa}"), "prefix, model and namespace, or one long model name"),
    }
    return [
        Collision(f"names/{name}", f"The string does not say: {because}.", _named(*first), _named(*second))
        for name, (first, second, because) in pairs.items()
    ]


def _lost_in_model() -> list[Collision]:
    return [
        Collision(
            "lost/organisation",
            "Only the last component of the model's name is in the key.",
            _changed(model="org1/m"),
            _changed(model="org2/m"),
        ),
        Collision("lost/path", "A path and a hub name end alike.", _changed(model="/models/old/m/"), _changed(model="org/m")),
        Collision("lost/revision", "Two revisions of one model.", _changed(revision="v1"), _changed(revision="v2")),
        Collision("lost/quantization", "Quantised weights compute other KV values.", _changed(), _changed(quantization="awq")),
        Collision("lost/kv-dtype", "Objects of different size and meaning.", _changed(), _changed(kv_dtype="fp8_e4m3")),
        Collision("lost/layout", "The same numbers in another order.", _changed(), _changed(layout="LBNHC")),
    ]


def _lost_in_split() -> list[Collision]:
    sizes = {
        "tp": "The object of rank 0 holds all KV heads, or half of them; a lookup at TP 1 asks for rank 0 only and hits.",
        "pp": "The object of stage 0 holds all layers, or half of them.",
        "pcp": "The context is whole, or split over two ranks at prefill.",
    }
    split = [
        Collision(f"lost/{name}-size", because, _changed(split=Split()), _changed(split=attrs.evolve(Split(), **{name: 2})))
        for name, because in sizes.items()
    ]
    return [
        *split,
        Collision(
            "lost/dcp-size",
            "TP rank 0 holds its heads of all tokens, or of every other token.",
            _changed(split=Split(tp=2)),
            _changed(split=Split(tp=2, dcp=2)),
        ),
        Collision(
            "lost/kv-heads",
            "Key rank 1 of 4 ranks is the second of 2 heads (two ranks each), or the second of 4.",
            _side(attrs.evolve(_BASE, split=Split(tp=4), num_kv_heads=2), rank=Rank(tp=1)),
            _side(attrs.evolve(_BASE, split=Split(tp=4), num_kv_heads=4), rank=Rank(tp=1)),
        ),
    ]


def _lost_in_block() -> list[Collision]:
    return [
        Collision(
            "lost/block-size",
            "One hash is the fourth block of 4 tokens and the first chunk of 16.",
            _side(index=3),
            _side(span=Span.of(16, _UNIT), index=3),
        ),
        Collision(
            "lost/chunk-size",
            "One hash is the second chunk of 16 tokens and the first of 32.",
            _side(span=Span.of(16, _UNIT), index=7),
            _side(span=Span.of(32, _UNIT), index=7),
        ),
        Collision(
            "lost/partial-tail",
            "One hash is the third block of 4 tokens and a tail of 12 in a chunk of 16.",
            _side(index=2),
            _side(span=Span.of(16, _UNIT, tokens=12), index=2),
        ),
        Collision(
            "lost/tail-of-other-size",
            "One hash is a tail of 8 tokens in the second chunk of 16, and one of 24 in the first chunk of 32.",
            _side(span=Span.of(16, _UNIT, tokens=8), index=5),
            _side(span=Span.of(32, _UNIT, tokens=24), index=5),
        ),
        Collision(
            "lost/cache-group-kind",
            "The key holds a number among the cacheable groups, not what kind of attention it is.",
            _side(),
            _side(cache_group=CacheGroup.WINDOW),
        ),
    ]


def collision_vectors() -> tuple[Collision, ...]:
    """All known collisions of the compat form (KEY-4)."""
    return (*_names(), *_lost_in_model(), *_lost_in_split(), *_lost_in_block())


def collision_json(collision: Collision) -> dict[str, Any]:
    """A collision as a language-neutral vector."""
    sides = {
        name: {"key": key_json(side.strict), "compat": compat_json(side.compat), "strict": format_strict(side.strict)}
        for name, side in (("first", collision.first), ("second", collision.second))
    }
    return {"id": collision.id, "because": collision.because, "compat": collision.text, **sides}
