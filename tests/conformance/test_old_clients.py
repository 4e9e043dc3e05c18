"""Clients of former releases, and clients configured as such: they produce, consume with a group, and commit.

Each writes message sets, or batches, of its time, and reads the others' too. The broker's default serves the versions
that Kafka 4 has dropped. Apache Kafka 4 does not, so there is no comparison here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.java import JavaRunner, compile_java, java_command, old_client_jars
from tests.support.scale import scaled
from tests.support.tools import start_tool
from tests.support.wire import WireClient, served_versions

COUNT = scaled(50)
OLD_CODECS = [None, "gzip", "snappy", "lz4"]
RELEASES = [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11), (1, 0)]
#: Without the lz4 of before 0.10, for which kafka-python needs another package: the Java client covers it below.
WRITTEN = [(each, codec) for each in RELEASES for codec in OLD_CODECS if codec != "lz4" or each >= (0, 10)]
JAVA_RELEASES = ["0.9.0.1", "0.10.2.2"]
OLD_CLIENT = Path(__file__).parent / "java_old" / "OldClient.java"


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> RunningBroker:
    """Start our broker without configuration: it serves legacy versions."""
    return start_broker("ours", {"pybroker.legacy.versions": "true"})


def kafka_python(broker: RunningBroker, release: tuple[int, ...] | None) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, **({} if release is None else {"api_version": release})}


def send(broker: RunningBroker, topic: str, release: tuple[int, ...] | None, codec: str | None) -> list[int]:
    """Send records with kafka-python; return their offsets."""
    idempotent = {} if release is None or release >= (0, 11) else {"enable_idempotence": False}
    producer = KafkaProducer(**kafka_python(broker, release), compression_type=codec, **idempotent)
    sent = [producer.send(topic, b"value-%d" % number, b"key", partition=0) for number in range(COUNT)]
    offsets = [each.get(timeout=60).offset for each in sent]
    producer.close()
    return offsets


def read(broker: RunningBroker, topic: str, release: tuple[int, ...] | None, group: str, count: int) -> list[Any]:
    """Read `count` records with kafka-python as the only member of a group, and commit."""
    consumer = KafkaConsumer(
        **kafka_python(broker, release), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        consumer_timeout_ms=60_000,
    )  # fmt: skip
    if release is not None and release < (0, 9):  # it has groups only for offsets
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])
    records = []
    for record in consumer:
        records.append(record)
        if len(records) == count:
            break
    consumer.commit()
    assert consumer.committed(TopicPartition(topic, 0)) == count
    consumer.close()
    return records


@pytest.mark.parametrize(("release", "codec"), WRITTEN, ids=str)
def test_kafka_python_of_a_former_release(
    broker: RunningBroker, name: str, release: tuple[int, ...], codec: str | None
) -> None:
    """With the requests of that release; the same client and today's client read its records."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
    assert send(broker, name, release, codec) == list(range(COUNT))

    for reader in (release, None):
        records = read(broker, name, reader, f"{name}-{reader}", COUNT)
        assert [(record.offset, record.key, record.value) for record in records] == [
            (number, b"key", b"value-%d" % number) for number in range(COUNT)
        ]
        assert all((record.timestamp or -1) > 0 for record in records) == (release >= (0, 10) and reader != (0, 9))


def test_clients_of_each_release_read_what_the_others_wrote(broker: RunningBroker, name: str) -> None:
    """One log with the records of all of them."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
    writers = [(release, codec) for release in ((0, 9), (0, 10, 0), None) for codec in ("gzip", None)]
    for release, codec in writers:
        send(broker, name, release, codec)

    expected = [b"value-%d" % number for _ in writers for number in range(COUNT)]
    for reader in ((0, 8, 2), (0, 9), (0, 10, 1), (0, 11), None):
        records = read(broker, name, reader, f"{name}-{reader}", len(expected))
        assert [record.offset for record in records] == list(range(len(expected)))
        assert [record.value for record in records] == expected


def test_clients_that_negotiate_choose_the_newest_version(broker: RunningBroker, start_broker: StartBroker) -> None:
    """Lowest versions do not show a broker's age: kafka-python takes ours for the same version as Kafka 4."""
    found = []
    for each in (broker, start_broker("ours", {"pybroker.legacy.versions": "false"})):
        producer = KafkaProducer(bootstrap_servers=each.bootstrap)
        found.append(producer.config["api_version"])
        producer.close()
    assert found[0] == found[1] >= (2, 6)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("release", ["0.8.2", "0.9.0"])
