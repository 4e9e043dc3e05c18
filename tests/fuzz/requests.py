"""Frames and requests, as `broker/network` and `broker/requests/dispatcher.py` process them."""

from __future__ import annotations

from protocol.error_codes import EncodeError, ProtocolError
from protocol.fast_path.plain_fetch import parse as parse_plain_fetch
from protocol.fast_path.plain_produce import FIRST_VERSION as FIRST_PLAIN_PRODUCE
from protocol.fast_path.plain_produce import parse as parse_plain_produce
from protocol.fast_path.plain_produce import parse_one as parse_one_produce
from protocol.fast_path.single_commit import parse as parse_single_commit
from protocol.fast_path.single_fetch import FIRST_VERSION as FIRST_SINGLE_FETCH
from protocol.fast_path.single_fetch import parse as parse_single_fetch
from protocol.fast_path.single_list_offsets import FIRST_VERSION as FIRST_SINGLE_LIST
from protocol.fast_path.single_list_offsets import parse as parse_single_list
from protocol.framing import next_frame
from protocol.headers import decode_request_header
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from protocol.schema import Message, Struct

_LIMIT = 1 << 20
_FETCH_KEY = 1


def frames(data: bytes) -> None:
    """Frames on a connection, one after the other."""
    view, position = memoryview(data), 0
    try:
        while (found := next_frame(view, position, len(data), _LIMIT)) is not None:
            frame, following = found
            assert following == position + 4 + len(frame), "a frame ends where the next one begins"
            position = following
            request(frame)
    except ProtocolError:
        return


def request(data: bytes | memoryview) -> None:
    """Decode one request without its size. A decoded request must round-trip."""
    frame = memoryview(data)
    try:
        header = decode_request_header(frame)
    except ProtocolError:
        return
    api, version = API_BY_KEY[header.api_key], header.api_version
    if version not in api.versions:
        return
    _fast_paths(api.key, version, frame, header.position)
    try:
        value, end = api.request.decode(version, frame, header.position)
    except ProtocolError:
        return
    assert header.position <= end <= len(frame), "a request ends in its frame"
    _written_and_read(api.request, version, value)


def _written_and_read(message: Message, version: int, value: Struct) -> None:
    try:
        written = message.encode(version, value)
    except EncodeError:  # replacement characters take more bytes than the invalid ones
        return
    again, end = message.decode(version, written)
    assert end == len(written), "what is written is read to its end"
    assert message.encode(version, again) == written, "what is read again is the same"


def _fast_paths(key: int, version: int, frame: memoryview, position: int) -> None:
    """The fast paths for frequent requests decode these bytes or return None."""
    if key == PRODUCE.key and version >= FIRST_PLAIN_PRODUCE:
        found = parse_plain_produce(version, frame, position)
        if found is not None:
            value, _ = PRODUCE.request.decode(version, frame, position)
            read = [(index, bytes(records)) for _, _, wanted in found[1] for index, records in wanted]
            assert read == [(each.index, each.records) for topic in value.topic_data for each in topic.partition_data]
        one = parse_one_produce(version, frame, position)
        assert one is None or found is not None, "what one function reads, the other reads"
    elif key == OFFSET_COMMIT.key and version in OFFSET_COMMIT.request.flexible:
        parse_single_commit(version, frame, position)
    elif key == _FETCH_KEY and version >= FIRST_SINGLE_FETCH:
        parse_single_fetch(version, frame, position)
        parse_plain_fetch(version, frame, position)
    elif key == LIST_OFFSETS.key and version >= FIRST_SINGLE_LIST:
        parse_single_list(version, frame, position)
