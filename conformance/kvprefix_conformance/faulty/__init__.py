"""Deliberately broken stores, one per fault class of the field, and unusual but correct ones: they test the suite itself.

``FAULTS`` and ``VARIANTS`` are made when first asked for; importing this package costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kvprefix.errors import ConfigurationError

if TYPE_CHECKING:
    from kvprefix_conformance.faulty.registry import Fault, Variant

    FAULTS: tuple[Fault, ...]
    VARIANTS: tuple[Variant, ...]

T = TypeVar("T")

__all__ = ["FAULTS", "VARIANTS", "all_faults", "all_variants", "find_fault", "find_variant"]


@functools.cache
def all_faults() -> tuple[Fault, ...]:
    """All faulty backends, those of one requirement side by side."""
    from kvprefix_conformance.faulty import (
        faults_eviction,
        faults_index,
        faults_lineage,
        faults_protection,
        faults_space,
        faults_values,
        registry,
    )

    modules = (faults_values, faults_space, faults_protection, faults_eviction, faults_lineage, faults_index)
    return registry.faults_of(modules)


@functools.cache
def all_variants() -> tuple[Variant, ...]:
    """All unusual but correct backends."""
    from kvprefix_conformance.faulty import registry, variants

    return (*registry.variants_of(variants), variants.BARE)


def find_fault(name: str) -> Fault:
    """The fault of this name. Raises :class:`ConfigurationError` that says what is near."""
    return _named("fault", name, {each.name: each for each in all_faults()})


def find_variant(name: str) -> Variant:
    """The variant of this name. Raises :class:`ConfigurationError` that says what is near."""
    return _named("variant", name, {each.name: each for each in all_variants()})


def _named(kind: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        from kvprefix_conformance.wire.codec import near

        raise ConfigurationError(f"there is no {kind} {name!r};", near(name, known))
    return known[name]


def __getattr__(name: str) -> Any:
    if name == "FAULTS":
        return all_faults()
    if name == "VARIANTS":
        return all_variants()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
