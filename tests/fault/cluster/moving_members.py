"""Members with two log directories, and a move between them of which only the controller knows the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.fault.cluster.links import Links
from tests.fault.cluster.nodes import OF_CONTROLLERS, OurController
from tests.integration.membership.kafka_nodes import QUIET, Voter, voters_of
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.metadata_log import stored_values
from tests.support.wire import WireClient

_CONTROLLER = 101
_PATIENCE_S = 60


class TwoDirectories(MemberBroker):
    """A member. The metadata log is in `logs`, so it runs without `more`."""

    def __init__(self, directory: Path, node_id: int, quorum: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.more = directory / "more"
        super().__init__(directory, 0, {**quorum, "log.dirs": f"{directory}/logs,{self.more}"})

    def _own_properties(self) -> dict[str, str]:
        return {
            "node.id": str(self.node_id),
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "broker.heartbeat.interval.ms": "300",
            "replica.lag.time.max.ms": "2000",
            "log.segment.delete.delay.ms": "0",
            "controlled.shutdown.enable": "true",
        }

    def places(self, topic: str) -> list[str]:
        """Return the log directories with the log of the topic's partition, without an unfinished copy."""
        return sorted(each.parent.name for each in self.directory.glob(f"*/{topic}-0"))

    def move(self, topic: str, to: Path) -> None:
        """Begin to move the topic's partition to a log directory."""
        moved = AlterReplicaLogDir(path=str(to), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
        with WireClient(HOST, self.port) as client:
            answer = client.call(ALTER_REPLICA_LOG_DIRS, 2, dirs=[moved])
        assert answer.results[0].partitions[0].error_code == 0

    def described(self) -> dict[str, tuple[int, set[str]]]:
        """Return the error code and the topics of each log directory, by DescribeLogDirs."""
        with WireClient(HOST, self.port) as client:
            answer = client.call(DESCRIBE_LOG_DIRS, 4, topics=None)
        return {
            Path(each.log_dir).name: (
                each.error_code,
                {topic.name for topic in each.topics if not all(part.is_future_key for part in topic.partitions)},
            )
            for each in answer.results
        }

    def remove_directory(self) -> None:
        """Take `more` away, and out of the configuration, while the broker is down."""
        self.more.rename(self.directory / "aside")
        self._properties["log.dirs"] = str(self.log_dir)

    def break_directory(self) -> None:
        """Put a file in the place of `more`, after `remove_directory`."""
        self.more.write_text("no directory any more")
        self._properties["log.dirs"] = f"{self.log_dir},{self.more}"

    def repair_directory(self) -> None:
        """Undo `break_directory`, and `remove_directory`."""
        self.more.unlink()
        (self.directory / "aside").rename(self.more)


class MovingCluster:
    """One controller behind links, and members from id 1 on."""

    def __init__(self, controller: RunningBroker, links: Links, members: Mapping[int, TwoDirectories]) -> None:
        self.controller, self.links, self.members = controller, links, members
        self.admin = AdminClient({**QUIET, "bootstrap.servers": self.bootstrap})

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.members.values())

    def create(self, topic: str, *replicas: int) -> None:
        """Create a topic of one partition, whose log at the first of its replicas is in `more`."""
        new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config={"min.insync.replicas": "1"})
        self.admin.create_topics([new])[topic].result(_PATIENCE_S)
        member = self.members[replicas[0]]
        eventually(lambda: len(member.places(topic)) == 1)
        if member.places(topic) == ["logs"]:
            member.move(topic, member.more)
        eventually(lambda: member.places(topic), equal_to=["more"], timeout_s=_PATIENCE_S)

    def produce(self, topic: str, first: int, count: int) -> None:
        """Produce numbers, all of which are acknowledged."""
        failed: list[object] = []
        producer = Producer({**QUIET, "bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(first, first + count):
            producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(_PATIENCE_S) == 0
        assert failed == []

    def values(self, topic: str) -> list[int]:
        """Return the numbers in the topic, as a consumer sees them."""
        consumer = Consumer({**QUIET, "bootstrap.servers": self.bootstrap, "group.id": topic})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_PATIENCE_S)
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = consumer.consume(end, timeout=_PATIENCE_S) if end else []
            return [int(each.value() or b"-1") for each in found]
        finally:
            consumer.close()

    def leader_and_isr(self, topic: str, at: int) -> tuple[int, list[int]]:
        """Return leader and ISR of the topic's partition, as a member knows them."""
        with WireClient(HOST, self.members[at].port) as client:
            answer = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=topic)])
        (partition,) = answer.topics[0].partitions or [None]
        return (-2, []) if partition is None else (partition.leader_id, sorted(partition.isr_nodes))

    def image(self) -> MetadataImage:
        """Return the metadata, as the log of the controller has it."""
        (directory,) = self.controller.directory.glob("*/__cluster_metadata-0")
        loader = MetadataLoader()
        for segment in sorted(directory.glob("*.log")):
            for _, value in stored_values(segment):
                loader.feed_value(value)
        return loader.image

    def directory_of(self, topic: str, at: int) -> bytes:
        """Return the id of the directory in which the controller has the replica of a member."""
        found = self.image().topic(topic)
        assert found is not None
        return found.partitions[0].directory_of(at)

    def move_until_accepted(self, at: int, *topics: str) -> None:
        """Kill a member while it moves logs to `logs`: the controller has the new directory, the logs are in `more`.

        The member does not learn that the controller has accepted the first one, because that answer is cut. It sends
        one request at a time, so this function sends the next one.
        """
        member = self.members[at]
        first, *others = topics
        before = self.directory_of(first, at)
        self.links.cut([at], requests=False)
        for topic in topics:
            member.move(topic, member.log_dir)
            eventually(lambda topic=topic: list(member.log_dir.glob(f"{topic}-0.*-future")))  # type: ignore[misc]
        eventually(lambda: self.directory_of(first, at) != before, "the controller has accepted the assignment")
        member.kill()
        self.links.heal()
        target = self.directory_of(first, at)
        self._assign(at, target, others)
        for topic in topics:
            assert self.directory_of(topic, at) == target
            assert member.places(topic) == ["more"]

    def _assign(self, at: int, directory_id: bytes, topics: Iterable[str]) -> None:
        """Assign replicas to a directory, as the member does."""
        image = self.image()
        assigned = [
            RequestTopicData(topic_id=found.topic_id, partitions=[RequestPartitionData(partition_index=0)])
            for found in map(image.topic, topics)
            if found is not None
        ]
        with WireClient(HOST, self.links.target) as client:
            answer = client.call(
                ASSIGN_REPLICAS_TO_DIRS,
                0,
                broker_id=at,
                broker_epoch=image.brokers[at].broker_epoch,
                directories=[RequestDirectoryData(id=directory_id, topics=assigned)],
            )
        assert answer.error_code == 0
        assert {part.error_code for topic in answer.directories[0].topics for part in topic.partitions} == {0}


@contextmanager
def moving_cluster(make_directory: Callable[[str], Path], kind: str, members: int) -> Iterator[MovingCluster]:
    """Start a cluster under pybroker's own controller ("ours") or one of Apache Kafka ("kafka")."""
    with ExitStack() as stack:
        links = stack.enter_context(Links())
        controller: RunningBroker
        if kind == "ours":
            controller = OurController(make_directory("controller"), links)
            quorum = {"controller.quorum.bootstrap.servers": f"{HOST}:{links.port}"}
        else:
            quorum = {"controller.quorum.voters": voters_of({_CONTROLLER: links.port})}
            # a member connects to the address that the controller returns
            properties = {**OF_CONTROLLERS, "advertised.listeners": f"CONTROLLER://{HOST}:{links.port}"}
            controller = Voter(make_directory("controller"), _CONTROLLER, {_CONTROLLER: links.target}, properties)
        stack.enter_context(controller)
        yield MovingCluster(
            controller,
            links,
            {
                each: stack.enter_context(TwoDirectories(make_directory("member"), each, quorum))
                for each in range(1, members + 1)
            },
        )
