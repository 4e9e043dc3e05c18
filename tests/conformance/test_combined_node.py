"""A broker of Apache Kafka joins a node that is broker and controller, and its tools describe the quorum."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.test_own_controller import OURS, THEIRS, Cluster
from tests.integration.controlling.combined_broker import CombinedBroker
from tests.integration.membership.kafka_nodes import SECURED, OtherBroker
from tests.support.brokers import CLUSTER_ID
from tests.support.eventually import eventually
from tests.support.java import QUICK, java_command, kafka_classpath

pytestmark = pytest.mark.kafka_each_time

_REPLICATION = {"replica.lag.time.max.ms": "3000", "replica.fetch.wait.max.ms": "100"}


class CombinedCluster(Cluster):
    """Broker 1 is the controller, too. Its controller listener needs a login; it needs none for itself."""

    def __init__(self, directory: Path) -> None:
        combined = CombinedBroker(directory / "ours", {**SECURED, **_REPLICATION, "pybroker.cluster.id": CLUSTER_ID})
        self.controller = combined
        self.brokers = {OURS: combined}
        try:
            self.brokers[THEIRS] = OtherBroker(directory / "theirs", combined.controller_port, _REPLICATION)
        except BaseException:
            self.close()
            raise


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedCluster]:
    cluster = CombinedCluster(tmp_path_factory.mktemp("combined"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize("leads", [OURS, THEIRS])
def test_both_kinds_replicate(cluster: CombinedCluster, leads: int) -> None:
    other = OURS + THEIRS - leads
    topic = f"led-by-{leads}"
    cluster.create(topic, leads, other, at=leads)
    assert cluster.state(topic, other) == (leads, [OURS, THEIRS])
    cluster.produce(topic, 500)
    eventually(lambda: cluster.are_equal(topic))


def test_the_combined_node_is_killed(cluster: CombinedCluster) -> None:
    """Apache Kafka's broker obeys it again, and both are in sync."""
    cluster.create("before", THEIRS, OURS, at=THEIRS)
    cluster.controller.kill()
    cluster.controller.start()
    eventually(lambda: cluster.state("before", THEIRS), equal_to=(THEIRS, [OURS, THEIRS]), timeout_s=90)
    cluster.create("after", OURS, THEIRS, at=THEIRS)
    for topic in ("before", "after"):
        cluster.produce(topic, 50)
        eventually(lambda topic=topic: cluster.are_equal(topic))  # type: ignore[misc]


@pytest.mark.parametrize("at", [OURS, THEIRS])
def test_kafkas_tool_describes_the_quorum(cluster: CombinedCluster, at: int) -> None:
    """Over either broker: one voter, which leads, and Apache Kafka's broker as observer."""
    tool = ["--bootstrap-server", cluster.brokers[at].bootstrap, "describe", "--replication"]
    command = java_command("org.apache.kafka.tools.MetadataQuorumCommand", tool, [kafka_classpath()], options=QUICK)
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    rows = [line.split() for line in shown.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in rows] == [(str(OURS), "Leader"), (str(THEIRS), "Observer")]
