"""pybroker's own controller as a process, and clusters under it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST, OurBroker
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.wire import WireClient

QUIET = {"log_level": 0}
CONTROLLER = 100
#: The controller fences a broker without heartbeats after this time.
SESSION_MS = 2000


class OwnController(OurBroker):
    """pybroker as a controller alone. Its port is that of the controller listener."""

    kind = "controller"
    node_id = CONTROLLER

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "pybroker.cluster.id": CLUSTER_ID,
            "broker.session.timeout.ms": str(SESSION_MS),
        }


class SecondMember(MemberBroker):
    """Another member."""

    node_id = 2


class ThirdMember(MemberBroker):
    """Another member."""

    node_id = 3


class OwnCluster:
    """A controller and three members."""

    controller: OurBroker
    members: dict[int, OurBroker]

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.controller = OwnController(directory / "controller", properties)
        self.members = {}
        try:
            for kind in (MemberBroker, SecondMember, ThirdMember):
                home = directory / str(kind.node_id)
                replication = {"replica.lag.time.max.ms": "2000", **(properties or {})}
                self.members[kind.node_id] = kind(home, self.controller.port, replication)
        except BaseException:
            self.close()
            raise
        self.admin = AdminClient({**QUIET, "bootstrap.servers": self.bootstrap})

    def close(self) -> None:
        """Kill all nodes."""
        for node in (*self.members.values(), self.controller):
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.members.values())

    def create(self, name: str, partitions: int = 1, factor: int = 3, **config: str) -> None:
        """Create a topic; all running members know it then."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, factor, config=settings)])[name].result(60)
        for node_id, member in self.members.items():
            if member.is_running:
                eventually(lambda at=node_id: len(self.partitions(name, at)) == partitions)  # type: ignore[misc]

    def partitions(self, topic: str, at: int) -> list[Struct]:
        """Return the partitions of a topic as a member knows them."""
        with WireClient(HOST, self.members[at].port) as client:
            answer = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=topic)])
        found: list[Struct] = answer.topics[0].partitions
        return sorted(found, key=lambda each: each.partition_index)

    def leaders(self, topic: str, at: int) -> list[int]:
        return [each.leader_id for each in self.partitions(topic, at)]

    def isr(self, topic: str, at: int) -> list[list[int]]:
        return [sorted(each.isr_nodes) for each in self.partitions(topic, at)]

    def quorum(self, port: int | None = None) -> Struct:
        """Return the metadata partition as the controller, or the node at a port, describes it."""
        asked = [RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData()])]
        with WireClient(HOST, port or self.controller.port) as client:
            answer = client.call(DESCRIBE_QUORUM, 2, topics=asked)
        return answer.topics[0].partitions[0]
