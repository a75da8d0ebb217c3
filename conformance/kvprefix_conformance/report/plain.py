"""Text that came from outside, made safe to print: no control characters, no terminal escapes, no bidirectional tricks."""

from __future__ import annotations

import unicodedata

#: Control, format (bidirectional overrides, zero width), surrogate, private use, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def printable(text: str, keep: str = "\n") -> str:
    """The text with every unsafe character but those in ``keep`` as its backslash escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _UNSAFE else _escape(c) for c in text)


def one_line(text: str, limit: int = 500) -> str:
    """The text on one line, cut to a length."""
    flat = printable(" ".join(text.split()), keep="")
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
