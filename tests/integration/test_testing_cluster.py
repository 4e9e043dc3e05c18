"""`pybroker.testing.Cluster`: processes of a controller and brokers for tests of other projects."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from protocol.messages.api_versions import API_VERSIONS
from pybroker.testing import BrokerError, Cluster
from tests.support.network import request_frame

PAGE = Path(__file__).parents[2] / "docs/reference/testing.md"
# A test of a user that follows the one of the page: it gets the cluster back that the other has broken.
NEXT = """


def test_next(kafka_cluster):
    assert all(each.is_running for each in kafka_cluster.brokers)
    kafka_cluster.wait_until_in_sync("orders")
    kafka_cluster.brokers[0].cut_off()


def test_another(kafka_cluster):
    assert not kafka_cluster.brokers[0].is_cut_off
    kafka_cluster.wait_until_in_sync("parcels")
"""

LAUNCHER = """
import time
from pybroker.testing import Cluster
cluster = Cluster(2).start()
print(cluster.directory, *(each.pid for each in (*cluster.brokers, cluster.controller)), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(racks=["a", "b"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """All nodes of the cluster run, whatever the test before has ended."""
    return shared.start()


def test_brokers_have_ids_and_racks(cluster: Cluster) -> None:
    """Each broker knows all others as soon as the cluster has started."""
    for broker in cluster.brokers:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        nodes = client.describe_cluster().result(60).nodes
        assert {each.id: each.rack for each in nodes} == {0: "a", 1: "b", 2: "a"}
    assert [each.node_id for each in cluster.brokers] == [0, 1, 2]
    assert len({each.pid for each in (*cluster.brokers, cluster.controller)}) == 4


def test_new_topics_need_two_replicas_in_sync(cluster: Cluster) -> None:
    """The controller's min.insync.replicas counts for all topics without their own."""
    cluster.create_topic("safe")
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (found,) = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "safe")]).values()
    assert found.result(60)["min.insync.replicas"].value == "2"


def test_another_replica_leads_after_a_kill(cluster: Cluster) -> None:
    """The killed leader comes back on its port, with its data, as a follower."""
    cluster.create_topic("killed")
    killed = cluster.leader_of("killed")
    address = killed.bootstrap_servers
    killed.kill()
    leader = cluster.leader_of("killed")
    assert leader is not killed
    with pytest.raises(BrokerError, match="killed is not in sync"):
        cluster.wait_until_in_sync("killed", timeout_s=0.1)
    killed.start()
    cluster.wait_until_in_sync("killed")
    assert killed.bootstrap_servers == address
    assert cluster.leader_of("killed") is leader


def test_another_replica_leads_after_a_stop(cluster: Cluster) -> None:
    """A clean shutdown moves leadership before it ends, so that no session has to expire."""
    cluster.create_topic("stopped", partitions=2)
    leader = cluster.leader_of("stopped")
    leader.stop()
    assert leader.data_directory.is_dir()
    assert cluster.leader_of("stopped") is not leader
    leader.start()
    cluster.wait_until_in_sync("stopped")


def test_suspended_leader_is_fenced_until_it_resumes(cluster: Cluster) -> None:
    cluster.create_topic("suspended")
    suspended = cluster.leader_of("suspended")
    suspended.suspend()
    assert (suspended.is_running, suspended.is_suspended) == (True, True)
    leader = cluster.leader_of("suspended")
    assert leader is not suspended
    suspended.resume()
    cluster.wait_until_in_sync("suspended")
    assert cluster.leader_of("suspended") is leader


def test_start_brings_all_nodes_back(cluster: Cluster) -> None:
    """It resumes suspended nodes, starts those that a test ended, and leaves the others as they are."""
    pid = cluster.brokers[0].pid
    cluster.brokers[1].kill()
    cluster.brokers[2].suspend()
    cluster.controller.kill()
    cluster.start()
    assert not any(each.is_suspended for each in cluster.brokers)
    assert cluster.controller.is_running
    assert cluster.brokers[0].pid == pid
    cluster.create_topic("after")


