"""The flat mode that evicts as Mooncake Store does shows what was measured on the real server: who goes first, what is orphaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs
import pytest

from kvprefix.api import Answer, Capabilities, Geometry, Pin, PutItem, PutOptions
from kvprefix.store import ReferenceStore, presets
from kvprefix.store.mooncake_like import SHARDS, shard_of

#: A victim for each refused put and no watermark: shows the exact order.
ONE_BY_ONE = attrs.evolve(presets.MOONCAKE_LIKE, watermark=1.0, evict_ratio=1e-9)
TTL = ONE_BY_ONE.lease_ttl_ms


def store_of(caps: Capabilities, objects: int, seed: int = 0) -> ReferenceStore:
    return ReferenceStore(caps, Geometry(objects), seed=seed)


def put(store: ReferenceStore, key: str, options: PutOptions = PutOptions()) -> None:
    """As a client does: once more after a refusal."""
    if store.put(key, b"v", options=options).answer is Answer.NO_SPACE:
        assert store.put(key, b"v", options=options).answer is Answer.STORED


def chain(number: int, depth: int) -> list[str]:
    return [f"c{number:02}b{block:02}" for block in range(depth)]


def removed(store: ReferenceStore) -> list[str]:
    return [event.key for event in store.events() if event.kind.value == "removed"]


def victims(store: ReferenceStore, count: int) -> list[str]:
    before = len(removed(store))
    for number in range(count):
        put(store, f"new{before}-{number}")
    return removed(store)[before:]


def orphans(store: ReferenceStore, chains: Iterable[Sequence[str]]) -> float:
    """Share of resident blocks with a missing ancestor."""
    resident = lost = 0
    for keys in chains:
        here = [store.probe(key) for key in keys]
        head = here.index(False) if False in here else len(here)
        resident += sum(here)
        lost += sum(here[head:])
    return lost / resident


# ---- order


def test_root_put_first_dies_first() -> None:
    store = store_of(ONE_BY_ONE, 8)
    for key in chain(0, 8):
        put(store, key)
    assert victims(store, 3) == chain(0, 8)[:3]


def test_touching_from_leaf_to_root_saves_the_root() -> None:
    store = store_of(ONE_BY_ONE, 8)
    for key in chain(0, 8):
        put(store, key)
    for key in reversed(chain(0, 8)):
        store.exists(key)
    store.advance(TTL)
    assert victims(store, 3) == chain(0, 8)[:-4:-1]


def test_write_ranks_as_now_and_read_as_now_plus_ttl() -> None:
    store = store_of(ONE_BY_ONE, 3)
    put(store, "read")
    store.get("read")
    store.advance(TTL - 1)
    put(store, "early")
    store.advance(2)
    put(store, "late")
    assert victims(store, 2) == ["early", "read"]


def test_duplicate_put_does_not_touch() -> None:
    store = store_of(ONE_BY_ONE, 2)
    put(store, "a")
    put(store, "b")
    assert store.put("a", b"other").answer is Answer.STORED
    assert store.get("a") == b"v"
    store.advance(TTL)
    store.get("b")
    store.advance(TTL)
    assert victims(store, 1) == ["a"]


def test_batch_lookup_ranks_by_hash_whatever_the_order_of_the_request() -> None:
    keys = chain(0, 16)
    orders = []
    for request in (keys, keys[::-1]):
        store = store_of(ONE_BY_ONE, 16, seed=7)
        for key in keys:
            put(store, key)
        assert store.exists_many(request) == [True] * 16
        store.advance(TTL)
        orders.append(victims(store, 16))
    shards, others = ([shard_of(key) for key in order] for order in orders)
    assert shards == others
    turns = sum(later > earlier for earlier, later in pairwise(shards))
    assert turns <= 1, "descending shards, once around from a random start"
    assert max(shards) < SHARDS


def test_batch_starts_elsewhere_for_another_seed() -> None:
    keys = chain(0, 16)
    found = set()
    for seed in range(4):
        store = store_of(ONE_BY_ONE, 16, seed=seed)
        for key in keys:
            put(store, key)
        store.get_many(keys)
        store.advance(TTL)
        found.add(victims(store, 1)[0])
    assert len(found) > 1


# ---- orphans (40 chains of 32 blocks into room for 1024)


def grown_together(chains: Sequence[Sequence[str]]) -> list[str]:
    return [key for level in zip(*chains, strict=True) for key in level]


@pytest.mark.parametrize(
    ("order", "least", "most"),
    [
        (lambda chains: [key for keys in chains for key in keys], 0.003, 0.03),
        (lambda chains: [key for keys in chains for key in reversed(keys)], 0.0, 0.0),
        (grown_together, 1.0, 1.0),
        (lambda chains: grown_together([keys[::-1] for keys in chains]), 0.0, 0.0),
    ],
    ids=["chain after chain, root first", "chain after chain, leaf first", "all together, root first", "all together, leaf first"],
)
def test_orphans_are_as_many_as_measured(order: object, least: float, most: float) -> None:
    assert callable(order)
    chains = [chain(number, 32) for number in range(40)]
    store = store_of(presets.MOONCAKE_LIKE, 1024)
    for key in order(chains):
        put(store, key)
        store.advance(1)
    assert least <= orphans(store, chains) <= most


# ---- how much


def test_store_stays_below_its_watermark_between_calls() -> None:
    store = store_of(presets.MOONCAKE_LIKE, 100)
    for number in range(300):
        put(store, f"{number}")
        assert store.stats().used_bytes <= 90
    assert store.stats().used_bytes >= 80


def test_share_is_counted_in_objects_not_bytes() -> None:
    """Many small old objects: each pass frees a share of their number, and a big put is refused many times."""
    store = ReferenceStore(presets.MOONCAKE_LIKE, Geometry(10_000))
    for number in range(2_000):
        store.put(f"small{number}", b"v")
    store.put("filler", b"f" * 6_500)
    refusals = 0
    while store.put("big", b"b" * 3_000).answer is Answer.NO_SPACE:
        refusals += 1
    assert refusals > 5


def test_without_a_ratio_nothing_is_evicted() -> None:
    store = store_of(attrs.evolve(presets.MOONCAKE_LIKE, watermark=1.0, evict_ratio=0.0), 4)
    for key in chain(0, 4):
        put(store, key)
    assert [store.put("new", b"v").answer for _ in range(3)] == [Answer.NO_SPACE] * 3


def test_batch_put_is_not_atomic() -> None:
    store = store_of(ONE_BY_ONE, 6)
    answers = [result.answer for result in store.put_many([PutItem(key, b"v") for key in chain(0, 12)])]
    assert answers == [Answer.STORED] * 6 + [Answer.NO_SPACE] * 6


# ---- protection


def test_full_of_leased_objects_refuses_until_a_lease_ends() -> None:
    store = store_of(ONE_BY_ONE, 4)
    for key in chain(0, 4):
        put(store, key)
        store.get(key)
    assert [store.put("new", b"v").answer for _ in range(3)] == [Answer.NO_SPACE] * 3
    store.advance(TTL)
    put(store, "new")
    assert store.get("new") == b"v"


def test_soft_pins_go_after_everything_else() -> None:
    store = store_of(ONE_BY_ONE, 4)
    for key in ("soft1", "soft2"):
        put(store, key, PutOptions(pin=Pin.SOFT))
    for key in ("plain1", "plain2"):
        put(store, key)
    assert victims(store, 1) == ["plain1"]
    for number in range(3):
        store.get("new0-0")
        put(store, f"hard{number}", PutOptions(pin=Pin.HARD))
    assert removed(store) == ["plain1", "plain2", "soft1", "soft2"]


def test_hard_pins_never_go() -> None:
    store = store_of(presets.MOONCAKE_LIKE, 4)
    for key in chain(0, 4):
        put(store, key, PutOptions(pin=Pin.HARD))
    assert store.put("new", b"v").answer is Answer.NO_SPACE
    assert removed(store) == []


# ---- object groups


def grouped(number: int) -> PutOptions:
    return PutOptions(object_group=f"g{number}")


def test_object_group_goes_as_a_whole() -> None:
    store = store_of(ONE_BY_ONE, 8)
    for number in range(2):
        for key in chain(number, 4):
            put(store, key, grouped(number))
    assert victims(store, 1) == chain(0, 4)


def test_read_of_one_member_saves_them_all() -> None:
    store = store_of(ONE_BY_ONE, 8)
    for number in range(2):
        for key in chain(number, 4):
            put(store, key, grouped(number))
    store.get("c00b02")
    assert victims(store, 1) == chain(1, 4)
    store.advance(TTL)
    for number in range(3):
        put(store, f"filler{number}")
    assert victims(store, 2) == ["new0-0", *chain(0, 4)]


def test_groups_written_level_by_level_all_go_in_one_pass() -> None:
    """The pass takes its share of objects, and each of them drags its whole group along."""
    chains = [chain(number, 32) for number in range(28)]
    store = store_of(attrs.evolve(presets.MOONCAKE_LIKE, watermark=1.0), 28 * 32)
    for level in zip(*chains, strict=True):
        for number, key in enumerate(level):
            put(store, key, grouped(number))
    assert store.stats().resident_objects == 896
    store.put("new", b"v")
    assert store.stats().resident_objects == 0


def test_groups_written_one_after_the_other_go_one_by_one() -> None:
    store = store_of(attrs.evolve(presets.MOONCAKE_LIKE, watermark=1.0), 28 * 32)
    for number in range(28):
        for key in chain(number, 32):
            put(store, key, grouped(number))
    store.put("new", b"v")
    assert removed(store) == chain(0, 32) + chain(1, 32)


def test_pinned_member_stays_alone() -> None:
    store = store_of(ONE_BY_ONE, 4)
    put(store, "pinned", attrs.evolve(grouped(0), pin=Pin.HARD))
    for key in chain(0, 3):
        put(store, key, grouped(0))
    assert victims(store, 1) == chain(0, 3)
    assert store.get("pinned") == b"v"
