"""Directed scenarios of the profile eviction-safe: PFX-1, PFX-4 to PFX-10, PFX-12. They only issue steps."""

from __future__ import annotations

from kvprefix.api import CacheGroup, PutOptions
from kvprefix_conformance.records import Step
from kvprefix_conformance.suites.world import Block, Run


def _tick(run: Run) -> None:
    run.wait(0 if run.real_clock else 1)


def fork_under_pressure(run: Run) -> None:
    """A chain and a fork, then pressure one object at a time."""
    a, b, c = run.chain("abc")
    d = run.block("d", a)
    for block in (a, b, c, d):
        run.put_patiently(block)
        _tick(run)
    for number in range(run.sizes.units):
        run.put_patiently(run.block(f"p{number}", unknown=True))
        _tick(run)
        run.look([a, b, c, d])


def grown_together(run: Run) -> None:
    """Two requests that grow turn by turn, as a serving engine's do, until the store is full twice over."""
    names = "abcdefgh"[: run.sizes.units + 2]
    left: list[Block] = []
    right: list[Block] = []
    for number, name in enumerate(names):
        side = left if number % 2 == 0 else right
        side.append(run.block(name, side[-1] if side else None))
        run.put_patiently(side[-1])
        run.look(left + right)


def same_instant(run: Run) -> None:
    """Everything at one timestamp: a chain, a read of its tail, pressure."""
    chain = run.chain("abc")
    run.put_all(chain)
    run.read(chain[1:])
    run.press(run.sizes.units)
    run.look(chain)


def chunked_store(run: Run) -> None:
    """Chunked prefill: a prompt stored over several calls, its head touched, then more of it."""
    chain = run.chain("abcd")
    for part in (chain[:2], chain[2:]):
        if run.offers("put_many"):
            for block in part:
                run.tell(block)
            run.do("put_many", items=[run.item(block) for block in part])
        else:
            run.put_all(part)
        _tick(run)
    run.read(chain[:2])
    _tick(run)
    run.press(run.sizes.units)
    run.look(chain)
    run.match(chain)


def hidden_head(run: Run) -> None:
    """A device cache in front takes every hit on the head: only the tail is looked up and read."""
    a, b, c = run.chain("abc")
    x, y = run.block("x", unknown=True), run.block("y", unknown=True)
    for block in (a, b, x, y):
        run.put_patiently(block)
        _tick(run)
    for _ in range(2):
        run.read([b])
        _tick(run)
    run.put_patiently(c)
    _tick(run)
    run.read([c])
    _tick(run)
    for number in range(run.sizes.units - 2):
        run.put_patiently(run.block(f"p{number}", unknown=True))
        _tick(run)
        run.look([a, b, c, x, y])


def head_touched_by_lookups(run: Run) -> None:
    """Lookups walk the whole chain, reads fetch the tail only; batches where they are offered."""
    chain = run.chain("abc")
    run.put_all(chain)
    _tick(run)
    run.match(chain)
    _tick(run)
    if run.offers("exists_many"):
        run.do("exists_many", keys=[block.key for block in chain])
    _tick(run)
    run.read(chain[2:])
    run.wait(run.caps.lease_ttl_ms)
    run.press(run.sizes.units)
    run.look(chain)
    run.match(chain)


def several_victims(run: Run) -> None:
    """One put that needs several evictions out of a forest, no more of them than it needs."""
    a, b, c = run.chain("abc")
    d = run.block("d", a)
    for block in (a, b, c, d):
        run.put_patiently(block)
        _tick(run)
    run.press(run.sizes.units - 4)
    run.put_patiently(run.block("two", unknown=True), 2)
    run.look([a, b, c, d])
    run.put_patiently(run.block("three", unknown=True), 3)
    run.look([a, b, c, d])
    run.stats()