def test_leader_moves_to_a_chosen_broker(cluster: Cluster) -> None:
    cluster.create_topic("moved", partitions=2)
    before = cluster.leader_of("moved", 1)
    after = cluster.move_leader("moved", 1)
    assert after is not before
    assert cluster.leader_of("moved", 1) is after
    assert cluster.move_leader("moved", 1, before) is before
    assert cluster.move_leader("moved", 1, before) is before
    cluster.create_topic("single", replicas=1)
    with pytest.raises(BrokerError, match="no other replica"):
        cluster.move_leader("single")
    (other, *_) = (each for each in cluster.brokers if each is not cluster.leader_of("single"))
    with pytest.raises(BrokerError, match="has no replica"):
        cluster.move_leader("single", to=other)
    with pytest.raises(BrokerError, match="there is no moved-2"):
        cluster.move_leader("moved", 2)


def test_brokers_go_on_without_the_controller(cluster: Cluster) -> None:
    """They replicate. The restarted controller still knows the topic, and creates another."""
    cluster.create_topic("kept")
    cluster.controller.kill()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce("kept", b"one")
    assert producer.flush(60) == 0
    cluster.controller.start()
    cluster.wait_until_in_sync("kept")
    cluster.create_topic("next")


def write(servers: str, topic: str, value: bytes, acks: str = "all") -> None:
    """Write a record, which is acknowledged."""
    producer = Producer({"bootstrap.servers": servers, "acks": acks})
    refused: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(60) == 0
    assert refused == [None]


