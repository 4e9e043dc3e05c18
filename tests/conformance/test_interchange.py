"""Apache Kafka and pybroker in turn on the same directory with the same server.properties.

Clients see the same of each broker: topics with ids and configuration, every batch, committed and aborted records,
group offsets, features. Data of services that only Apache Kafka has are back when it returns. One run stops cleanly,
the other by kill -9.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from storage.checkpoints import LOG_START_OFFSETS
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually
from tests.support.kafka_only import NEW_CONSUMER_GROUP, SHARE_GROUP, TRANSACTIONAL_ID, KafkaClient
from tests.support.one_directory import BROKER, GROUP, TOPIC, Contents, OneDirectory, contents, properties_of
from tests.support.ports import free_port
from tests.support.scale import SCALE
from tests.support.script_steps import wait_for_change
from tests.support.settled import settled, wait_for_changes, wait_for_topic

ROLLS = {"internal.segment.bytes": "2000", "index.interval.bytes": "200"}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
WAYS = 2 if SCALE > 1 else 1
SMALL_TOPICS = 9  # twenty in total
GROUPS = ("readers", NEW_CONSUMER_GROUP)
#: warnings of Apache Kafka on its own directories, too
ALWAYS_SAID = (
    "Performing controller activation",
    "Attempting to close NetworkClient",
    "Overriding internal.metadata.log.segment.bytes",
    # on a busy machine
    "slow controller event",
    "RPC got timed out",
    # Apache Kafka registers itself between its election and its activation, and tries again: a NotControllerException,
    # whose name is as long as an id
    "org.apache.kafka.common.errors.#: The active controller appears to be node #.",
)


def configure(client: DataClient, kind: int, name: str, **values: str) -> None:
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    [answer] = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
    assert answer.error_code == ErrorCode.NONE, answer


class Writer:
    """Writes under each of the brokers; `producer` is one idempotent producer for all."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.sequence = itertools.count()
        self.topics = itertools.count()
        self.last = b""
        self.last_offset = -1

    def write_all_codecs(self, client: DataClient, rounds: int = 12) -> None:
        for codec in Codec:
            for number in range(rounds):
                values = [b"%d-%d" % (number, each) * (1 + number) for each in range(1 + number % 7)]
                client.produce(f"codec-{codec.name.lower()}", batch(*values, codec=codec, key=b"k"))

    def write_idempotently(self, client: DataClient, count: int = 5) -> None:
        """The last batch is still known, a gap is rejected, the next sequence is accepted."""
        if self.last:
            assert client.produce("idempotent", self.last) == self.last_offset
            with pytest.raises(Refused) as refused:
                client.produce("idempotent", self._batch(10_000))
            assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for _ in range(count):
            self.last = self._batch(next(self.sequence))
            self.last_offset = client.produce("idempotent", self.last)

    def _batch(self, sequence: int) -> bytes:
        return batch(b"%d" % sequence, producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence)

    def write_keys(self, client: DataClient, rounds: int) -> None:
        """Write the same few keys again and again, and tombstones."""
        for number in range(rounds):
            builder = BatchBuilder(codec=number % 5)
            for key in range(4):
                value = None if key == number % 5 else b"%d" % number
                builder.append(int(time.time() * 1000), b"key-%d" % key, value)
            client.produce("compacted", builder.build())


