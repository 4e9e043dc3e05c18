"""A broker of Apache Kafka and a member under pybroker's own controller replicate both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.kafka_nodes import QUIET, SECURED, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient

pytestmark = pytest.mark.kafka_each_time

OURS, THEIRS = 1, 2
_REPLICATION = {"replica.lag.time.max.ms": "3000", "replica.fetch.wait.max.ms": "100"}


class Cluster:
    """The controller, and the two brokers by their ids."""

    def __init__(self, directory: Path) -> None:
        self.controller = OwnController(directory / "controller", SECURED)
        port = free_port()
        of_member = {**SECURED, **_REPLICATION, "listeners": f"PLAINTEXT://{HOST}:{port}"}
        self.brokers: dict[int, RunningBroker] = {}
        try:
            self.brokers[OURS] = MemberBroker(directory / "ours", self.controller.port, of_member, port=port)
            self.brokers[THEIRS] = OtherBroker(directory / "theirs", self.controller.port, _REPLICATION)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for node in (*self.brokers.values(), self.controller):
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers.values())

    def create(self, name: str, *replicas: int, at: int) -> None:
        """Create a topic by a broker, which forwards that; both brokers know it then."""
        admin = AdminClient({**QUIET, "bootstrap.servers": self.brokers[at].bootstrap})
        admin.create_topics([NewTopic(name, 1, replica_assignment=[list(replicas)])])[name].result(60)
        for node_id in self.brokers:
            eventually(lambda node_id=node_id: self.state(name, node_id)[0] >= 0, timeout_s=60)  # type: ignore[misc]

    def state(self, topic: str, at: int) -> tuple[int, list[int]]:
        """Return leader and ISR."""
        with WireClient(HOST, self.brokers[at].port) as client:
            answer = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=topic)])
        partitions: list[Struct] = answer.topics[0].partitions
        return (partitions[0].leader_id, sorted(partitions[0].isr_nodes)) if partitions else (-1, [])

    def produce(self, topic: str, count: int) -> None:
        failed: list[object] = []
        producer = Producer({**QUIET, "bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(count):
            producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(60) == 0
        assert failed == []

    def are_equal(self, topic: str) -> bool:
        logs = [
            b"".join(each.read_bytes() for each in sorted(broker.log_dir.glob(f"{topic}-0/*.log")))
            for broker in self.brokers.values()
        ]
        return bool(logs[0]) and logs[0] == logs[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("own"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize("leads", [OURS, THEIRS])
def test_both_kinds_replicate(cluster: Cluster, leads: int) -> None:
    other = OURS + THEIRS - leads
    topic = f"led-by-{leads}"
    cluster.create(topic, leads, other, at=leads)
    assert cluster.state(topic, other) == (leads, [OURS, THEIRS])
    cluster.produce(topic, 500)
    eventually(lambda: cluster.are_equal(topic))


def test_apache_kafka_moves_and_returns(cluster: Cluster) -> None:
    """Its leadership moves when it is killed, and when it stops in order; it gets into the ISR again."""
    cluster.create("moving", THEIRS, OURS, at=OURS)
    broker = cluster.brokers[THEIRS]
    for leave in (broker.kill, broker.stop):
        leave()
        eventually(lambda: cluster.state("moving", OURS), equal_to=(OURS, [OURS]), timeout_s=90)
        cluster.produce("moving", 50)
        broker.start()
        eventually(lambda: cluster.state("moving", OURS)[1], equal_to=[OURS, THEIRS], timeout_s=90)
    eventually(lambda: cluster.are_equal("moving"))


def test_the_controller_starts_again(cluster: Cluster) -> None:
    """Both kinds of brokers go on meanwhile, and obey it again."""
    cluster.create("before", OURS, THEIRS, at=THEIRS)
    cluster.controller.kill()
    cluster.produce("before", 50)
    cluster.controller.start()
    cluster.create("after", THEIRS, OURS, at=THEIRS)
    cluster.produce("after", 50)
    eventually(lambda: cluster.are_equal("after"))
