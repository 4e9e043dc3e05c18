"""Broker and controller in one process: other brokers join it. A single node's directory opens in it, and back."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from broker.observability.metrics.metric_table import METRICS
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.integration.controlling.combined_broker import CombinedBroker, CombinedCluster
from tests.integration.controlling.own_controller import QUIET, SecondMember
from tests.integration.controlling.test_cluster import Load, read_all
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CombinedCluster]:
    cluster = CombinedCluster(tmp_path)
    yield cluster
    cluster.close()


def test_the_combined_node_is_killed(cluster: CombinedCluster) -> None:
    """Clients go on once it is back, and lose no acknowledged record and no topic."""
    cluster.create("orders", min_insync_replicas="2")
    load = Load(cluster, "orders")
    load.wait_for(50)
    epoch = cluster.quorum().leader_epoch
    cluster.controller.kill()
    cluster.controller.start()
    assert cluster.quorum().leader_epoch == epoch + 1
    eventually(lambda: cluster.isr("orders", 2), equal_to=[[1, 2, 3]], timeout_s=60)
    load.wait_for(50)
    cluster.create("more", partitions=3)
    load.stop()
    assert load.failed == []
    assert sorted(set(read_all(cluster, "orders", len(load.acked)))) == sorted(load.acked)


def test_a_member_is_killed_and_the_combined_node_elects(cluster: CombinedCluster) -> None:
    cluster.create("orders", partitions=3, min_insync_replicas="2")
    load = Load(cluster, "orders")
    load.wait_for(50)
    cluster.members[2].kill()
    eventually(lambda: 2 not in cluster.leaders("orders", 1) + cluster.isr("orders", 1)[0], timeout_s=60)
    load.wait_for(50)
    cluster.members[2].start()
    eventually(lambda: cluster.isr("orders", 1), equal_to=[[1, 2, 3]] * 3, timeout_s=60)
    load.stop()
    assert load.failed == []


def test_the_combined_node_leaves_in_order(cluster: CombinedCluster) -> None:
    """Its leadership moves to members before it ends."""
    cluster.create("orders", partitions=3)
    assert cluster.controller.stop() == 0
    eventually(lambda: set(cluster.leaders("orders", 2)) <= {2, 3}, timeout_s=60)
    cluster.controller.start()
    eventually(lambda: cluster.isr("orders", 1), equal_to=[[1, 2, 3]] * 3, timeout_s=60)


def test_metrics_are_those_of_broker_and_controller(tmp_path: Path) -> None:
    """The controller in its process opens no second endpoint for them."""
    port = free_port()
    with CombinedBroker(tmp_path, {"metrics.listeners": f"http://{HOST}:{port}"}):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    values = {each.name: each.value for family in families for each in family.samples if not each.labels}
    assert {each.name for each in METRICS if each.of_controllers} <= values.keys()
    assert values["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert values["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0


def test_the_quorum_has_members_as_observers(cluster: CombinedCluster) -> None:
    """Both listeners describe it: the broker's forwards the question."""
    for port in (cluster.controller.port, cluster.members[2].port):
        found = cluster.quorum(port)
        assert [found.leader_id, *(each.replica_id for each in found.current_voters)] == [1, 1]
        assert [each.replica_id for each in found.observers] == [2, 3]


def test_configurations_reach_all_nodes(cluster: CombinedCluster) -> None:
    """A topic created by the combined node or by a member, with more partitions later, is the same on both."""
    for at in (1, 2):
        admin = AdminClient({**QUIET, "bootstrap.servers": cluster.members[at].bootstrap})
        admin.create_topics([NewTopic(f"t{at}", 1, 2)])[f"t{at}"].result(60)
        admin.create_partitions([NewPartitions(f"t{at}", 4)])[f"t{at}"].result(60)
        for other in cluster.members:
            eventually(lambda at=at, other=other: len(cluster.partitions(f"t{at}", other)) == 4)  # type: ignore[misc]


# -- the directory of a single node ------------------------------------------------------------------------------------


def produce(broker: RunningBroker, topic: str, numbers: range) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0


def stored(broker: RunningBroker, topic: str, count: int) -> list[int]:
    consumer = Consumer({**QUIET, "bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []

    def read() -> bool:
        found.extend(int(each.value()) for each in consumer.consume(1000, 0.5) if not each.error())
        return len(found) >= count

    eventually(read)
    consumer.close()
    return found


def committed(broker: RunningBroker) -> int:
    consumer = Consumer({**QUIET, "bootstrap.servers": broker.bootstrap, "group.id": "shop"})
    (found,) = consumer.committed([TopicPartition("orders", 0)], 60)
    consumer.close()
    return int(found.offset)


def reassign(broker: RunningBroker, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = ReassignableTopic(name="orders", partitions=[partition])
    with WireClient(HOST, broker.port) as client:
        answer = client.call(ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=60_000, topics=[topic])
    assert answer.error_code == 0
    assert answer.responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize("in_order", [True, False])
def test_a_single_nodes_directory_and_back(tmp_path: Path, in_order: bool) -> None:
    """Records, offsets and the cluster's id are kept, also without a clean stop. A member holds a copy in between."""

    def end(broker: RunningBroker) -> None:
        if in_order:
            assert broker.stop() == 0
        else:
            broker.kill()

    home = tmp_path / "1"
    with OurBroker(home) as single:
        admin = AdminClient({**QUIET, "bootstrap.servers": single.bootstrap})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
        produce(single, "orders", range(100))
        consumer = Consumer({**QUIET, "bootstrap.servers": single.bootstrap, "group.id": "shop"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 70)], asynchronous=False)
        consumer.close()
        properties = (home / "logs" / "meta.properties").read_text()
        end(single)
    with CombinedBroker(home, {"replica.lag.time.max.ms": "2000"}) as combined:
        assert stored(combined, "orders", 100) == list(range(100))
        assert committed(combined) == 70
        with SecondMember(tmp_path / "2", combined.controller_port) as member:
            reassign(combined, 1, 2)
            produce(combined, "orders", range(100, 200))
            log = Path("orders-0", "00000000000000000000.log")
            eventually(lambda: (member.log_dir / log).read_bytes() == (combined.log_dir / log).read_bytes())
            end(combined)
            refused = OurBroker.__new__(OurBroker)
            with pytest.raises(AssertionError, match=r"has in-sync replicas on other brokers \(2\)"):
                refused.__init__(home)  # type: ignore[misc]
            combined.start()
            reassign(combined, 1)
            eventually(lambda: not (member.log_dir / log).exists())
            produce(combined, "orders", range(200, 300))
            member.stop()
        end(combined)
    with OurBroker(home) as single:
        assert stored(single, "orders", 300) == list(range(300))
        assert committed(single) == 70
        produce(single, "orders", range(300, 301))
        assert stored(single, "orders", 301) == list(range(301))
    assert (home / "logs" / "meta.properties").read_text() == properties
