"""The hand-written decoder of Fetch for many partitions equals the schema, and ignores other requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.error_codes import ProtocolError
from protocol.fast_path.plain_fetch import FIRST_VERSION, PlainFetch, parse
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.schema import Struct

VERSIONS = range(FIRST_VERSION, 19)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def topic(count: int, topic_id: bytes = b"i" * 16, **of: Any) -> Struct:
    return FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=index, **of) for index in range(count)])


def encoded(version: int, *topics: Struct, **fields: Any) -> bytes:
    if version < 15:
        fields.setdefault("replica_id", -1)
    return bytes(FETCH.request.encode(version, FETCH.request(**{"max_wait_ms": 5, "topics": list(topics), **fields})))


def by_schema(version: int, body: bytes) -> tuple[Any, ...]:
    """Return the request that the schema decodes, in the form of `parse`."""
    request, end = FETCH.request.decode(version, body)
    assert end == len(body)
    return (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [(each.topic_id, [fields_of(part) for part in each.partitions]) for each in request.topics],
    )


def fields_of(part: Struct) -> tuple[int, ...]:
    return (
        part.partition,
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        part.log_start_offset,
        part.partition_max_bytes,
    )


def as_tuple(found: PlainFetch) -> tuple[Any, ...]:
    """Return the request without the counts of tagged fields."""
    return (*found[:-1], [(topic_id, [part[:-1] for part in parts]) for topic_id, parts in found[-1]])


@given(
    version=st.sampled_from(VERSIONS),
    counts=st.lists(st.integers(0, 3) | st.sampled_from([126, 127, 128, 300]), max_size=3),
    numbers=st.tuples(*[INT32] * 8),
    offsets=st.tuples(INT64, INT64),
    isolation_level=st.integers(-128, 127),
    before=st.binary(max_size=20),
)
def test_decoded_request_equals_the_schema(
    version: int,
    counts: list[int],
    numbers: tuple[int, ...],
    offsets: tuple[int, int],
    isolation_level: int,
    before: bytes,
) -> None:
    wait, least, most, session, epoch, leader, fetched, partition_most = numbers
    of = {
        "current_leader_epoch": leader,
        "fetch_offset": offsets[0],
        "last_fetched_epoch": fetched,
        "log_start_offset": offsets[1],
        "partition_max_bytes": partition_most,
    }
    body = encoded(
        version,
        *[topic(count, bytes([number]) * 16, **of) for number, count in enumerate(counts)],
        max_wait_ms=wait,
        min_bytes=least,
        max_bytes=most,
        isolation_level=isolation_level,
        session_id=session,
        session_epoch=epoch,
    )
    found = parse(version, memoryview(before + body), len(before))

    assert found is not None
    assert as_tuple(found) == by_schema(version, body)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_other_shapes_are_left_to_the_schema(version: int) -> None:
    """A rack, forgotten topics, a follower, tagged fields, extra bytes, missing bytes at any position."""
    others = [
        encoded(version, topic(2), rack_id="r"),
        encoded(version, topic(2), forgotten_topics_data=[ForgottenTopic(topic_id=b"i" * 16, partitions=[1])]),
        encoded(version, topic(2), cluster_id="c"),
        encoded(version, topic(2), replica_id=3)
        if version < 15
        else encoded(version, topic(2), replica_state=ReplicaState(replica_id=3)),
        encoded(version, topic(2)) + b"\0",
    ]
    whole = encoded(version, topic(2), topic(1, b"o" * 16))
    for body in others + [whole[:size] for size in range(len(whole))]:
        assert parse(version, memoryview(body), 0) is None


@pytest.mark.parametrize("version", range(17, 19))
def test_tagged_fields_of_partitions_are_detected(version: int) -> None:
    """Either by their count, or because the next field is then wrong."""
    part = FetchPartition(partition=0, replica_directory_id=b"d" * 16)
    found = parse(version, memoryview(encoded(version, FetchTopic(topic_id=b"i" * 16, partitions=[part]))), 0)

    assert found is None or found[-1][0][1][0][-1]


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_damaged_requests_equal_the_schema_or_are_left_to_it(version: int, data: st.DataObject) -> None:
    """One changed byte at any position."""
    body = bytearray(encoded(version, topic(2), topic(1, b"o" * 16)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    found = parse(version, memoryview(body), 0)
    if found is None or any(part[-1] for _, parts in found[-1] for part in parts):
        return
    try:
        assert as_tuple(found) == by_schema(version, bytes(body))
    except ProtocolError:
        pytest.fail("the schema refuses it")
