"""A node alone hands its metadata log over to controllers of Apache Kafka, and gets it back, while clients go on.

The stages: a node alone; a member under controllers of Apache Kafka; the same under pybroker's controller, on the
directory of Apache Kafka's; a node alone again.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.conformance.cluster.mixed_cluster import QUIET
from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.kafka_nodes import KafkaController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.ports import free_port
from tests.support.scale import SCALE

pytestmark = pytest.mark.kafka_each_time

IDS = (101,) if SCALE <= 1 else (101, 102, 103)
TOPIC, PARTITIONS, GROUP = "orders", 2, "readers"
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TIMEOUT_S = 120


class _Places:
    """The directories and ports of the nodes, and their properties under the new controllers."""

    def __init__(self, home: Path) -> None:
        self.node, self.port = home / "node", free_port()
        self.ports = {node_id: free_port() for node_id in IDS}
        self.homes = {node_id: home / str(node_id) for node_id in IDS}

    @property
    def servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def voters(self) -> list[str]:
        """Return the options that name the new voters."""
        return [f"--voter={each}@{HOST}:{self.ports[each]}={self.homes[each]}/logs" for each in IDS]


class _Controller(KafkaController):
    """Apache Kafka as one of the controllers."""

    def __init__(self, places: _Places, node_id: int) -> None:
        self.node_id, self._places = node_id, places
        super().__init__(places.homes[node_id], _AUTHORIZER, port=places.ports[node_id])

    def _own_properties(self) -> dict[str, str]:
        own = controller_keys(self.node_id, self.port)
        return {**own, "controller.quorum.bootstrap.servers": self._places.servers}


class _OwnController(OwnController):
    """pybroker in the place of the first controller."""

    node_id = IDS[0]

    def _own_properties(self) -> dict[str, str]:
        own = super()._own_properties()
        del own["pybroker.cluster.id"]
        return own


class Load:
    """Produces numbers to all partitions until the end, and notes which were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.acknowledged: list[tuple[int, int]] = []
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Wait for the last acknowledgements."""
        self._is_ending.set()
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT_S)

    def go_on(self) -> None:
        """Wait until more records are acknowledged."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > before, timeout_s=_TIMEOUT_S)

    def _work(self) -> None:
        number = 0
        while not self._is_ending.wait(0.01):
            for partition in range(PARTITIONS):
                self._produce(partition, number)
            number += 1
            self._producer.poll(0)
        self._producer.flush(_TIMEOUT_S)

    def _produce(self, partition: int, number: int) -> None:
        def done(error: object, _: object) -> None:
            if error is None:
                self.acknowledged.append((partition, number))
            else:
                self.failed.append(str(error))

        self._producer.produce(TOPIC, str(number), partition=partition, on_delivery=done)


@pytest.fixture
def running() -> Iterator[list[RunningBroker]]:
    nodes: list[RunningBroker] = []
    yield nodes
    for each in nodes:
        each.kill()


def handover(config: Path, *options: str) -> str:
    """Run the command, and return its output."""
    command = [sys.executable, "-m", "pybroker", "cluster", "handover", str(config), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def member(places: _Places, properties: Mapping[str, str]) -> MemberBroker:
    """Start the node as a broker under the new controllers."""
    servers = {"controller.quorum.bootstrap.servers": places.servers}
    return MemberBroker(places.node, 0, {**properties, **servers}, port=places.port)


def leave_one_voter(places: _Places, bootstrap: str) -> None:
    """Remove all voters but the first by Apache Kafka's tool."""
    for node_id in IDS[1:]:
        lines = (places.homes[node_id] / "logs/meta.properties").read_text().splitlines()
        directory_id = next(each.partition("=")[2] for each in lines if each.startswith("directory.id="))
        words = ["remove-controller", "--controller-id", str(node_id), "--controller-directory-id", directory_id]
        tool = ["--bootstrap-server", bootstrap, *words]
        command = java_command("org.apache.kafka.tools.MetadataQuorumCommand", tool, [kafka_classpath()], options=QUICK)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def written(bootstrap: str) -> list[tuple[int, int]]:
    """Return partition and number of all records, in the order of each partition."""
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "all"})
    found: list[tuple[int, int]] = []
    try:
        for partition in range(PARTITIONS):
            place = TopicPartition(TOPIC, partition, 0)
            end = consumer.get_watermark_offsets(place, _TIMEOUT_S)[1]
            consumer.assign([place])
            last = -1
            while last < end - 1:
                for record in consumer.consume(500, timeout=1):
                    assert record.error() is None
                    offset, value = record.offset(), record.value()
                    assert offset is not None
                    assert isinstance(value, bytes)
                    last = offset
                    found.append((partition, int(value)))
    finally:
        consumer.close()
    return found


def kept(bootstrap: str) -> tuple[int, int, list[str]]:
    """Return what the metadata and groups have: the committed offset, the number of ACLs, the topics."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        (place,) = consumer.committed([TopicPartition(TOPIC, 0)], _TIMEOUT_S)
    finally:
        consumer.close()
    any_acl = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    acls = admin.describe_acls(any_acl).result(_TIMEOUT_S)
    topics = [each for each in admin.list_topics(timeout=_TIMEOUT_S).topics if not each.startswith("__")]
    return place.offset, len(acls), sorted(topics)


def fill(bootstrap: str) -> None:
    """Create a topic, an ACL and a group."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(_TIMEOUT_S)
    acl = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([acl])[acl].result(_TIMEOUT_S)
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


def test_controllers_of_apache_kafka_take_over_and_give_back(tmp_path: Path, running: list[RunningBroker]) -> None:
    """Acknowledged records are there once and in order; the group and the ACL are kept."""
    places = _Places(tmp_path)
    node: RunningBroker = OurBroker(places.node, _AUTHORIZER, port=places.port)
    running.append(node)
    fill(node.bootstrap)
    before = kept(node.bootstrap)
    with Load(node.bootstrap) as load:
        load.go_on()

        assert node.stop() == 0
        config = places.node / "server.properties"
        assert "Nothing is changed" in handover(config, *places.voters())
        assert not any(each.exists() for each in places.homes.values())
        handover(config, *places.voters(), "--execute")
        node.spawn()
        assert node.wait() == 1, "a node that is no voter any more must not lead"
        with ThreadPoolExecutor(len(IDS)) as pool:
            controllers = list(pool.map(lambda node_id: _Controller(places, node_id), IDS))
        running += controllers
        node = member(places, _AUTHORIZER)
        running.append(node)
        load.go_on()
        assert kept(node.bootstrap) == before

        leave_one_voter(places, node.bootstrap)
        for each in controllers:
            each.stop()
        controller = _OwnController(places.homes[IDS[0]], _AUTHORIZER, port=places.ports[IDS[0]])
        running.append(controller)
        load.go_on()
        admin = AdminClient({**QUIET, "bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("late", 1, 1)])["late"].result(_TIMEOUT_S)

        assert (node.stop(), controller.stop()) == (0, 0)
        config = places.homes[IDS[0]] / "server.properties"
        handover(config, f"--voter=1@{HOST}:{free_port()}={places.node}/logs", "--execute")
        node = OurBroker(places.node, _AUTHORIZER, port=places.port)
        running.append(node)
        load.go_on()
    assert load.failed == []
    assert kept(node.bootstrap) == (*before[:2], ["late", TOPIC])
    found = written(node.bootstrap)
    assert Counter(found) == Counter(load.acknowledged)
    assert found == sorted(found)
