"""The world of one example: names and lineage of keys, sizes by which a handful of objects fills the store, the driver's hands.

A driver issues steps through :class:`Run`, which knows how lineage reaches this store (argument, key or event). It judges nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import attrs

from kvprefix.api import ROOT, UNKNOWN, Answer, Clock, Geometry, Parent, Progress, PutOptions, Transport
from kvprefix.keys import BlockKey, KeySpace, Span, format_lineage
from kvprefix_conformance.codec import Json, options_to_json, parent_to_json
from kvprefix_conformance.oracle.judge import Oracle
from kvprefix_conformance.oracle.ledger import Ledger, Terms
from kvprefix_conformance.records import Step
from kvprefix_conformance.session import Session

#: Values are never shorter than this (where the store allows it), so that a foreign value is seen as one.
SHORTEST_VALUE_BYTES = 16
#: On a store that others use too, a value is this small a part of it.
SHARED_UNITS = 4096


@attrs.frozen
class Sizes:
    """Value sizes in units: ``units`` objects of one unit fill the store."""

    geometry: Geometry
    wanted: int

    @property
    def units(self) -> int:
        """As many as wanted, or as many of the smallest objects as fit."""
        geometry = self.geometry
        return max(1, min(self.wanted, geometry.capacity_bytes // geometry.charge(max(1, geometry.min_value_bytes))))

    @property
    def unit_bytes(self) -> int:
        """Charge of one unit."""
        geometry = self.geometry
        return max(geometry.quantum_bytes, geometry.capacity_bytes // self.units // geometry.quantum_bytes * geometry.quantum_bytes)

    def of_charge(self, charge_bytes: int) -> int:
        """The largest value that costs at most this much."""
        size = charge_bytes // self.geometry.quantum_bytes * self.geometry.quantum_bytes - self.geometry.overhead_bytes
        return max(1, size)

    def of(self, units: int) -> int:
        """The largest value that costs this many units; all units: the whole capacity."""
        whole = units >= self.units
        return self.of_charge(self.geometry.capacity_bytes if whole else units * self.unit_bytes)

    @property
    def smallest(self) -> int:
        """A value as small as is useful."""
        return max(self.geometry.min_value_bytes, min(SHORTEST_VALUE_BYTES, self.of(1)))

    @property
    def too_large(self) -> int:
        """The smallest value that can never fit."""
        if self.geometry.max_value_bytes is not None:
            return self.geometry.max_value_bytes + 1
        return self.of_charge(self.geometry.capacity_bytes) + 1


@functools.lru_cache(maxsize=1024)
def _lineage_key(name: str, parent: str) -> str:
    """A key in lineage form for a short name (KEY-8); the parent by its short name, empty for a root."""
    space = KeySpace(model="kvprefix/conformance", fingerprint="0" * 32)
    digest = _digest(name)
    return format_lineage(BlockKey(space, Span.of(16, 16), digest), _digest(parent) if parent else ROOT)


def _digest(name: str) -> bytes:
    return name.encode().ljust(8, b"_")  # readable in a failure, and all of one length


@attrs.frozen
class Block:
    """One object of the world, by its key and declared parent key."""

    key: str
    parent: Parent = ROOT


class Run:
    """One example on one session: issues steps, and keeps what a driver must remember (fills, labels)."""

    def __init__(self, session: Session, oracle: Oracle, *, units: int = 6, prefix: str = "") -> None:
        self.session = session
        self.oracle = oracle
        self.terms: Terms = oracle.terms
        self.caps = oracle.terms.capabilities
        self.sizes = Sizes(oracle.terms.geometry, units)
        self.prefix = prefix
        self._labels = 0
        self._fills: dict[str, int] = {}
        self._registered: set[str] = set()

    # -- what there is ----------------------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """What the oracle knows; a driver may use it to choose what is interesting."""
        return self.oracle.ledger

    @property
    def over(self) -> bool:
        """Nothing is run any more."""
        return self.session.over

    def offers(self, *calls: str) -> bool:
        """Whether all these calls and hooks are there."""
        return all(call in self.session.offered for call in calls)

    def block(self, name: str, parent: Block | None = None, *, unknown: bool = False) -> Block:
        """A block of the world under this name; without a parent a root, or of unknown lineage."""
        key = self.prefix + name
        above: Parent = UNKNOWN if unknown else ROOT if parent is None else parent.key
        if not self.parents_are_free and Transport.KEY in self.caps.lineage and not unknown:
            key = _lineage_key(name, _short(parent.key) if parent is not None else "")
        return Block(key, above)

    def chain(self, names: str) -> list[Block]:
        """Blocks named by single letters, each the parent of the next."""
        blocks: list[Block] = []
        for name in names:
            blocks.append(self.block(name, blocks[-1] if blocks else None))
        return blocks

    # -- writing ----------------------------------------------------------------------------------------------------------------

    def label(self, kind: str) -> str:
        """A fresh label for a token."""
        self._labels += 1
        return f"{kind}{self._labels}"

    def fill(self, key: str) -> int:
        """A fill that no value of this key had yet."""
        self._fills[key] = self._fills.get(key, 0) + 1
        return self._fills[key]

    def item(
        self,
        block: Block,
        units: int = 1,
        *,
        size: int | None = None,
        parent: Parent | None = None,
        options: PutOptions = PutOptions(),
    ) -> dict[str, Json]:
        """The arguments of a put of this block with a fresh value."""
        bytes_ = self.sizes.of(units) if size is None else size
        item: dict[str, Json] = {"key": block.key, "value": {"fill": self.fill(block.key), "size": bytes_}}
        above = block.parent if parent is None or not self.parents_are_free else parent
        if above is not UNKNOWN and self._tells_at_put():
            item["parent"] = parent_to_json(above)
        if options != PutOptions():
            item["options"] = options_to_json(options)
        return item

    @property
    def parents_are_free(self) -> bool:
        """A put may name any parent: it is an argument (or lineage is tested as if it were)."""
        return not self.caps.lineage or Transport.ARGUMENT in self.caps.lineage

    def _tells_at_put(self) -> bool:
        return self.caps.lineage != frozenset({Transport.EVENT})

    def tell(self, block: Block) -> None:
        """Register the lineage beside the data path, where that is how it reaches the store."""
        if not self._tells_at_put() and isinstance(block.parent, str) and block.key not in self._registered:
            self._registered.add(block.key)
            self.session.do("register", key=block.key, parent=parent_to_json(block.parent))

    def put(
        self,
        block: Block,
        units: int = 1,
        *,
        size: int | None = None,
        parent: Parent | None = None,
        options: PutOptions = PutOptions(),
        client: int = 0,
    ) -> Answer | None:
        """Put the block with a fresh value; its answer, None where there is none."""
        self.tell(block)
        return self.answer(self.session.do("put", client, **self.item(block, units, size=size, parent=parent, options=options)))

    def put_patiently(self, block: Block, units: int = 1, *, options: PutOptions = PutOptions()) -> Answer | None:
        """A put that an eventual store may refuse at first: tried again within its declared time (PFX-6)."""
        self.tell(block)
        item = self.item(block, units, options=options)
        answer = self.answer(self.session.do("put", **item))
        tries = 12 if self.caps.progress is Progress.EVENTUAL else 0
        while answer is Answer.NO_SPACE and tries:
            tries -= 1
            if self.offers("quiesce"):
                self.session.do("quiesce")
            if self.caps.progress_ms and self.offers("advance"):
                self.session.do("advance", ms=self.caps.progress_ms // 10 + 1)
            answer = self.answer(self.session.do("put", **item))
        return answer

    def put_all(self, blocks: Iterable[Block], units: int = 1) -> None:
        """Put the blocks one by one."""
        for block in blocks:
            self.put_patiently(block, units)

    def begin(self, block: Block, units: int = 1, *, size: int | None = None, options: PutOptions = PutOptions()) -> str:
        """Begin a two-phase put; the label of its token."""
        self.tell(block)
        item = self.item(block, units, size=size, options=options)
        label = self.label("t")
        value = item.pop("value")
        self._fills[f"{label}"] = value["fill"]
        self.session.run(Step("put_begin", {**item, "size": value["size"], "as": label}))
        return label

    def commit(self, block: Block, label: str, *, size: int | None = None) -> Answer | None:
        """Commit an attempt with a value of its size, or of another one."""
        attempt = self.ledger.attempts.get(label)
        bytes_ = size if size is not None else attempt.size if attempt is not None else self.sizes.of(1)
        value = {"fill": self.fill(block.key), "size": bytes_}
        return self.answer(self.session.do("put_commit", key=block.key, token=label, value=value))

    # -- other calls ------------------------------------------------------------------------------------------------------------

    def do(self, op: str, block: Block | None = None, **args: Json) -> Step:
        """Any other step; on a block it names its key."""
        if block is not None:
            args["key"] = block.key
        return self.session.do(op, **args)

    def match(self, blocks: Sequence[Block], start: int = 0) -> None:
        """match of a chain of blocks."""
        if self.offers("match"):
            chain = [block.key for block in blocks]
            self.session.do("match", chain=chain, **({"start": start} if start else {}))

    def look(self, blocks: Iterable[Block]) -> None:
        """A checkpoint: every block looked at, with the call that has the least effect; none where the hook resident sees all."""
        if self.offers("resident") and not self.offers("probe"):
            return
        op = "probe" if self.offers("probe") else "exists"
        for block in blocks:
            self.session.do(op, key=block.key)

    def read(self, blocks: Iterable[Block]) -> None:
        """get of each block; exists where the store keeps no bytes."""
        for block in blocks:
            self.session.do("get" if self.caps.values else "exists", key=block.key)

    def wait(self, ms: int) -> None:
        """Let time pass, where the suite can."""
        if self.offers("advance") and ms > 0:
            self.session.do("advance", ms=ms)

    def drop(self, block: Block, *, force: bool = False) -> Answer | None:
        """remove, where it is offered."""
        if not self.offers("remove"):
            return None
        return self.answer(self.session.run(Step("remove", {"key": block.key, **({"force": True} if force else {})})))

    def clear(self, *, force: bool = False) -> None:
        """clear, where it is offered."""
        if self.offers("clear"):
            self.session.run(Step("clear", {"force": True} if force else {}))

    def pin(self, block: Block) -> str:
        """Pin the block in use; the label of the pin."""
        label = self.label("p")
        self.session.run(Step("pin", {"key": block.key, "as": label}))
        return label

    def guard(self, block: Block, ms: int = 10_000) -> bool:
        """Protect a resident block by the best means there is; False if there is none."""
        caps = self.caps
        if self.offers("lease"):
            self.do("lease", block, ttl_ms=min(ms, 2_000) if self.real_clock else ms)
        elif self.offers("pin"):
            self.pin(block)
        elif "get" in caps.lease_calls and caps.values:
            self.do("get", block)
        elif "exists" in caps.lease_calls and caps.exists_leases.value != "none":
            self.do("exists", block)
        else:
            return False
        return True

    def press(self, count: int, units: int = 1) -> None:
        """Pressure: so many objects without lineage, one by one."""
        for number in range(1, count + 1):
            self.put_patiently(self.block(f"p{number}", unknown=True), units)

    def stats(self) -> None:
        """Count, when nothing is under way."""
        if self.offers("stats"):
            self.settle()
            self.session.do("stats")

    def settle(self) -> None:
        """Let background work end, where the suite can."""
        if self.offers("quiesce"):
            self.session.do("quiesce")

    @property
    def real_clock(self) -> bool:
        """Waiting costs time here."""
        return self.caps.clock is Clock.REAL

    @staticmethod
    def answer(step: Step) -> Answer | None:
        """The answer of a step that has one of the contract's answers."""
        said = step.answer.get("answer") if isinstance(step.answer, dict) else step.answer
        return Answer(said) if isinstance(said, str) else None


def _short(key: str) -> str:
    """The name behind a key in lineage form."""
    return bytes.fromhex(key.split("@parent:")[0].rsplit("@", 1)[1]).decode().rstrip("_")
