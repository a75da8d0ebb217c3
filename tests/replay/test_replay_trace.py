"""Reading traces: what is well-formed comes out as it is, and everything else is told with its line and reason."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kvprefix.errors import ConfigurationError, TraceError
from kvprefix.replay import Request, TraceReader, line_of
from kvprefix.replay.trace import MAX_LINE_BYTES, NO_PARENT

GOOD = Request(timestamp=0, input_length=1300, output_length=7, hash_ids=(4, 5, 6))
NEXT = Request(timestamp=10, input_length=1024, output_length=0, hash_ids=(4, 5))


def line(**fields: Any) -> bytes:
    """A good line with some fields replaced, or taken away where they are None."""
    whole = {"timestamp": 20, "input_length": 1024, "output_length": 1, "hash_ids": [4, 5], **fields}
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode() + b"\n"


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    def write(*lines: bytes) -> Path:
        path = tmp_path / "trace.jsonl"
        path.write_bytes(b"".join(lines))
        return path

    return write


TWO = (line_of(GOOD).encode(), line_of(NEXT).encode())


def test_requests_come_out_as_they_were_written(trace: Any) -> None:
    reader = TraceReader(trace(*TWO))
    assert list(reader) == [GOOD, NEXT]
    assert (reader.line, reader.requests, reader.bad_lines) == (2, 2, 0)
    assert reader.parents == {4: NO_PARENT, 5: 4, 6: 5}


def test_each_iteration_starts_anew(trace: Any) -> None:
    reader = TraceReader(trace(*TWO))
    assert list(reader) == list(reader)
    assert reader.requests == 2


def test_only_what_is_asked_for_is_read(trace: Any) -> None:
    reader = TraceReader(trace(*TWO, b"not JSON\n"))
    assert next(iter(reader)) == GOOD


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""], ids=["LF", "CRLF", "none at the end"])
def test_line_endings_are_free(trace: Any, ending: bytes) -> None:
    assert list(TraceReader(trace(TWO[0], TWO[1].rstrip(b"\n") + ending))) == [GOOD, NEXT]


def test_a_request_without_tokens_has_no_blocks(trace: Any) -> None:
    assert [request.hash_ids for request in TraceReader(trace(line(input_length=0, hash_ids=[])))] == [()]


def test_fields_that_the_format_does_not_have_are_ignored(trace: Any) -> None:
    assert len(list(TraceReader(trace(line(chat_id=[1, {"a": None}]))))) == 1


def test_the_block_size_can_be_another(trace: Any) -> None:
    assert len(list(TraceReader(trace(line(input_length=32)), block_tokens=16))) == 1
    with pytest.raises(ConfigurationError, match="at least 1"):
        TraceReader("x", block_tokens=0)


BAD = {
    "blank": (b"\n", "the line is blank"),
    "no JSON": (b"hello\n", r"not JSON \(Expecting value at column 1\)"),
    "cut short": (line()[:-9] + b"\n", "not JSON"),
    "two on a line": (line()[:-1] + line(), "not JSON"),
    "a list": (b"[1]\n", "a JSON object is wanted, not a list"),
    "null": (b"null\n", "a JSON object is wanted, not null"),
    "no field": (line(hash_ids=...), "no field 'hash_ids'"),
    "no fields": (b"{}\n", "no field 'timestamp', 'input_length', 'output_length', 'hash_ids'"),
    "twice": (b'{"timestamp": 1, "timestamp": 2}\n', "field 'timestamp' is given twice"),
    "string": (line(timestamp="0"), "timestamp must be an integer, not a string"),
    "boolean": (line(output_length=True), "output_length must be an integer, not true"),
    "none": (line(output_length=None), "output_length must be an integer, not null"),
    "fraction": (line(input_length=1024.0), "input_length must be an integer, not a number with a fraction"),
    "negative": (line(timestamp=-1), "timestamp is negative"),
    "NaN": (b'{"timestamp": NaN}\n', "NaN is no JSON number"),
    "Infinity": (b'{"timestamp": -Infinity}\n', "-Infinity is no JSON number"),
    "64 bits": (line(timestamp=2**63), "timestamp has more than 63 bits"),
    "giant": (line().replace(b" 20", b" " + b"9" * 5000), "a number with too many digits|more than 63 bits"),
    "deep": (b'{"timestamp": ' + b"[" * 200_000 + b"\n", "nested too deeply"),
    "ids no list": (line(hash_ids={}), "hash_ids must be a list, not an object"),
    "an id is true": (line(hash_ids=[4, True]), r"hash_ids\[1\] must be an integer, not true"),
    "an id is text": (line(hash_ids=["4", 5]), r"hash_ids\[0\] must be an integer, not a string"),
    "an id is negative": (line(hash_ids=[4, -5]), r"hash_ids\[1\] is negative"),
    "an id is giant": (line(hash_ids=[4, 2**64]), r"hash_ids\[1\] has more than 63 bits"),
    "an id twice": (line(hash_ids=[4, 4]), "hash_ids names id 4 twice"),
    "too few ids": (
        line(input_length=1025),
        "hash_ids has 2 ids, not the 3 that an input_length of 1025 makes in blocks of 512 tokens",
    ),
    "too many ids": (line(input_length=512), "hash_ids has 2 ids, not the 1 that an input_length of 512"),
    "another parent": (line(hash_ids=[4, 6]), "id 6 follows id 4 here and id 5 on an earlier line"),
    "no parent": (line(hash_ids=[5, 6]), "id 5 follows no block here and id 4 on an earlier line"),
    "a parent at last": (line(hash_ids=[7, 4]), "id 4 follows id 7 here and no block on an earlier line"),
    "back in time": (line(timestamp=9), "timestamp 9 is before the 10 of an earlier line"),
    "not UTF-8": (b'{"\xff": 1}\n', "not UTF-8 \\(byte 0xff at column 3\\)"),
    "UTF-16": ("{}".encode("utf-16-le") + b"\n", "not JSON"),
    "too long": (b" " * (MAX_LINE_BYTES + 1) + b"\n", f"the line is longer than {MAX_LINE_BYTES} bytes"),
    "much too long": (b" " * (2 * MAX_LINE_BYTES + 7) + b"\n", f"the line is longer than {MAX_LINE_BYTES} bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_told_with_its_number_and_reason(trace: Any, case: str) -> None:
    bad, reason = BAD[case]
    path = trace(*TWO, bad)
    with pytest.raises(TraceError, match=reason) as told:
        list(TraceReader(path))
    assert (told.value.source, told.value.line) == (str(path), 3)
    assert str(told.value).startswith(f"{path}:3: ")


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_skipped_and_counted_on_request(trace: Any, case: str) -> None:
    told: list[TraceError] = []
    reader = TraceReader(trace(*TWO, BAD[case][0], line()), keep_going=True, on_bad=told.append)
    assert [request.timestamp for request in reader] == [0, 10, 20]
    assert reader.bad_lines == 1
    assert [bad.line for bad in told] == [3]


def test_a_skipped_line_leaves_nothing_behind(trace: Any) -> None:
    """Neither its time nor its parents bind later lines."""
    reader = TraceReader(trace(line(timestamp=99, hash_ids=[1, 2], input_length=1), line(hash_ids=[2, 1])), keep_going=True)
    assert [request.hash_ids for request in reader] == [(2, 1)]


def test_a_byte_order_mark_is_told_as_what_it_is(trace: Any) -> None:
    with pytest.raises(TraceError, match=":1: begins with a byte-order mark"):
        list(TraceReader(trace(b"\xef\xbb\xbf", *TWO)))


@pytest.mark.parametrize("keep_going", [False, True])
def test_an_empty_trace_is_no_trace(trace: Any, keep_going: bool) -> None:
    with pytest.raises(TraceError, match="it is empty"):
        list(TraceReader(trace(), keep_going=keep_going))


def test_a_trace_of_bad_lines_only_is_no_trace(trace: Any) -> None:
    with pytest.raises(TraceError, match="no usable request"):
        list(TraceReader(trace(b"x\n", b"y\n"), keep_going=True))


# -- sources ---------------------------------------------------------------------------------------------------------------------


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(b"".join(TWO)))
    assert list(TraceReader(path)) == [GOOD, NEXT]


@pytest.mark.parametrize("keep_going", [False, True])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-12], "ends too early"),
        (lambda data: data[:-8] + b"\0" * 8, "bad gzip data"),
        (lambda data: data[:2] + b"\xff" + data[3:], "bad gzip data"),
        (lambda data: data[:12] + b"\xff\xff\xff\xff" + data[16:], "bad gzip data"),
    ],
    ids=["truncated", "checksum", "method", "data"],
)
def test_damaged_gzip_is_told(tmp_path: Path, damage: Any, reason: str, keep_going: bool) -> None:
    path = tmp_path / "trace.gz"
    path.write_bytes(damage(gzip.compress(b"".join(TWO))))
    with pytest.raises(TraceError, match=f"cannot be read on: .*{reason}"):
        list(TraceReader(path, keep_going=keep_going))


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    data = b"".join(TWO)
    raw = io.BytesIO(gzip.compress(data) if packed else data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(raw)))
    reader = TraceReader("-")
    assert list(reader) == [GOOD, NEXT]
    assert reader.share_read() is None


def test_bad_lines_of_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"x"))))
    with pytest.raises(TraceError, match="standard input:1: not JSON"):
        list(TraceReader("-"))


def test_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="standard input: it is closed"):
        list(TraceReader("-"))


def test_a_source_that_cannot_be_opened_is_told(tmp_path: Path, trace: Any) -> None:
    for source, reason in [
        (tmp_path, "is a directory"),
        (tmp_path / "none", "no such file"),
        (trace(*TWO) / "below", "not a directory"),
        ("a\0b", "null byte|null character"),
    ]:
        with pytest.raises(TraceError, match=reason) as told:
            list(TraceReader(source))
        assert told.value.line == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that opens and cannot be read")  # noqa: PTH110
def test_a_source_that_opens_and_cannot_be_read_is_told() -> None:
    with pytest.raises(TraceError, match="/proc/self/mem: input/output error"):
        list(TraceReader("/proc/self/mem"))


def test_how_much_was_read_is_known_for_a_file(trace: Any) -> None:
    reader = TraceReader(trace(*TWO))
    assert reader.share_read() is None
    requests = iter(reader)
    next(requests)
    share = reader.share_read()
    assert share is not None
    assert 0.0 < share <= 1.0
    list(requests)
