"""pybroker and Apache Kafka lead a tiered topic in turn, with one remote storage between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from tests.integration.membership.kafka_nodes import QUIET, SECURED, KafkaController, OtherBroker, Pair
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.tiered_brokers import tiered_classpath, tiered_properties
from tests.support.tiered_client import TieredClient

TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "internal.segment.bytes": "1000",
    "local.retention.bytes": "1",
}


def _with_storage(command: list[str]) -> list[str]:
    command[command.index("-cp") + 1] = ":".join(str(path) for path in tiered_classpath())
    return command


class _Controller(KafkaController):
    def _command(self, config: Path) -> list[str]:
        return _with_storage(super()._command(config))


class _Kafka(OtherBroker):
    def _command(self, config: Path) -> list[str]:
        return _with_storage(super()._command(config))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    factor = {"rlmm.config.remote.log.metadata.topic.replication.factor": "2"}
    tiered, port = tiered_properties(tmp_path / "remote", factor), free_port()
    for each in ("remote", "controller", "ours", "kafka"):
        (tmp_path / each).mkdir()
    of_member = {**SECURED, "listeners": f"PLAINTEXT://{HOST}:{port}", **tiered}
    with (
        _Controller(tmp_path / "controller", tiered) as controller,
        MemberBroker(tmp_path / "ours", controller.port, of_member, port=port) as member,
        _Kafka(tmp_path / "kafka", controller.port, tiered) as other,
    ):
        yield Pair(controller, member, other)


def produce(pair: Pair, numbers: range) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": pair.bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce("t", str(number).zfill(300))
        assert producer.flush(60) == 0


def read(broker: RunningBroker, count: int) -> list[int]:
    consumer = Consumer({**QUIET, "bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    numbers: list[int] = []

    def more() -> bool:
        numbers.extend(int(each.value()) for each in consumer.consume(1000, 0.5) if not each.error())
        return len(numbers) >= count

    eventually(more, lambda: str(numbers), timeout_s=60)
    consumer.close()
    return numbers


def await_state(broker: RunningBroker, leader: int, isr: list[int]) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": broker.bootstrap})

    def state() -> tuple[int, list[int]]:
        found = admin.list_topics("t", timeout=10).topics["t"].partitions[0]
        return found.leader, sorted(found.isrs)

    eventually(lambda: state() == (leader, isr), lambda: str(state()), timeout_s=60)


def await_local_start(broker: RunningBroker, above: int) -> None:
    with TieredClient(HOST, broker.port) as client:
        eventually(lambda: int(client.special("t")[3]) > above, lambda: str(client.special("t")), timeout_s=60)


@pytest.mark.full_size  # three processes, two of them of Apache Kafka
def test_leaders_of_both_kinds_go_on(pair: Pair) -> None:
    ours, kafka = pair.member, pair.other
    admin = AdminClient({**QUIET, "bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[kafka.node_id]], config=TOPIC)])["t"].result(60)
    produce(pair, range(20))
    await_local_start(kafka, 10)
    wanted = {"name": "t", "partitions": [{"partition_index": 0, "replicas": [ours.node_id, kafka.node_id]}]}
    with TieredClient(HOST, kafka.port) as client:
        assert not client.call(ALTER_PARTITION_REASSIGNMENTS, 0, topics=[wanted], timeout_ms=30_000).error_code
    await_state(kafka, kafka.node_id, [1, 2])
    assert min(int(each.stem) for each in (ours.log_dir / "t-0").glob("*.log")) > 10
    kafka.stop()
    await_state(ours, ours.node_id, [1])
    assert read(ours, 20) == list(range(20))
    produce(pair, range(20, 40))
    await_local_start(ours, 30)
    kafka.start()
    await_state(ours, ours.node_id, [1, 2])
    ours.stop()
    await_state(kafka, kafka.node_id, [2])
    assert read(kafka, 40) == list(range(40))
    assert "Traceback" not in ours.output
