"""The hand-written decoder and encoder of followers' fetches equal the schema; the decoder ignores other requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.fast_path.follower_fetch import FIRST_VERSION, encode, parse
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.schema import Struct

VERSIONS = range(FIRST_VERSION, 19)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FOLLOWER = ReplicaState(replica_id=2, replica_epoch=7)


def topic(count: int, topic_id: bytes = b"i" * 16, **of: Any) -> Struct:
    return FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=index, **of) for index in range(count)])


def encoded(version: int, *topics: Struct, **fields: Any) -> bytes:
    values = {"max_wait_ms": 5, "topics": list(topics), "replica_state": FOLLOWER, **fields}
    return bytes(FETCH.request.encode(version, FETCH.request(**values)))


@given(
    version=st.sampled_from(VERSIONS),
    counts=st.lists(st.integers(0, 3) | st.sampled_from([126, 127, 128, 300]), max_size=3),
    numbers=st.tuples(*[INT32] * 8),
    offsets=st.tuples(INT64, INT64, INT64),
    replica_id=st.integers(0, (1 << 31) - 1),
    before=st.binary(max_size=20),
)
def test_decoded_request_equals_the_schema(
    version: int,
    counts: list[int],
    numbers: tuple[int, ...],
    offsets: tuple[int, int, int],
    replica_id: int,
    before: bytes,
) -> None:
    wait, least, most, session, epoch, leader, last, partition_most = numbers
    fetched, start, replica_epoch = offsets
    of = {
        "current_leader_epoch": leader,
        "fetch_offset": fetched,
        "last_fetched_epoch": last,
        "log_start_offset": start,
        "partition_max_bytes": partition_most,
    }
    body = encoded(
        version,
        *(topic(count, bytes([number]) * 16, **of) for number, count in enumerate(counts)),
        max_wait_ms=wait,
        min_bytes=least,
        max_bytes=most,
        isolation_level=1,
        session_id=session,
        session_epoch=epoch,
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
    )
    expected = [
        (bytes([number]) * 16, [(index, leader, fetched, last, start, partition_most, 0) for index in range(count)])
        for number, count in enumerate(counts)
    ]
    found = parse(memoryview(before + body), len(before))
    assert found == (wait, least, most, 1, session, epoch, replica_id, replica_epoch, expected)


@given(
    counts=st.lists(st.integers(1, 3) | st.sampled_from([126, 127, 128, 300]), max_size=3),
    numbers=st.tuples(*[INT32] * 7),
    epoch=INT64,
)
def test_encoded_request_is_the_one_that_is_decoded(counts: list[int], numbers: tuple[int, ...], epoch: int) -> None:
    wait, least, most, session, session_epoch, leader, last = numbers
    topics = {
        bytes([number]) * 16: [(index, leader, epoch, last, number, most, 0) for index in range(count)]
        for number, count in enumerate(counts)
    }
    body = encode(wait, least, most, (session, session_epoch), (2, epoch), topics)
    assert body is not None
    found = parse(memoryview(body), 0)
    assert found == (wait, least, most, 0, session, session_epoch, 2, epoch, list(topics.items()))
    for version in VERSIONS:
        request, end = FETCH.request.decode(version, body)
        assert (end, bytes(FETCH.request.encode(version, request))) == (len(body), body)


def test_many_topics_are_left_to_the_schema() -> None:
    topics = {bytes([number]) * 16: [(0, 1, 2, 3, 4, 5, 0)] for number in range(127)}
    assert encode(1, 1, 1, (1, 1), (2, 3), topics) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"replica_state": ReplicaState(replica_id=-1, replica_epoch=-1)},
        {"replica_state": ReplicaState(replica_id=-1, replica_epoch=3)},
        {"forgotten_topics_data": [ForgottenTopic(topic_id=b"f" * 16, partitions=[1])]},
        {"rack_id": "r"},
        {"cluster_id": "c"},
        {"topics": [topic(1, replica_directory_id=b"d" * 16)]},
    ],
)
def test_other_requests_are_left_to_the_schema(fields: dict[str, Any]) -> None:
    values = {"topics": [topic(2)], **fields}
    body = encoded(18, *values.pop("topics"), **values)
    assert parse(memoryview(body), 0) is None


def test_damaged_requests_are_left_to_the_schema() -> None:
    body = encoded(17, topic(2), topic(130))
    assert parse(memoryview(body), 0) is not None
    for size in range(len(body)):
        assert parse(memoryview(body[:size]), 0) is None
    for position in range(30):
        for value in (0, 127, 128, 255):
            damaged = bytearray(body)
            damaged[position] = value
            parse(memoryview(damaged), 0)  # raises nothing


@given(st.binary(max_size=200))
def test_no_bytes_raise_an_error(body: bytes) -> None:
    parse(memoryview(body), 0)
    parse(memoryview(body + b"\1\1\1\1\x0d" + bytes(13)), 0)
