"""Request traces in the JSON-lines format of Mooncake's FAST'25 paper: one request a line, blocks named by ids.

Reading is streaming, so a trace may be larger than memory: only the table id -> parent id is kept. Whatever cannot be used is a
TraceError with its line and reason. No requirement is carried here; a chain whose ids had two parents would be no chain (KEY-2).
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, TypeVar, cast

import attrs

from kvprefix.errors import ConfigurationError, TraceError

#: Tokens that one id stands for in the FAST'25 traces; the last block of a request may be partial.
BLOCK_TOKENS: Final = 512
#: A longer line is refused instead of read into memory: about two million ids.
MAX_LINE_BYTES: Final = 16 << 20
#: Ids, lengths and times are whole numbers of at most 63 bits.
MAX_INTEGER: Final = (1 << 63) - 1
#: Stands for the parent of a request's first block in :attr:`TraceReader.parents`.
NO_PARENT: Final = -1
#: Names the standard input as a source.
STDIN: Final = "-"

_T = TypeVar("_T")
_FIELDS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@attrs.frozen
class Request:
    """One request of a trace."""

    #: Arrival, in milliseconds since the trace began.
    timestamp: int
    #: Tokens of the prompt.
    input_length: int
    #: Tokens that were generated.
    output_length: int
    #: The prompt's blocks, root first; an id names one block and so everything before it.
    hash_ids: tuple[int, ...]


def line_of(request: Request) -> str:
    """The request as one line of a trace, newline included."""
    return json.dumps({**attrs.asdict(request), "hash_ids": list(request.hash_ids)}) + "\n"


class TraceReader:
    """Iterates over the requests of one trace: a file, plain or gzip, or ``-`` for the standard input.

    Fields that the format does not have are ignored; lines may end in CR LF. Raises TraceError for the first bad line, or with
    ``keep_going`` skips it, counts it in ``bad_lines`` and hands it to ``on_bad``; what concerns the whole source (it cannot be
    read, is damaged, has no request) always raises. Each iteration starts anew; closing it closes the source.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        block_tokens: int = BLOCK_TOKENS,
        keep_going: bool = False,
        on_bad: Callable[[TraceError], None] | None = None,
    ) -> None:
        if block_tokens < 1:
            raise ConfigurationError(f"blocks of {block_tokens} tokens", "Give at least 1.")
        self.source = os.fspath(source)
        self.name = "standard input" if self.source == STDIN else self.source
        self._block_tokens = block_tokens
        self._keep_going = keep_going
        self._on_bad = on_bad
        self._restart()

    def _restart(self) -> None:
        #: Block id -> parent's id, NO_PARENT for a first block: all that is remembered of the lines read.
        self.parents: dict[int, int] = {}
        #: Number of the last line read.
        self.line = 0
        self.requests = 0
        self.bad_lines = 0
        self._time = 0
        self._size = 0
        self._raw: IO[bytes] | None = None

    def __iter__(self) -> Generator[Request, None, None]:
        self._restart()
        with self._opened() as stream:
            for line in self._lines(stream):
                try:
                    request = self._request(line)
                except TraceError as bad:
                    if not self._keep_going:
                        raise
                    self.bad_lines += 1
                    if self._on_bad is not None:
                        self._on_bad(bad)
                    continue
                self.requests += 1
                yield request
        if not self.requests:
            raise TraceError(self.name, 0, "no usable request in it" if self.line else "it is empty")

    def share_read(self) -> float | None:
        """How much of the source was read, from 0 to 1; None where its size is unknown."""
        if self._raw is None or not self._size or self._raw.closed:
            return None
        return min(1.0, self._raw.tell() / self._size)

    # -- bytes ------------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with contextlib.ExitStack() as stack:
            try:
                raw: BinaryIO
                if self.source == STDIN:
                    if sys.stdin is None:
                        raise TraceError(self.name, 0, "it is closed")
                    raw = sys.stdin.buffer
                else:
                    raw = stack.enter_context(Path(self.source).open("rb"))
                    self._raw, self._size = raw, os.fstat(raw.fileno()).st_size
                buffered = cast("Any", raw)
                packed = buffered.peek(2)[:2] == _GZIP_MAGIC
            except (OSError, ValueError) as failure:  # ValueError: a NUL in the name
                raise TraceError(self.name, 0, _said(failure)) from None
            yield cast("BinaryIO", stack.enter_context(gzip.GzipFile(fileobj=raw))) if packed else raw

    def _lines(self, stream: BinaryIO) -> Iterator[bytes]:
        """Each line; of one that is too long only its beginning, so that the next one is still found."""
        while True:
            try:
                line = stream.readline(MAX_LINE_BYTES + 1)
                rest = line
                while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
                    rest = stream.readline(MAX_LINE_BYTES + 1)
            except (OSError, EOFError, zlib.error) as failure:
                raise TraceError(self.name, self.line + 1, f"cannot be read on: {_said(failure)}") from None
            if not line:
                return
            self.line += 1
            yield line

    # -- one line ---------------------------------------------------------------------------------------------------------------

    def _request(self, line: bytes) -> Request:
        try:
            request = _well_formed(line, first=self.line == 1)
            self._fits(request)
        except ValueError as bad:
            raise TraceError(self.name, self.line, str(bad)) from None
        self._time = request.timestamp
        self.parents.update(zip(request.hash_ids, (NO_PARENT, *request.hash_ids), strict=False))
        return request

    def _fits(self, request: Request) -> None:
        """ValueError where the request contradicts itself or the lines before it."""
        blocks = -(-request.input_length // self._block_tokens)
        if len(request.hash_ids) != blocks:
            raise ValueError(
                f"hash_ids has {len(request.hash_ids)} ids, not the {blocks} that an input_length of {request.input_length} makes "
                f"in blocks of {self._block_tokens} tokens"
            )
        if request.timestamp < self._time:
            raise ValueError(f"timestamp {request.timestamp} is before the {self._time} of an earlier line")
        known, parent = self.parents, NO_PARENT
        for block in request.hash_ids:
            before = known.get(block, parent)
            if before != parent:
                raise ValueError(f"id {block} follows {_parent_name(parent)} here and {_parent_name(before)} on an earlier line")
            parent = block


def _parent_name(block: int) -> str:
    return "no block" if block == NO_PARENT else f"id {block}"


def _said(failure: BaseException) -> str:
    """What the system said, in words for a message."""
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror[0].lower() + failure.strerror[1:]
    if isinstance(failure, EOFError):
        return "the gzip data ends too early"
    text = str(failure) or type(failure).__name__
    return f"bad gzip data ({text})" if isinstance(failure, (zlib.error, gzip.BadGzipFile)) else text


# --------------------------------------------------------------------------------------------------------------------------------
# The form of a line: each problem is a ValueError whose text is the reason


def _well_formed(line: bytes, first: bool) -> Request:
    """The request that the line states, looked at for itself."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the line is longer than {MAX_LINE_BYTES} bytes")
    if first and line.startswith(_BYTE_ORDER_MARK):
        raise ValueError("begins with a byte-order mark; save it as UTF-8 without one")
    fields = _fields(line)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise ValueError(f"no field {', '.join(map(repr, missing))}")
    timestamp, input_length, output_length = (_whole(fields[name], name) for name in _FIELDS[:3])
    return Request(timestamp, input_length, output_length, _ids(fields["hash_ids"]))


def _fields(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise ValueError(f"not UTF-8 (byte 0x{line[bad.start]:02x} at column {bad.start + 1})") from None
    if not text.strip():
        raise ValueError("the line is blank")
    try:
        fields = _DECODER.decode(text)
    except json.JSONDecodeError as bad:
        raise ValueError(f"not JSON ({bad.msg} at column {bad.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except _ReasonError:
        raise
    except ValueError:  # Python's own limit
        raise ValueError("a number with too many digits") from None
    if not isinstance(fields, dict):
        raise ValueError(f"a JSON object is wanted, not {_kind(fields)}")
    return fields


class _ReasonError(ValueError):
    """Raised inside the decoder by us, told apart from what it raises itself."""


def _refuse_constant(name: str) -> Any:
    raise _ReasonError(f"{name} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _ReasonError(f"field {_repeated(name for name, _value in pairs)!r} is given twice")
    return fields


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_once)


def _repeated(items: Iterable[_T]) -> _T:
    """The first item that was there before."""
    seen: set[_T] = set()
    return next(item for item in items if item in seen or seen.add(item))  # type: ignore[func-returns-value]


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {str: "a string", int: "an integer", float: "a number with a fraction", list: "a list", dict: "an object"}
    return names[type(value)]


def _whole(value: object, name: str) -> int:
    """The value, if it is a whole number from 0 to MAX_INTEGER."""
    if type(value) is not int:
        raise ValueError(f"{name} must be an integer, not {_kind(value)}")
    if value < 0:
        raise ValueError(f"{name} is negative")
    if value > MAX_INTEGER:
        raise ValueError(f"{name} has more than 63 bits")
    return value


def _ids(value: object) -> tuple[int, ...]:
    if type(value) is not list:
        raise ValueError(f"hash_ids must be a list, not {_kind(value)}")
    if set(map(type, value)) <= {int} and (not value or (min(value) >= 0 and max(value) <= MAX_INTEGER)):
        ids = tuple(value)
    else:
        ids = tuple(_whole(item, f"hash_ids[{index}]") for index, item in enumerate(value))
    if len(set(ids)) != len(ids):
        raise ValueError(f"hash_ids names id {_repeated(ids)} twice")
    return ids
