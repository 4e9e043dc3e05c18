"""The number of elements of a request is limited, because each costs time on the event loop."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.decoder import compile_decoder
from protocol.error_codes import ProtocolError
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.metadata import METADATA
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.primitives import MAX_UNKNOWN_TAGGED_FIELDS, int8, int32, string, unsigned_varint, uuid
from protocol.registry import API_BY_KEY
from protocol.schema import MAX_REQUEST_ELEMENTS, Array, Field, Message, StructType

Inner = StructType("Inner", Field("numbers", Array(int32)))
Outer = StructType("Outer", Field("inner", Array(Inner)))


def limited(*fields: Field) -> Message:
    """A message with versions 0 (old encoding) and 1 (flexible) that may have ten elements."""
    return Message("M", *fields, versions="0-1", flexible="1+", max_elements=10)


@pytest.mark.parametrize(
    ("kind", "element", "most"),
    [(int8, 1, 87), (int32, 1, 87), (uuid, bytes(range(16)), 10), (string, "a", 10), (Inner, Inner(), 10)],
    ids=["int8", "int32", "uuid", "string", "struct"],
)
def test_arrays_of_any_kind_count_their_elements(kind: object, element: object, most: int) -> None:
    """Each counts as one; eight numbers count as one."""
    m = limited(Field("f", Array(kind)))  # type: ignore[arg-type]
    for version in (0, 1):
        assert m.decode(version, m.encode(version, m(f=[element] * most)))[0] == m(f=[element] * most)
        with pytest.raises(ProtocolError, match="more than 10 elements"):
            m.decode(version, m.encode(version, m(f=[element] * (most + 1))))


def test_elements_of_all_arrays_count_together() -> None:
    """In any place: 1 and 3 and 6 are allowed, but no more."""
    m = limited(Field("outer", Array(Outer)), Field("last", Array(string)))
    inner = [Inner(numbers=[1] * 16) for _ in range(3)]
    for version in (0, 1):
        whole = m(outer=[Outer(inner=inner)])
        assert m.decode(version, m.encode(version, whole))[0] == whole
        whole.last = ["a"]
        with pytest.raises(ProtocolError, match="more than 10 elements"):
            m.decode(version, m.encode(version, whole))


def test_tagged_fields_count_too() -> None:
    """Known fields, which may repeat, and unknown ones; a negative count is an error, as in Kafka since 4.4."""
    for m in (limited(Field("n", int8)), limited(Field("n", int8), Field("late", int8, "1+", tag=3))):
        for tag in (b"\x03\x01\x07", b"\x09\x01\x07"):
            encoded = b"\x05" + unsigned_varint(10) + tag * 10
            assert m.decode(1, encoded)[1] == len(encoded)
            with pytest.raises(ProtocolError, match="more than 10 elements"):
                m.decode(1, b"\x05" + unsigned_varint(11) + tag * 11)
        with pytest.raises(ProtocolError):
            m.decode(1, b"\x05" + bytes.fromhex("fdffffff0f"))


def test_tagged_fields_of_elements_count_too() -> None:
    m = limited(Field("f", Array(Inner)))
    element = b"\x01" + b"\x04" + b"\x00\x00" * 4  # no numbers, four tagged fields
    assert len(m.decode(1, b"\x03" + element * 2 + b"\x00")[0].f) == 2
    with pytest.raises(ProtocolError, match="more than 10 elements"):
        m.decode(1, b"\x04" + element * 3 + b"\x00")


def test_rejected_value_does_not_affect_the_next_one() -> None:
    m = limited(Field("f", Array(string)))
    with pytest.raises(ProtocolError):
        m.decode(0, m.encode(0, m(f=["a"] * 11)))
    assert len(m.decode(0, m.encode(0, m(f=["a"] * 10)))[0].f) == 10


def test_stored_records_and_responses_have_no_limit() -> None:
    """Stored records and responses have no limit."""
    count = MAX_REQUEST_ELEMENTS + 1
    m = Message("M", Field("f", Array(string)), versions="0")
    assert len(m.decode(0, m.encode(0, m(f=[""] * count)))[0].f) == count


def test_every_request_and_embedded_message_has_the_limit() -> None:
    requests = [api.request for api in API_BY_KEY.values()]
    for m in (*requests, ConsumerProtocolSubscription, ConsumerProtocolAssignment):
        assert m.max_elements == MAX_REQUEST_ELEMENTS, m


def test_requests_of_100000_topics_are_accepted() -> None:
    """With one partition each."""
    topics = [
        OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])
        for _ in range(100_000)
    ]
    request = OFFSET_COMMIT.request(group_id="g", topics=topics)
    assert len(OFFSET_COMMIT.request.decode(8, OFFSET_COMMIT.request.encode(8, request))[0].topics) == 100_000


def test_requests_of_1000_groups_are_accepted() -> None:
    """One topic of a thousand partitions each, as a tool requests that monitors all of them."""
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(range(1_000)))
    groups = [OffsetFetchRequestGroup(group_id="g", topics=[topic]) for _ in range(1_000)]
    request = OFFSET_FETCH.request(groups=groups)
    assert len(OFFSET_FETCH.request.decode(9, OFFSET_FETCH.request.encode(9, request))[0].groups) == 1_000


def test_larger_request_is_rejected() -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    topic = bytes(16) + b"\x00" + b"\x00"  # topic id, no name, no tagged fields
    with pytest.raises(ProtocolError, match=f"more than {MAX_REQUEST_ELEMENTS} elements"):
        METADATA.request.decode(12, unsigned_varint(count + 1) + topic * count + bytes(4))


def test_requests_before_authentication_have_a_lower_limit() -> None:
    """Requests without arrays, as those of an authentication, have only their own tagged fields."""
    names = b"\x02a\x02b"
    for count in (MAX_UNKNOWN_TAGGED_FIELDS, MAX_UNKNOWN_TAGGED_FIELDS + 1):
        encoded = names + unsigned_varint(count) + bytes(2 * count)
        if count == MAX_UNKNOWN_TAGGED_FIELDS:
            assert API_VERSIONS.request.decode(3, encoded)[1] == len(encoded)
        else:
            with pytest.raises(ProtocolError, match="tagged fields"):
                API_VERSIONS.request.decode(3, encoded)


def test_arrays_of_one_number_need_no_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may request the offset of one partition of each of 65,000 topics."""
    formats: list[str] = []

    def unpack_from(layout: str, *args: Any) -> Any:
        formats.append(layout)
        return struct.unpack_from(layout, *args)

    counted = SimpleNamespace(Struct=struct.Struct, error=struct.error, unpack_from=unpack_from)
    monkeypatch.setattr("protocol.decoder.struct", counted)
    request = OFFSET_FETCH.request
    decode = compile_decoder(request, 9)
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=indexes) for indexes in ([], [7], [-8, 9], [3])]
    data = request.encode(9, request(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]))
    value, end = decode(bytes(data), 0)
    assert [topic.partition_indexes for topic in value.groups[0].topics] == [[], [7], [-8, 9], [3]]
    assert (end, formats) == (len(data), [">0i", ">2i"])
