"""Well-formed requests without a sensible meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS, TopicRequest
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Api
from tests.conformance.bad_frames.batches import TOPIC, batch, changed

_NOWHERE = "no-such-topic"
_BAD_NAME = "no topic can have this name"


def bad_requests() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    for timeout_ms in (0, -1, -(2**31)):
        for name, data in _without_time(timeout_ms):
            yield f"{name}, timeout {timeout_ms}", data
    yield from _offsets()
    yield from _fetches()
    yield from _produces()
    yield from _configs()
    for topic in (TOPIC, _NOWHERE, _BAD_NAME, "", "..", "x" * 250):
        asked = TopicRequest(name=topic, partition_indexes=[0, -1, 99])
        yield f"DescribeProducers v0: topic {topic!r}", _request(DESCRIBE_PRODUCERS, 0, topics=[asked])


def _without_time(timeout_ms: int) -> Iterator[tuple[str, bytes]]:
    new, bad = (CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (_NOWHERE, _BAD_NAME))
    for name, topics in {"none": [], "one": [new], "one twice": [new, new], "a bad name": [bad]}.items():
        yield f"CreateTopics v7: {name}", _request(CREATE_TOPICS, 7, topics=topics, timeout_ms=timeout_ms)
    known, unknown, nothing = (DeleteTopicState(name=name) for name in (TOPIC, _NOWHERE, None))
    for name, states in {
        "none": [],
        "known": [known],
        "unknown": [unknown],
        "twice": [known, known],
        "no name": [nothing],
        "no name, and a known one": [nothing, known],
    }.items():
        yield f"DeleteTopics v6: {name}", _request(DELETE_TOPICS, 6, topics=states, timeout_ms=timeout_ms)
    more = [CreatePartitionsTopic(name=TOPIC, count=3)]
    for name, counts in {"none": [], "one": more, "one twice": more * 2}.items():
        yield f"CreatePartitions v3: {name}", _request(CREATE_PARTITIONS, 3, topics=counts, timeout_ms=timeout_ms)
    led = [TopicPartitions(topic=TOPIC, partitions=[0])]
    for name, elections in {"all": None, "none": [], "one": led}.items():
        for kind in (0, 9):
            fields = {"topic_partitions": elections, "election_type": kind, "timeout_ms": timeout_ms}
            yield f"ElectLeaders v2: {name}, type {kind}", _request(ELECT_LEADERS, 2, **fields)
    moved = [ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
    for name, moves in {"none": [], "one": moved}.items():
        data = _request(ALTER_PARTITION_REASSIGNMENTS, 0, topics=moves, timeout_ms=timeout_ms)
        yield f"AlterPartitionReassignments v0: {name}", data


def _offsets() -> Iterator[tuple[str, bytes]]:
    for epoch in (-2, -1, 0, 1, -(2**31)):
        asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        yield f"ListOffsets v7: leader epoch {epoch}", _request(LIST_OFFSETS, 7, replica_id=-1, topics=topics)
        ends = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
        of_epochs = [OffsetForLeaderTopic(topic=TOPIC, partitions=[ends])]
        data = _request(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=of_epochs)
        yield f"OffsetForLeaderEpoch v4: leader epoch {epoch}", data
    for isolation_level in (2, -1):
        for replica_id in (-1, -7, 5):
            for topic in (TOPIC, _NOWHERE):
                latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
                fields: dict[str, Any] = {"isolation_level": isolation_level, "replica_id": replica_id}
                fields["topics"] = [ListOffsetsTopic(name=topic, partitions=[latest])]
                name = f"isolation level {isolation_level}, replica {replica_id}, {topic}"
                yield f"ListOffsets v7: {name}", _request(LIST_OFFSETS, 7, **fields)


def _fetches() -> Iterator[tuple[str, bytes]]:
    for isolation_level in (0, 2, -1):
        for topic in (TOPIC, _NOWHERE):
            for epoch in (-2, 0, 1):
                for offset, size in ((0, -1), (1 << 40, -1), (1 << 40, 100), (-1, 100)):
                    asked = FetchPartition(
                        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=size
                    )
                    fields: dict[str, Any] = {"isolation_level": isolation_level, "session_epoch": -1}
                    fields["topics"] = [FetchTopic(topic=topic, partitions=[asked])]
                    name = f"isolation level {isolation_level}, {topic}, epoch {epoch}, offset {offset}, {size} bytes"
                    yield f"Fetch v12: {name}", _request(FETCH, 12, **fields)


def _produces() -> Iterator[tuple[str, bytes]]:
    """Yield requests for several partitions, one of which is wrong."""
    sound = bytes(batch())
    short = bytes(8) + (5).to_bytes(4, "big") + bytes(20)
    transactional = changed(batch(), attributes=16, producer_id=8, producer_epoch=0, base_sequence=0)
    for name, pieces in {
        "the same partition twice": [(0, sound), (0, sound)],
        "the same partition twice, then no records": [(0, sound), (0, b"")],
        "one that is not there": [(0, sound), (99, sound)],
        "a length of 5 in the second": [(0, sound), (1, short)],
        "a length of 5 where no partition is": [(0, sound), (99, short)],
        "a transaction without id in the second": [(0, sound), (1, transactional)],
        "a transaction without id, then a length of 5": [(0, transactional), (1, short)],
        "half a transaction without id": [(0, transactional[:-5])],
    }.items():
        data = [PartitionProduceData(index=index, records=records) for index, records in pieces]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        yield f"Produce v9: {name}", _request(PRODUCE, 9, acks=-1, timeout_ms=5_000, topic_data=topics)


def _configs() -> Iterator[tuple[str, bytes]]:
    for kinds in ((0,), (1,), (2, 0), (0, 4), (2, 99), (2, -98), (4, 8), (16,), (32,)):
        resources = [DescribeConfigsResource(resource_type=kind, resource_name="1") for kind in kinds]
        yield f"DescribeConfigs v4: types {kinds}", _request(DESCRIBE_CONFIGS, 4, resources=resources)


def _request(api: Api, version: int, **fields: Any) -> bytes:
    request = api.request.encode(version, api.request(**fields))
    return frame(encode_request_header(api, version, 7, "bad-frames"), request)
