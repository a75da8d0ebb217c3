"""Bounds: how far a walk goes, dimension by dimension, and the worlds that lie within them.

A world is a forest of blocks with sizes and options, under one set of rules. Each dimension can be switched off and is named in the
output. Tenants and tiers are no dimension: the abstract model does not carry them. Carries no requirement of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from string import ascii_lowercase
from typing import Any

import attrs

from kvprefix.api import ROOT, UNKNOWN, Capabilities, Geometry, Parent, PutOptions, Transport
from kvprefix.errors import ConfigurationError
from kvprefix.explore.forests import NO_PARENT, Forest, children_of, forests, shape
from kvprefix.model.values import Rules

#: More blocks than this have no names, and no walk would end.
MOST_BLOCKS = 8


def _dimension(default: Any, doc: str) -> Any:
    return attrs.field(default=default, metadata={"doc": doc}, kw_only=True)


@attrs.frozen
class Bounds:
    """One configuration of the model checker: the rules, and how much of everything there is."""

    name: str
    caps: Capabilities
    #: What it is there to show.
    doc: str = ""
    blocks: int = _dimension(4, "blocks; every forest of so many, up to isomorphism")
    sizes: tuple[int, ...] = _dimension((1,), "bytes that a block may have")
    capacities: tuple[int, ...] = _dimension((3,), "bytes that the store may have")
    attempts: int = _dimension(0, "clients with a two-phase write; each remembers one token, open or stale")
    clock: tuple[int, ...] = _dimension((), "steps of time in ms")
    leases: tuple[int, ...] = _dimension((), "ttl in ms of the call lease")
    pins: int = _dimension(0, "pins in use at a time")
    put_options: tuple[PutOptions, ...] = _dimension((PutOptions(),), "options that a put may carry")
    labels: tuple[PutOptions, ...] = _dimension(
        (PutOptions(),), "options fixed per block: family, object group, namespace, cache group"
    )
    reads: bool = _dimension(False, "get, exists, probe and match")
    remove: bool = _dimension(False, "remove")
    force: bool = _dimension(False, "remove and clear may be forced")
    clear: bool = _dimension(False, "clear")
    batches: bool = _dimension(False, "batches of two puts; with reads, of whole chains")
    passes: bool = _dimension(False, "evictions that no put asked for")
    register: bool = _dimension(False, "lineage registered beside the data path")
    any_parent: bool = _dimension(False, "a put may name any parent, so that lineage could close a cycle")

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise ConfigurationError(f"{self.blocks} blocks", f"A walk has 1 to {MOST_BLOCKS} blocks.")

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """The dimensions that are switched on, by name, with their values in words."""
        found = [("forests", str(1 if self.any_parent else len(forests(self.blocks)))), ("blocks", str(self.blocks))]
        for field in attrs.fields(Bounds):
            value = getattr(self, field.name)
            if "doc" not in field.metadata or field.name == "blocks" or not value or value == (PutOptions(),):
                continue
            found.append((field.name.replace("_", " "), _in_words(value)))
        return tuple(found)


def _in_words(value: Any) -> str:
    if value is True:
        return "yes"
    if not isinstance(value, tuple):
        return str(value)
    return ",".join(options_text(each) if isinstance(each, PutOptions) else str(each) for each in value)


def options_text(options: PutOptions) -> str:
    """What of the options is not at its default."""
    changed = [(f.name, getattr(options, f.name)) for f in attrs.fields(PutOptions) if getattr(options, f.name) != f.default]
    return "+".join(f"{name}:{getattr(value, 'value', value)}" for name, value in changed) or "plain"


def _over(label: PutOptions, option: PutOptions) -> PutOptions:
    """The label with what the option changes."""
    changed = {f.name: getattr(option, f.name) for f in attrs.fields(PutOptions) if getattr(option, f.name) != f.default}
    return attrs.evolve(label, **changed)


@attrs.frozen
class Block:
    """One block of a world, with all that a put of it says unless the world lets the put vary."""

    key: str
    size: int
    parent: Parent
    #: Its index in ``Bounds.labels``.
    label: int = 0


@attrs.frozen(slots=False)
class World:
    """Blocks with their lineage, rules, and the bounds of what happens to them."""

    bounds: Bounds
    rules: Rules
    forest: Forest
    blocks: tuple[Block, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of the blocks."""
        return tuple(block.key for block in self.blocks)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """The children of each block, by index."""
        return children_of(self.forest)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The blocks without a parent, by index."""
        return tuple(i for i, parent in enumerate(self.forest) if parent == NO_PARENT)

    @cached_property
    def kinds(self) -> tuple[tuple[int, int], ...]:
        """What tells two blocks apart but for their place: size and label."""
        return tuple((block.size, block.label) for block in self.blocks)

    @cached_property
    def options(self) -> tuple[tuple[PutOptions, ...], ...]:
        """What a put of each block may say: its label, with each of the options that the bounds let vary."""
        labels, free = self.bounds.labels, self.bounds.put_options
        table = [tuple(_over(label, option) for option in free) for label in labels]
        return tuple(table[block.label] for block in self.blocks)

    @cached_property
    def _all_options(self) -> tuple[PutOptions, ...]:
        return tuple(option for row in self.options for option in row)

    def options_index(self, options: PutOptions) -> int:
        """A number for the options: the same for equal ones."""
        return self._all_options.index(options)

    def chain(self, index: int) -> tuple[str, ...]:
        """The keys from the root down to this block."""
        line: tuple[str, ...] = ()
        while index != NO_PARENT:
            line = (self.keys[index], *line)
            index = self.forest[index]
        return line

    def told_at_put(self, block: Block) -> Parent:
        """The parent that a put of the block names: none where lineage comes by event only."""
        return block.parent if Transport.ARGUMENT in self.rules.caps.lineage else UNKNOWN

    @property
    def name(self) -> str:
        """The world in a few words: ``a:1 b:1<a c:2, capacity 3``."""
        blocks = [
            f"{block.key}:{block.size}"
            + (f"<{block.parent}" if isinstance(block.parent, str) else "")
            + (f"[{options_text(self.bounds.labels[block.label])}]" if len(self.bounds.labels) > 1 else "")
            for block in self.blocks
        ]
        return f"{' '.join(blocks)}, capacity {self.rules.geometry.capacity_bytes}"


def worlds(bounds: Bounds) -> Iterator[World]:
    """Every world within the bounds, one per isomorphism class, the fewest blocks' bytes and the smallest store first."""
    for capacity in bounds.capacities:
        rules = Rules(bounds.caps, Geometry(capacity))
        for forest, kinds in labelled_forests(bounds):
            blocks = tuple(
                Block(ascii_lowercase[i], size, ROOT if parent == NO_PARENT else ascii_lowercase[parent], label)
                for i, (parent, (size, label)) in enumerate(zip(forest, kinds, strict=True))
            )
            yield World(bounds, rules, forest, blocks)


def labelled_forests(bounds: Bounds) -> Iterator[tuple[Forest, Sequence[tuple[int, int]]]]:
    """Every forest with every assignment of sizes and labels, up to isomorphism.

    Where a put may name any parent, lineage is no part of the world: one forest of roots stands for all.
    """
    seen = set()
    shapes = forests(bounds.blocks) if not bounds.any_parent else ((NO_PARENT,) * bounds.blocks,)
    kinds = tuple(product(bounds.sizes, range(len(bounds.labels))))
    for forest in shapes:
        for assigned in product(kinds, repeat=bounds.blocks):
            if (form := shape(forest, assigned)) not in seen:
                seen.add(form)
                yield forest, assigned
