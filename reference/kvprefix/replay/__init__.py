"""Replay: request traces through any store behind ``api.py``: hits by contiguous prefix, evictions, orphans, every byte verified.

:mod:`~kvprefix.replay.trace` reads traces and :mod:`~kvprefix.replay.generate` makes them; :mod:`~kvprefix.replay.blocks` names the
blocks; :mod:`~kvprefix.replay.run` drives the store; :mod:`~kvprefix.replay.residents` knows what is resident and what of it is an
orphan; :mod:`~kvprefix.replay.outcome` is what comes out. Requirements that are checked as it goes: STO-1, STO-4, STO-6, PFX-1,
PFX-2, PFX-4.
"""

from pathlib import Path
from typing import Final

from kvprefix.replay.trace import BLOCK_TOKENS, Request, TraceReader, line_of

#: Traces that ship with the package, by name.
SHIPPED: Final = {"small": Path(__file__).parent / "data" / "small.jsonl"}

__all__ = ["BLOCK_TOKENS", "SHIPPED", "Request", "TraceReader", "line_of"]
