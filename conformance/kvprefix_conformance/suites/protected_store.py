"""Directed scenarios of the profile protected-store: PRT-1 to PRT-5. They only issue steps."""

from __future__ import annotations

from kvprefix.api import Pin, PutOptions
from kvprefix_conformance.records import Step
from kvprefix_conformance.suites.world import Block, Run


def _fill(run: Run, *, leave: int = 0) -> list[Block]:
    blocks = [run.block(f"k{number}", unknown=True) for number in range(run.sizes.units - leave)]
    for block in blocks:
        run.put_patiently(block)
        run.wait(0 if run.real_clock else 1)
    return blocks


def lease_deadline(run: Run) -> None:
    """Protected one millisecond before its deadline, free at its deadline."""
    a, b = run.block("a", unknown=True), run.block("b", unknown=True)
    run.put_all([a, b])
    run.do("lease", a, ttl_ms=50)
    run.wait(49)
    run.drop(a)
    run.wait(1 if not run.real_clock else 50)
    run.drop(a)
    run.drop(b)


def longest_lease_stays(run: Run) -> None:
    """A shorter grant after a longer one changes nothing."""
    a = run.block("a", unknown=True)
    run.put(a)
    run.do("lease", a, ttl_ms=100)
    run.do("lease", a, ttl_ms=10)
    run.wait(20)
    run.drop(a)
    run.press(run.sizes.units)
    run.look([a])
    run.wait(79)
    run.drop(a)
    run.wait(1 if not run.real_clock else 60)
    run.drop(a)


def read_after_longer_lease(run: Run) -> None:
    """A read that leases does not shorten a lease that is longer than its own."""
    a, ttl = run.block("a", unknown=True), run.caps.lease_ttl_ms
    run.put(a)
    run.do("lease", a, ttl_ms=2 * ttl)
    run.read([a])
    run.do("exists", a)
    run.wait(ttl + 1)
    run.drop(a)
    run.wait(ttl)
    run.drop(a)


