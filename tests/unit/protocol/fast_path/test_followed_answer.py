"""The hand-written decoder of responses to followers equals the schema, and ignores other responses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.error_codes import ProtocolError
from protocol.fast_path.followed_answer import decode
from protocol.messages.fetch import (
    FETCH,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.schema import Struct

VERSIONS = (17, 18)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def partition(index: int = 0, records: bytes = b"", **fields: Any) -> Struct:
    values = {"high_watermark": 5, "last_stable_offset": 4, "log_start_offset": 1, "aborted_transactions": None}
    return PartitionData(partition_index=index, records=records, **{**values, **fields})


def encoded(version: int, *topics: list[Struct], **fields: Any) -> bytes:
    responses = [
        FetchableTopicResponse(topic_id=bytes([number]) * 16, partitions=each) for number, each in enumerate(topics)
    ]
    return bytes(FETCH.response.encode(version, FETCH.response(responses=responses, **fields)))


@given(
    version=st.sampled_from(VERSIONS),
    counts=st.lists(st.integers(0, 3) | st.sampled_from([126, 127, 128]), max_size=3),
    offsets=st.tuples(INT64, INT64, INT64),
    size=st.integers(0, 3) | st.sampled_from([126, 127, 128, 20_000]),
    session_id=st.integers(0, (1 << 31) - 1),
    before=st.binary(max_size=20),
    is_none=st.booleans(),
)
def test_decoded_response_equals_the_schema(
    version: int,
    counts: list[int],
    offsets: tuple[int, int, int],
    size: int,
    session_id: int,
    before: bytes,
    is_none: bool,
) -> None:
    high_watermark, stable, start = offsets
    of = {
        "high_watermark": high_watermark,
        "last_stable_offset": stable,
        "log_start_offset": start,
        "aborted_transactions": None if is_none else [],
    }
    topics = [[partition(index, bytes([index]) * size, **of) for index in range(count)] for count in counts]
    body = memoryview(before + encoded(version, *topics, session_id=session_id, throttle_time_ms=3))
    found = decode(body, len(before))
    assert found is not None
    answer, end = found
    expected, expected_end = FETCH.response.decode(version, body, len(before))
    assert (end, answer.error_code, answer.session_id) == (expected_end, 0, expected.session_id)
    assert [each.topic_id for each in answer.responses] == [each.topic_id for each in expected.responses]
    assert list(map(values_of, answer.responses)) == list(map(values_of, expected.responses))


def values_of(topic: Any) -> list[tuple[object, ...]]:
    return [
        (
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.log_start_offset,
            bytes(each.records),
            each.diverging_epoch.epoch,
            each.diverging_epoch.end_offset,
        )
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": 6},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=2)},
        {"current_leader": LeaderIdAndEpoch(leader_id=1, leader_epoch=2)},
        {"aborted_transactions": [AbortedTransaction(producer_id=1, first_offset=2)]},
        {"records": None},
    ],
)
def test_other_partitions_are_left_to_the_schema(fields: dict[str, Any]) -> None:
    body = memoryview(encoded(17, [partition(0, b"r" * 200), partition(1, **fields)]))
    assert decode(body, 0) is None


@pytest.mark.parametrize(
    "fields", [{"error_code": 71}, {"node_endpoints": [NodeEndpoint(node_id=1, host="h", port=2)]}]
)
def test_other_responses_are_left_to_the_schema(fields: dict[str, Any]) -> None:
    assert decode(memoryview(encoded(17, [partition()], **fields)), 0) is None


def test_damaged_responses_are_left_to_the_schema() -> None:
    body = encoded(17, [partition(0, b"r" * 200), partition(1)], [partition()])
    assert decode(memoryview(body), 0) is not None
    for size in range(len(body)):
        found = decode(memoryview(body[:size]), 0)
        if found is not None:  # the schema finds no damage either
            FETCH.response.decode(17, memoryview(body[:size]), 0)


@given(st.binary(max_size=200))
def test_no_bytes_are_read_that_the_schema_refuses(body: bytes) -> None:
    found = decode(memoryview(body), 0)
    if found is not None:
        try:
            _, end = FETCH.response.decode(17, memoryview(body), 0)
        except ProtocolError as error:
            raise AssertionError(body) from error
        assert found[1] == end
