"""`pybroker.testing.Cluster` with a controller in the process of a broker: its faults, its cuts, its clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from pybroker.testing import BrokerError, Cluster
from tests.support.eventually import eventually
from tests.support.wire import Closed, WireClient

SHORT_S = 0.2
OF_CONTROLLERS = 2  # the type of the endpoints that DescribeCluster returns


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(combined=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """All nodes of the cluster run, whatever the test before has ended."""
    shared.controller.clear_faults()
    return shared.start()


def client_of(cluster: Cluster, listener: str) -> WireClient:
    """Connect to a listener of the first broker."""
    host, _, port = cluster.controller.listeners[listener].rpartition(":")
    return WireClient(host, int(port))


def describe(client: WireClient, endpoint_type: int = OF_CONTROLLERS) -> int:
    """Return the error code of DescribeCluster."""
    code: int = client.call(DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type).error_code
    return code


def write(servers: str, topic: str, value: bytes, acks: str) -> None:
    """Write a record, which is acknowledged."""
    producer = Producer({"bootstrap.servers": servers, "acks": acks, "log_level": 0})
    refused: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(60) == 0
    assert refused == [None]


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Return all records of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "values", "log_level": 0})
    _, end = eventually(  # a new leader may not know the end yet (KIP-207)
        lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60), retried=(KafkaException,)
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [each.value() for each in consumer.consume(end, timeout=60)]
    consumer.close()
    return found


def test_first_broker_is_the_controller(cluster: Cluster) -> None:
    """It has both listeners, also after a restart. It leads, follows, and serves clients as the others do."""
    cluster.create_topic("orders")
    assert cluster.controller is cluster.brokers[0]
    before = dict(cluster.controller.listeners)
    assert list(before) == ["PLAINTEXT", "CONTROLLER"]
    assert list(cluster.brokers[1].listeners) == ["PLAINTEXT"]
    cluster.move_leader("orders", to=cluster.brokers[0])
    write(cluster.bootstrap_servers, "orders", b"one", "all")
    cluster.brokers[0].restart()
    cluster.wait_until_in_sync("orders")
    assert dict(cluster.controller.listeners) == before
    assert values(cluster, "orders") == [b"one"]


def test_faults_of_the_controller_listener(cluster: Cluster) -> None:
    """Requests to the broker's listener are served meanwhile, and the other way round."""
    with client_of(cluster, "CONTROLLER") as controller, client_of(cluster, "PLAINTEXT") as broker:
        cluster.controller.fail_next("DescribeCluster", "NOT_CONTROLLER", controller=True)
        assert describe(broker, 1) == ErrorCode.NONE
        assert describe(controller) == ErrorCode.NOT_CONTROLLER
        assert describe(controller) == ErrorCode.NONE
        cluster.controller.fail_next("DescribeCluster", "UNKNOWN_SERVER_ERROR")
        assert describe(controller) == ErrorCode.NONE
        assert describe(broker, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
        cluster.controller.delay("DescribeCluster", seconds=0.01, controller=True)
        assert describe(controller) == ErrorCode.NONE
        cluster.controller.disconnect_next("DescribeCluster", controller=True)
        cluster.controller.clear_faults()
        assert describe(controller) == ErrorCode.NONE
        cluster.controller.disconnect_next("DescribeCluster", controller=True)
        with pytest.raises(Closed):
            describe(controller)
        assert describe(broker, 1) == ErrorCode.NONE
    with pytest.raises(BrokerError, match="no API 'Produce', such as Fetch"):
        cluster.controller.fail_next("Produce", "NOT_CONTROLLER", controller=True)
    with pytest.raises(BrokerError, match="is not broker and controller"):
        cluster.brokers[1].fail_next("Fetch", "NOT_CONTROLLER", controller=True)


def test_members_bear_faults_of_their_controller(cluster: Cluster) -> None:
    """The own broker of the controller sends it no requests; those of the others are refused once."""
    cluster.create_topic("faulty")
    cluster.controller.fail_next("AlterPartition", "NOT_CONTROLLER", controller=True)
    cluster.controller.disconnect_next("BrokerHeartbeat", controller=True)
    leader = cluster.move_leader("faulty", to=cluster.brokers[1])
    cluster.brokers[2].kill()
    write(leader.bootstrap_servers, "faulty", b"one", "all")
    cluster.brokers[2].start()
    cluster.wait_until_in_sync("faulty")
    assert values(cluster, "faulty") == [b"one"]


def test_cut_off_controller_takes_the_lead_of_its_partitions(cluster: Cluster) -> None:
    """The others send it no heartbeats, so it fences them. Records that only they have are truncated afterwards."""
    cluster.create_topic("apart")
    former = cluster.move_leader("apart", to=cluster.brokers[1])
    write(cluster.bootstrap_servers, "apart", b"kept", "all")
    cluster.controller.cut_off(clients=False)
    write(former.bootstrap_servers, "apart", b"lost", "1")
    (combined, *_) = cluster.brokers
    eventually(lambda: [each.leader for each in combined.view("apart").partitions], equal_to=[combined.node_id])
    write(combined.bootstrap_servers, "apart", b"new", "1")
    cluster.controller.reconnect()
    cluster.wait_until_in_sync("apart")
    assert values(cluster, "apart") == [b"kept", b"new"]


def test_connections_to_both_listeners_wait(cluster: Cluster) -> None:
    """A cut holds back clients of both listeners; their requests are answered afterwards."""
    with client_of(cluster, "CONTROLLER") as controller, client_of(cluster, "PLAINTEXT") as broker:
        cluster.controller.cut_off()
        for client, kind in ((controller, OF_CONTROLLERS), (broker, 1)):
            client.send(DESCRIBE_CLUSTER, 1, endpoint_type=kind)
            client.socket.settimeout(SHORT_S)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
        cluster.controller.reconnect()
        for client in (controller, broker):
            client.socket.settimeout(60)
            assert client.receive().error_code == ErrorCode.NONE


def test_stopped_cluster_shuts_down_cleanly(tmp_path: Path) -> None:
    """Its controller ends last, and the next cluster has its topics."""
    for _ in range(2):
        with Cluster(2, directory=tmp_path, combined=True) as cluster:
            if not cluster.brokers[0].view("orders").partitions:
                cluster.create_topic("orders")
            cluster.wait_until_in_sync("orders")
        assert all("Stopped in" in each.log for each in cluster.brokers)
