"""The plain store and the reference store were written apart from the same spec: on the same calls they give the same answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kvprefix.api import ROOT, UNKNOWN, CacheGroup, Capabilities, Pin, PutItem, PutOptions, Transport
from kvprefix.keys import BlockKey, KeySpace, Span, format_lineage
from kvprefix.store import ReferenceBackend
from kvprefix.store.presets import PRESETS
from kvprefix_conformance.faulty.plain import PlainBackend

#: All that the plain store can be: it has no families, no object groups and no background eviction.
KINDS = sorted(set(PRESETS) - {"FAMILIES", "MOONCAKE_LIKE"})
KEYS = ["a", "b", "c", "d", "e", "f"]
_SPACE = KeySpace(model="m", fingerprint="0" * 32)


def lineage_key(name: str, parent: str) -> str:
    """A key that carries its parent's hash (KEY-8)."""
    digests = [each.encode() * 8 for each in (name, parent)]
    return format_lineage(BlockKey(_SPACE, Span.of(16, 16), digests[0]), digests[1] if parent.strip() else ROOT)


#: For the key transport: a tree a > b > d, a > c > e, and a second root f.
LINEAGE = [lineage_key(*pair) for pair in ("a ", "ba", "ca", "db", "ec", "f ")]
OPTIONS = [
    PutOptions(),
    PutOptions(),
    PutOptions(),
    PutOptions(lease_ms=30),
    PutOptions(pin=Pin.HARD),
    PutOptions(pin=Pin.SOFT),
    PutOptions(pin=Pin.SOFT, soft_pin_ms=40),
    PutOptions(cache_group=CacheGroup.WINDOW),
    PutOptions(namespace="n"),
]


class Pair:
    """Two backends that get the same calls; every answer is compared, attempt and pin tokens by who got them."""

    def __init__(self, capabilities: Capabilities, capacity: int) -> None:
        self.backends: list[Any] = [ReferenceBackend(capabilities), PlainBackend(capabilities)]
        for backend in self.backends:
            backend.start(capacity)
        self.clients: list[Any] = [backend.client() for backend in self.backends]
        self.tokens: list[tuple[str, list[str]]] = [("a", ["never", "never"])]
        self.keys = LINEAGE if Transport.KEY in capabilities.lineage else KEYS

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        answers = [getattr(client, name)(*args, **kwargs) for client in self.clients]
        tokens = [answer.token for answer in answers if getattr(answer, "token", None)]
        if len(tokens) == 2:
            self.tokens.append((args[0], tokens))
            answers = [attrs.evolve(answer, token=None) for answer in answers]
        assert answers[0] == answers[1], (name, args, kwargs)
        return answers[0]

    def with_token(self, name: str, index: int, *args: Any) -> None:
        tokens = self.tokens[index][1]
        answers = [
            getattr(client, name)(*(t if a == "TOKEN" else a for a in args)) for client, t in zip(self.clients, tokens, strict=True)
        ]
        assert answers[0] == answers[1], (name, args)

    def compare_state(self) -> None:
        reference, plain = self.backends
        assert reference.resident() == plain.resident()
        for name in ("stats", "events", "snapshot"):
            self.call(name)


def _parent(pair: Pair, rng: random.Random) -> Any:
    return rng.choice([ROOT, UNKNOWN, *pair.keys, *pair.keys])


def _item(pair: Pair, rng: random.Random) -> PutItem:
    value = b"v" * rng.choice([0, 1, 4, 4, 4, 9])
    return PutItem(rng.choice(pair.keys), value, parent=_parent(pair, rng), options=rng.choice(OPTIONS))


def _put(pair: Pair, rng: random.Random) -> None:
    item = _item(pair, rng)
    pair.call("put", item.key, item.value, parent=item.parent, options=item.options)


def _begin(pair: Pair, rng: random.Random) -> None:
    item = _item(pair, rng)
    pair.call("put_begin", item.key, len(item.value), parent=item.parent, options=item.options)


def _end(pair: Pair, rng: random.Random) -> None:
    index = rng.randrange(len(pair.tokens))
    key = pair.tokens[index][0]
    if rng.random() < 0.7:
        pair.with_token("put_commit", index, key, "TOKEN", b"w" * rng.choice([1, 4, 4]))
    else:
        pair.with_token("put_abort", index, key, "TOKEN")


def _look(pair: Pair, rng: random.Random) -> None:
    pair.call(rng.choice(["get", "exists", "probe"]), rng.choice(pair.keys))


def _look_many(pair: Pair, rng: random.Random) -> None:
    pair.call(rng.choice(["get_many", "exists_many", "match"]), rng.choices(pair.keys, k=3))


def _batch(pair: Pair, rng: random.Random) -> None:
    pair.call("put_many", [_item(pair, rng) for _ in range(3)])


def _hold(pair: Pair, rng: random.Random) -> None:
    if rng.random() < 0.5:
        pair.call("lease", rng.choice(pair.keys), rng.choice([5, 20]))
    else:
        pair.call("pin", rng.choice(pair.keys))


def _let_go(pair: Pair, rng: random.Random) -> None:
    pair.with_token("unpin", rng.randrange(len(pair.tokens)), "TOKEN")


def _remove(pair: Pair, rng: random.Random) -> None:
    force = rng.random() < 0.4
    if rng.random() < 0.2:
        pair.call("clear", force=force)
    else:
        pair.call("remove", rng.choice(pair.keys), force=force)


def _advance(pair: Pair, rng: random.Random) -> None:
    ms = rng.choice([1, 10, 50, 1000])
    for backend in pair.backends:
        backend.advance(ms)


def _register(pair: Pair, rng: random.Random) -> None:
    if Transport.EVENT in pair.backends[0].capabilities.lineage:
        pair.call("register", rng.choice(pair.keys), _parent(pair, rng))


MOVES: list[Callable[[Pair, random.Random], None]] = [
    _put, _put, _put, _put, _put, _put, _begin, _end, _look, _look_many, _batch, _hold, _let_go, _remove, _advance, _register,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_plain_answers_as_the_reference_does_on_random_calls(kind: str) -> None:
    capabilities = attrs.evolve(
        PRESETS[kind],
        cache_groups=frozenset({CacheGroup.FULL, CacheGroup.WINDOW}),
        namespaces=True,
        pending_timeout_ms=60,
        defer_deadline_ms=70,
        lease_ttl_ms=15,
    )
    for seed in range(60):
        rng = random.Random(f"{kind}-{seed}")
        pair = Pair(capabilities, capacity=rng.choice([8, 12, 16]))
        for _ in range(40):
            rng.choice(MOVES)(pair, rng)
            pair.compare_state()
