"""Directed scenarios of the profile object-store: STO-1 to STO-10. They only issue steps."""

from __future__ import annotations

from kvprefix.api import UNKNOWN, CacheGroup, Pin, PutOptions
from kvprefix_conformance.suites.world import Block, Run

#: Pairs of keys that a careless store takes for one another.
HOSTILE_PAIRS: tuple[tuple[str, str], ...] = (
    ("", " "),
    ("nul\0a", "nul\0b"),
    ("nul", "nul\0"),
    ("line\na", "line\nb"),
    ("cr\r\n", "cr\n"),
    ("\u00e9", "e\u0301"),
    ("\u65e5\u672c", "\u65e5\u672c\u8a9e"),
    ("../up", "up"),
    ("a/../b", "b"),
    ("/abs", "abs"),
    ("dir/", "dir"),
    ("Case", "case"),
    ("per%20cent", "per cent"),
    ("a@b", "a%40b"),
    ("star*", "star?"),
    ("tail ", "tail"),
)


def round_trip(run: Run) -> None:
    """Store, read in every way, read what is not there, remove, store again."""
    a, b, c = (run.block(name) for name in "abc")
    run.put_all([a, b])
    run.read([a, b, c])
    for call in ("exists", "probe"):
        if run.offers(call):
            run.do(call, a)
            run.do(call, c)
    run.stats()
    run.drop(a, force=True)
    run.drop(a)
    run.drop(c)
    run.read([a, b])
    run.put(a)
    run.read([a, b])
    run.stats()


def duplicates(run: Run) -> None:
    """A put of a resident key with another value, another size, another parent; then the first value is read."""
    a, b = run.block("a"), run.block("b")
    run.put_all([b, a])
    run.put(a)
    run.put(a, 2)
    run.put(a, size=run.sizes.smallest)
    run.read([a, b])
    run.stats()
    run.drop(a, force=True)
    run.put(a, 2)
    run.put(a, 1)
    run.read([a, b])
    run.stats()


def _odd(key: str) -> Block:
    return Block(key, UNKNOWN)


def hostile_keys(run: Run) -> None:
    """Keys that alias, truncate or escape in careless stores: each pair stored, read, removed."""
    long = run.terms.geometry.max_key_bytes or 4096
    pairs = [*HOSTILE_PAIRS, ("k" * (long - 1) + "a", "k" * (long - 1) + "b"), ("k" * (long + 1), "k" * long)]
    for left, right in pairs:
        for key in (left, right):
            run.put(_odd(key), size=run.sizes.smallest)
        for key in (left, right):
            run.read([_odd(key)])
        run.do("exists", _odd(left))
        run.drop(_odd(left), force=True)
        run.read([_odd(right), _odd(left)])
        run.drop(_odd(right), force=True)


def two_phase(run: Run) -> None:
    """Invisible until commit; tokens of old attempts never complete a new one; abort leaves nothing."""
    a, b, c = (run.block(name) for name in "abc")
    first = run.begin(a)
    run.read([a])
    run.do("exists", a)
    run.put(a)
    run.begin(a)
    run.drop(a)
    run.stats()
    run.commit(a, "never given out")
    run.commit(a, first, size=run.sizes.smallest)
    run.commit(a, first)
    run.read([a])
    run.commit(a, first)
    run.do("put_abort", a, token=first)
    second = run.begin(b)
    run.do("put_abort", b, token=second)
    run.read([b])
    run.commit(b, second)
    run.put(b)
    run.read([b])
    third = run.begin(c)
    run.drop(c, force=True)
    fourth = run.begin(c)
    run.commit(c, third)
    run.read([c])
    run.do("put_abort", c, token=third)
    run.commit(c, fourth)
    run.read([a, b, c])
    run.stats()


def dead_writer(run: Run) -> None:
    """An attempt whose writer is gone frees its key after the declared time, and its late commit is STALE."""
    a, wait = run.block("a"), run.caps.pending_timeout_ms
    if run.real_clock and wait > 3_000:
        return
    first = run.begin(a)
    run.wait(wait - 1)
    run.begin(a)
    run.wait(1 if not run.real_clock else wait)
    run.stats()
    second = run.begin(a)
    run.commit(a, first)
    run.read([a])
    run.commit(a, second)
    run.read([a])
    run.stats()


