"""The requests of every consumer, by hand: find the leader, find the offsets, fetch."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.records.entries import iter_records
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.settled import wait_for_topic
from tests.support.wire import WireClient

EARLIEST, LATEST = -2, -1


def test_metadata_list_offsets_fetch(reference: RunningBroker, name: str) -> None:
    """S11.6: the leader from Metadata, first and last offset from ListOffsets, then Fetch from the leader."""
    with WireClient(HOST, reference.port) as client:
        created = client.call(
            CREATE_TOPICS, 7, topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        )
        assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE]
        wait_for_topic(reference, name, 1)
        batch = BatchBuilder()
        for number in range(5):
            batch.append(1_700_000_000_000 + number, b"key", b"value-%d" % number, ())
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch.build())])
        produced = client.call(PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[data])
        assert [p.error_code for t in produced.responses for p in t.partition_responses] == [ErrorCode.NONE]

        metadata = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=name)])
        [topic] = metadata.topics
        [partition] = topic.partitions
        leader = next(broker for broker in metadata.brokers if broker.node_id == partition.leader_id)

    with WireClient(leader.host, leader.port) as client:
        ends = []
        for timestamp in (EARLIEST, LATEST):
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            listed = client.call(
                LIST_OFFSETS, 7, replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[wanted])]
            )
            ends += [p.offset for t in listed.topics for p in t.partitions]
        assert ends == [0, 5]

        wanted = FetchPartition(partition=0, fetch_offset=ends[0], partition_max_bytes=1 << 20)
        fetch = FetchTopic(topic_id=topic.topic_id, partitions=[wanted])
        fetched = client.call(FETCH, 15, max_wait_ms=500, min_bytes=1, topics=[fetch])
        [answer] = fetched.responses[0].partitions
        assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (ErrorCode.NONE, 5, 0)
        assert [(r.offset, bytes(r.value)) for r in iter_records(answer.records)] == [
            (n, b"value-%d" % n) for n in range(5)
        ]


@pytest.mark.parametrize("slots", [0, 1000])
def test_fetch_sessions_are_limited(start_broker: StartBroker, slots: int, name: str) -> None:
    """max.incremental.fetch.session.cache.slots: without a free slot a consumer gets no session (KIP-227)."""
    broker = start_broker("ours", {"max.incremental.fetch.session.cache.slots": str(slots)})
    with WireClient(HOST, broker.port) as client:
        client.call(CREATE_TOPICS, 7, topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[wanted])]
        answer = client.call(FETCH, 12, max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=0, topics=topics)
    assert (answer.error_code, bool(answer.session_id)) == (ErrorCode.NONE, slots > 0)
    broker.stop()
