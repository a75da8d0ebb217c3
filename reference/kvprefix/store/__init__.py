"""The efficient reference store: it refines the abstract model, and never scans what it stores.

Start at :class:`ReferenceStore` (the calls) or :class:`ReferenceBackend` (the same under the suite); presets.py has ready-made
capabilities.
"""

from kvprefix.store import presets
from kvprefix.store.backend import ReferenceBackend
from kvprefix.store.store import ReferenceStore

__all__ = ["ReferenceBackend", "ReferenceStore", "presets"]
