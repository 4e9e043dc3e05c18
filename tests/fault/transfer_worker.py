"""Move records from one topic to another, exactly once, in a process of its own: with confluent-kafka or aiokafka.

    python -m tests.fault.transfer_worker confluent|aiokafka BOOTSTRAP INPUT OUTPUT ID

INPUT is also the group of the committed offsets; both topics have PARTITIONS partitions. Some batches are aborted and
read again. The offsets are part of each transaction. A transaction that cannot continue is aborted; a worker that
cannot continue (it was fenced) exits with code 3, to be restarted.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AIOPartition
from aiokafka.errors import IllegalOperation, ProducerFenced
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH = 7
PARTITIONS = 2
SESSION_TIMEOUT_MS = 6_000
TRANSACTION_TIMEOUT_MS = 10_000
ABORTED = 0.2
FENCED = 3
PATIENCE_S = 15


def confluent(bootstrap: str, source: str, target: str, name: str) -> None:
    chance = random.Random(name)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 500,
            # without a reachable broker it would bootstrap again, and wait for ever for a broker that it has closed
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": source,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
            "reconnect.backoff.max.ms": 500,
            # without a reachable broker it would bootstrap again, and wait for ever for a broker that it has closed
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    consumer.subscribe([source])
    while True:
        records = [each for each in consumer.consume(BATCH, timeout=0.2) if each.error() is None]
        if not records:
            continue
        wanted = chance.random() > ABORTED
        try:
            producer.begin_transaction()
            for record in records:
                producer.produce(target, record.value(), partition=record.partition())
            places = {record.partition(): record.offset() + 1 for record in records}
            offsets = [TopicPartition(source, partition, offset) for partition, offset in places.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            if wanted:
                producer.commit_transaction(PATIENCE_S)
                continue
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            while error.args[0].retriable() and wanted:  # the commit is in progress: only a retry returns its outcome
                try:
                    producer.commit_transaction(PATIENCE_S)
                    break
                except KafkaException as again:
                    error = again
            else:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(PATIENCE_S)
                rewind(consumer, source)
            continue
        producer.abort_transaction(PATIENCE_S)
        rewind(consumer, source)


def rewind(consumer: Consumer, source: str) -> None:
    """Continue at the committed offsets."""
    assignment = consumer.assignment()
    if not assignment:
        return
    for place in consumer.committed(assignment, timeout=30):
        with suppress(KafkaException):  # another member may own it meanwhile
            consumer.seek(TopicPartition(source, place.partition, max(place.offset, 0)))


async def aiokafka(bootstrap: str, source: str, target: str, name: str) -> None:
    """Move without a group.

    aiokafka does not send the coordinator its generation, so that only the transactional id keeps two workers from
    reading the same. The last started worker has all partitions.
    """
    chance = random.Random(name)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=source, enable_auto_commit=False, isolation_level="read_committed"
    )
    await producer.start()  # from here on nothing of the previous producer can be committed
    await consumer.start()
    partitions = [AIOPartition(source, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, await consumer.committed(partition) or 0)
    while True:
        records = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        if not records:
            continue
        await producer.begin_transaction()
        for place, found in records.items():
            for record in found:
                await producer.send(target, record.value, partition=place.partition)
        await producer.flush()
        await producer.send_offsets_to_transaction(
            {place: found[-1].offset + 1 for place, found in records.items()}, source
        )
        if chance.random() > ABORTED:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
            for place, found in records.items():
                consumer.seek(place, found[0].offset)


def main() -> None:
    kind, bootstrap, source, target, name = sys.argv[1:]
    try:
        if kind == "confluent":
            confluent(bootstrap, source, target, name)
        else:
            asyncio.run(aiokafka(bootstrap, source, target, name))
    except (KafkaException, AIOKafkaError, IllegalOperation, ProducerFenced, RuntimeError) as error:
        print(f"{name} ends: {error}", file=sys.stderr, flush=True)
        sys.exit(FENCED)


if __name__ == "__main__":
    main()