def own_ancestors(run: Run) -> None:
    """A chain that fills the store, and one block more: its ancestors may not go for it."""
    chain = run.chain("abcdefgh"[: run.sizes.units])
    run.put_all(chain)
    run.look(chain)
    more = run.block("z", chain[-1])
    run.put(more)
    run.look([more, *chain])
    run.drop(chain[-1], force=True)
    x = run.block("x", unknown=True)
    run.put_patiently(x)
    run.put_patiently(run.block("y", chain[-2]))
    run.look([x, *chain])


def edge_of_room(run: Run) -> None:
    """Half protected: what exactly fits beside it is stored, one byte more is not."""
    blocks = [run.block(f"k{number}", unknown=True) for number in range(run.sizes.units)]
    run.put_all(blocks)
    half = run.sizes.units // 2
    for block in blocks[:half]:
        run.guard(block)
    room = run.terms.geometry.capacity_bytes - half * run.terms.charge(run.sizes.of(1))
    run.put(run.block("more", unknown=True), size=run.sizes.of_charge(room) + run.terms.geometry.quantum_bytes)
    run.look(blocks)
    run.put(run.block("fits", unknown=True), size=run.sizes.of_charge(room))
    run.look(blocks)
    run.stats()


def guarded_ancestors(run: Run) -> None:
    """The last block of a chain is protected; pressure; the whole chain stays. Then it is let go."""
    chain = run.chain("abc")
    run.put_all(chain)
    run.guard(chain[-1], 100)
    run.press(run.sizes.units)
    run.look(chain)
    run.drop(chain[0])
    run.look(chain)
    run.wait(100 + run.caps.lease_ttl_ms)
    run.press(run.sizes.units)
    run.look(chain)


def open_child(run: Run) -> None:
    """A block that is being written keeps its parent."""
    a, b = run.chain("ab")
    run.put_patiently(a)
    label = run.begin(b)
    run.press(run.sizes.units)
    run.look([a])
    run.commit(b, label)
    run.look([a, b])
    run.press(run.sizes.units)
    run.look([a, b])


def oldest_first(run: Run) -> None:
    """Victims in the declared order; each touch that is declared turns it, and probe does not."""
    units = run.sizes.units
    blocks = [run.block(f"k{number}", unknown=True) for number in range(units)]
    for block in blocks:
        run.put_patiently(block)
        _tick(run)
    touches = [call for call in ("get", "exists", "get_many", "exists_many", "match") if run.offers(call)]
    for number, call in enumerate(touches[: units - 2]):
        keys = [blocks[number].key]
        if call in ("get", "exists"):
            run.session.do(call if call != "get" or run.caps.values else "exists", key=keys[0])
        elif call != "get_many" or run.caps.values:
            run.session.run(Step(call, {"chain" if call == "match" else "keys": keys}))
        _tick(run)
    if run.offers("probe"):
        run.do("probe", blocks[-1])
    run.wait(run.caps.lease_ttl_ms + 1)
    for number in range(units):
        run.put_patiently(run.block(f"p{number}", unknown=True))
        _tick(run)
        run.look(blocks)


def duplicate_put_and_recency(run: Run) -> None:
    """A duplicate put touches, or does not, as declared."""
    units = run.sizes.units
    blocks = [run.block(f"k{number}", unknown=True) for number in range(units)]
    for block in blocks:
        run.put_patiently(block)
        _tick(run)
    run.put(blocks[0])
    _tick(run)
    run.press(2)
    run.look(blocks)


def tail_keeps_head(run: Run) -> None:
    """Lineage recency: the tail is touched, its parent is stamped with it, and the stamp outlives the tail."""
    a, b = run.chain("ab")
    others = [run.block(name, unknown=True) for name in ("x", "y")]
    for block in (a, b, *others):
        run.put_patiently(block)
        _tick(run)
    run.read([b])
    run.wait(run.caps.lease_ttl_ms + 1)
    run.drop(b, force=True)
    for number in range(run.sizes.units):
        run.put_patiently(run.block(f"p{number}", unknown=True))
        _tick(run)
        run.look([a, *others])


