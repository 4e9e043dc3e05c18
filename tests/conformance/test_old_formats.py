"""Logs in formats before record batches: both brokers serve them alike.

The recorded segments replace a topic's own while the broker is stopped. The dumps beside them list their content.
"""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.batch import entry_at
from protocol.records.entries import iter_records
from protocol.records.record import Record
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.dump_log import LOGS, dumped_logs
from tests.support.java import JavaRunner
from tests.support.tools import start_tool

OLD = LOGS / "v3.9.1-old-formats"
TOPICS = sorted(path.name.removesuffix("-0") for path in OLD.glob("*-0"))
PROPERTIES = {"pybroker.legacy.versions": "true", "log.retention.ms": "-1"}
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")

Row = tuple[int, int, bytes | None, bytes | None]  # offset, timestamp (-1 without), key, value


@pytest.fixture(scope="module", params=["ours", "kafka"])
def served(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """Start a broker whose topics have the recorded segments. It was stopped cleanly, so it trusts the files."""
    return _with_old_logs(start_broker(request.param, PROPERTIES))


@pytest.fixture(scope="module")
def recovered(start_broker: StartBroker) -> RunningBroker:
    """Start our broker with the same segments, killed and without offset indexes: it had to check every entry."""
    broker = _with_old_logs(start_broker("ours", PROPERTIES))
    broker.kill()
    for index in broker.log_dir.glob("*-0/*.index"):
        index.unlink()
    broker.start()
    return broker


def _with_old_logs(broker: RunningBroker) -> RunningBroker:
    with DataClient(HOST, broker.port) as client:
        for topic in TOPICS:
            client.create_topic(topic)
    assert broker.stop() in (0, 143)
    for topic in TOPICS:
        directory = broker.log_dir / f"{topic}-0"
        for file in directory.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in (OLD / f"{topic}-0").iterdir():
            if file.suffix in SEGMENT_SUFFIXES:
                shutil.copy(file, directory)
                (directory / file.name).chmod(0o644)
    broker.start()
    return broker


def expected_rows(topic: str) -> list[Row]:
    """Return the records of the dump."""
    rows = []
    for file in dumped_logs(OLD / f"{topic}-0.dump.txt"):
        for entry in file.entries:
            for record in entry.records:
                times = (record.get(each) for each in ("CreateTime", "LogAppendTime", "NoTimestampType"))
                timestamp = int(next(each for each in times if each is not None))
                key, value = record.get("key"), record.get("payload")
                rows.append((int(record["offset"]), timestamp, key and key.encode(), value and value.encode()))
    return rows


def rows_of(records: list[Record]) -> list[Row]:
    return [(each.offset, each.timestamp, each.key, each.value) for each in records]


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != "v0-lz4"])  # it needs another package for that
def test_kafka_python_reads_old_logs(served: RunningBroker, topic: str) -> None:
    """Offsets, timestamps, keys and values, with wrappers and after compaction."""
    consumer = KafkaConsumer(bootstrap_servers=served.bootstrap, consumer_timeout_ms=20_000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    expected = expected_rows(topic)
    found = []
    for record in consumer:
        found.append((record.offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value))
        if len(found) == len(expected):
            break
    consumer.close()
    assert found == expected


def test_librdkafka_reads_old_logs(served: RunningBroker) -> None:
    """All of them at once."""
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "old", "enable.auto.commit": "false"})
    consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING) for topic in TOPICS])
    expected = {topic: expected_rows(topic) for topic in TOPICS}
    found: dict[str, list[Row]] = {topic: [] for topic in TOPICS}
    for _ in range(sum(map(len, expected.values()))):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        kind, timestamp = message.timestamp()
        found[message.topic()].append((message.offset(), timestamp if kind else -1, message.key(), message.value()))
    consumer.close()
    assert found == expected


@pytest.mark.parametrize("topic", ["v0-gzip", "v1-lz4", "v1-logappend", "mixed-v0-v1-v2"])
def test_java_reads_old_logs(served: RunningBroker, java: JavaRunner, topic: str) -> None:
    """The console consumer, with timestamps and offsets."""
    expected = expected_rows(topic)
    arguments = ["--topic", topic, "--from-beginning", "--max-messages", str(len(expected)), "--timeout-ms", "20000"]
    for name in ("timestamp", "offset", "key"):
        arguments += ["--formatter-property", f"print.{name}=true"]
    lines = start_tool(java, served.bootstrap, "kafka-console-consumer", *arguments).wait().stdout.splitlines()

    kind = "LogAppendTime" if "logappend" in topic else "CreateTime"
    assert lines == [
        "\t".join(
            (
                f"{kind}:{timestamp}" if timestamp >= 0 else "NO_TIMESTAMP",
                f"Offset:{offset}",
                (key or b"null").decode(),
                (value or b"null").decode(),
            )
        )
        for offset, timestamp, key, value in expected
    ]


