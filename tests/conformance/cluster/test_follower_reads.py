"""Consumers read from followers (KIP-392): a member and a broker of Apache Kafka answer the same in each role."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS, TopicRequest
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.schema import Struct
from tests.conformance.cluster.mixed_cluster import OURS, RACKS, THEIRS, THIRD, MixedCluster
from tests.integration.membership.kafka_nodes import QUIET
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.wire import WireClient

COUNT = 50
_LEADS = pytest.mark.parametrize("leads", [OURS, THEIRS])


def fetch(cluster: MixedCluster, at: int, topic: str, offset: int, *, version: int = 12, **fields: Any) -> Struct:
    """Return the answer to a consumer's fetch of the partition."""
    replica_id = fields.pop("replica_id", -1)
    epoch = fields.pop("epoch", -1)
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch, log_start_offset=-1
    )
    values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "rack_id": "", **fields}
    if version < 11:
        del values["rack_id"]
    with WireClient(HOST, cluster[at].port) as client:
        answer = client.call(
            FETCH,
            version,
            replica_id=replica_id,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
            forgotten_topics_data=[],
            **values,
        )
    found: Struct = answer.responses[0].partitions[0]
    return found


def plain(data: Struct) -> tuple[int, int, int, int, int]:
    """Return error, high watermark, log start, preferred replica, and the size of the records."""
    size = len(data.records or b"")
    return data.error_code, data.high_watermark, data.log_start_offset, data.preferred_read_replica, size


def settled(cluster: MixedCluster, leads: int, follows: int) -> str:
    """Return a topic with a follower in sync that knows that all records are committed."""
    topic = cluster.create(leads, follows)
    cluster.produce(topic, 0, COUNT)
    eventually(lambda: fetch(cluster, follows, topic, 0).high_watermark, equal_to=COUNT)
    return topic


@_LEADS
def test_the_leader_names_the_replica_in_the_rack(cluster: MixedCluster, leads: int) -> None:
    """The leader redirects a consumer if a follower in sync has its rack, and the offset that it asks for."""
    other = OURS + THEIRS - leads
    topic = settled(cluster, leads, other)
    away = (0, COUNT, 0, other, 0)
    assert plain(fetch(cluster, leads, topic, 0, rack_id=RACKS[other], max_wait_ms=5000, min_bytes=1)) == away
    assert plain(fetch(cluster, leads, topic, COUNT, rack_id=RACKS[other], max_wait_ms=5000, min_bytes=1)) == away
    for rack in (RACKS[leads], RACKS[THIRD], "elsewhere", ""):
        code, high_watermark, start, preferred, size = plain(fetch(cluster, leads, topic, 0, rack_id=rack))
        assert (code, high_watermark, start, preferred) == (0, COUNT, 0, -1)
        assert size > 0
    beyond = fetch(cluster, leads, topic, COUNT + 1, rack_id=RACKS[other])
    assert (beyond.error_code, beyond.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    fenced = fetch(cluster, leads, topic, 0, rack_id=RACKS[other], epoch=9)
    assert (fenced.error_code, fenced.preferred_read_replica) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)


