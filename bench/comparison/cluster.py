"""Clusters of three brokers of one kind, each under a controller of Apache Kafka of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.comparison.brokers import KAFKA_OPTIONS, PROPERTIES, on_first_core
from protocol.messages.create_topics import CREATE_TOPICS, CreatableReplicaAssignment, CreatableTopic
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.metadata import METADATA
from protocol.schema import Struct
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.cluster_keys import controller_keys, member_keys
from tests.support.eventually import eventually
from tests.support.java import java_command, kafka_classpath
from tests.support.wire import WireClient

IDS = (1, 2, 3)
#: A broker on a busy machine keeps its session and its place in the ISR for so long.
SESSION_S = 30
_REPLICATED = {
    **PROPERTIES,
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": f"{SESSION_S}000",
}


def _member(node_id: int, port: int, controller_port: int) -> dict[str, str]:
    return {
        **member_keys(controller_port),
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
    }


class _Kafka(KafkaBroker):
    """A node of Apache Kafka, run as its start script does."""

    def _command(self, config: Path) -> list[str]:
        super()._command(config)  # formats the directory
        return java_command("kafka.Kafka", [str(config)], [kafka_classpath()], options=KAFKA_OPTIONS)


class Controller(_Kafka):
    """Apache Kafka as a controller alone."""

    kind = "controller"
    node_id = 100
    _format_options = (*KafkaBroker._format_options, "--standalone")

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.port}",
            "broker.session.timeout.ms": f"{SESSION_S}000",
        }


class KafkaNode(_Kafka):
    """Apache Kafka as a broker alone."""

    def __init__(self, directory: Path, node_id: int, controller_port: int) -> None:
        self.node_id = node_id
        self._controller_port = controller_port
        super().__init__(directory, _REPLICATED)

    def _own_properties(self) -> dict[str, str]:
        return _member(self.node_id, self.port, self._controller_port)


class OurNode(OurBroker):
    """pybroker as a member."""

    def __init__(self, directory: Path, node_id: int, controller_port: int) -> None:
        self.node_id = node_id
        self._controller_port = controller_port
        super().__init__(directory, _REPLICATED)

    def _own_properties(self) -> dict[str, str]:
        return super()._own_properties() | _member(self.node_id, self.port, self._controller_port)


class Cluster:
    """A controller, and three brokers: the broker `IDS[0]` leads all partitions that `create` makes."""

    def __init__(self, folder: Path, kind: type[KafkaNode | OurNode]) -> None:
        self.controller = Controller(folder / "controller")
        self.brokers: list[RunningBroker] = [kind(folder / str(each), each, self.controller.port) for each in IDS]

    @property
    def leader(self) -> RunningBroker:
        return self.brokers[0]

    @property
    def followers(self) -> list[RunningBroker]:
        return self.brokers[1:]

    def create(self, topic: str, partitions: int, replicas: tuple[int, ...] = IDS) -> None:
        """Create a topic that the first replica leads; wait until all replicas of it are in sync."""
        assigned = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas)) for index in range(partitions)
        ]
        wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=assigned)
        with WireClient(HOST, self.leader.port) as client:
            answer = client.call(CREATE_TOPICS, 5, topics=[wanted], timeout_ms=60_000)
            assert not answer.topics[0].error_code, answer
        for broker in self.brokers:
            eventually(lambda at=broker: in_sync(at, topic), equal_to=(partitions, len(replicas)), timeout_s=300)  # type: ignore[misc]
        if replicas[0] == IDS[0]:
            eventually(lambda: led(self.leader, topic), equal_to=partitions, timeout_s=300)

    def stop(self) -> None:
        """Stop the brokers, then the controller."""
        for node in (*self.brokers, self.controller):
            node.kill()


def described(broker: RunningBroker, topic: str) -> Struct:
    """Return a topic as this broker knows it."""
    with WireClient(HOST, broker.port) as client:
        found: Struct = client.call(METADATA, 9, topics=[{"name": topic}]).topics[0]
    return found


def led(broker: RunningBroker, topic: str) -> int:
    """Return how many partitions the broker leads. Apache Kafka names itself as the leader a moment before it is."""
    indexes = range(len(described(broker, topic).partitions))
    asked = [{"partition_index": index, "timestamp": -1} for index in indexes]
    with WireClient(HOST, broker.port) as client:
        answer = client.call(LIST_OFFSETS, 5, topics=[{"name": topic, "partitions": asked}])
    return sum(not each.error_code for found in answer.topics for each in found.partitions)


def in_sync(broker: RunningBroker, topic: str) -> tuple[int, int]:
    """Return (known partitions, the least number of replicas that are in sync)."""
    partitions = described(broker, topic).partitions
    return len(partitions), min((len(each.isr_nodes) for each in partitions), default=0)


@contextmanager
def started(folder: Path, kinds: Mapping[str, type[KafkaNode | OurNode]]) -> Iterator[list[Cluster]]:
    """Yield the clusters, running on the first core; this process runs on the second meanwhile."""
    clusters: list[Cluster] = []
    try:
        with on_first_core():
            for name, kind in kinds.items():
                clusters.append(Cluster(folder / name, kind))
        yield clusters
    finally:
        for cluster in clusters:
            cluster.stop()


KINDS: Mapping[str, type[KafkaNode | OurNode]] = {"ours": OurNode, "kafka": KafkaNode}
