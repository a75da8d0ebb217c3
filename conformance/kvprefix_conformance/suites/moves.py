"""The moves of the machine: small functions that issue a few steps, steered to where faults live. They judge nothing.

Steered means: few keys, repeated puts, sizes at the edge of the room, chains in and out of order, clock steps to just before, at
and just behind a deadline. ``pick`` draws one of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from kvprefix.api import ROOT, UNKNOWN, CacheGroup, Parent, Pin, PutOptions
from kvprefix_conformance.oracle.ledger import Phase
from kvprefix_conformance.oracle.shield import used
from kvprefix_conformance.records import Step
from kvprefix_conformance.suites.world import Block, Run

Pick = Callable[[Sequence[Any]], Any]


@attrs.define
class Scene:
    """One example in progress: the run, its forest, and what is open."""

    run: Run
    pick: Pick
    #: A forest with branches; parents come before their children.
    forest: list[Block]
    #: Objects without lineage, for pressure.
    loose: list[Block]
    #: How sizes are drawn: (units or "edge" words, repeated by weight).
    sizes: tuple[Any, ...] = (1, 1, 1, 2, "small", "half", "all", "rest", "rest+1", "too large")
    attempts: list[tuple[Block, str]] = attrs.field(factory=list)
    pins: list[str] = attrs.field(factory=list)

    @property
    def blocks(self) -> list[Block]:
        """All objects of the example."""
        return self.forest + self.loose

    def resident(self, block: Block) -> bool:
        """Whether it is surely there, as far as is known."""
        return self.run.ledger[block.key].surely_resident

    def resident_key(self, key: str) -> bool:
        """The same, of a key."""
        return self.run.ledger[key].surely_resident

    def there(self) -> list[Block]:
        """Blocks that may be there; all of them if none is."""
        return [block for block in self.blocks if not self.run.ledger[block.key].surely_unreadable] or self.blocks

    def size(self, choice: Any) -> int:
        """Bytes for a drawn size."""
        sizes, run = self.run.sizes, self.run
        if isinstance(choice, int):
            return sizes.of(choice)
        free = max(0, run.terms.geometry.capacity_bytes - used(run.ledger, run.terms).hi)
        return {
            "small": sizes.smallest,
            "half": sizes.of(max(1, sizes.units // 2)),
            "all": sizes.of(sizes.units),
            "rest": sizes.of_charge(free) if free else sizes.of(1),
            "rest+1": sizes.of_charge(free) + run.terms.geometry.quantum_bytes,
            "too large": sizes.too_large,
        }[choice]

    def path(self, block: Block) -> list[Block]:
        """The chain from the root to this block."""
        by_key = {each.key: each for each in self.forest}
        chain = [block]
        while isinstance(chain[0].parent, str) and chain[0].parent in by_key:
            chain.insert(0, by_key[chain[0].parent])
        return chain


# --------------------------------------------------------------------------------------------------------------------------------
# Writing


def _options(scene: Scene) -> PutOptions:
    """Mostly none; now and then a pin or a lease from the put."""
    caps = scene.run.caps
    choices = [PutOptions()] * 6
    if Pin.HARD in caps.pins:
        choices.append(PutOptions(pin=Pin.HARD))
    if Pin.SOFT in caps.pins:
        choices += [PutOptions(pin=Pin.SOFT), PutOptions(pin=Pin.SOFT, soft_pin_ms=50)]
    if scene.run.offers("lease") and caps.lease_ttl_ms:
        choices.append(PutOptions(lease_ms=40))
    options: PutOptions = scene.pick(choices)
    return options


def put_next(scene: Scene) -> None:
    """Put a block whose parent is there: the order in which a prompt is stored."""
    ready = [b for b in scene.forest if not isinstance(b.parent, str) or not scene.run.ledger[b.parent].surely_unreadable]
    block = scene.pick([b for b in ready if not scene.resident(b)] or ready or scene.forest)
    scene.run.put_patiently(block, scene.pick((1, 1, 1, 2)))


def put_any(scene: Scene) -> None:
    """Put any block, its parent there or not, of any size, with any options."""
    block = scene.pick(scene.blocks)
    scene.run.put(block, size=scene.size(scene.pick(scene.sizes)), options=_options(scene))


def put_loose(scene: Scene) -> None:
    """Pressure: an object without lineage."""
    block = scene.pick(scene.loose)
    scene.run.put_patiently(block, scene.pick((1, 1, 2)), options=_options(scene))


def put_again(scene: Scene) -> None:
    """A duplicate put: another value, another size, another parent."""
    block = scene.pick(scene.there())
    parents: list[Parent | None] = [None, None, ROOT, scene.pick(scene.blocks).key]
    scene.run.put(block, size=scene.size(scene.pick((1, 2, "small"))), parent=scene.pick(parents))


def put_orphan(scene: Scene) -> None:
    """A child whose parent is not there."""
    orphans = [b for b in scene.forest if isinstance(b.parent, str) and not scene.resident_key(b.parent)]
    if orphans:
        scene.run.put(scene.pick(orphans))


def put_cycle(scene: Scene) -> None:
    """A lineage that closes on itself."""
    if not scene.run.parents_are_free:
        return
    block = scene.pick(scene.forest)
    below = [b for b in scene.forest if block in scene.path(b)]
    scene.run.put(block, parent=scene.pick(below).key)


def put_other_group(scene: Scene) -> None:
    """An object of a cache group that lineage does not bind, or, where only full is declared, a refused option."""
    groups = [group for group in sorted(scene.run.caps.cache_groups, key=lambda g: g.value) if group is not CacheGroup.FULL]
    options = PutOptions(cache_group=scene.pick(groups or [CacheGroup.WINDOW]))
    block = scene.run.block("w", unknown=True)
    parent: Parent = scene.pick([UNKNOWN, UNKNOWN, scene.forest[0].key])
    scene.run.put(block, parent=parent, options=options)


def put_below_other_group(scene: Scene) -> None:
    """A full object that names an object of another cache group as its parent."""
    window = scene.run.block("w", unknown=True)
    if scene.run.parents_are_free:
        scene.run.put(attrs.evolve(scene.pick(scene.forest), parent=window.key))


def put_many(scene: Scene) -> None:
    """A native batch: a path in order, in reverse, or with strangers between."""
    path = scene.path(scene.pick(scene.forest))
    blocks = scene.pick((path, path[::-1], [*path, scene.pick(scene.loose)], [scene.pick(scene.blocks) for _ in range(3)]))
    for block in blocks:
        scene.run.tell(block)
    scene.run.do("put_many", items=[scene.run.item(block, scene.pick((1, 1, 2))) for block in blocks])


def begin(scene: Scene) -> None:
    """Begin a two-phase put."""
    block = scene.pick(scene.blocks)
    scene.attempts.append((block, scene.run.begin(block, scene.pick((1, 1, 2)))))


def end(scene: Scene) -> None:
    """Commit or abort an attempt: the open one, an old one again, one of another key, with the right size or another."""
    if not scene.attempts:
        return begin(scene)
    block, label = scene.pick(scene.attempts)
    action = scene.pick(("commit", "commit", "commit", "abort", "other size", "other key", "unknown"))
    if action == "abort":
        scene.run.do("put_abort", block, token=label)
    elif action == "other key":
        scene.run.commit(scene.pick(scene.blocks), label)
    elif action == "unknown":
        scene.run.commit(block, "never given out")
    else:
        scene.run.commit(block, label, size=scene.run.sizes.smallest if action == "other size" else None)
    return None


# --------------------------------------------------------------------------------------------------------------------------------
# Reading


def get(scene: Scene) -> None:
    """get of something that may be there, or of anything."""
    scene.run.read([scene.pick(scene.pick((scene.there(), scene.blocks)))])


def exists(scene: Scene) -> None:
    """exists of anything."""
    scene.run.do("exists", scene.pick(scene.blocks))


def probe(scene: Scene) -> None:
    """probe of anything."""
    scene.run.do("probe", scene.pick(scene.blocks))


def sweep(scene: Scene) -> None:
    """A checkpoint over all blocks."""
    scene.run.look(scene.blocks)


def match(scene: Scene) -> None:
    """match of a path, whole or from its middle, or of blocks that are no path."""
    path = scene.path(scene.pick(scene.forest))
    resume = "resume" in scene.run.caps.walk
    start = scene.pick(range(len(path) + 1)) if resume and scene.pick((False, True)) else 0
    chain = scene.pick((path, path, path[::-1], [*path, scene.pick(scene.blocks)], path[1:] or path))
    scene.run.match(chain, start if start <= len(chain) else 0)


def _batch(scene: Scene) -> list[str]:
    path = scene.path(scene.pick(scene.forest))
    return [block.key for block in scene.pick((path, path, [scene.pick(scene.blocks) for _ in range(3)], path[::-1]))]


def get_many(scene: Scene) -> None:
    """A native batch of gets."""
    scene.run.do("get_many", keys=_batch(scene))


def exists_many(scene: Scene) -> None:
    """A native batch of exists."""
    scene.run.do("exists_many", keys=_batch(scene))


# --------------------------------------------------------------------------------------------------------------------------------
# Removing and protecting


def remove(scene: Scene) -> None:
    """remove, now and then forced."""
    force = scene.pick((False, False, True))
    scene.run.do("remove", scene.pick(scene.pick((scene.there(), scene.blocks))), **({"force": True} if force else {}))


def clear(scene: Scene) -> None:
    """clear, half of the time forced."""
    args = {"force": True} if scene.pick((False, True)) else {}
    scene.run.session.run(Step("clear", args))


def lease(scene: Scene) -> None:
    """Lease something, short or long; a short grant after a long one must not shorten it."""
    scene.run.do("lease", scene.pick(scene.there()), ttl_ms=scene.pick((10, 30, 100)))


def pin(scene: Scene) -> None:
    """Pin something in use."""
    label = scene.run.label("p")
    scene.pins.append(label)
    scene.run.do("pin", scene.pick(scene.there()), **{"as": label})


def unpin(scene: Scene) -> None:
    """Give a pin back, now and then twice."""
    if scene.pins:
        label = scene.pick(scene.pins)
        if scene.pick((True, True, False)):
            scene.pins.remove(label)
        scene.run.do("unpin", token=label)


# --------------------------------------------------------------------------------------------------------------------------------
# Time and counters


def tick(scene: Scene) -> None:
    """A millisecond, so that stamps differ."""
    scene.run.wait(1)


def to_deadline(scene: Scene) -> None:
    """To just before, at, or just behind the next deadline of anything."""
    run, now = scene.run, scene.run.ledger.now
    ends = [known.grant.until.hi for known in run.ledger if known.grant is not None and known.maybe_present]
    ends += [known.soft_until.hi for known in run.ledger if known.soft_until is not None]
    if not run.real_clock:
        ends += [a.begun.hi + run.caps.pending_timeout_ms for a in run.ledger.attempts.values() if not a.ended]
        ends += [known.begun.hi + run.caps.defer_deadline_ms for known in run.ledger if Phase.DEFERRED in known.may]
    longest = 3_000 if run.real_clock else max(ends, default=0)
    ahead = sorted({end - now.lo for end in ends if now.hi < end <= now.lo + longest})
    if ahead:
        run.wait(scene.pick(ahead) + scene.pick((-1, 0, 0, 1)))


def jump(scene: Scene) -> None:
    """Wall time jumps, back or forth."""
    scene.run.do("jump_wall_clock", ms=scene.pick((-100_000, 100_000)))


def stats(scene: Scene) -> None:
    """Count."""
    scene.run.settle()
    scene.run.do("stats")


def snapshot(scene: Scene) -> None:
    """A consumer asks for a snapshot."""
    scene.run.do("snapshot")


def events(scene: Scene) -> None:
    """A consumer catches up from somewhere."""
    scene.run.do("events", after=scene.pick((0, 1, 3)))


# --------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Move:
    """A move, what it needs, and how often each machine makes it (objects, protection, closure, admission, index)."""

    act: Callable[[Scene], None]
    needs: tuple[str, ...]
    weights: tuple[int, int, int, int, int]

    @property
    def name(self) -> str:
        """Its name."""
        return self.act.__name__


MACHINES = ("objects", "protection", "closure", "admission", "index")

MOVES: tuple[Move, ...] = (
    Move(put_next, (), (1, 2, 4, 3, 3)),
    Move(put_any, (), (2, 1, 1, 2, 1)),
    Move(put_loose, (), (2, 3, 2, 1, 1)),
    Move(put_again, (), (2, 1, 1, 1, 1)),
    Move(put_orphan, (), (0, 0, 1, 2, 1)),
    Move(put_cycle, (), (0, 0, 0, 1, 0)),
    Move(put_other_group, (), (0, 0, 0, 1, 0)),
    Move(put_below_other_group, (), (0, 0, 0, 1, 0)),
    Move(put_many, ("put_many",), (1, 0, 1, 1, 0)),
    Move(begin, ("put_begin",), (1, 1, 1, 1, 0)),
    Move(end, ("put_begin",), (2, 1, 1, 2, 0)),
    Move(get, (), (3, 2, 2, 1, 1)),
    Move(exists, (), (1, 1, 1, 1, 1)),
    Move(probe, ("probe",), (1, 1, 1, 1, 1)),
    Move(sweep, (), (1, 1, 1, 1, 1)),
    Move(match, ("match",), (1, 1, 1, 1, 3)),
    Move(get_many, ("get_many",), (1, 0, 1, 0, 0)),
    Move(exists_many, ("exists_many",), (1, 1, 1, 0, 1)),
    Move(remove, ("remove",), (2, 2, 1, 2, 2)),
    Move(clear, ("clear",), (1, 1, 0, 1, 1)),
    Move(lease, ("lease",), (0, 2, 1, 0, 0)),
    Move(pin, ("pin",), (0, 1, 1, 0, 0)),
    Move(unpin, ("pin",), (0, 1, 1, 0, 0)),
    Move(tick, ("advance",), (0, 1, 3, 1, 0)),
    Move(to_deadline, ("advance",), (1, 3, 1, 1, 0)),
    Move(jump, ("jump_wall_clock",), (0, 1, 0, 0, 0)),
    Move(stats, ("stats",), (1, 1, 1, 1, 0)),
    Move(snapshot, ("snapshot",), (0, 0, 0, 1, 1)),
    Move(events, ("events",), (0, 0, 0, 1, 1)),
)


def moves_of(machine: str, offers: Callable[..., bool], *, values: bool) -> list[tuple[Move, int]]:
    """The moves that a machine can make here, with their weights."""
    column = MACHINES.index(machine)
    possible = [(move, move.weights[column]) for move in MOVES if move.weights[column] and offers(*move.needs)]
    return [(move, weight) for move, weight in possible if values or move.act is not get_many]