def test_followers_answer_as_those_of_kafka(cluster: MixedCluster) -> None:
    """Each is asked the same of a topic that the third broker leads."""
    topic = cluster.create(THIRD, OURS, THEIRS)
    cluster.produce(topic, 0, COUNT)
    for at in (OURS, THEIRS):
        eventually(lambda at=at: fetch(cluster, at, topic, 0).high_watermark, equal_to=COUNT)  # type: ignore[misc]
    requests: list[dict[str, Any]] = [
        {"offset": 0},
        {"offset": COUNT // 2, "rack_id": RACKS[THIRD]},
        {"offset": COUNT},
        {"offset": COUNT + 1},
        {"offset": -1},
        {"offset": 0, "version": 10},  # before racks, followers were never read
        {"offset": 0, "epoch": 0},
        {"offset": 0, "epoch": 7},
        {"offset": 0, "replica_id": THIRD},  # no follower fetches from a follower
        {"offset": 0, "replica_id": -2},  # a tool that compares replicas
        {"offset": 0, "isolation_level": 1},
    ]
    for request in requests:
        answers = [plain(fetch(cluster, at, topic, **request)) for at in (OURS, THEIRS)]
        assert answers[0] == answers[1], request


def test_other_requests_to_followers_answer_as_kafka(cluster: MixedCluster) -> None:
    topic = cluster.create(THIRD, OURS, THEIRS)
    cluster.produce(topic, 0, COUNT)
    for at in (OURS, THEIRS):
        eventually(lambda at=at: fetch(cluster, at, topic, 0).high_watermark, equal_to=COUNT)  # type: ignore[misc]
    answers = []
    for at in (OURS, THEIRS):
        found: list[object] = []
        with WireClient(HOST, cluster[at].port) as client:
            for replica_id in (-1, -2, THIRD):
                for timestamp in (-1, -2, -3, 0):
                    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
                    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
                    answer = client.call(LIST_OFFSETS, 7, replica_id=replica_id, topics=topics)
                    one = answer.topics[0].partitions[0]
                    found.append((one.error_code, one.offset, one.leader_epoch))
            for epoch in (-1, 0, 5):
                ended = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
                of_topic = [OffsetForLeaderTopic(topic=topic, partitions=[ended])]
                answer = client.call(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=of_topic)
                one = answer.topics[0].partitions[0]
                found.append((one.error_code, one.leader_epoch, one.end_offset))
            deleted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            answer = client.call(DELETE_RECORDS, 2, topics=[deleted], timeout_ms=5000)
            found.append(answer.topics[0].partitions[0].error_code)
            described = TopicRequest(name=topic, partition_indexes=[0])
            answer = client.call(DESCRIBE_PRODUCERS, 0, topics=[described])
            producers = answer.topics[0].partitions[0]
            found.append((producers.error_code, [each.last_sequence for each in producers.active_producers]))
        answers.append(found)
    assert answers[0] == answers[1]


@_LEADS
def test_errors_name_the_leader(cluster: MixedCluster, leads: int) -> None:
    """A client that asks a broker without the partition learns who leads it (KIP-951)."""
    topic = cluster.create(leads)
    other = OURS + THEIRS - leads
    with WireClient(HOST, cluster[other].port) as client:
        metadata = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=topic)])
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
        topics = [FetchTopic(topic_id=metadata.topics[0].topic_id, partitions=[asked])]
        answer = client.call(FETCH, 16, max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=-1, topics=topics)
    found = answer.responses[0].partitions[0]
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leads)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(leads, cluster[leads].port)]


@_LEADS
def test_a_consumer_in_the_rack_of_the_follower_reads_it(cluster: MixedCluster, leads: int) -> None:
    """It reads on at the leader once the follower is gone, and gets each record once and in order."""
    other = OURS + THEIRS - leads
    topic = settled(cluster, leads, other)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**QUIET, **settings, "client.rack": RACKS[other], "topic.metadata.refresh.interval.ms": 1000})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = [each.value() for each in consumer.consume(COUNT, timeout=30)]
        cluster.produce(topic, COUNT, COUNT)
        read += [each.value() for each in consumer.consume(COUNT, timeout=30)]
        cluster[other].kill()
        try:
            cluster.produce(topic, 2 * COUNT, COUNT)
            read += [each.value() for each in consumer.consume(COUNT, timeout=60)]
        finally:
            cluster.start_all()
    finally:
        consumer.close()
    assert read == [str(number).encode() for number in range(3 * COUNT)]


def test_a_follower_answers_a_waiting_consumer_soon(cluster: MixedCluster) -> None:
    """The fetch waits at the follower until the record is committed."""
    topic = settled(cluster, THEIRS, OURS)
    asked = FetchPartition(partition=0, fetch_offset=COUNT, partition_max_bytes=1024, current_leader_epoch=-1)
    with WireClient(HOST, cluster[OURS].port) as client:
        client.send(
            FETCH,
            12,
            replica_id=-1,
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1024,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        cluster.produce(topic, COUNT, 1)
        found = client.receive().responses[0].partitions[0]
    assert (found.error_code, found.high_watermark) == (0, COUNT + 1)
    assert struct.unpack_from(">q", found.records)[0] == COUNT
