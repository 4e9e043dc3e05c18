"""Reading and writing frames."""

from __future__ import annotations

import pytest

from protocol.error_codes import ProtocolError
from protocol.framing import FrameTooLarge, encode_response, frame, frame_size, next_frame
from protocol.headers import encode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from protocol.messages.heartbeat import HEARTBEAT


def test_next_frame_byte_by_byte():
    """None until the last byte has arrived, then a view without a copy."""
    data = memoryview(frame(b"abc") + frame(b"") + b"\0")
    for end in range(7):
        assert next_frame(data, 0, end, 100) is None
    first = next_frame(data, 0, len(data), 100)
    assert first is not None
    view, position = first
    assert (view, position) == (b"abc", 7)
    assert view.obj is data.obj
    assert next_frame(data, position, len(data), 100) == (b"", 11)
    assert next_frame(data, 11, len(data), 100) is None


def test_frame_sizes_beyond_the_limit_or_below_zero():
    """Detected after four bytes, before anything is allocated."""
    assert frame_size(b"\0\0\0\x0a", 0, 4, 10) == 10
    with pytest.raises(FrameTooLarge) as caught:
        frame_size(b"\0\0\0\x0b", 0, 4, 10)
    assert (caught.value.size, caught.value.limit) == (11, 10)
    with pytest.raises(ProtocolError):
        frame_size(b"\xff\xff\xff\xff", 0, 4, 10)


@pytest.mark.parametrize(
    ("front", "guess"),
    [
        (b"\x16\x03\x01\x02", "allowed; it begins as TLS does"),
        (b"GET ", "allowed; it begins as HTTP does"),
        (b"ABCD", "allowed"),
    ],
)
def test_other_protocols_are_recognised_by_their_first_bytes(front: bytes, guess: str):
    """A size of 369,295,616 bytes does not show that a client uses TLS on a plaintext port."""
    with pytest.raises(FrameTooLarge, match=f"{guess}$"):
        frame_size(front, 0, 4, 100)


class Slice:
    """Stands for a range of a file."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("version", [11, 12])
def test_encode_response_with_file_slices(version: int):
    """The frame's size includes the slices, which are chunks without a copy."""
    part = Slice(1000)
    partition = PartitionData(partition_index=0, aborted_transactions=None, records=part)
    response = FETCH.response(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    chunks = encode_response(FETCH, version, 9, response)

    assert chunks[1] is part
    head = chunks[0]
    assert isinstance(head, bytes)
    assert int.from_bytes(head[:4], "big") == sum(len(chunk) for chunk in chunks) - 4
    header = encode_response_header(FETCH, version, 9)
    assert head[4 : 4 + len(header)] == header


@pytest.mark.parametrize(("api", "version"), [(HEARTBEAT, 0), (HEARTBEAT, 4), (API_VERSIONS, 3)])
def test_encode_response_of_small_answers_is_one_chunk(api, version: int):
    """Size, header and body."""
    response = api.response(error_code=1)
    body = api.response.encode(version, response)

    assert encode_response(api, version, 5, response) == [frame(encode_response_header(api, version, 5), body)]


def test_encode_response_does_not_copy_large_bodies():
    """The head of a large response is a separate chunk."""
    response = HEARTBEAT.response()
    large = API_VERSIONS.response(
        api_keys=[API_VERSIONS.response.fields[1].type.element(api_key=i) for i in range(2000)]  # type: ignore[union-attr]
    )

    assert len(encode_response(HEARTBEAT, 4, 5, response)) == 1
    head, body = encode_response(API_VERSIONS, 0, 5, large)
    assert len(head) == 8
    assert body == API_VERSIONS.response.encode(0, large)


def test_negative_size_is_reported_with_its_sign() -> None:
    assert str(FrameTooLarge(0xFFFFFFFF, 100)) == "a frame of -1 bytes, where 0 to 100 are allowed"
