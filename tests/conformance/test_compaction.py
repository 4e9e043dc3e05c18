"""A log cleaned by Apache Kafka and the same log cleaned by pybroker have the same batches."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.records.batch import DELETE_HORIZON_BIT, BatchHeader, iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually, succeeds
from tests.support.kafka_only import KafkaClient
from tests.support.scale import scaled
from tests.support.settled import wait_for_changes, wait_for_topic

DAY_MS = 86_400_000
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 3000,
    "index.interval.bytes": 200,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": DAY_MS,
}
TOPICS = {f"codec-{codec.name.lower()}": codec for codec in Codec}
CLEANER = {"log.cleaner.backoff.ms": "50", "log.retention.ms": "-1"}
TRANSACTIONAL = {"keep-markers": {}, "drop-markers": {"delete.retention.ms": 0}, "left-open": {}}


def keyed_batch(dice: random.Random, number: int, **header: Any) -> bytes:
    """Return a batch with repeated keys, and tombstones."""
    builder = BatchBuilder(**header)
    for _ in range(dice.randint(1, 6)):
        value = None if dice.random() < 0.15 else b"%d" % number + b"x" * dice.randrange(120)
        builder.append(int(time.time() * 1000), b"key-%d" % dice.randrange(25), value)
    return builder.build()


def write_transactions(client: KafkaClient, topic: str, dice: random.Random, count: int) -> None:
    """Write transactions of several producers, nested and in sequence, committed and aborted; and records outside of
    them.
    """
    names = [f"{topic}-{number}" for number in range(3)]
    under_way: dict[str, tuple[dict[str, Any], int]] = {}
    for number in range(count * 6):
        name = dice.choice(names)
        if dice.random() < 0.3:
            client.produce(topic, keyed_batch(dice, number))
        elif name not in under_way:
            under_way[name] = client.begin_transaction(name, topic), 0
        elif dice.random() < 0.5:
            producer, sequence = under_way[name]
            records = keyed_batch(dice, number, codec=dice.choice(list(Codec)), base_sequence=sequence, **producer)
            client.produce_in_transaction(name, topic, records)
            under_way[name] = producer, sequence + next(header for _, header in iter_batches(records)).record_count
        else:
            client.end_transaction(name, under_way.pop(name)[0], commit=dice.random() < 0.5)
    for name, (producer, _) in under_way.items():
        client.end_transaction(name, producer, commit=True)
    eventually(
        lambda: client.fetch(topic, 0),
        "transaction markers",
        until=lambda found: found.last_stable_offset >= found.high_watermark,
    )


def write_history(client: DataClient, topic: str, codec: Codec, dice: random.Random, batches: int) -> None:
    """Write repeated keys, tombstones, headers, with several idempotent producers and none."""
    now_ms = int(time.time() * 1000)
    sequences: dict[int, int] = {}
    producers = [0, client.new_producer_id(), client.new_producer_id()]
    for number in range(batches):
        producer = dice.choice(producers)
        count = dice.randint(1, 8)
        sequence = sequences.get(producer, 0)
        identity = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer else {}
        builder = BatchBuilder(codec=codec, **identity)
        for _ in range(count):
            key = b"key-%d" % dice.randrange(25)
            value = None if dice.random() < 0.15 else b"%d" % number + b"x" * dice.randrange(120)
            headers = (("h", b"\0"), ("none", None)) if dice.random() < 0.2 else ()
            builder.append(now_ms - 1000 + dice.randrange(1000), key, value, headers)
        client.produce(topic, builder.build())
        sequences[producer] = sequence + count


def wait_until_clean(broker: RunningBroker, topics: Sequence[str], bounds: Mapping[str, int] | None = None) -> None:
    """Wait until all but the active segments are clean, or all below a topic's bound."""
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"

    def missing() -> dict[str, int]:
        lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
        done = {line.split()[0]: int(line.split()[2]) for line in lines if len(line.split()) == 3}
        wanted = {topic: segment_of(broker, topic) for topic in topics} | dict(bounds or {})
        return {topic: offset for topic, offset in wanted.items() if done.get(topic) != offset}

    eventually(missing, lambda: broker.output[-3000:], equal_to={}, timeout_s=240)


