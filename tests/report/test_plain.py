"""Text from outside can be printed without harm."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvprefix_conformance.report.plain import one_line, printable


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("größe 日本", "größe 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b", "a\\x00b"),
        ("a\rb", "a\\rb"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_unsafe_characters_become_escapes(text: str, safe: str) -> None:
    assert printable(text) == safe


@given(st.text(st.characters()))
def test_nothing_that_steers_a_terminal_ever_passes(text: str) -> None:
    assert all(unicodedata.category(c)[0] != "C" or c == "\n" for c in printable(text) if unicodedata.category(c) != "Cn")


@given(st.text(st.characters()))
def test_one_line_is_one_printable_line_of_limited_length(text: str) -> None:
    line = one_line(text, 20)
    assert len(line) <= 20
    assert "\n" not in line
    line.encode("utf-8")