def leased_under_pressure(run: Run) -> None:
    """Half of the store protected, twice its size put on top."""
    blocks = _fill(run)
    for block in blocks[: run.sizes.units // 2]:
        run.guard(block)
    run.press(run.sizes.units)
    run.look(blocks)


def all_protected(run: Run) -> None:
    """Everything protected: a put finds no room, and finds it again when the leases end."""
    blocks = _fill(run)
    for block in blocks:
        run.guard(block, 200)
    late = run.block("late", unknown=True)
    run.put(late)
    run.look([late, *blocks])
    run.wait(200 + run.caps.lease_ttl_ms)
    run.put_patiently(late)
    run.look([late, *blocks])


def reads_that_lease(run: Run) -> None:
    """Each read call on a fresh object, then a removal without force: it tells whether the call leased."""
    for call in ("get", "exists", "probe"):
        if run.offers(call) and (call != "get" or run.caps.values):
            block = run.block(call, unknown=True)
            run.put_patiently(block)
            run.do(call, block)
            run.drop(block)
            run.wait(run.caps.lease_ttl_ms)
            run.drop(block)


def walks_that_lease(run: Run) -> None:
    """match, exists_many and get_many over a row with a hole: which of the hits are leased."""
    for call in ("match", "exists_many", "get_many"):
        if not run.offers(call) or (call == "get_many" and not run.caps.values):
            continue
        row = [run.block(f"{call[0]}{number}", unknown=True) for number in range(4)]
        run.put_all([block for number, block in enumerate(row) if number != 2])
        keys = [block.key for block in row]
        run.session.run(Step(call, {"chain" if call == "match" else "keys": keys}))
        for block in row:
            run.drop(block)
        run.wait(run.caps.lease_ttl_ms)
        for block in row:
            run.drop(block)


def leased_by_reads_under_pressure(run: Run) -> None:
    """What a read leases by declaration outlives pressure until its deadline, and may go after it."""
    blocks = _fill(run)
    run.read(blocks[:2])
    run.do("exists", blocks[2])
    run.press(2)
    run.look(blocks)
    run.wait(run.caps.lease_ttl_ms)
    run.press(run.sizes.units)
    run.look(blocks)


def absent_and_pending(run: Run) -> None:
    """lease and pin of what is not resident miss and have no effect."""
    a, b = run.block("a", unknown=True), run.block("b", unknown=True)
    for block in (a, b):
        if block is b and run.offers("put_begin"):
            run.begin(b)
        if run.offers("lease"):
            run.do("lease", block, ttl_ms=50)
        if run.offers("pin"):
            run.pin(block)
    run.put(a)
    run.drop(a)


def hard_pins(run: Run) -> None:
    """Hard-pinned objects outlive any pressure."""
    pinned = [run.block("h1", unknown=True), run.block("h2", unknown=True)]
    for block in pinned:
        run.put_patiently(block, options=PutOptions(pin=Pin.HARD))
    run.press(2 * run.sizes.units)
    run.look(pinned)
    run.drop(pinned[0])
    run.drop(pinned[0], force=True)


def soft_pins(run: Run) -> None:
    """Soft-pinned objects go after all others, and then they go."""
    kept = [run.block("s1", unknown=True), run.block("s2", unknown=True)]
    for block in kept:
        run.put_patiently(block, options=PutOptions(pin=Pin.SOFT))
        run.wait(1)
    run.press(run.sizes.units - 2)
    for number in range(run.sizes.units + 1):
        run.put_patiently(run.block(f"q{number}", unknown=True))
        run.wait(1)
    run.look(kept)
    run.put_patiently(run.block("big", unknown=True), run.sizes.units)
    run.look(kept)


def soft_pinned_child(run: Run) -> None:
    """The ancestors of a soft-pinned object count as soft-pinned."""
    a, b = run.block("a"), None
    run.put_patiently(a)
    run.wait(1)
    b = run.block("b", a)
    run.tell(b)
    run.put_patiently(b, options=PutOptions(pin=Pin.SOFT))
    run.wait(1)
    run.press(2 * run.sizes.units)
    run.look([a, b])


def soft_pin_ends(run: Run) -> None:
    """A soft pin ends at the deadline fixed at write, whatever was read meanwhile; then the object goes in its turn."""
    a, ttl = run.block("a", unknown=True), run.caps.lease_ttl_ms
    run.put_patiently(a, options=PutOptions(pin=Pin.SOFT, soft_pin_ms=ttl + 50))
    run.wait(1)
    others = _fill(run, leave=1)
    run.put_patiently(run.block("q1", unknown=True))
    run.look([a])
    run.wait(25 - len(others))
    run.read([a])
    run.wait(1)
    run.read([*others, run.block("q1", unknown=True)])
    run.wait(ttl + 50 - 27)
    run.put_patiently(run.block("q2", unknown=True))
    run.look([a])
    run.wait(1)
    run.put_patiently(run.block("q3", unknown=True))
    run.look([a])


def wall_clock(run: Run) -> None:
    """Wall time jumps forth and back; a lease ends when steady time says so."""
    a, b = run.block("a", unknown=True), run.block("b", unknown=True)
    run.put_all([a, b])
    for block in (a, b):
        run.guard(block, 50)
    ttl = 50 if run.offers("lease") else run.caps.lease_ttl_ms
    run.do("jump_wall_clock", ms=1_000_000)
    run.drop(a)
    run.press(run.sizes.units)
    run.look([a, b])
    run.do("jump_wall_clock", ms=-2_000_000)
    run.wait(ttl)
    run.drop(b)


def in_use(run: Run) -> None:
    """Two pins on one object: each token gives back its own, once."""
    a = run.block("a", unknown=True)
    run.put(a)
    first, second = run.pin(a), run.pin(a)
    run.do("unpin", token=first)
    run.do("unpin", token=first)
    run.do("unpin", token="never given out")
    run.drop(a)
    run.press(2 * run.sizes.units)
    run.look([a])
    run.do("unpin", token=second)
    run.drop(a)


def lease_of_a_child(run: Run) -> None:
    """A child's lease protects its parent while the child is there, and not a moment longer."""
    a, b = run.chain("ab")
    run.put_all([a, b])
    run.do("lease", b, ttl_ms=100)
    run.drop(a)
    run.drop(b, force=True)
    run.drop(a)
    run.look([a, b])


def put_with_lease(run: Run) -> None:
    """A lease given with the put itself."""
    a = run.block("a", unknown=True)
    run.put(a, options=PutOptions(lease_ms=50))
    run.drop(a)
    run.press(run.sizes.units)
    run.look([a])
    run.wait(50)
    run.drop(a)