def fill(broker: RunningBroker, writer: Writer) -> None:
    """Create twenty topics with Apache Kafka, with everything that it can store."""
    with KafkaClient(HOST, broker.port) as client:
        ids = {}
        topics: dict[str, tuple[int, dict[str, str]]] = {f"codec-{each.name.lower()}": (1, ROLLS) for each in Codec}
        topics |= {f"small.{number}_x": (1 + number % 3, {}) for number in range(SMALL_TOPICS)}
        topics |= {"idempotent": (1, ROLLS), "compacted": (1, COMPACTED), "plain": (1, {}), "going": (2, {})}
        topics |= {"transactional": (1, ROLLS), "stamped": (1, {"message.timestamp.type": "LogAppendTime"})}
        for name, (partitions, configs) in topics.items():
            ids[name] = client.create_topic(name, partitions, configs)
        assert len(topics) == 20
        for name, (partitions, _) in topics.items():
            wait_for_topic(broker, name, partitions)
        configure(client, BROKER, "", num_recovery_threads_per_data_dir="2")
        configure(client, BROKER, "1", background_threads="7")
        configure(client, TOPIC, "plain", retention_ms="987654321", max_message_bytes="2000000")
        configure(client, GROUP, SHARE_GROUP, share_auto_offset_reset="earliest")
        for number in range(10):
            client.produce("plain", batch(b"%d" % number))
        for name in ("stamped", *(f"small.{number}_x" for number in range(SMALL_TOPICS))):
            client.produce(name, batch(b"a", b"b", codec=3))
        writer.producer_id = client.patient_producer_id()
        writer.write_all_codecs(client)
        writer.write_idempotently(client)
        client.delete_records("codec-gzip", 0, 17)
        client.await_coordinator("readers", 0)
        settled(broker, lambda: client.commit("readers", {("plain", 0): 4, ("idempotent", 0): 2}))
        for number in range(6):
            client.transaction(f"t-{number}", "transactional", b"x" * 200, b"y", commit=number % 3 > 0)
        client.join_new_groups("plain", ids["plain"])
        client.transaction(TRANSACTIONAL_ID, "transactional", b"open", commit=None)
        client.produce("transactional", batch(b"behind the open one"))
        client.secure()
        writer.write_keys(client, 60)
        eventually(lambda: len(client.read_all("compacted")) <= 60, "nothing is cleaned")
        configure(client, TOPIC, "compacted", min_cleanable_dirty_ratio="1")


def write_on(broker: RunningBroker, writer: Writer) -> None:
    """Make all kinds of changes after a takeover."""
    with DataClient(HOST, broker.port) as client:
        new = [f"new-{next(writer.topics)}" for _ in range(3)]
        for name in new:
            client.create_topic(name, 2, ROLLS)
            wait_for_topic(broker, name, 2)
            client.produce(name, batch(b"new", codec=4), partition=1)
        client.delete_topic(new[2])
        if "going" in client.topics():
            client.delete_topic("going")
        count = client.topics()["small.1_x"] + 1
        wanted = CreatePartitionsTopic(name="small.1_x", count=count, assignments=None)
        [answer] = client.call(CREATE_PARTITIONS, 3, topics=[wanted], timeout_ms=30_000, validate_only=False).results
        assert answer.error_code == ErrorCode.NONE
        wait_for_topic(broker, "small.1_x", count)
        client.produce("small.1_x", batch(b"in a new partition"), partition=count - 1)
        configure(client, TOPIC, "plain", retention_ms=f"{time.time_ns()}")
        configure(client, BROKER, "", num_recovery_threads_per_data_dir="1")
        for number in range(8):
            configure(client, TOPIC, "small.0_x", segment_ms=str(1_000_000 + number))  # for a snapshot of the metadata
        writer.write_all_codecs(client)
        writer.write_idempotently(client)
        writer.write_keys(client, 3)
        client.produce("transactional", batch(b"behind the open one, later"))
        client.delete_records("codec-zstd", 0, client.bounds("codec-zstd")[0] + 9)
        client.commit("readers", {("plain", 0): client.committed("readers", "plain")[0] + 1, (new[0], 1): 1})


