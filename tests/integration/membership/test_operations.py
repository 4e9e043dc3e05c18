"""A member is operated as a node alone: in the background, with its console and its metrics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from metadata.create_topics import NewTopic
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.integration.membership.fake_controller import FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


def fetch(port: int, path: str) -> str:
    with urlopen(f"http://{HOST}:{port}{path}", timeout=60) as answer:
        return str(answer.read(), "utf-8")


def test_console_and_metrics_of_a_member(controller: FakeController, tmp_path: Path) -> None:
    """The console shows the partitions that it leads; metrics have the samples that only members have."""
    console, metrics = free_port(), free_port()
    listeners = {
        "console.listeners": f"http://{HOST}:{console}",
        "metrics.listeners": f"http://{HOST}:{metrics}",
    }
    with MemberBroker(tmp_path, controller.port, listeners):
        controller.create(NewTopic("orders", 2, 1))
        eventually(lambda: "orders" in fetch(console, "/topics"), timeout_s=60)
        assert "All replicas are in sync." in fetch(console, "/replicas")
        eventually(lambda: "\nkafka_server_replicamanager_leadercount 2.0\n" in fetch(metrics, "/metrics"))
        samples = fetch(metrics, "/metrics").splitlines()
    assert 'kafka_server_replicafetchermanager_maxlag{clientId="Replica"} 0.0' in samples
    assert "kafka_server_replicamanager_offlinereplicacount 0.0" in samples
    assert "kafka_controller_kafkacontroller_activecontrollercount 0.0" in samples
    assert "kafka_controller_kafkacontroller_activebrokercount 1.0" in samples
    assert "kafka_server_brokertopicmetrics_reassignmentbytesin_total 0.0" in samples
    assert "kafka_server_broker_metadata_metrics_last_applied_record_timestamp 1000.0" in samples
    assert "kafka_server_broker_metadata_metrics_metadata_load_error_count 0.0" in samples


def test_member_in_the_background(controller: FakeController, tmp_path: Path) -> None:
    """`--daemon` returns when the controller has unfenced it; `pybroker stop` ends it in order."""
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers={HOST}:{controller.port}\n"
        f"listeners=PLAINTEXT://{HOST}:0\nlog.dirs={tmp_path}/logs\n"
    )
    pid_file = ("--pid-file", str(tmp_path / "pid"))

    def pybroker(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "pybroker", *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "serves" in pybroker("serve", str(config), "--daemon", *pid_file, "--log-file", str(tmp_path / "log"))
    assert not controller.image.brokers[1].fenced
    assert "stopped" in pybroker("stop", *pid_file)
    assert "State LEAVING -> ENDED" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("partitions", "factor"), [(None, None), (4, 3)])
def test_defaults_of_new_topics(
    controller: FakeController, tmp_path: Path, partitions: int | None, factor: int | None
) -> None:
    """The controller decides what the own file of the member does not set, as with Apache Kafka 4.4."""
    own = {"num.partitions": f"{partitions}", "default.replication.factor": f"{factor}"} if partitions else {}
    with MemberBroker(tmp_path, controller.port, own) as member, WireClient(HOST, member.port) as client:
        asked = [MetadataRequestTopic(name="orders")]
        client.call(METADATA, 12, topics=asked, allow_auto_topic_creation=True)
        eventually(lambda: len(controller.named(CREATE_TOPICS)) > 0)
    created = controller.named(CREATE_TOPICS)[0].topics[0]
    found = created.num_partitions, created.replication_factor
    assert found == ((partitions, factor) if partitions else (-1, -1))