def edge_sizes(run: Run) -> None:
    """The smallest, the empty, the one that fills the store, the one that never fits."""
    a, b, c = (run.block(name, unknown=True) for name in "abc")
    run.put(a, size=0)
    run.read([a])
    run.do("exists", a)
    run.drop(a, force=True)
    run.put(b, size=run.sizes.smallest)
    run.put(c, size=run.sizes.too_large)
    run.read([b, c])
    run.stats()
    run.drop(b, force=True)
    run.put_patiently(c, run.sizes.units)
    run.read([c, b])
    run.stats()
    run.put_patiently(a)
    run.look([a, b, c])
    run.stats()


def refusals(run: Run) -> None:
    """A put that is refused leaves no trace and takes nothing: too large, and no room beside protected objects."""
    blocks = [run.block(f"k{number}", unknown=True) for number in range(run.sizes.units)]
    big = run.block("big", unknown=True)
    run.put_all(blocks)
    run.put(big, size=run.sizes.too_large)
    run.look([big, *blocks])
    for block in blocks:
        run.guard(block)
    run.put(big)
    run.look([big, *blocks])
    run.read([big])
    run.stats()


def accounting(run: Run) -> None:
    """Store and remove, overwrite, fill twice over, clear: bytes and counts after each."""
    a = run.block("a", unknown=True)
    for _ in range(3):
        run.put(a, run.sizes.units)
        run.drop(a, force=True)
        run.stats()
    run.put_patiently(a, 2)
    run.stats()
    run.press(2 * run.sizes.units)
    run.stats()
    run.clear(force=True)
    run.stats()
    run.press(2)
    run.stats()


def removal(run: Run) -> None:
    """remove and clear with and without force, over plain, protected and open objects."""
    a, b, c = (run.block(name, unknown=True) for name in "abc")
    run.drop(a)
    run.put_all([a, b])
    guarded = run.guard(a)
    run.drop(a)
    run.clear()
    run.drop(a, force=True)
    run.read([a, b])
    if run.offers("put_begin"):
        label = run.begin(c)
        run.drop(c)
        run.clear()
        run.drop(c, force=True)
        run.commit(c, label)
        run.read([c])
    if guarded:
        run.guard(b)
    run.clear()
    run.clear(force=True)
    run.look([a, b, c])
    run.stats()
    run.put(a)
    run.wait(run.caps.lease_ttl_ms)
    run.clear()
    run.look([a])


def batches(run: Run) -> None:
    """Native batches whose members are new, there, refused, repeated; in order and answer for answer."""
    a, b, c, d = (run.block(name, unknown=True) for name in "abcd")
    run.put_patiently(b)
    if run.offers("put_many"):
        items = [run.item(a), run.item(b), run.item(d, size=run.sizes.too_large), run.item(c), run.item(a)]
        run.do("put_many", items=items)
        run.do("put_many", items=[])
        if run.caps.batch.value == "atomic":
            run.do("put_many", items=[run.item(a), run.item(c)])
    run.look([a, b, c, d])
    keys = [block.key for block in (d, a, b, d, c, a)]
    if run.offers("get_many") and run.caps.values:
        run.do("get_many", keys=keys)
        run.do("get_many", keys=[])
    if run.offers("exists_many"):
        run.do("exists_many", keys=keys)
        run.do("exists_many", keys=keys[::-1])
    run.stats()


def batch_under_pressure(run: Run) -> None:
    """A batch larger than the room: a member may be evicted for a later one, and each answers for itself."""
    blocks = [run.block(f"m{number}", unknown=True) for number in range(run.sizes.units + 2)]
    run.do("put_many", items=[run.item(block) for block in blocks])
    run.look(blocks)
    run.read(blocks)
    run.stats()


def from_another_client(run: Run) -> None:
    """What one client stores, removes or begins, another sees, and does not see, at once."""
    a, b = run.block("a"), run.block("b")
    run.put(a, client=0)
    run.session.do("exists", 1, key=a.key)
    run.put(a, client=1)
    run.put(b, client=1)
    for client in (0, 1):
        for block in (a, b):
            if run.caps.values:
                run.session.do("get", client, key=block.key)
    if run.offers("remove"):
        run.session.do("remove", 1, key=a.key, force=True)
    for client in (0, 1):
        run.session.do("exists", client, key=a.key)


def undeclared_options(run: Run) -> None:
    """An option that is not declared is answered UNSUPPORTED, and leaves nothing."""
    a = run.block("a", unknown=True)
    for pin in (Pin.HARD, Pin.SOFT):
        if pin not in run.caps.pins:
            run.put(a, options=PutOptions(pin=pin))
    for group in CacheGroup:
        if group not in run.caps.cache_groups:
            run.put(a, options=PutOptions(cache_group=group))
    run.look([a])
