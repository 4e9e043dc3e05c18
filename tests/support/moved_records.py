"""Consume, transform, produce with librdkafka: each transaction has the records and the consumed offsets."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

_PATIENCE_S = 60


def move_in_transactions(bootstrap: str, topic: str, output: str, count: int, protocol: str = "classic") -> None:
    """Move `count` records of a topic to the same partitions of another.

    The first of every three transactions is aborted and repeated. The topic's name is also the group
    id and the transactional id; `protocol` is the group's.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(_PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    moved = turns = 0
    deadline = time.monotonic() + _PATIENCE_S
    while moved < count:
        assert time.monotonic() < deadline
        records = consumer.consume(max(1, count // 10), timeout=1)
        if not records:
            continue
        turns += 1
        producer.begin_transaction()
        first: dict[int, int] = {}  # partition -> offset
        for record in records:
            assert record.error() is None
            partition, offset = record.partition(), record.offset()
            assert partition is not None
            assert offset is not None
            producer.produce(output, record.value(), partition=partition)
            first.setdefault(partition, offset)
        producer.flush()
        places = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata())
        if turns % 3 == 1:
            producer.abort_transaction()
            for partition, offset in first.items():
                consumer.seek(TopicPartition(topic, partition, offset))
        else:
            producer.commit_transaction()
            moved += len(records)
    consumer.close()
