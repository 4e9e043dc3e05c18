"""The hand-written codec of Produce equals the schema, and ignores other requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.error_codes import ProtocolError
from protocol.fast_path.plain_produce import (
    NO_ERRORS,
    answer,
    answer_one,
    parse,
    parse_one,
)
from protocol.framing import encode_response
from protocol.messages.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.primitives import unsigned_varint
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct

VERSIONS = range(9, 14)
ID = b"i" * 16


def batch(size: int = 1, **of: Any) -> bytes:
    builder = BatchBuilder(**of)
    builder.append(1, None, b"x" * size)
    return bytes(builder.build())


BATCH = batch()


def topic(version: int, data: list[tuple[int, bytes | None]], name: str = "t", topic_id: bytes = ID) -> Struct:
    named = {"name": name} if version < 13 else {"topic_id": topic_id}
    return TopicProduceData(
        **named, partition_data=[PartitionProduceData(index=index, records=records) for index, records in data]
    )


def encoded(version: int, topics: list[Struct], acks: int = 1, **fields: Any) -> bytes:
    request = PRODUCE.request(acks=acks, timeout_ms=1000, topic_data=topics, **fields)
    return bytes(PRODUCE.request.encode(version, request))


def topics_of(value: Struct) -> list[tuple[str, bytes, list[tuple[int, bytes]]]]:
    return [
        (each.name, each.topic_id, [(data.index, bytes(data.records)) for data in each.partition_data])
        for each in value.topic_data
    ]


def read(version: int, frame: memoryview, position: int = 0) -> tuple[int, list[Any]] | None:
    """Return the result of `parse` in the form of `topics_of`."""
    found = parse(version, frame, position)
    if found is None:
        return None
    acks, topics = found
    return acks, [
        (name, key if version >= 13 else bytes(16), [(index, bytes(records)) for index, records in partitions])
        for key, name, partitions in topics
    ]


@given(
    version=st.sampled_from(VERSIONS),
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=140),
    topic_id=st.binary(min_size=16, max_size=16),
    indexes=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=4),
    other=st.booleans(),
    acks=st.integers(-2, 2),
    size=st.sampled_from([0, 1, 57, 58, 59, 60, 16_310, 16_311, 16_312, 16_313, 16_314, 2_097_072, 2_097_082]),
    before=st.binary(max_size=20),
)
def test_decoded_request_equals_the_schema(
    version: int, name: str, topic_id: bytes, indexes: list[int], other: bool, acks: int, size: int, before: bytes
) -> None:
    """At every boundary of a length; long names are left to the schema."""
    records = batch(size)
    topics = [topic(version, [(index, records) for index in indexes], name, topic_id)]
    if other:
        topics.append(topic(version, [(1, BATCH)], "other", b"o" * 16))
    body = encoded(version, topics, acks)
    frame = memoryview(before + body)
    found = read(version, frame, len(before))
    one = parse_one(version, frame, len(before))
    if version < 13 and len(name.encode()) > 126:
        assert found is None
        assert one is None
        return

    value, _ = PRODUCE.request.decode(version, body)
    assert found == (acks, topics_of(value))
    assert (one is not None) == (len(indexes) == 1 and not other)
    if one is not None:
        key, length, index, data = one[1:]
        assert (one[0], [(length, key if version >= 13 else bytes(16), [(index, bytes(data))])]) == found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [126, 127, 128, 1000])
def test_hundreds_of_partitions_are_decoded(version: int, count: int) -> None:
    """Around the length at which the count needs a second byte."""
    frame = encoded(version, [topic(version, [(index, BATCH) for index in range(count)])])
    found = parse(version, memoryview(frame), 0)

    assert found is not None
    assert [index for index, _ in found[1][0][2]] == list(range(count))


@given(
    version=st.sampled_from(VERSIONS),
    names=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=3),
    counts=st.lists(st.integers(1, 3) | st.sampled_from([126, 127, 130]), min_size=3, max_size=3),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    numbers=st.tuples(st.integers(-(2**31), 2**31 - 1), *[st.integers(-(2**63), 2**63 - 1)] * 3),
)
def test_response_equals_the_schema(
    version: int, names: list[str], counts: list[int], correlation_id: int, numbers: tuple[int, int, int, int]
) -> None:
    """Byte for byte, for any numbers; with one partition by both functions."""
    index, base_offset, append_time_ms, start_offset = numbers
    partition = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time_ms=append_time_ms, log_start_offset=start_offset
    )
    topics, keys, flat = [], [], []
    for name, count in zip(names, counts, strict=False):
        topic_id = name.encode()[:16].ljust(16, b"\0")
        topics.append(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition] * count))
        raw = name.encode()
        keys.append((topic_id if version >= 13 else unsigned_varint(len(raw) + 1) + raw, count))
        flat += [index, base_offset, append_time_ms, start_offset, NO_ERRORS] * count
    expected = b"".join(
        bytes(chunk)  # type: ignore[arg-type]
        for chunk in encode_response(PRODUCE, version, correlation_id, PRODUCE.response(responses=topics))
    )

    assert answer(correlation_id, keys, flat) == expected
    if len(names) == 1 and counts[0] == 1:
        assert answer_one(correlation_id, keys[0][0], *numbers) == expected


def _marked(change: Callable[[bytearray], None]) -> bytes:
    data = bytearray(BATCH)
    change(data)
    return bytes(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_other_shapes_are_left_to_the_schema(version: int) -> None:
    """Alone, and after a plain partition."""
    one: tuple[int, bytes | None] = (0, BATCH)
    others: list[bytes] = [
        encoded(version, [topic(version, [one])], transactional_id="x"),
        encoded(version, []),
        encoded(version, [topic(version, [])]),
        encoded(version, [topic(version, [one]), topic(version, [])]),
    ]
    strange: list[bytes | None] = [
        None,
        b"",
        b"r" * 61,
        BATCH + BATCH,
        BATCH[:-1],
        BATCH + b"x",
        BATCH[:60],
        batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        _marked(lambda data: data.__setitem__(16, 1)),
    ]
    for records in strange:
        others.append(encoded(version, [topic(version, [(0, records)])]))
        others.append(encoded(version, [topic(version, [one, (1, records)])]))
    for other in others:
        assert parse(version, memoryview(other), 0) is None
        assert parse_one(version, memoryview(other), 0) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 3])
def test_extra_or_missing_bytes_are_left_to_the_schema(version: int, count: int) -> None:
    frame = encoded(version, [topic(version, [(index, batch(300)) for index in range(count)])])
    for function in (parse, parse_one):
        assert function(version, memoryview(frame + b"\0"), 0) is None
        for size in range(len(frame)):
            assert function(version, memoryview(frame[:size]), 0) is None


@given(version=st.sampled_from(VERSIONS), count=st.integers(1, 2), data=st.data())
def test_damaged_requests_equal_the_schema_or_are_left_to_it(version: int, count: int, data: st.DataObject) -> None:
    """One changed byte at any position."""
    records = batch(200)
    frame = bytearray(encoded(version, [topic(version, [(index, records) for index in range(count)], "topic")]))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    found = read(version, memoryview(frame))
    one = parse_one(version, memoryview(frame), 0)
    assert one is None or found is not None
    if found is None:
        return
    try:
        value, end = PRODUCE.request.decode(version, bytes(frame))
    except ProtocolError:
        pytest.fail("the schema refuses it")
    assert end == len(frame)
    assert value.transactional_id is None
    assert found == (value.acks, topics_of(value))


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_null_records_are_left_to_the_schema(version: int) -> None:
    """The length of null records would look like one of the ends."""
    frame = encoded(version, [topic(version, [(0, None)])])[:-1]

    assert parse(version, memoryview(frame), 0) is None
    assert parse_one(version, memoryview(frame), 0) is None
    with pytest.raises(ProtocolError, match="too early"):
        PRODUCE.request.decode(version, frame, 0)