def values(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    """The first records of a topic."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "values", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [consumer.poll(60) for _ in range(count)]
    consumer.close()
    return [None if each is None else each.value() for each in found]


def test_cut_off_leader_truncates_what_was_not_replicated(cluster: Cluster) -> None:
    """Clients still reach it. Others elect a leader, which has all records that acks=all acknowledged."""
    cluster.create_topic("apart")
    former = cluster.leader_of("apart")
    write(cluster.bootstrap_servers, "apart", b"kept")
    former.cut_off(clients=False)
    assert former.is_cut_off
    write(former.bootstrap_servers, "apart", b"lost", acks="1")
    leader = cluster.leader_of("apart")
    assert leader is not former
    write(leader.bootstrap_servers, "apart", b"new")
    with pytest.raises(BrokerError, match="it is cut off from the controller"):
        former.restart()
    former.reconnect()
    cluster.wait_until_in_sync("apart")
    assert "Truncating apart-0 from offset 2 to 1" in former.log
    cluster.move_leader("apart", to=former)
    assert values(cluster, "apart", 2) == [b"kept", b"new"]


def test_broker_cut_off_from_all_answers_afterwards(cluster: Cluster) -> None:
    """A connection of a client stays open, and is served again. Data goes on without the broker, and the controller."""
    cluster.create_topic("away")
    former = cluster.leader_of("away")
    host, port = former.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=0.2) as client:
        former.cut_off()
        client.sendall(request_frame(API_VERSIONS, 0, 1))
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert cluster.leader_of("away") is not former
        cluster.controller.cut_off()
        write(cluster.leader_of("away").bootstrap_servers, "away", b"one")
        cluster.controller.reconnect()
        former.reconnect()
        client.settimeout(60)
        assert client.recv(1)
    cluster.wait_until_in_sync("away")
    assert values(cluster, "away", 1) == [b"one"]


def test_cut_link_between_brokers_ends_with_a_start(cluster: Cluster) -> None:
    """A follower that cannot fetch leaves the ISR; the controller and clients reach both. A restart keeps the cut."""
    cluster.create_topic("halved", replicas=2)
    leader = cluster.leader_of("halved")
    (partition,) = leader.view("halved").partitions
    (follower,) = (cluster.brokers[each] for each in partition.replicas if each != leader.node_id)
    cluster.cut_link(follower, leader, one_way=True)
    follower.restart()
    write(cluster.bootstrap_servers, "halved", b"one", acks="1")
    with pytest.raises(BrokerError, match="not in sync"):
        cluster.wait_until_in_sync("halved", timeout_s=0.5)
    assert cluster.leader_of("halved") is leader
    cluster.start()
    cluster.wait_until_in_sync("halved")


def test_faults_and_time_of_the_controller(cluster: Cluster) -> None:
    """Its sessions do not end because its time moves."""
    cluster.create_topic("faulty")
    leader = cluster.leader_of("faulty")
    cluster.controller.fail_next("AlterPartition", "NOT_CONTROLLER")
    cluster.controller.disconnect_next("BrokerHeartbeat")
    cluster.controller.delay("BrokerHeartbeat", seconds=0.1)
    before = datetime.now(UTC)
    assert cluster.controller.move_time_on(days=8) > before + timedelta(days=7)
    follower = next(each for each in cluster.brokers if each is not leader)
    follower.stop()
    follower.start()
    cluster.wait_until_in_sync("faulty")
    assert cluster.leader_of("faulty") is leader
    with pytest.raises(BrokerError, match="no API 'Produce', such as Fetch"):
        cluster.controller.fail_next("Produce", "NOT_CONTROLLER")


def test_groups_and_faults_work_in_a_cluster(cluster: Cluster) -> None:
    """Internal topics have three replicas, and each broker takes the commands of a broker alone."""
    cluster.create_topic("read")
    leader = cluster.leader_of("read")
    leader.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce("read", b"one")
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["read"])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"one"
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert len(cluster.brokers[0].view("__consumer_offsets").partitions[0].replicas) == 3
    with pytest.raises(BrokerError, match="cannot be forked"):
        leader.fork()


def test_stopped_cluster_leaves_nothing() -> None:
    """Its processes end within a second, and its temporary directory is removed."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("two")
        assert len(cluster.brokers[0].view("two").partitions[0].replicas) == 2
        pids = [each.pid for each in (*cluster.brokers, cluster.controller)]
        cluster.brokers[1].suspend()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert not cluster.directory.exists()


def test_chosen_directory_serves_the_next_cluster(tmp_path: Path) -> None:
    """All nodes shut down cleanly, and another cluster has their topics and records."""
    with Cluster(directory=tmp_path) as cluster:
        cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
    assert all("Stopped in" in each.log for each in (*cluster.brokers, cluster.controller))
    with Cluster(directory=tmp_path) as again:
        again.wait_until_in_sync("orders")
        consumer = Consumer({"bootstrap.servers": again.bootstrap_servers, "group.id": "g"})
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=60) == (0, 1)
        consumer.close()


def test_cluster_ends_with_its_parent() -> None:
    """A kill of the parent ends all nodes, although brokers find no controller that lets them go."""
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    directory, *pids = launcher.stdout.readline().split()
    watched = [os.pidfd_open(int(each)) for each in pids]
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    for process in watched:
        ended = select.poll()
        ended.register(process, select.POLLIN)
        assert ended.poll(60_000)
        os.close(process)
    shutil.rmtree(directory)


def test_failed_start_ends_all_nodes() -> None:
    """The error names what the node says; no other node is left."""
    cluster = Cluster(config={"num.partitions": "many"})
    with pytest.raises(BrokerError, match=r"num\.partitions"):
        cluster.start()
    assert not any(each.is_running for each in (*cluster.brokers, cluster.controller))
    assert not cluster.directory.exists()
    with pytest.raises(ValueError, match="at least one broker"):
        Cluster(brokers=0)


def test_failover_test_of_the_page_passes(tmp_path: Path) -> None:
    """The reader's pytest finds the fixture; each test of docs/reference/testing.md has at most 20 lines."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    failover, partition = (each for each in blocks if "kafka_cluster" in each)
    for name, block in (("failover", failover), ("partition", partition)):
        assert len(block[block.index("def ") :].splitlines()) <= 20
        (tmp_path / f"test_{name}.py").write_text(block)
    (tmp_path / "test_then.py").write_text(NEXT.lstrip())
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "-x",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
