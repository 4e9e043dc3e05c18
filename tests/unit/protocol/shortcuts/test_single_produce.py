"""The hand-shaped path of Produce says what the schema says, and nothing about requests of any other shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.framing import encode_response
from protocol.messages.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.primitives import ZERO_UUID
from protocol.shortcuts.single_produce import SingleProduces

VERSIONS = range(9, 14)


def request(version, *, name="t", topic_id=b"i" * 16, index=0, acks=1, timeout_ms=1000, records=b"r", **fields):
    named = {"name": name} if version < 13 else {"topic_id": topic_id}
    topic = TopicProduceData(**named, partition_data=[PartitionProduceData(index=index, records=records)])
    return PRODUCE.request(**{"acks": acks, "timeout_ms": timeout_ms, "topic_data": [topic], **fields})


@given(
    version=st.sampled_from(VERSIONS),
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=140),
    topic_id=st.binary(min_size=16, max_size=16),
    index=st.integers(-(2**31), 2**31 - 1),
    acks=st.integers(-2, 2),
    timeout_ms=st.integers(0, 2**31 - 1),
    size=st.sampled_from([1, 61, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151, 2_097_152]),
    before=st.binary(max_size=20),
)
def test_what_it_reads_is_what_the_schema_reads(version, name, topic_id, index, acks, timeout_ms, size, before):
    """Head by head, at every boundary of a length; long names are left to the schema."""
    records = bytes([index & 0xFF]) * size
    value = request(
        version, name=name, topic_id=topic_id, index=index, acks=acks, timeout_ms=timeout_ms, records=records
    )
    frame = memoryview(before + PRODUCE.request.encode(version, value))
    parts = SingleProduces(version).read(frame, len(before))
    if version < 13 and len(name.encode()) > 126:
        assert parts is None
        return

    assert parts is not None
    assert bytes(parts[1]) == records
    single = parts[0]
    assert (single.index, single.acks) == (index, acks)
    assert (single.topic, single.topic_id) == ((name, ZERO_UUID) if version < 13 else ("", topic_id))


@given(
    version=st.sampled_from(VERSIONS),
    name=st.text(min_size=1, max_size=100),
    index=st.integers(-(2**31), 2**31 - 1),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    numbers=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3),
)
def test_what_it_answers_is_what_the_schema_answers(version, name, index, correlation_id, numbers):
    """Byte for byte, whatever the numbers."""
    frame = PRODUCE.request.encode(version, request(version, name=name, index=index))
    parts = SingleProduces(version).read(memoryview(frame), 0)
    if parts is None:
        return
    single = parts[0]
    base_offset, log_append_time_ms, log_start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = TopicProduceResponse(name=single.topic, topic_id=single.topic_id, partition_responses=[partition])
    expected = encode_response(PRODUCE, version, correlation_id, PRODUCE.response(responses=[topic]))

    assert b"".join(expected) == single.answer(correlation_id, *numbers)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_shapes_are_none_of_its_business(version):
    """A transactional id, none or several topics or partitions, no records, bytes left over, truncated anywhere."""
    one = PartitionProduceData(index=0, records=b"r")
    named = {"name": "t"} if version < 13 else {"topic_id": b"i" * 16}
    topic = TopicProduceData(**named, partition_data=[one])
    others = [
        request(version, transactional_id="x"),
        request(version, topic_data=[]),
        request(version, topic_data=[topic, topic]),
        request(version, topic_data=[TopicProduceData(**named, partition_data=[])]),
        request(version, topic_data=[TopicProduceData(**named, partition_data=[one, one])]),
        request(version, records=None),
    ]
    for other in others:
        assert SingleProduces(version).read(memoryview(PRODUCE.request.encode(version, other)), 0) is None

    frame = PRODUCE.request.encode(version, request(version, records=b"r" * 300))
    assert SingleProduces(version).read(memoryview(frame + b"\0"), 0) is None
    for size in range(len(frame)):
        assert SingleProduces(version).read(memoryview(frame[:size]), 0) is None


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_damaged_requests_are_read_as_the_schema_reads_them_or_not_at_all(version, data):
    """A byte changed anywhere."""
    frame = bytearray(PRODUCE.request.encode(version, request(version, name="topic", records=b"record" * 30)))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    parts = SingleProduces(version).read(memoryview(frame), 0)
    if parts is None:
        return
    single = parts[0]
    try:
        value, end = PRODUCE.request.decode(version, bytes(frame))
    except ProtocolError:
        pytest.fail("the schema refuses it")
    assert end == len(frame)
    (topic,) = value.topic_data
    (partition,) = topic.partition_data
    assert value.transactional_id is None
    assert (topic.name, topic.topic_id, partition.index, value.acks) == (
        single.topic,
        single.topic_id,
        single.index,
        single.acks,
    )
    assert bytes(partition.records) == bytes(parts[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_whose_end_is_missing_are_left_to_the_schema(version):
    """The length of the records, none, would pass for one of the ends."""
    frame = PRODUCE.request.encode(version, request(version, records=None))[:-1]

    assert SingleProduces(version).read(memoryview(frame), 0) is None
    with pytest.raises(ProtocolError, match="too early"):
        PRODUCE.request.decode(version, frame, 0)


def test_a_head_is_read_once_where_it_was_learned():
    frame = memoryview(PRODUCE.request.encode(9, request(9)))
    produces = SingleProduces(9)
    first, second = produces.read(frame, 0)[0], produces.read(frame, 0)[0]
    assert first is not second
    produces.learn(second)
    assert produces.read(frame, 0)[0] is second
