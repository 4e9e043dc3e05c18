"""Members replicate under pybroker's own controller, and nothing that it has decided is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.integration.controlling.own_controller import CONTROLLER, QUIET, SESSION_MS, OwnCluster
from tests.support.eventually import eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    cluster = OwnCluster(tmp_path)
    yield cluster
    cluster.close()


class Load:
    """Produces numbers with acks=all until `stop`."""

    def __init__(self, cluster: OwnCluster, topic: str) -> None:
        self.acked: list[int] = []
        self.failed: list[KafkaError] = []
        self._topic = topic
        self._stopped = Event()
        self._producer = Producer(
            {**QUIET, "bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2}
        )
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.002):
            self._producer.produce(self._topic, str(number), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acked.append(int(message.value()))  # type: ignore[attr-defined]

    def wait_for(self, more: int) -> None:
        """Wait until more records are acknowledged than now."""
        wanted = len(self.acked) + more
        eventually(lambda: len(self.acked) >= wanted, lambda: f"{len(self.acked)} of {wanted}", timeout_s=120)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def read_all(cluster: OwnCluster, topic: str, count: int) -> list[int]:
    consumer = Consumer({**QUIET, "bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    numbers: list[int] = []

    def read() -> bool:
        numbers.extend(int(each.value()) for each in consumer.consume(1000, 0.5) if not each.error())
        return len(numbers) >= count

    eventually(read, lambda: f"{len(numbers)} of {count} records", timeout_s=60)
    consumer.close()
    return numbers


def test_a_leader_and_the_controller_are_killed(cluster: OwnCluster) -> None:
    """No acknowledged record is lost, and the controller continues with what it had decided."""
    cluster.create("orders", min_insync_replicas="2")
    load = Load(cluster, "orders")
    load.wait_for(50)
    killed = cluster.leaders("orders", 1)[0]
    others = [each for each in cluster.members if each != killed]
    cluster.members[killed].kill()
    eventually(lambda: cluster.leaders("orders", others[0])[0] in others, timeout_s=60)
    load.wait_for(50)

    epoch = cluster.quorum().leader_epoch
    leader = cluster.leaders("orders", others[0])
    cluster.controller.kill()
    load.wait_for(100)  # members need no controller to replicate
    assert cluster.leaders("orders", others[0]) == leader
    cluster.controller.start()
    assert cluster.quorum().leader_epoch == epoch + 1
    load.wait_for(50)
    assert cluster.leaders("orders", others[0]) == leader  # a new session begins for each broker

    cluster.members[killed].start()
    eventually(lambda: cluster.isr("orders", others[0]), equal_to=[[1, 2, 3]], timeout_s=60)
    load.stop()
    assert load.failed == []
    assert sorted(set(read_all(cluster, "orders", len(load.acked)))) == sorted(load.acked)


def test_no_decision_is_lost_with_the_controller(cluster: OwnCluster) -> None:
    """A topic exists after a kill of the controller if its creation was answered."""
    answered = []
    for round_ in range(3):
        names = [f"t{round_}-{number}" for number in range(5)]
        for name, created in cluster.admin.create_topics([NewTopic(name, 2, 3) for name in names]).items():
            created.result(60)
            answered.append(name)
        cluster.controller.kill()
        cluster.controller.start()
    for at in cluster.members:
        eventually(lambda at=at: all(len(cluster.partitions(name, at)) == 2 for name in answered), timeout_s=60)
    # the controller still elects: a member leaves in order
    cluster.members[2].stop()
    eventually(
        lambda: all(2 not in cluster.leaders(name, 1) and -1 not in cluster.leaders(name, 1) for name in answered),
        timeout_s=60,
    )


def test_the_quorum_has_the_members_as_observers(cluster: OwnCluster) -> None:
    """Each is at the end of the log, which grows while they observe."""
    found = cluster.quorum()
    assert found.leader_id == CONTROLLER
    assert [each.replica_id for each in found.current_voters] == [CONTROLLER]
    assert [each.replica_id for each in found.observers] == [1, 2, 3]
    before = found.high_watermark
    eventually(lambda: cluster.quorum().high_watermark > before)
    eventually(lambda: all(each.log_end_offset > before for each in cluster.quorum().observers))


def test_a_broker_gets_a_configuration_of_its_own(cluster: OwnCluster) -> None:
    """Tools change it for the throttle of a reassignment: the broker forwards it to the controller."""
    rate = "leader.replication.throttled.rate"
    wanted = ConfigResource(ConfigResource.Type.BROKER, "2")
    wanted.add_incremental_config(ConfigEntry(rate, "12345", incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({**QUIET, "bootstrap.servers": cluster.bootstrap})
    for future in admin.incremental_alter_configs([wanted]).values():
        future.result(60)

    def value(broker: int) -> str | None:
        (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]).values()
        found = future.result(60).get(rate)
        return None if found is None else found.value

    eventually(lambda: value(2), equal_to="12345", timeout_s=60)
    assert value(1) is None


def test_a_controller_that_was_paused_fences_nobody(cluster: OwnCluster) -> None:
    """The brokers could not be heard meanwhile: leadership stays where it is."""
    cluster.create("orders", partitions=3)
    before = [each.leader_epoch for each in cluster.partitions("orders", 1)]
    os.kill(cluster.controller.pid, signal.SIGSTOP)
    time.sleep(2.5 * SESSION_MS / 1000)
    os.kill(cluster.controller.pid, signal.SIGCONT)
    end = cluster.quorum().high_watermark
    eventually(lambda: cluster.quorum().high_watermark > end + 5)  # it writes a record every 500 ms
    assert [each.leader_epoch for each in cluster.partitions("orders", 1)] == before
