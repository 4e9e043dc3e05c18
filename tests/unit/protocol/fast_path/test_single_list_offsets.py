"""The hand-written codec of ListOffsets equals the schema, and ignores requests of any other shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.fast_path.single_list_offsets import (
    FIRST_VERSION,
    SingleListOffsets,
    answer,
    parse,
)
from protocol.framing import encode_response
from protocol.messages.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

VERSIONS = range(FIRST_VERSION, 12)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
text = st.text(st.characters(codec="utf-8"), max_size=140)


def body_of(version: int, *, topic: str = "t", partitions: int = 1, topics: int = 1, **more: Any) -> bytes:
    of_partition = {name: more.pop(name) for name in ("timestamp", "current_leader_epoch", "index") if name in more}
    index = of_partition.pop("index", 0)
    wanted = [ListOffsetsPartition(partition_index=index, **{"timestamp": -1, **of_partition})] * partitions
    request = LIST_OFFSETS.request(
        **{"replica_id": -1, "topics": [ListOffsetsTopic(name=topic, partitions=wanted)] * topics, **more}
    )
    return bytes(LIST_OFFSETS.request.encode(version, request))


def read(version: int, body: bytes) -> SingleListOffsets | None:
    return parse(version, memoryview(b"header" + body), 6)


@given(st.sampled_from(VERSIONS), text, INT32, INT32, INT64, st.integers(0, 127), INT32)
def test_decoded_request_equals_the_schema(
    version: int, topic: str, index: int, epoch: int, timestamp: int, isolation: int, timeout_ms: int
) -> None:
    """Long names are left to the schema."""
    more = {"timeout_ms": timeout_ms} if version >= 10 else {}
    fields = {"topic": topic, "index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
    found = read(version, body_of(version, **fields, isolation_level=isolation, **more))
    name = topic.encode()
    if len(name) > 126:
        assert found is None
        return
    assert found == SingleListOffsets(topic, name, index, epoch, timestamp, isolation)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_request_shapes_return_none(version: int) -> None:
    """No or several topics or partitions, a follower's request, a truncated one or one with extra bytes."""
    whole = body_of(version)
    others = [body_of(version, partitions=count) for count in (0, 2)] + [body_of(version, topics=n) for n in (0, 2)]
    others += [body_of(version, replica_id=0), *(whole[:end] for end in range(len(whole))), whole + b"\0"]
    assert {read(version, each) for each in others} == {None}
    assert read(version, whole) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_tagged_fields_are_left_to_the_schema(version: int) -> None:
    """The field in their place may have the length of a request."""
    whole = body_of(version)
    timeout = 4 if version >= 10 else 0
    for at in (1, 2 + timeout, 3 + timeout):
        tagged = whole[:-at] + b"\1" + whole[len(whole) - at + 1 :]
        assert read(version, tagged) is None
    assert read(version, body_of(version, topic="\0\1").replace(b"\0\1", b"\xff\1")) is None  # invalid UTF-8


@given(st.sampled_from(VERSIONS), text.filter(lambda each: len(each.encode()) <= 126), INT32, INT64, INT32, INT32)
def test_list_offsets_response_equals_the_schema(
    version: int, topic: str, index: int, offset: int, epoch: int, correlation_id: int
) -> None:
    request = SingleListOffsets(topic, topic.encode(), index, -1, -1, 0)
    partition = ListOffsetsPartitionResponse(partition_index=index, offset=offset, leader_epoch=epoch)
    response = LIST_OFFSETS.response(topics=[ListOffsetsTopicResponse(name=topic, partitions=[partition])])
    expected = b"".join(encode_response(LIST_OFFSETS, version, correlation_id, response))  # type: ignore[arg-type]
    assert answer(correlation_id, request, offset, epoch) == expected