def test_librdkafka_with_the_version_of_its_broker_given(
    broker: RunningBroker, name: str, release: str, codec: str
) -> None:
    """broker.version.fallback with api.version.request=false, as kcat and others need for old brokers."""
    told = {
        "bootstrap.servers": broker.bootstrap,
        "api.version.request": "false",
        "broker.version.fallback": release,
        "log_level": "3",
    }
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
    producer = Producer({**told, "compression.type": codec, "linger.ms": "20"})
    failed: list[object] = []
    for number in range(COUNT):
        producer.produce(name, b"value-%d" % number, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(60) == 0
    assert failed == []

    consumer = Consumer({**told, "group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": "false"})
    if release == "0.8.2":  # it has groups only for offsets
        consumer.assign([ConfluentPartition(name, 0, OFFSET_BEGINNING)])
    else:
        consumer.subscribe([name])
    values = []
    for _ in range(COUNT):
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            raise KafkaException(message.error())
        values.append(message.value())
    consumer.commit(asynchronous=False)
    [committed] = consumer.committed([ConfluentPartition(name, 0)], timeout=60)
    consumer.close()
    assert values == [b"value-%d" % number for number in range(COUNT)]
    assert committed.offset == COUNT


@pytest.mark.parametrize("release", JAVA_RELEASES)
def test_java_client_of_a_former_release(broker: RunningBroker, name: str, release: str, tmp_path: Path) -> None:
    """The clients of that release, with every codec; 0.9 has lz4 with its wrong header checksum."""
    jars = old_client_jars(release)
    compile_java([OLD_CLIENT], jars, tmp_path)
    codecs = [codec or "none" for codec in OLD_CODECS]
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
    command = java_command("OldClient", [broker.bootstrap, name, name, str(COUNT), *codecs], [tmp_path, *jars])
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr

    written = [(f"key-{number}", f"{codec}-{number}") for codec in codecs for number in range(COUNT)]
    assert done.stdout.splitlines() == [f"0:{offset}:{key}:{value}" for offset, (key, value) in enumerate(written)]
    with DataClient(HOST, broker.port) as client:
        records = client.read_all(name)
        assert client.committed(name, name) == [len(written)]
    assert [((record.key or b"").decode(), (record.value or b"").decode()) for record in records] == written
    assert {record.timestamp > 0 for record in records} == {release.startswith("0.10")}


def test_message_format_version_is_kept_and_honoured(start_broker: StartBroker, name: str) -> None:
    """A topic of 0.9 has no timestamps for a client of 0.10; its other consumers see them. One warning reports it."""
    broker = start_broker("ours", {"pybroker.legacy.versions": "true"})
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(name, 1, 1, topic_configs={"message.format.version": "0.9.0"})])
    admin.close()
    send(broker, name, (0, 10, 0), "gzip")
    assert broker.stop() == 0
    broker.start()

    with DataClient(HOST, broker.port) as client:
        assert client.topic_config(name, "message.format.version") == "0.9.0"
    assert {record.timestamp for record in read(broker, name, (0, 10, 0), f"{name}-old", COUNT)} <= {None, -1}
    assert all(record.timestamp > 0 for record in read(broker, name, None, f"{name}-new", COUNT))
    assert broker.output.count("message.format.version is a topic key of earlier versions") == 2  # once for each start


def test_current_clients_use_current_requests(broker: RunningBroker, java: JavaRunner, name: str) -> None:
    """Although old versions are advertised: records with headers, which old messages cannot have, pass both ways."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": "zstd", "enable.idempotence": "true"}
    )
    producer.produce(name, b"from librdkafka", headers=[("h", b"1")])
    assert producer.flush(60) == 0
    arguments = ["--topic", name, "--command-property", "compression.type=zstd"]
    arguments += ["--reader-property", "parse.headers=true"]
    start_tool(java, broker.bootstrap, "kafka-console-producer", *arguments, stdin="h:2\tfrom Java\n").wait()

    arguments = ["--topic", name, "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000"]
    arguments += ["--formatter-property", "print.headers=true"]
    read_by_java = start_tool(java, broker.bootstrap, "kafka-console-consumer", *arguments).wait().stdout
    assert read_by_java.splitlines() == ["h:1\tfrom librdkafka", "h:2\tfrom Java"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    messages = [consumer.poll(60) for _ in range(2)]
    consumer.close()
    assert [(each.value(), each.headers()) for each in messages if each is not None] == [
        (b"from librdkafka", [("h", b"1")]),
        (b"from Java", [("h", b"2")]),
    ]


def test_every_legacy_version_is_answered(broker: RunningBroker) -> None:
    """A request of defaults in each version that Kafka 4 has dropped; the raw client decodes the whole answer."""
    answered = []
    with WireClient(HOST, broker.port) as client:
        for key, versions in served_versions(client).items():
            api = API_BY_KEY[key]
            for version in versions:
                if version in api.current or api is API_VERSIONS:
                    continue
                request = api.request()
                if api is PRODUCE:
                    request.acks = -1  # acks=0 would have no answer
                if api is DESCRIBE_ACLS:  # 0, the unknown kind, is invalid; 1 is any
                    request.resource_type_filter = request.operation = request.permission_type = 1
                client.call(api, version, request)
                answered.append(f"{api.name} v{version}")
    assert {"Produce v0", "Fetch v3", "ListOffsets v0", "OffsetCommit v1", "OffsetFetch v0"} <= set(answered)