def segment_of(broker: RunningBroker, topic: str, offset: int | None = None) -> int:
    """Return the base offset of the segment with an offset, or of the active one."""
    bases = (int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log"))
    return max(base for base in bases if offset is None or base <= offset)


def cleaned_batches(broker: RunningBroker, topic: str) -> Iterator[tuple[str, BatchHeader]]:
    """Yield file and header of each batch in closed segments, without what depends on time and compressors."""
    for path in sorted((broker.log_dir / f"{topic}-0").glob("*.log"))[:-1]:
        for _, header in iter_batches(path.read_bytes()):
            base_timestamp = 0 if header.delete_horizon else header.base_timestamp
            yield path.name, header._replace(batch_length=0, crc=0, base_timestamp=base_timestamp)


def transaction_indexes(broker: RunningBroker, topic: str) -> dict[str, bytes]:
    """Return the transaction indexes that are not empty."""
    paths = sorted((broker.log_dir / f"{topic}-0").glob("*.txnindex"))
    return {path.name: data for path in paths if (data := path.read_bytes())}


def test_both_cleaners_keep_the_same_records(tmp_path: Path) -> None:
    """S15.1: records, offsets, times, headers, sequences, attributes, empty batches, files."""
    dice = random.Random(15)
    origin = OurBroker(tmp_path / "origin", {"log.cleaner.enable": "false"})
    with DataClient(HOST, origin.port) as client:
        for topic, codec in TOPICS.items():
            client.create_topic(topic, 1, CONFIGS)
            write_history(client, topic, codec, dice, min(2000, scaled(150)))
        before = {topic: client.read_all(topic) for topic in TOPICS}
    assert origin.stop() == 0
    found = {}
    brokers: list[RunningBroker] = []
    for kind in (OurBroker, KafkaBroker):
        directory = tmp_path / kind.kind
        shutil.copytree(origin.log_dir, directory / "logs")
        broker = kind(directory, CLEANER)
        brokers.append(broker)
        wait_until_clean(broker, list(TOPICS))
        with DataClient(HOST, broker.port) as client:
            found[kind.kind] = {topic: client.read_all(topic) for topic in TOPICS}
        assert broker.stop() in (0, 143)
    ours, kafka = brokers
    for topic in TOPICS:
        assert found["ours"][topic] == found["kafka"][topic]
        assert 25 <= len(found["ours"][topic]) < len(before[topic]) / 4
        batches = list(cleaned_batches(ours, topic))
        assert batches == list(cleaned_batches(kafka, topic))
        assert any(header.attributes & DELETE_HORIZON_BIT for _, header in batches)


def test_both_cleaners_keep_the_same_of_transactions(tmp_path: Path) -> None:
    """S15.1, KIP-98: records of aborted transactions go; markers stay as long as their records, and until their
    horizon.

    Before the second round all keys are written once more, so that no record of a transaction is left, and the markers
    get their horizon. In the third round they are beyond it, or not. Cleaning ends at the segment in which the first
    open transaction begins. Cleaning happens only in these rounds, and each round runs to its end. An interrupted round
    of either cleaner leaves its first segments clean, and the next one sets their horizon.
    """
    dice = random.Random(98)
    origin = KafkaBroker(
        tmp_path / "origin", {"log.cleaner.enable": "false", "transaction.state.log.num.partitions": "1"}
    )
    with KafkaClient(HOST, origin.port) as client:
        for topic, configs in TRANSACTIONAL.items():
            client.create_topic(topic, 1, {**CONFIGS, **configs, "min.cleanable.dirty.ratio": 1})
            wait_for_topic(origin, topic, 1)
            write_transactions(client, topic, dice, min(200, scaled(15)))
        bound = {"left-open": segment_of(origin, "left-open", client.bounds("left-open")[1])}
        open_one = client.begin_transaction("open", "left-open")
        client.produce_in_transaction("open", "left-open", keyed_batch(dice, 0, base_sequence=0, **open_one))
        for topic in TRANSACTIONAL:
            for number in range(40):
                client.produce(topic, keyed_batch(dice, number))
        before = {topic: client.read_all(topic) for topic in TRANSACTIONAL}
    assert origin.stop() == 143
    assert all(transaction_indexes(origin, topic) for topic in TRANSACTIONAL), "some are aborted in each"
    assert 0 < bound["left-open"] < segment_of(origin, "left-open")
    ours, kafka = (cleaned_thrice(kind, tmp_path / kind.kind, origin, bound) for kind in (OurBroker, KafkaBroker))
    for name, found in ours.items():
        assert found == kafka[name], name
    for topic in TRANSACTIONAL:
        assert len(ours[topic, "records", 0]) < len(before[topic]) - 20
    for number in range(3):
        assert len(markers(ours["keep-markers", "batches", number])) > 5
    assert len(markers(ours["drop-markers", "batches", 1])) > 5
    assert len(markers(ours["drop-markers", "batches", 2])) <= 3, "the last one of a producer stays"
    assert len(ours["keep-markers", "indexes", 0]) > len(ours["keep-markers", "indexes", 1])


def markers(batches: list[tuple[str, BatchHeader]]) -> list[BatchHeader]:
    return [header for _, header in batches if header.is_control and header.record_count]


def cleaned_thrice(
    kind: type[RunningBroker], directory: Path, origin: RunningBroker, bounds: Mapping[str, int]
) -> dict[tuple[str, str, int], Any]:
    """Clean a copy of another broker's directory three times; return batches by topic, kind, and round."""
    shutil.copytree(origin.log_dir, directory / "logs")
    backoff_ms = itertools.count(3_600_000)
    broker = kind(directory, {"log.cleaner.backoff.ms": str(next(backoff_ms)), "log.retention.ms": "-1"})
    found: dict[tuple[str, str, int], Any] = {}
    with DataClient(HOST, broker.port) as client:

        def clean_from(ratio: str) -> None:
            for topic in TRANSACTIONAL:
                client.set_topic_config(topic, "min.cleanable.dirty.ratio", ratio)
            wait_for_changes(broker)

        for number in range(3):
            clean_from("0.01")
            # A cleaner whose back-off changes interrupts its work, here none, and looks for work at once.
            client.set_cluster_config("log.cleaner.backoff.ms", str(next(backoff_ms)))
            wait_until_clean(broker, list(TRANSACTIONAL), bounds)
            clean_from("1")  # a cleaner that has found work looks for more: half of a round would run now
            for topic in TRANSACTIONAL:
                found[topic, "records", number] = client.read_all(topic)
                found[topic, "batches", number] = list(cleaned_batches(broker, topic))
                found[topic, "indexes", number] = transaction_indexes(broker, topic)
                for each in range(100):
                    records = batch(b"later %d" % each, key=b"key-%d" % (each % 25), timestamp=1)
                    client.produce(topic, records)
    assert broker.stop() in (0, 143)
    return found


def find_coordinator(client: DataClient) -> None:
    """Retry: the first request creates the topic."""
    eventually(lambda: client.find_coordinator("g"), retried=Refused, until=succeeds)


def test_offsets_of_groups_are_compacted_and_stay(tmp_path: Path) -> None:
    """S15.1: `__consumer_offsets` too; the last offset of each partition is there after a restart."""
    settings = {
        "offsets.topic.num.partitions": "1",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.1",
    }
    broker = OurBroker(tmp_path, settings)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("t", 5)
        find_coordinator(client)
        client.set_topic_config("__consumer_offsets", "internal.segment.bytes", "20000")
        for offset in range(1, 401):
            client.commit("g", {("t", partition): offset + partition for partition in range(5)})
    wait_until_clean(broker, ["__consumer_offsets"])
    batches = list(cleaned_batches(broker, "__consumer_offsets"))
    assert 0 < sum(header.record_count for _, header in batches) < 100
    broker.kill()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        find_coordinator(client)
        assert client.committed("g", "t", range(5)) == [400 + partition for partition in range(5)]
    assert broker.stop() == 0