TIMED = [topic for topic in TOPICS if not topic.startswith("v0")]


@pytest.mark.parametrize("topic", [topic for topic in TIMED if "compacted" not in topic])
def test_offsets_for_times_in_old_logs(served: RunningBroker, topic: str) -> None:
    """The first record not earlier than a time, also inside a wrapper (S5.5, S12.1)."""
    check_times(served, topic)


@pytest.mark.parametrize("topic", TIMED)
def test_offsets_for_times_in_old_logs_after_a_recovery(recovered: RunningBroker, topic: str) -> None:
    """The same; also after a segment that a cleaner has emptied, where Apache Kafka stops."""
    check_times(recovered, topic)


def check_times(broker: RunningBroker, topic: str) -> None:
    """Ask for each existing time, and for times before and after them all."""
    rows = expected_rows(topic)
    times = sorted({timestamp for _, timestamp, _, _ in rows if timestamp >= 0})
    with DataClient(HOST, broker.port) as client:
        for asked in (0, *times, times[-1] + 1):
            found = _listed(client, topic, asked)
            expected = next(((time, offset) for offset, time, _, _ in rows if time >= asked), (-1, -1))
            assert found == expected, asked
        offset, timestamp = max(((offset, time) for offset, time, _, _ in rows), key=lambda row: (row[1], -row[0]))
        assert _listed(client, topic, -3) == (timestamp, offset)


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic.startswith("v0")])
def test_logs_of_the_first_format_have_no_times(served: RunningBroker, topic: str) -> None:
    """So no time finds an offset (S12.1); first and last offsets are found."""
    rows = expected_rows(topic)
    with DataClient(HOST, served.port) as client:
        assert _listed(client, topic, 0) == (-1, -1)
        assert _listed(client, topic, 1_700_000_000_000) == (-1, -1)
        assert client.bounds(topic) == (0, rows[-1][0] + 1)


def _listed(client: DataClient, topic: str, timestamp: int) -> tuple[int, int]:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    answer = client.call(LIST_OFFSETS, 7, replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0
    return found.timestamp, found.offset


@pytest.mark.parametrize("topic", TOPICS)
def test_every_offset_of_an_old_log_can_be_fetched(served: RunningBroker, topic: str) -> None:
    """Since v4 in the stored form: the answer begins with the entry that holds the offset, or the next one."""
    rows = expected_rows(topic)
    with DataClient(HOST, served.port) as client:
        for offset in range(rows[-1][0] + 1):
            found = rows_of(list(iter_records(bytes(client.fetch(topic, offset, max_bytes=1).records))))
            assert [row for row in found if row[0] >= offset][:1] == [row for row in rows if row[0] >= offset][:1]


@pytest.mark.parametrize("version", range(4))
def test_old_consumers_read_old_logs_and_new_ones(recovered: RunningBroker, version: int) -> None:
    """Formats that they know come unchanged, others as messages that they know."""
    with DataClient(HOST, recovered.port) as client:
        for topic in TOPICS:
            found: list[Row] = []
            rows = expected_rows(topic)
            while not found or found[-1][0] < rows[-1][0]:
                at = found[-1][0] + 1 if found else 0
                wanted = FetchPartition(partition=0, fetch_offset=at, partition_max_bytes=1000)
                topics = [FetchTopic(topic=topic, partitions=[wanted])]
                data = client.call(FETCH, version, max_wait_ms=0, topics=topics).responses[0].partitions[0]
                assert data.error_code == 0
                assert _magics(data.records) <= ({0} if version < 2 else {0, 1})
                found += [row for row in rows_of(list(iter_records(data.records))) if row[0] >= at]
            assert found == [(o, time if version >= 2 else -1, key, value) for o, time, key, value in rows]


def _magics(records: bytes) -> set[int]:
    found, position = set(), 0
    while (entry := entry_at(records, position)) is not None:
        found.add(entry[2])
        position += entry[1]
    return found
