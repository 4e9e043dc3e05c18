"""Checks of clients: the round trip of a program in any language, and transactions that move records and offsets."""

from __future__ import annotations

import json
import subprocess
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


def check_round_trip(command: list[str], bootstrap: str, topic: str, count: int, codec: str) -> None:
    """Run the program and check what it read, the state of its group, and the offsets that it committed."""
    arguments = [bootstrap, topic, topic, str(count), codec]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)

    expected = [[f"key-{n % 7}", f"value-{n}", str(n)] for n in range(count)]
    ends: dict[int, int] = {}
    for partition, offset, *_ in answer["read"]:
        assert offset == ends.get(partition, 0), "an offset is missing or out of order"
        ends[partition] = offset + 1
    assert sorted(record[2:] for record in answer["read"]) == sorted(expected)
    assert answer["state"] == "Stable"
    assert {partition: offset for partition, offset in answer["committed"] if offset > 0} == ends
