"""The guide "From one broker to three": its cluster, with one controller of Apache Kafka, on one machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer

from config.properties import parse_properties
from tests.conformance.test_guides import blocks_of
from tests.conformance.test_membership import KafkaController
from tests.integration.membership.kafka_nodes import QUIET, SECURED
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port

PAGE = "docs/guides/cluster.md"
#: Values of the page that other machines have.
_PLACES = {"log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters", "node.id"}
COUNT = 50


class PlainController(KafkaController):
    """A controller without a login, as on the page."""

    def _own_properties(self) -> dict[str, str]:
        return {key: value for key, value in super()._own_properties().items() if key not in SECURED}


def block(language: str, first: str = "") -> str:
    """Return the block of the page that begins like this."""
    (found,) = (each.text for each in blocks_of(PAGE) if each.language == language and each.text.startswith(first))
    return found


class WatchedMember(MemberBroker):
    """A member with a metrics endpoint."""

    metrics_port = 0

    def metric(self, name: str) -> float | None:
        """Return the value of a metric without labels but a fetcher's; None if there is none."""
        with urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.split("{")[0].split()[0] == name]
        return float(found[0].rpartition(" ")[2]) if found else None


def member(directory: Path, node_id: int, controller_port: int) -> WatchedMember:
    """Start a broker with the properties of the page."""
    metrics_port = free_port()
    entries = {each.key: each.value for each in parse_properties(block("properties").encode(), PAGE)}
    port = free_port()
    assert entries.keys() >= _PLACES
    own = {
        **{key: value for key, value in entries.items() if key not in _PLACES},
        "node.id": str(node_id),
        "broker.rack": f"rack-{node_id}",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "broker.heartbeat.interval.ms": "300",
        "metrics.listeners": f"http://{HOST}:{metrics_port}",
    }
    member = WatchedMember(directory, controller_port, own, port=port)
    member.metrics_port = metrics_port
    return member


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[WatchedMember]]:
    with ExitStack() as stack:
        controller = stack.enter_context(PlainController(tmp_path_factory.mktemp("controller")))
        directories = [tmp_path_factory.mktemp("broker") for _ in range(3)]
        yield [
            stack.enter_context(member(directory, node_id, controller.port))
            for node_id, directory in enumerate(directories, 1)
        ]


def run(command: str, brokers: Sequence[RunningBroker]) -> str:
    """Run a line of the page; return its output."""
    words = [*command.split()[1:], "--bootstrap-server", ",".join(each.bootstrap for each in brokers)]
    done = subprocess.run([sys.executable, "-m", "pybroker", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topic_outlives_a_broker(brokers: list[WatchedMember]) -> None:
    """The page's topic, a producer with acks=all while a broker is killed, and the command that waits for replicas."""
    created, described = block("sh", "pybroker topics create").splitlines()
    run(created, brokers)
    rows = [line.split() for line in run(described, brokers).splitlines()[2:]]
    assert [sorted(replicas.split(",")) for _, _, replicas, *_ in rows] == [["1", "2", "3"]] * 6
    (lagging,) = block("sh", "pybroker topics describe --under").splitlines()
    assert run(lagging, brokers) == ""

    bootstrap = ",".join(each.bootstrap for each in brokers)
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    failed: list[object] = []
    for number in range(2 * COUNT):
        if number == COUNT:
            brokers[2].kill()
        producer.produce("orders", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(90) == 0
    assert failed == []
    left = brokers[:2]
    eventually(lambda: len(run(lagging, left).splitlines()), equal_to=8, timeout_s=60)
    under_replicated = "kafka_server_replicamanager_underreplicatedpartitions"
    eventually(lambda: sum(each.metric(under_replicated) or 0 for each in left), equal_to=6, timeout_s=60)
    assert [each.metric("kafka_controller_kafkacontroller_fencedbrokercount") for each in left] == [1, 1]
    brokers[2].start()
    eventually(lambda: run(lagging, left), equal_to="", timeout_s=60)
    expands = "kafka_server_replicamanager_isrexpands_total"
    eventually(lambda: sum(each.metric(expands) or 0 for each in left) > 0, timeout_s=60)

    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "shop", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read: list[int] = []
    while len(read) < 2 * COUNT:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        read.append(int(message.value() or b""))
    consumer.close()
    assert sorted(read) == list(range(2 * COUNT))


def test_metrics_of_replicas(brokers: list[WatchedMember]) -> None:
    """Each broker has all partitions, and leads some of them; what followers copied, leaders have sent."""
    lag = "kafka_server_replicafetchermanager_maxlag"
    for each in brokers:
        eventually(partial(each.metric, lag), equal_to=0)
        assert (each.metric("kafka_server_replicamanager_partitioncount") or 0) >= 6
        assert each.metric("kafka_server_replicamanager_reassigningpartitions") == 0
        assert each.metric("kafka_server_replicafetchermanager_deadthreadcount") == 0
        assert (each.metric("kafka_server_replicafetchermanager_minfetchrate") or 0) > 0
    assert sum(each.metric("kafka_server_brokertopicmetrics_replicationbytesin_total") or 0 for each in brokers) > 0
    assert sum(each.metric("kafka_server_brokertopicmetrics_replicationbytesout_total") or 0 for each in brokers) > 0


def test_each_broker_is_listed_with_its_rack(brokers: list[WatchedMember]) -> None:
    found = run("pybroker cluster describe", brokers)
    for node_id in (1, 2, 3):
        assert f"rack-{node_id}" in found


def test_a_topic_gets_more_replicas(
    brokers: list[WatchedMember], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's plan for a topic that one broker had alone."""
    monkeypatch.chdir(tmp_path)
    run("pybroker topics create alone --replica-assignment 2", brokers)
    generated, executed, verified = block("sh", "pybroker reassign").replace("orders", "alone").splitlines()
    command, _, file = generated.partition(" > ")
    (tmp_path / file).write_text(run(command, brokers))
    run(executed, brokers)
    eventually(lambda: "is completed" in run(verified, brokers), timeout_s=60)
    assert sorted(run("pybroker topics describe alone", brokers).split()[-4].split(",")) == ["1", "2", "3"]
