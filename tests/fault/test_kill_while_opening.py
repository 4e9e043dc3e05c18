"""kill -9 while a start opens, one after the other, the logs that a clean stop left.

Some were written again, some are open, most are unopened, and a topic was deleted and created again.
"""

from __future__ import annotations

import random
import time

from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.scale import scaled

KILLS = min(12, scaled(2))
PARTITIONS = 300
Bounds = dict[int, int]
_EARLIEST, _LATEST = -2, -1


def fill(client: DataClient, topic: str) -> None:
    """Produce two records to each partition."""
    records = batch(b"one", b"two")
    data = [PartitionProduceData(index=index, records=records) for index in range(PARTITIONS)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    answer = client.call(PRODUCE, 9, acks=-1, timeout_ms=60_000, topic_data=topics)
    assert {each.error_code for each in answer.responses[0].partition_responses} == {ErrorCode.NONE}


def offsets(client: DataClient, topic: str, timestamp: int) -> Bounds:
    """Return the bounds of all partitions; retry those whose log is not open yet, as clients do."""
    found: Bounds = {}
    deadline = time.monotonic() + 120
    while len(found) < PARTITIONS:
        assert time.monotonic() < deadline
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index in range(PARTITIONS)
            if index not in found
        ]
        topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
        for each in client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics).topics[0].partitions:
            if each.error_code == ErrorCode.NONE:
                found[each.partition_index] = each.offset
            else:
                assert each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    return found


def sizes(client: DataClient) -> dict[tuple[str, int], int]:
    [result] = client.call(DESCRIBE_LOG_DIRS, 4, topics=None).results
    return {
        (topic.name, each.partition_index): each.partition_size for topic in result.topics for each in topic.partitions
    }


def test_kill_while_logs_are_opened(broker: OurBroker) -> None:
    """Acknowledged records are there, deleted ones are not, and no offset is used twice."""
    dice = random.Random(3)
    with DataClient(HOST, broker.port) as client:
        for topic in ("many", "gone"):
            client.create_topic(topic, PARTITIONS)
            fill(client, topic)
        size = sizes(client)["many", 0]
    starts, ends = dict.fromkeys(range(PARTITIONS), 0), dict.fromkeys(range(PARTITIONS), 2)
    for _ in range(KILLS):
        assert broker.stop() == 0
        broker.start()
        with DataClient(HOST, broker.port) as client:
            assert sizes(client)["many", 0] >= size
            client.delete_topic("gone")
            client.create_topic("gone", PARTITIONS)
            for index in dice.sample(range(PARTITIONS), dice.choice((0, 5, 50))):
                assert client.produce("many", batch(b"more"), index) == ends[index]
                ends[index] += 1
                if dice.random() < 0.3:
                    starts[index] = client.delete_records("many", index, ends[index] - 1)
        broker.kill()
        broker.start()
        with DataClient(HOST, broker.port) as client:
            assert offsets(client, "many", _LATEST) == ends
            assert offsets(client, "gone", _LATEST) == dict.fromkeys(range(PARTITIONS), 0)
            assert all(starts[index] >= start for index, start in offsets(client, "many", _EARLIEST).items()), (
                "the checkpoint of log start offsets comes later"
            )
            fill(client, "gone")
    assert broker.stop() == 0
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert offsets(client, "many", _LATEST) == ends
        assert offsets(client, "gone", _LATEST) == dict.fromkeys(range(PARTITIONS), 2)
        for index, start in dice.sample(list(offsets(client, "many", _EARLIEST).items()), 30):
            assert client.values("many", index) == [b"one", b"two", *[b"more"] * (ends[index] - 2)][start:]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
    assert "is offline" not in broker.output
    assert not list(broker.log_dir.glob("*/*.corrupt"))
