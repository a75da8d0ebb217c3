"""Checks of what comes in from outside, each with the sentence a user reads when it fails. No rule of the key scheme lives here.

Every refusal is a KeyInputError that names the value and what would be right.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence

from kvprefix.errors import KeyInputError

#: Ranks and group numbers fit in 32 bits, as vLLM packs them.
LIMIT_U32 = 1 << 32


def plain_text(value: object, what: str) -> str:
    """The value, if it is an exact ``str`` (pickle tells subclasses apart) without lone surrogates (no wire carries them)."""
    if type(value) is not str:
        raise KeyInputError(f"{what} must be text, not {type(value).__name__} {value!r}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise KeyInputError(f"{what} {value!r} holds a lone surrogate.", "Use text that can be encoded as UTF-8.") from None
    return value


def whole(value: object, what: str, *, least: int = 0, below: int | None = None) -> int:
    """The value as an exact ``int`` in [least, below); a bool is refused, since it hashes differently from 0 and 1."""
    if type(value) is not int:
        raise KeyInputError(f"{what} must be an integer, not {type(value).__name__} {value!r}.")
    if value < least or (below is not None and value >= below):
        bounds = f"at least {least}" if below is None else f"from {least} to {below - 1}"
        raise KeyInputError(f"{what} is {value}; it must be {bounds}.")
    return value


def octets(value: object, what: str) -> bytes:
    """The value as exact ``bytes``, from any bytes-like object."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise KeyInputError(f"{what} must be bytes, not {type(value).__name__} {value!r}.")
    return bytes(value)


def token_ids(tokens: Sequence[int]) -> tuple[int, ...]:
    """The tokens as a tuple of exact, non-negative ``int``: vLLM's recipes tell True from 1, and no vocabulary has negative ids."""
    ids = tuple(tokens)
    if not _plainly_fine(ids):
        odd = next((token for token in ids if type(token) is not int), None)
        if odd is not None or None in ids:
            raise KeyInputError(f"token id {odd!r} is a {type(odd).__name__}.", "Token ids are plain integers.")
        if min(ids) < 0:
            raise KeyInputError(f"token id {min(ids)} is negative.", "Token ids are plain non-negative integers.")
    return ids


def _plainly_fine(ids: tuple[int, ...]) -> bool:
    """Whether all are exact ints in [0, 2**31). True is certain; False only means that a closer look is needed.

    This is paid for every token of every prompt, so it must cost little beside the hash. In marshal's format 0 a tuple is a head of
    5 bytes and its items; an exact int of 32 bits is "i" and 4 bytes, little endian, and nothing else begins with "i". If every
    fifth byte is "i" and the length fits, all items are such ints; if every top byte is below 128, none is negative.
    """
    try:
        raw = marshal.dumps(ids, 0)
    except ValueError:
        return False
    return len(raw) == 5 * len(ids) + 5 and raw[5::5] == b"i" * len(ids) and raw[9::5].isascii()
