"""Topics that a cleaner has cleaned, and open transactions, at a test's own broker."""

from __future__ import annotations

import random

from confluent_kafka import Producer

from pybroker.testing import Broker
from tests.support.spark_sources import CODECS, EPOCH_MS

KEYS = 15
#: for a broker that removes nothing, cleans only on a test's order, and lets transactions stay open for a day
DAY_MS = 86_400_000
UNTOUCHED = {"log.retention.ms": -1, "log.cleaner.backoff.ms": DAY_MS, "transaction.max.timeout.ms": DAY_MS}
#: small enough for several segments
SEGMENTS = {"internal.segment.bytes": 4000, "index.interval.bytes": 200}
CLEANED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 1, "delete.retention.ms": 0}


def fill_compacted(broker: Broker, topic: str, partitions: int, turns: int, dice: random.Random) -> None:
    """Write repeated keys, tombstones and transactions; clean twice, then write as much again and do not clean it."""
    for number in range(3):
        if number:
            broker.clean(topic)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 5}
        plain = Producer({**settings, "compression.type": dice.choice(CODECS)})
        transactional = Producer({**settings, "transactional.id": f"{topic}-{number}"})
        transactional.init_transactions(30)
        for turn in range(turns):
            producer = plain if turn % 3 == 0 else transactional
            if producer is transactional:
                producer.begin_transaction()
            for _ in range(dice.randint(1, 12)):
                producer.produce(
                    topic,
                    key=f"key-{dice.randrange(KEYS)}",
                    value=None if dice.random() < 0.15 else f"{number}-{turn}",
                    partition=dice.randrange(partitions),
                    timestamp=EPOCH_MS + 10 * (5 * number * turns + turn) + dice.randrange(30),
                    headers=[("turn", b"%d" % turn)] if dice.random() < 0.3 else None,
                )
            assert producer.flush(60) == 0
            if producer is transactional:
                end = producer.commit_transaction if dice.random() < 0.6 else producer.abort_transaction
                end(30)


def begin(broker: Broker, topic: str, partitions: int) -> Producer:
    """Begin a transaction in all partitions that never times out, then write records outside of it."""
    patient = {"transactional.id": f"{topic}-open", "transaction.timeout.ms": DAY_MS}
    producer, plain = (Producer({"bootstrap.servers": broker.bootstrap_servers, **more}) for more in (patient, {}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for each, value in ((producer, "open"), (plain, "behind")):
        for partition in range(partitions):
            each.produce(topic, value, f"key-{partition}", partition=partition, timestamp=EPOCH_MS + 10)
        assert each.flush(60) == 0
    return producer
