"""What a fault and a variant are, and the two decorators by which a class of a few lines becomes one.

The docstring of the class is what is printed of it; the name is the class name in lower case with hyphens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import attrs

from kvprefix.api import Backend, Capabilities
from kvprefix_conformance.faulty.kinds import AWARE
from kvprefix_conformance.faulty.plain import PlainBackend, PlainStore

S = TypeVar("S", bound=type[PlainStore])


@attrs.frozen
class Fault:
    """A backend that breaks one requirement on purpose (it may break others on the way)."""

    name: str
    requirement: str
    #: Public reports of such a fault, by their ids in the project's collection of field faults; empty: none known.
    reports: tuple[str, ...]
    doc: str
    open: Callable[[], Backend]


@attrs.frozen
class Variant:
    """A backend that is unusual and correct: it must pass all that it declares."""

    name: str
    doc: str
    open: Callable[[], Backend]


def name_of(title: str) -> str:
    """``EvictsByAge`` -> ``evicts-by-age``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", title).lower()


def line_of(thing: Any) -> str:
    """The docstring as one line."""
    return " ".join((thing.__doc__ or "").split())


def fault(requirement: str, *reports: str, on: Capabilities = AWARE, **geometry: Any) -> Callable[[S], S]:
    """Make a store a fault: which requirement it breaks, the reports it stands for, what it declares, its geometry."""

    def mark(store: S) -> S:
        name = name_of(store.__name__)
        declared = attrs.evolve(on, name=f"fault:{name}")
        opener = functools.partial(PlainBackend, declared, store, **geometry)
        store.made = Fault(name, requirement, reports, line_of(store), opener)
        return store

    return mark


def variant(on: Capabilities = AWARE, backend: type[PlainBackend] = PlainBackend, **arguments: Any) -> Callable[[S], S]:
    """Make a store a variant: what it declares, around what backend, and further arguments of that."""

    def mark(store: S) -> S:
        name = name_of(store.__name__)
        opener = functools.partial(backend, attrs.evolve(on, name=f"variant:{name}"), store, **arguments)
        store.made = Variant(name, line_of(store), opener)
        return store

    return mark


def faults_of(modules: Iterable[ModuleType]) -> tuple[Fault, ...]:
    """All faults that the modules define, in the order of their source."""
    return tuple(made for module in modules for made in _made(vars(module), module.__name__) if isinstance(made, Fault))


def variants_of(module: ModuleType) -> tuple[Variant, ...]:
    """All variants that the module defines by :func:`variant`."""
    return tuple(made for made in _made(vars(module), module.__name__) if isinstance(made, Variant))


def _made(names: Mapping[str, Any], module: str) -> list[Fault | Variant]:
    """Only a class's own mark counts: a subclass of a fault is not that fault."""
    own = [thing for thing in names.values() if isinstance(thing, type) and thing.__module__ == module]
    return [vars(thing)["made"] for thing in own if "made" in vars(thing)]