class Stages:
    """Brokers in sequence; each begins where the last one ended."""

    def __init__(self, directory: OneDirectory, *, killed: bool) -> None:
        self.directory = directory
        self.writer = Writer()
        self._killed = killed
        self._contents: Contents = {}

    def take_over(self, kind: str) -> RunningBroker:
        """Start the next broker; it must have all data of the last one."""
        broker = self.directory.start(kind)
        if self._contents:
            settled(broker, lambda: self._compare(contents(broker, GROUPS)))
        return broker

    def _compare(self, found: Contents) -> None:
        assert found.keys() == self._contents.keys()
        for name, expected in self._contents.items():
            assert found[name] == expected, name

    def end(self, broker: RunningBroker) -> None:
        wait_for_changes(broker)
        self._contents = contents(broker, GROUPS)
        if self._killed:  # otherwise the log start offsets of DeleteRecords would be lost
            for _ in range(2):
                wait_for_change(broker.log_dir / LOG_START_OFFSETS)
        self.directory.end(killed=self._killed)


def complaints(stages: Stages) -> list[str]:
    """Return warnings that Apache Kafka would not log on a directory of its own."""
    return [line for line in stages.directory.complaints() if not any(known in line for known in ALWAYS_SAID)]


def protected(broker: RunningBroker) -> dict[str, object]:
    with KafkaClient(HOST, broker.port) as client:
        return client.protected()


@pytest.fixture(params=["killed, voters in the log", "stopped, voters configured"][:WAYS])
def stages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stages]:
    killed = str(request.param).startswith("killed")
    directory = OneDirectory(tmp_path / "node", free_port(), free_port(), standalone=killed)
    yield Stages(directory, killed=killed)
    if directory.running is not None:
        directory.running.kill()


def test_a_directory_alternates_between_both_brokers(stages: Stages) -> None:
    """Nothing is lost in either direction, and neither broker complains about the other's files."""
    kafka = stages.take_over("kafka")
    fill(kafka, stages.writer)
    kept = protected(kafka)
    stages.end(kafka)
    properties = properties_of(stages.directory.log_dir / "meta.properties")

    ours = stages.take_over("ours")
    write_on(ours, stages.writer)
    stages.end(ours)
    assert properties_of(stages.directory.log_dir / "meta.properties") == properties
    assert not list(stages.directory.log_dir.glob("*-stray"))
    metadata = stages.directory.log_dir / "__cluster_metadata-0"
    assert list(metadata.glob("*.checkpoint"))
    assert not (metadata / "00000000000000000000.log").exists(), "Apache Kafka is to start from a snapshot"

    kafka = stages.take_over("kafka")
    assert protected(kafka) == kept
    assert complaints(stages) == []
    write_on(kafka, stages.writer)
    with KafkaClient(HOST, kafka.port) as client:
        client.transaction(TRANSACTIONAL_ID, "transactional", b"at last", commit=True)  # aborts the open one
    stages.end(kafka)

    ours = stages.take_over("ours")
    write_on(ours, stages.writer)
    stages.end(ours)
    assert stages.take_over("ours").kind == "ours"


@pytest.mark.parametrize("standalone", [False, True][:WAYS], ids=lambda value: "in the log" if value else "configured")
def test_apache_kafka_starts_on_our_directory(standalone: bool, tmp_path: Path) -> None:
    """Formatted at the first start, killed once, stopped once; without a complaint."""
    directory = OneDirectory(tmp_path / "node", free_port(), free_port(), standalone=standalone, formatted=False)
    stages = Stages(directory, killed=False)
    try:
        ours = stages.take_over("ours")
        with DataClient(HOST, ours.port) as client:
            client.create_topic("plain", 3, ROLLS)
            for number in range(30):
                client.produce("plain", batch(b"%d" % number * 20, codec=number % 5), number % 3)
            client.find_coordinator("readers")
            client.commit("readers", {("plain", 1): 5})
        directory.end(killed=True)
        stages.end(stages.take_over("ours"))
        kafka = stages.take_over("kafka")
        assert complaints(stages) == []
        stages.end(kafka)
        stages.take_over("ours")
    finally:
        if directory.running is not None:
            directory.running.kill()
