"""Clients read records of both tiers once and in order: from the start, after seeks, and committed ones alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.tiered_brokers import TieredOurs

TOPIC = "orders"
#: Records that fill several segments of 1 MiB.
COUNT = scaled(12_000)
VALUE_BYTES = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredOurs]:
    """A topic whose closed segments are remote, but for the newest ones."""
    with TieredOurs(tmp_path_factory.mktemp("tiered")) as running:
        create(running, TOPIC)
        producer = Producer({"bootstrap.servers": running.bootstrap, "linger.ms": 5, "batch.size": 50_000})
        for number in range(COUNT):
            producer.produce(TOPIC, value_of(number), timestamp=1_700_000_000_000 + number, on_delivery=None)
            producer.poll(0)
        assert producer.flush(60) == 0
        await_tier(running, TOPIC)
        yield running


def value_of(number: int) -> bytes:
    return f"{number:08}".encode() + b"x" * (VALUE_BYTES - 8)


def create(broker: TieredOurs, topic: str) -> None:
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(1 << 20),
        "local.retention.bytes": "1",
        "retention.ms": "-1",
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [made] = admin.create_topics([NewTopic(topic, 1, config=config)]).values()
    made.result()


def await_tier(broker: TieredOurs, topic: str) -> int:
    """Wait until only the active segment is local. Return where it begins."""

    def local_starts() -> list[int]:
        return sorted(int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log"))

    return eventually(local_starts, until=lambda starts: len(starts) == 1 and starts[0] > 0, timeout_s=60)[0]


def consumer(broker: TieredOurs, **config: Any) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False, **config})


def read(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 20)
        assert messages, f"nothing after {len(found)} records"
        for each in messages:
            assert each.error() is None
        found += messages
    return found


def test_librdkafka_reads_all(broker: TieredOurs) -> None:
    client = consumer(broker)
    client.assign([TopicPartition(TOPIC, 0, 0)])
    messages = read(client, COUNT)
    assert [each.offset() for each in messages] == list(range(COUNT))
    assert all(each.value() == value_of(each.offset()) for each in messages)
    client.close()


def test_librdkafka_seeks_back(broker: TieredOurs) -> None:
    client = consumer(broker)
    client.assign([TopicPartition(TOPIC, 0, COUNT - 10)])
    assert read(client, 10)[0].offset() == COUNT - 10
    for offset in (0, COUNT // 2, 17, COUNT - 200, 3):
        client.seek(TopicPartition(TOPIC, 0, offset))
        assert [each.offset() for each in read(client, 300 if offset < COUNT - 300 else 200)][::100] == list(
            range(offset, min(offset + 300, COUNT), 100)
        )
    client.close()


def test_librdkafka_finds_times(broker: TieredOurs) -> None:
    client = consumer(broker)
    for offset in (0, 1, 1234, COUNT // 2, COUNT - 1):
        [found] = client.offsets_for_times([TopicPartition(TOPIC, 0, 1_700_000_000_000 + offset)], timeout=20)
        assert found.offset == offset
    client.close()


def test_kafka_python_reads_all(broker: TieredOurs) -> None:
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=20_000, max_poll_records=5000)
    partition = PythonPartition(TOPIC, 0)
    client.assign([partition])
    client.seek(partition, 0)
    offsets = []
    for message in client:
        assert message.value == value_of(message.offset)
        offsets.append(message.offset)
        if len(offsets) == COUNT:
            break
    assert offsets == list(range(COUNT))
    client.close()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_over_both_tiers(broker: TieredOurs, isolation: str) -> None:
    """Each third transaction is aborted; some lie in several segments."""
    topic = f"payments-{isolation}"
    create(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": isolation, "linger.ms": 5})
    producer.init_transactions(20)
    committed, every = [], []
    for number in range(6):
        producer.begin_transaction()
        values = [f"{number} {each}".encode() + b"y" * 1000 for each in range(700)]
        for value in values:
            producer.produce(topic, value)
        every += values
        if number % 3 == 2:
            producer.flush(20)
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
            committed += values
    await_tier(broker, topic)
    client = consumer(broker, **{"isolation.level": isolation})
    client.assign([TopicPartition(topic, 0, 0)])
    wanted = committed if isolation == "read_committed" else every
    assert [each.value() for each in read(client, len(wanted))] == wanted
    client.close()


def test_the_cache_is_empty_after_a_start(broker: TieredOurs) -> None:
    chunks = "remote-log-chunk-cache-*/*"
    client = consumer(broker)
    client.assign([TopicPartition(TOPIC, 0, 0)])
    assert read(client, 1)[0].offset() == 0
    client.close()
    assert list(broker.log_dir.glob(chunks))
    assert list((broker.log_dir / "remote-log-index-cache").glob("0_*.index"))
    broker.stop()
    broker.start()
    assert not list(broker.log_dir.glob(chunks))
    client = consumer(broker)
    client.assign([TopicPartition(TOPIC, 0, 5)])
    assert read(client, 5)[0].offset() == 5
    client.close()


def test_storage_that_is_away_for_a_while(broker: TieredOurs) -> None:
    """Reads fail with an error that clients repeat; nothing is lost, and local records are served as ever."""
    topic = "away"
    create(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.size": 50_000})
    for number in range(6000):
        producer.produce(topic, value_of(number))
    assert producer.flush(60) == 0
    local_start = await_tier(broker, topic)
    storage = broker.directory / "remote"
    storage.rename(broker.directory / "elsewhere")
    client = consumer(broker)
    client.assign([TopicPartition(topic, 0, local_start)])
    assert read(client, 6000 - local_start)[0].offset() == local_start
    client.seek(TopicPartition(topic, 0, 0))
    failed = eventually(lambda: client.poll(0.1), timeout_s=20)
    assert failed.error().code() == KafkaError.UNKNOWN
    (broker.directory / "elsewhere").rename(storage)
    offsets: list[int] = []
    while len(offsets) < 6000:  # errors may have been queued before
        offsets += [each.offset() for each in client.consume(6000, 1) if each.error() is None]
    assert offsets == list(range(6000))
    client.close()
    lines = [line for line in broker.output.splitlines() if "cannot be read from remote storage" in line]
    assert len(lines) == 1
    assert "Traceback" not in broker.output
