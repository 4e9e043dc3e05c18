"""A data directory that users change between a clean stop and the next start: the broker uses the new content."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from pybroker.testing import Broker

PARTITIONS = 4
NOTE = ".pybroker_in_order"


def write(broker: Broker) -> None:
    """Write a record to each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        producer.produce("t", b"x", partition=partition)
    assert producer.flush(60) == 0


def counts(broker: Broker) -> list[int]:
    """Return the number of records in each partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found, ended = [0] * PARTITIONS, 0
    while ended < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found[message.partition()] += 1
    consumer.close()
    return found


def test_manual_changes_after_a_clean_stop_are_used() -> None:
    """An index is removed, an unfinished file added, a topic id edited. The start repairs them as after a kill."""
    with Broker() as broker:
        broker.create_topic("t", PARTITIONS)
        write(broker)
        broker.pause()
        data = broker.data_directory
        assert (data / NOTE).exists()
        broker.start()
        assert not (data / NOTE).exists()
        assert counts(broker) == [1, 1, 1, 1]
        broker.pause()

        (data / "t-1" / f"{0:020}.index").unlink()
        (data / "t-2" / f"{0:020}.log.swap.tmp").write_bytes(b"unfinished")
        topic_id = data / "t-3/partition.metadata"
        text = topic_id.read_bytes()
        topic_id.write_bytes(text[:-5] + (b"A" if text[-5:-4] != b"A" else b"B") + text[-4:])
        broker.start()
        assert "t-3/partition.metadata: not the topic id of t: rewritten" in broker.log
        assert "t-1/00000000000000000000.log: an index is missing or damaged" in broker.log
        assert topic_id.read_bytes() == text
        assert counts(broker) == [1, 1, 1, 1]
        write(broker)
        broker.kill()
        broker.start()
        assert counts(broker) == [2, 2, 2, 2]
