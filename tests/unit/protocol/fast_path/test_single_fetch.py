"""The hand-written codec of Fetch equals the schema, and ignores requests of any other shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.fast_path.fetch_answer import answer_nothing, answer_one
from protocol.fast_path.single_fetch import FIRST_VERSION, parse
from protocol.fetch_answer import FetchAnswer, FetchedData, FetchedTopic
from protocol.framing import encode_response
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.primitives import ZERO_UUID
from tests.support.fetch_answers import as_struct

VERSIONS = range(FIRST_VERSION, 19)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def encoded(version, *, partitions=1, topic="t", topic_id=b"i" * 16, wanted=None, **fields):
    """Return the body of a request for that many partitions."""
    parts = [FetchPartition(partition=number, **(wanted or {})) for number in range(partitions)]
    named = {"topic": topic} if version < 13 else {"topic_id": topic_id}
    values = {"max_wait_ms": 500, "min_bytes": 1, "topics": [FetchTopic(**named, partitions=parts)], **fields}
    if version < 15:
        values.setdefault("replica_id", -1)
    return memoryview(FETCH.request.encode(version, FETCH.request(**values)))


@given(
    version=st.sampled_from(VERSIONS),
    topic=st.text(st.characters(codec="utf-8"), max_size=140),
    topic_id=st.binary(min_size=16, max_size=16),
    numbers=st.tuples(INT32, INT32, INT32, INT32, INT32, INT32, INT32, INT32),
    offsets=st.tuples(INT64, INT64),
    isolation_level=st.integers(-128, 127),
    before=st.binary(max_size=20),
)
def test_decoded_request_equals_the_schema(version, topic, topic_id, numbers, offsets, isolation_level, before):
    """Field by field; long names are left to the schema."""
    wait, least, most, session, epoch, leader, fetched, partition_most = numbers
    wanted = {"current_leader_epoch": leader, "fetch_offset": offsets[0], "partition_max_bytes": partition_most}
    if version >= 12:
        wanted["last_fetched_epoch"] = fetched
    body = encoded(
        version,
        topic=topic,
        topic_id=topic_id,
        wanted={**wanted, "log_start_offset": offsets[1]},
        max_wait_ms=wait,
        min_bytes=least,
        max_bytes=most,
        isolation_level=isolation_level,
        session_id=session,
        session_epoch=epoch,
    )
    found = parse(version, memoryview(before + bytes(body)), len(before))
    if version == 12 and len(topic.encode()) > 126:
        assert found is None
        return

    assert found is not None
    raw = topic.encode()
    name = bytes([len(raw) + 1]) + raw if version == 12 else len(raw).to_bytes(2, "big") + raw
    assert found.key == (topic_id if version >= 13 else name)
    assert found._replace(key=b"")._asdict() == {
        "key": b"",
        "topic": topic if version < 13 else "",
        "topic_id": ZERO_UUID if version < 13 else topic_id,
        "partition": 0,
        "current_leader_epoch": leader,
        "fetch_offset": offsets[0],
        "last_fetched_epoch": fetched if version >= 12 else -1,
        "partition_max_bytes": partition_most,
        "max_wait_ms": wait,
        "min_bytes": least,
        "max_bytes": most,
        "isolation_level": isolation_level,
        "session_id": session,
        "session_epoch": epoch,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_another_shape_return_none(version):
    """No or several partitions or topics, forgotten topics, a rack, a follower, a tagged field, an extra byte."""
    topics = [FetchTopic(topic=name, topic_id=name.encode() * 16, partitions=[FetchPartition()]) for name in "ab"]
    forgotten = ForgottenTopic(topic="t", topic_id=b"i" * 16, partitions=[0])
    follower = {"replica_id": 3} if version < 15 else {"replica_state": ReplicaState(replica_id=3, replica_epoch=1)}
    others = [
        encoded(version, partitions=0),
        encoded(version, partitions=2),
        encoded(version, topics=[]),
        encoded(version, topics=topics),
        encoded(version, forgotten_topics_data=[forgotten]),
        encoded(version, rack_id="r"),
        encoded(version, **follower),
        memoryview(bytes(encoded(version)) + b"\0"),
    ]
    if version >= 12:
        others.append(encoded(version, cluster_id="c"))

    assert parse(version, encoded(version), 0) is not None
    assert [parse(version, body, 0) for body in others] == [None] * len(others)


@pytest.mark.parametrize("version", range(4, FIRST_VERSION))
def test_older_versions_return_none(version):
    assert parse(version, encoded(version), 0) is None


@given(version=st.sampled_from(VERSIONS), cut=st.integers(0, 200), data=st.binary(max_size=120))
def test_invalid_bytes_return_none(version, cut, data):
    """Whatever it decodes from random or truncated bytes, the schema decodes too."""
    body = bytes(encoded(version))[:cut]
    for each in (body, data):
        found = parse(version, memoryview(each), 0)
        if found is not None:
            request, end = FETCH.request.decode(version, each)
            assert end == len(each)
            assert request.topics[0].partitions[0].fetch_offset == found.fetch_offset
    if cut < len(bytes(encoded(version))):
        assert parse(version, memoryview(body), 0) is None


@given(
    version=st.sampled_from(VERSIONS),
    topic=st.text(max_size=40),
    topic_id=st.binary(min_size=16, max_size=16),
    correlation_id=INT32,
    session_id=st.integers(0, (1 << 31) - 1),
    offsets=st.tuples(INT64, INT64, INT64),
    size=st.sampled_from([0, 1, 126, 127, 128, 16_382, 16_383, 16_384]),
    in_memory=st.booleans(),
)
def test_response_equals_the_schema(version, topic, topic_id, correlation_id, session_id, offsets, size, in_memory):
    """Byte for byte; records that are not in memory are a separate piece."""
    request = parse(version, encoded(version, topic=topic, topic_id=topic_id), 0)
    records = b"r" * size if in_memory else memoryview(b"r" * size)
    chunks = answer_one(version, correlation_id, session_id, request.key, 0, *offsets, records)
    data = FetchedData(0, 0, *offsets, records)
    answer = as_struct(FetchAnswer(0, session_id, [FetchedTopic(topic, topic_id, [data])]))

    assert len(chunks) == 1 if in_memory else chunks[1] is records
    assert b"".join(chunks) == b"".join(encode_response(FETCH, version, correlation_id, answer))


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_session_response_has_no_topics(version):
    by_schema = encode_response(FETCH, version, 7, FETCH.response(session_id=5))

    assert b"".join(answer_nothing(version, 7, 5)) == b"".join(by_schema)
