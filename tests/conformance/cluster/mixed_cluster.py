"""A cluster of two members and a broker of Apache Kafka, under a controller of Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from metadata.image import ResourceType
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.messages.elect_leaders import ELECT_LEADERS
from protocol.messages.elect_leaders import TopicPartitions as ElectedTopic
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.integration.membership.kafka_nodes import QUIET, SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient

OURS, THEIRS, THIRD = 1, 2, 3
PREFERRED, UNCLEAN = 0, 1
#: The partitions of the topic of groups.
GROUP_PARTITIONS = 3
RACKS = {OURS: "a", THEIRS: "b", THIRD: "c"}
_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ThirdBroker(MemberBroker):
    """Another member."""

    node_id = THIRD


class SecondMember(MemberBroker):
    """A member in the place of the broker of Apache Kafka."""

    node_id = THEIRS


class MixedCluster:
    """The brokers by their ids. Each is in a rack of its own, and has two log directories.

    With `all_ours` a member has the place of Apache Kafka's broker.
    """

    def __init__(self, directory: Path, *, all_ours: bool = False) -> None:
        self.controller = KafkaController(directory / "controller", {"unclean.leader.election.interval.ms": "300"})
        self.brokers: dict[int, RunningBroker] = {}
        try:
            members = {OURS: MemberBroker, THIRD: ThirdBroker, **({THEIRS: SecondMember} if all_ours else {})}
            for node_id, kind in members.items():
                port, home = free_port(), directory / str(node_id)
                properties = {"listeners": f"PLAINTEXT://{HOST}:{port}", **_properties(home, node_id)}
                self.brokers[node_id] = kind(home, self.controller.port, properties, port=port)
            if not all_ours:
                home = directory / str(THEIRS)
                self.brokers[THEIRS] = OtherBroker(home, self.controller.port, _properties(home, THEIRS))
        except BaseException:
            self.close()
            raise
        self.admin = AdminClient({**QUIET, "bootstrap.servers": self.bootstrap})

    def close(self) -> None:
        """Kill all nodes."""
        for node in (*self.brokers.values(), self.controller):
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers.values())

    def __getitem__(self, node_id: int) -> RunningBroker:
        return self.brokers[node_id]

    def start_all(self) -> None:
        """Start the brokers that do not run."""
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.start()

    # -- topics ------------------------------------------------------------------------------------------------------

    def create(self, *replicas: int, config: Mapping[str, str] | None = None) -> str:
        """Create a topic with one partition, led by the first of its replicas. All brokers know it then."""
        name = uuid.uuid4().hex
        topic = NewTopic(name, 1, replica_assignment=[list(replicas)], config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(30)
        for node_id, broker in self.brokers.items():
            if broker.is_running:
                eventually(lambda at=node_id: self.partition(name, at) is not None)  # type: ignore[misc]
        return name

    def partition(self, topic: str, at: int = OURS) -> Struct | None:
        """Return the topic's partition as a broker knows it."""
        with WireClient(HOST, self[at].port) as client:
            answer = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=topic)])
        partitions: list[Struct] = answer.topics[0].partitions
        return partitions[0] if partitions else None

    def state(self, topic: str, at: int = OURS) -> tuple[int, list[int], list[int]]:
        """Return leader, replicas and ISR. The order of the ISR has no meaning."""
        found = self.partition(topic, at)
        return (found.leader_id, list(found.replica_nodes), sorted(found.isr_nodes)) if found else (-1, [], [])

    def configure(self, kind: int, name: str, values: Mapping[str, str | None]) -> None:
        """Set configurations; None removes one."""
        set_it, delete_it = 0, 1
        alterations = [
            AlterableConfig(name=key, config_operation=delete_it if value is None else set_it, value=value)
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=alterations)
        at = int(name) if kind == ResourceType.BROKER and name else THIRD
        with WireClient(HOST, self[at].port) as client:
            answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    # -- reassignment ------------------------------------------------------------------------------------------------

    def reassign(self, topic: str, replicas: Iterable[int] | None, at: int = OURS) -> int:
        """Ask a broker to move the partition; None cancels. Return the partition's error code."""
        target = None if replicas is None else list(replicas)
        moved = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=target)])
        with WireClient(HOST, self[at].port) as client:
            answer = client.call(ALTER_PARTITION_REASSIGNMENTS, 0, topics=[moved])
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def reassigning(self, at: int = OURS) -> dict[str, tuple[list[int], list[int]]]:
        """Return the topics whose partition is moved, with the replicas that are added and removed."""
        with WireClient(HOST, self[at].port) as client:
            answer = client.call(LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
        return {
            each.name: (list(each.partitions[0].adding_replicas), list(each.partitions[0].removing_replicas))
            for each in answer.topics
        }

    def elect(self, topic: str, election: int) -> int:
        """Ask a member for an election. Return the partition's error code."""
        asked = [ElectedTopic(topic=topic, partitions=[0])]
        with WireClient(HOST, self[THIRD].port) as client:
            answer = client.call(ELECT_LEADERS, 2, election_type=election, topic_partitions=asked)
        code: int = answer.replica_election_results[0].partition_result[0].error_code
        return code

    # -- records -----------------------------------------------------------------------------------------------------

    def produce(self, topic: str, first: int, count: int, size: int = 0, acks: str = "all") -> None:
        """Produce numbers, each of `size` bytes; all are acknowledged."""
        producer = Producer(
            {**QUIET, "bootstrap.servers": self.bootstrap, "acks": acks, "linger.ms": 5, "retries": 100}
        )
        failed: list[object] = []
        for number in range(first, first + count):
            producer.produce(
                topic, str(number).rjust(size), on_delivery=lambda error, _: failed.append(error) if error else None
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert failed == []

    def delete_before(self, topic: str, offset: int, leader: int) -> None:
        """Delete the records below an offset from all replicas. Another broker is not asked: it may be frozen."""
        topics = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]

        def code() -> int:
            with WireClient(HOST, self[leader].port) as client:
                answer = client.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
            found: int = answer.topics[0].partitions[0].error_code
            return found

        eventually(code, "the records are deleted", equal_to=0)

    def offsets(self, topic: str) -> tuple[int, int]:
        """Return the first offset and the high watermark, by the leader."""
        consumer = Consumer({**QUIET, "bootstrap.servers": self.bootstrap, "group.id": topic})
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            return found
        finally:
            consumer.close()

    def logs(self, topic: str, *node_ids: int) -> list[bytes]:
        """Return the records of the partition at each broker, as its segments have them."""
        found = []
        for node_id in node_ids:
            segments = sorted(
                (each for path in self.directories_of(topic, node_id) for each in path.glob("*.log")),
                key=lambda each: each.name,
            )
            found.append(b"".join(each.read_bytes() for each in segments))
        return found

    def directories_of(self, topic: str, node_id: int) -> list[Path]:
        """Return the directories of the partition at a broker, without deleted and future ones."""
        return list(self[node_id].directory.glob(f"*/{topic}-0"))

    def are_equal(self, topic: str, *node_ids: int) -> bool:
        """Return whether the records of the partition are the same at all these brokers, and not missing."""
        found = self.logs(topic, *node_ids)
        return bool(found[0]) and all(each == found[0] for each in found)


def _properties(home: Path, node_id: int) -> dict[str, str]:
    return {
        **SECURED,
        "log.dirs": f"{home}/logs,{home}/more",
        "broker.rack": RACKS[node_id],
        "replica.selector.class": _SELECTOR,
        "replica.lag.time.max.ms": "3000",
        "replica.fetch.wait.max.ms": "100",
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "300",
        "log.segment.delete.delay.ms": "0",
        "controlled.shutdown.enable": "true",
        "offsets.topic.num.partitions": str(GROUP_PARTITIONS),
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
