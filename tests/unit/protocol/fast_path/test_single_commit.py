"""The hand-written codec of OffsetCommit equals the schema, and ignores requests of any other shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.fast_path.single_commit import (
    FIRST_VERSION,
    Offsets,
    SingleCommit,
    answer,
    parse,
)
from protocol.framing import encode_response
from protocol.messages.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.schema import Struct

VERSIONS = range(FIRST_VERSION, 11)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
text = st.text(st.characters(codec="utf-8"), max_size=140)
rows = st.lists(st.tuples(INT32, INT64, INT32), min_size=1, max_size=5)
ID = b"i" * 16


def request(version: int, offsets: list[tuple[int, int, int]], *, topic: str = "t", **fields: Any) -> Struct:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_leader_epoch=epoch)
        for index, offset, epoch in offsets
    ]
    named = {"name": topic} if version < 10 else {"topic_id": ID}
    topics = [OffsetCommitRequestTopic(**named, partitions=partitions)]
    return OFFSET_COMMIT.request(**{"group_id": "g", "member_id": "m", "topics": topics, **fields})


def read(version: int, body: bytes, before: bytes = b"") -> tuple[SingleCommit, Offsets] | None:
    """Return the result of the fast path for a body."""
    found = parse(version, memoryview(before + body), len(before))
    return None if found is None else (found, found.offsets)


@given(st.sampled_from(VERSIONS), text, text, st.none() | text, text, INT32, rows, st.binary(max_size=9))
def test_decoded_request_equals_the_schema(
    version: int,
    group: str,
    member: str,
    instance: str | None,
    topic: str,
    generation: int,
    offsets: list[tuple[int, int, int]],
    before: bytes,
) -> None:
    """Long names may be left to the schema; a fast path may still read some of them."""
    body = OFFSET_COMMIT.request.encode(
        version,
        request(
            version,
            offsets,
            topic=topic,
            group_id=group,
            member_id=member,
            group_instance_id=instance,
            generation_id_or_member_epoch=generation,
        ),
    )
    found = read(version, body, before)
    if found is None:
        assert max(len(each.encode()) for each in (group, member, instance or "", topic if version < 10 else "")) > 126
        return
    single, read_offsets = found
    assert list(zip(*read_offsets, strict=True)) == offsets
    assert (single.group_id, single.member_id, single.group_instance_id) == (group, member, instance)
    assert single.generation_id_or_member_epoch == generation
    assert (single.topic, single.topic_id) == ((topic, bytes(16)) if version < 10 else ("", ID))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [0, 16])
@pytest.mark.parametrize("topic", ["", "t", "x" * 126])
def test_response_equals_the_schema(version: int, code: int, topic: str) -> None:
    offsets = [(0, 5, -1), (700, 5, -1)]
    found = read(version, OFFSET_COMMIT.request.encode(version, request(version, offsets, topic=topic)))
    assert found is not None
    partitions = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, _, _ in offsets]
    named = {"name": topic} if version < 10 else {"topic_id": ID}
    response = OFFSET_COMMIT.response(topics=[OffsetCommitResponseTopic(**named, partitions=partitions)])
    assert [answer(77, found[0], code)] == encode_response(OFFSET_COMMIT, version, 77, response)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_another_shape_return_none(version: int) -> None:
    plain = request(version, [(0, 5, -1), (1, 6, -1)])
    assert read(version, OFFSET_COMMIT.request.encode(version, plain)) is not None
    with_metadata = request(version, [(0, 5, -1), (1, 6, -1)])
    with_metadata.topics[0].partitions[1].committed_metadata = "m"
    two_topics = request(version, [(0, 5, -1)])
    two_topics.topics *= 2
    many = request(version, [(index, 5, -1) for index in range(127)])
    for other in (with_metadata, two_topics, request(version, []), request(version, [], topics=[]), many):
        assert read(version, OFFSET_COMMIT.request.encode(version, other)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_null_metadata_equals_no_metadata(version: int) -> None:
    """Clients other than Java's send null."""
    null = request(version, [(0, 5, -1)])
    null.topics[0].partitions[0].committed_metadata = None
    found = read(version, OFFSET_COMMIT.request.encode(version, null))
    assert found is not None
    assert found[1] == Offsets((0,), (5,), (-1,))


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_or_longer_requests_return_none(version: int) -> None:
    body = OFFSET_COMMIT.request.encode(version, request(version, [(0, 5, -1)]))
    for size in range(len(body)):
        assert read(version, body[:size]) is None
    assert read(version, body + b"\0") is None
    assert read(version, body[:-1] + b"\1") is None


@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_arbitrary_bytes_decode_as_by_the_schema(version: int, noise: bytes) -> None:
    body = bytearray(OFFSET_COMMIT.request.encode(version, request(version, [(0, 5, -1), (1, 6, -1)])))
    for place, value in zip(noise[::2], noise[1::2], strict=False):
        body[place % len(body)] = value
    found = read(version, bytes(body))
    if found is not None:
        again, end = OFFSET_COMMIT.request.decode(version, bytes(body))
        (topic,) = again.topics
        rows = [(p.partition_index, p.committed_offset, p.committed_leader_epoch) for p in topic.partitions]
        assert (end, rows) == (len(body), list(zip(*found[1], strict=True)))
        assert (again.group_id, again.member_id) == (found[0].group_id, found[0].member_id)