def child_keeps_head(run: Run) -> None:
    """The put of a child stamps its parent too, and the stamp outlives the child."""
    a, b = run.chain("ab")
    x, y = run.block("x", unknown=True), run.block("y", unknown=True)
    for block in (a, x, y, b):
        run.put_patiently(block)
        _tick(run)
    run.drop(b, force=True)
    for number in range(run.sizes.units):
        run.put_patiently(run.block(f"p{number}", unknown=True))
        _tick(run)
        run.look([a, x, y])


def everything_makes_room(run: Run) -> None:
    """A forest that was evicted from below, block by block, and a put as large as the store: all of it can go."""
    a, b, c = run.chain("abc")
    d = run.block("d", b)
    run.put_all([a, b, c, d])
    run.press(run.sizes.units - 2)
    run.look([a, b, c, d])
    run.drop(d, force=True)
    run.put_patiently(run.block("all", unknown=True), run.sizes.units)
    run.look([a, b, c, d])
    run.stats()


def removal_with_children(run: Run) -> None:
    """remove of a block with descendants: plain, over a protected descendant, forced; then leaves first."""
    a, b, c = run.chain("abc")
    d = run.block("d", a)
    run.put_all([a, b, c, d])
    run.drop(b)
    run.look([a, b, c, d])
    run.put_all([b, c])
    if run.guard(c, 100):
        run.drop(a)
        run.look([a, b, c, d])
        run.drop(a, force=True)
        run.look([a, b, c, d])
    run.wait(100 + run.caps.lease_ttl_ms)
    for block in (d, c, b, a):
        run.drop(block)
    run.look([a, b, c, d])
    run.stats()


def removal_with_open_child(run: Run) -> None:
    """remove of a block whose child is being written, plain and forced; then the child is committed."""
    a, b = run.chain("ab")
    run.put(a)
    label = run.begin(b)
    run.drop(a)
    run.drop(a, force=True)
    run.commit(b, label)
    run.look([a, b])
    run.stats()


def holes(run: Run) -> None:
    """match over rows with holes, in every order: it tests residency, not parent links."""
    row = [run.block(f"k{number}", unknown=True) for number in range(4)]
    run.put_all([row[0], row[1], row[3]])
    run.match([])
    run.match(row)
    run.match(row[:2])
    run.match(row[::-1])
    run.match([row[2], row[0]])
    run.match([row[0], row[0], row[1]])
    if "resume" in run.caps.walk:
        run.match(row, 1)
        run.match(row, 2)
        run.match(row, 3)
        run.match(row, 4)
    run.drop(row[0], force=True)
    run.match(row)


def eventually(run: Run) -> None:
    """Full of unprotected objects: a put is stored, at once or within the declared time."""
    run.press(run.sizes.units)
    for number in range(3):
        run.put_patiently(run.block(f"e{number}", unknown=True), 1 + number % 2)
    run.stats()


def many_probes(run: Run) -> None:
    """Probes and lookups without reads must not starve eviction, but for what they lease by declaration."""
    chain = run.chain("abc")
    run.put_all(chain)
    run.press(run.sizes.units - 3)
    for _ in range(3):
        run.look(chain)
    run.put_patiently(run.block("q", unknown=True))
    run.look(chain)


def other_cache_groups(run: Run) -> None:
    """Objects of window, state and blob groups are not bound by lineage: no parent, no cascade, no protection."""
    a, b = run.chain("ab")
    groups = sorted(run.caps.cache_groups - {CacheGroup.FULL}, key=lambda group: group.value)
    run.put_all([a, b])
    for group in groups:
        options = PutOptions(cache_group=group)
        free = run.block(f"w{group.value[0]}", unknown=True)
        run.put(free, options=options)
        run.put(run.block(f"v{group.value[0]}", unknown=True), parent=a.key, options=options)
        run.put(Block(run.prefix + f"u{group.value[0]}", free.key))
        run.read([free])
    run.drop(b)
    run.drop(a, force=True)
    run.press(run.sizes.units)
    run.stats()
