"""pybroker's own controller is killed again and again: clients do not notice, and no decision is lost.

Clients that produce and read are timed. In the time before, another controller is killed and started just as often,
which no broker knows: so the machine has the same work, and only what the cluster's own controller causes differs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.controlling.own_controller import QUIET, OwnCluster, OwnController
from tests.support.eventually import eventually
from tests.support.history_clients import RDKAFKA
from tests.support.scale import SCALE

KILLS = 3 if SCALE <= 1 else 20
#: Timed records after each start.
_TIMED = 20 if SCALE <= 1 else 100
_PROPERTIES = {
    "broker.session.timeout.ms": "9000",  # the default
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
#: Shorter times are equal: they are those of a process that waits for a processor.
_EQUAL_MS = 20.0
_TOPICS = "made-"
_EACH_TOPIC = 25


class TimedClients(Thread):
    """A producer and a reader of one topic. `produced_ms`, `read_ms`: from sending to the answer, and to the reader."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.produced_ms: list[float] = []
        self.read_ms: list[float] = []
        self.failures: list[object] = []
        self._topic = topic
        self.bootstrap = bootstrap
        self._stopping = Event()
        self.start()

    def run(self) -> None:
        """Send a record after the other has been read."""
        config = {**RDKAFKA, "bootstrap.servers": self.bootstrap}
        producer = Producer({**config, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
        reader = Consumer({**config, "group.id": "timed", "fetch.wait.max.ms": 500})
        reader.assign([TopicPartition(self._topic, 0, 0)])
        number = 0
        while not self._stopping.wait(0.002):
            began = time.monotonic()
            producer.produce(self._topic, str(number), partition=0, on_delivery=self._delivered)
            producer.flush(60)
            self.produced_ms.append((time.monotonic() - began) * 1000)
            message = reader.poll(60)
            self.read_ms.append((time.monotonic() - began) * 1000)
            if message is None or message.error() or message.value() != b"%d" % number:
                self.failures.append(f"{number}: {message and (message.error() or message.value())}")
            number += 1
        reader.close()

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(error)

    def forget(self) -> None:
        """Forget all times up to now."""
        self.produced_ms, self.read_ms = [], []

    def percentiles(self) -> tuple[float, float]:
        """Return the 99th percentiles of both times, in ms."""
        return _percentile(self.produced_ms), _percentile(self.read_ms)

    def stop(self) -> None:
        """End, and raise the first failure."""
        self._stopping.set()
        self.join()
        assert self.failures == []


def _percentile(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


class Decisions(Thread):
    """Creates topics and ACLs and alters a config, one after the other, and knows which of them were acknowledged."""

    def __init__(self, bootstrap: str, altered: str) -> None:
        super().__init__(daemon=True)
        self.topics: list[str] = []
        self.acls: list[AclBinding] = []
        #: Acknowledged and sent values of a config that only grows.
        self.acknowledged = self.sent = 0
        self.done = 0
        self._altered = altered
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        self._stopping = Event()
        self.start()

    def run(self) -> None:
        """Ask for the next decision when the last one is answered."""
        number = 0
        while not self._stopping.wait(0.005):
            number += 1
            try:
                self._alter(number)
                self._allow(f"acl-{number}")
                if number % _EACH_TOPIC == 1:
                    self._create(f"{_TOPICS}{number}")
            except KafkaException:  # it may have been carried out or not
                continue
            self.done += 1

    def _alter(self, number: int) -> None:
        self.sent = 1_000_000 + number
        entry = ConfigEntry("retention.ms", str(self.sent), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._altered, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource], request_timeout=10)[resource].result(60)
        self.acknowledged = self.sent

    def _allow(self, name: str) -> None:
        about = ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:alice", "*"
        acl = AclBinding(*about, AclOperation.READ, AclPermissionType.ALLOW)
        self._admin.create_acls([acl], request_timeout=10)[acl].result(60)
        self.acls.append(acl)

    def _create(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, 1, 3)], request_timeout=10)[name].result(60)
        self.topics.append(name)

    def wait_for_another(self) -> None:
        """Wait until the controller has decided once more."""
        before = self.done
        eventually(lambda: self.done > before, "another decision", timeout_s=120, interval_s=0.01)

    def stop(self) -> None:
        """End when the last decision is answered."""
        self._stopping.set()
        self.join()

    def lost(self, bootstrap: str) -> list[object]:
        """Return what was acknowledged and is not there, as one broker knows."""
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topics = admin.list_topics(timeout=30).topics
        acls = admin.describe_acls(_ANYTHING).result(60)
        resource = ConfigResource(ResourceType.TOPIC, self._altered)
        value = int(admin.describe_configs([resource])[resource].result(60)["retention.ms"].value)
        missing: list[object] = [each for each in self.topics if each not in topics]
        missing += [each for each in self.acls if each not in acls]
        if not self.acknowledged <= value <= self.sent:
            missing.append(f"retention.ms {self.acknowledged}: {value}")
        return missing


_ANYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    cluster = OwnCluster(tmp_path / "cluster", _PROPERTIES)
    yield cluster
    cluster.close()


def kill_often(controller: OwnController, clients: TimedClients, decisions: Decisions) -> tuple[float, float]:
    """Kill and start a controller; return the times of the clients meanwhile."""
    dice = random.Random(1)
    clients.forget()
    for _ in range(KILLS):
        decisions.wait_for_another()
        time.sleep(dice.uniform(0, 0.05))
        controller.kill()
        controller.start()
        decisions.wait_for_another()
        before = len(clients.read_ms)
        eventually(lambda before=before: len(clients.read_ms) >= before + _TIMED, timeout_s=120)  # type: ignore[misc]
    return clients.percentiles()


def test_nobody_notices_and_nothing_is_lost(cluster: OwnCluster, tmp_path: Path) -> None:
    """At full size the times of clients are compared, too."""
    cluster.create("timed", min_insync_replicas="2")
    clients = TimedClients(cluster.bootstrap, "timed")
    decisions = Decisions(cluster.bootstrap, "timed")
    eventually(lambda: len(clients.read_ms) >= _TIMED, timeout_s=120)
    with OwnController(tmp_path / "other", _PROPERTIES) as other:
        usual = kill_often(other, clients, decisions)
    killed = kill_often(cluster.controller, clients, decisions)
    clients.stop()
    decisions.stop()
    print(f"p99 of producing and reading in ms: {usual}, with kills {killed}; {decisions.done} decisions")
    assert decisions.topics
    cluster.controller.kill()
    cluster.controller.start()
    for member in cluster.members.values():
        eventually(lambda member=member: decisions.lost(member.bootstrap), equal_to=[], timeout_s=60)  # type: ignore[misc]
    if SCALE > 1:
        assert all(now <= 2 * max(before, _EQUAL_MS) for before, now in zip(usual, killed, strict=True)), (
            usual,
            killed,
        )
