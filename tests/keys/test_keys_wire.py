"""The lookup channel: every message reads back, and what is malformed is refused (KEY-3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvprefix.errors import KeyInputError, WireFormatError
from kvprefix.keys.wire import (
    LookupReply,
    LookupRequest,
    ResetRequest,
    TailBoundary,
    decode_reply,
    decode_request,
    decode_reset_reply,
    encode_reply,
    encode_request,
    encode_reset_reply,
    lookup_address,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=100)
U32 = st.integers(0, (1 << 32) - 1)


@st.composite
def requests(draw: Any) -> LookupRequest:
    length = draw(st.integers(1, 40))
    return LookupRequest(draw(U32), tuple(draw(st.lists(st.binary(min_size=length, max_size=length), max_size=5))))


@FIXED
@given(requests() | st.just(ResetRequest()))
def test_a_request_reads_back(request: LookupRequest | ResetRequest) -> None:
    assert decode_request(encode_request(request)) == request


@FIXED
@given(st.builds(LookupReply, U32, st.lists(st.builds(TailBoundary, U32, U32), max_size=4).map(tuple)))
def test_a_reply_reads_back(reply: LookupReply) -> None:
    assert decode_reply(encode_reply(reply)) == reply


@FIXED
@given(st.binary(max_size=40))
def test_a_payload_is_refused_or_is_what_encoding_makes(payload: bytes) -> None:
    try:
        reply = decode_reply(payload)
    except WireFormatError:
        assert len(payload) < 4 or len(payload) % 8 != 4
    else:
        assert encode_reply(reply) == payload


def test_no_hashes_travel_as_length_0() -> None:
    assert encode_request(LookupRequest(7, ())) == [b"lookup", b"\0\0\0\7", b"\0\0", b""]


@pytest.mark.parametrize("done", [True, False])
def test_a_reset_is_answered(done: bool) -> None:
    assert decode_reset_reply(encode_reset_reply(done)) is done
    assert decode_reset_reply(b"nonsense") is False


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"look"],
        [b"lookup"],
        [b"reset", b""],
        [b"lookup", b"\0" * 4, b"\0\4", b"abcd", b""],
        [b"lookup", b"\0" * 3, b"\0\4", b"abcd"],
        [b"lookup", b"\0" * 4, b"\4", b"abcd"],
        [b"lookup", b"\0" * 4, b"\0\4", b"abcde"],
        [b"lookup", b"\0" * 4, b"\0\0", b"abcd"],
    ],
)
def test_malformed_requests_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(WireFormatError):
        decode_request(frames)


@pytest.mark.parametrize(
    "make",
    [
        lambda: encode_request(LookupRequest(1 << 32, ())),
        lambda: encode_request(LookupRequest(-1, ())),
        lambda: encode_request(LookupRequest(1, (b"ab", b"abc"))),
        lambda: encode_request(LookupRequest(1, (bytes(1 << 16),))),
        lambda: encode_reply(LookupReply(-1)),
        lambda: encode_reply(LookupReply(0, (TailBoundary(1 << 32, 0),))),
    ],
)
def test_what_does_not_fit_is_refused(make: Any) -> None:
    with pytest.raises(KeyInputError):
        make()


def test_the_address_names_port_host_and_data_parallel_rank() -> None:
    assert lookup_address("/run/x", 0, "h", 3) == "ipc:///run/x/lookup_rpc_port_0_host_h_dp_rank3"
