"""Members of consumer groups driven by hand: heartbeats as frames, and answers in a comparable form."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT, TopicPartitions
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.data.consumer_protocol import (
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscriptionTopicPartition,
)
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from protocol.schema import Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import WireClient

#: topic -> partitions
Partitions = Mapping[str, Sequence[int]]
GROUP_RESOURCE = 32


class ConsumerSession:
    """One group of a broker. `beat` sends a heartbeat; answers have names for topic ids, and no times."""

    def __init__(self, broker: RunningBroker, group_id: str, topics: Mapping[str, int], *, new: bool = True) -> None:
        self.group_id = group_id
        self.client = WireClient(HOST, broker.port, client_id="member")
        self.ids: dict[str, str] = {}
        """The ids of members of the classic protocol, by the test's names."""
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self.client.call(FIND_COORDINATOR, 4, coordinator_keys=[group_id])
        if new:
            eventually(lambda: self.describe()["code"] == ErrorCode.GROUP_ID_NOT_FOUND.name)
            self.create(topics)
            return
        eventually(lambda: all(self.look(name, count) for name, count in topics.items()))
        eventually(lambda: self.listed() is not None or self.describe()["code"] == ErrorCode.GROUP_ID_NOT_FOUND.name)

    def close(self) -> None:
        self.client.close()

    # -- topics -----------------------------------------------------------------------------------------------------

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics with these partition counts, and wait until the broker knows them."""
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics.items()
        ]
        self.client.call(CREATE_TOPICS, 7, topics=wanted, timeout_ms=10_000)
        eventually(lambda: all(self.look(name, count) for name, count in topics.items()))
        self.probe(topics)

    def grow(self, name: str, count: int) -> None:
        """Add partitions to a topic."""
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        self.client.call(CREATE_PARTITIONS, 3, topics=[topic], timeout_ms=10_000)
        eventually(lambda: self.look(name, count))
        self.probe({name: count})

    def probe(self, topics: Mapping[str, int]) -> None:
        """Wait until the coordinator knows the topics, too: it must assign all of them to a member of another group."""
        everything = {name: list(range(count)) for name, count in topics.items()}
        group_id = f"{self.group_id}-probe"
        eventually(lambda: self.join("probe", list(topics), group_id=group_id)["assignment"] == everything)
        self.beat("probe", -1, group_id=group_id)

    def look(self, name: str, count: int) -> bool:
        """Return whether the broker knows the topic with so many partitions."""
        topics = [MetadataRequestTopic(name=name)]
        (found,) = self.client.call(METADATA, 12, topics=topics, allow_auto_topic_creation=False).topics
        if found.error_code or len(found.partitions) != count:
            return False
        self._names[found.topic_id] = name
        self._ids[name] = found.topic_id
        return True

    def structs(self, partitions: Partitions | None) -> list[Struct] | None:
        """Return partitions as a request has them."""
        if partitions is None:
            return None
        return [TopicPartitions(topic_id=self._ids[name], partitions=list(each)) for name, each in partitions.items()]

    def named(self, topics: Sequence[Struct]) -> dict[str, list[int]]:
        """Return partitions in the compared form."""
        return {self._names[topic.topic_id]: sorted(topic.partitions) for topic in topics}

    # -- requests ---------------------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Partitions | None = None,
        *,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        version: int = 1,
        **fields: Any,
    ) -> dict[str, Any]:
        """Send a heartbeat; return code, message, member id, epoch, interval, assignment."""
        fields = {"group_id": self.group_id, **fields}
        if version >= 1:
            fields["subscribed_topic_regex"] = regex
        answer = self.client.call(
            CONSUMER_GROUP_HEARTBEAT,
            version,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=self.structs(owned),
            **fields,
        )
        return {
            "code": ErrorCode(answer.error_code).name,
            "message": answer.error_message,
            "member": self.label(answer.member_id),
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval_ms,
            "assignment": None if answer.assignment is None else self.named(answer.assignment.topic_partitions),
        }

    def join(self, member_id: str, topics: Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
        """Send the first heartbeat."""
        fields = {"rebalance_timeout_ms": 300_000, **fields}
        return self.beat(member_id, 0, {}, topics=topics, **fields)

    def describe(self, version: int = 1, group_id: str | None = None) -> dict[str, Any]:
        """Return the group of ConsumerGroupDescribe, members by id."""
        wanted = self.group_id if group_id is None else group_id
        (group,) = self.client.call(CONSUMER_GROUP_DESCRIBE, version, group_ids=[wanted]).groups
        return {
            "code": ErrorCode(group.error_code).name,
            "message": group.error_message,
            "state": group.group_state,
            "epochs": (group.group_epoch, group.assignment_epoch),
            "assignor": group.assignor_name,
            "members": {
                self.label(member.member_id): {
                    "ids": (member.instance_id, member.rack_id, member.client_id, member.client_host),
                    "epoch": member.member_epoch,
                    "topics": (sorted(member.subscribed_topic_names), member.subscribed_topic_regex),
                    "assignment": self.named(member.assignment.topic_partitions),
                    "target": self.named(member.target_assignment.topic_partitions),
                    "type": member.member_type if version >= 1 else None,
                }
                for member in group.members
            },
        }

    # -- members of the classic protocol ------------------------------------------------------------------------------

    def label(self, member_id: str | None) -> str | None:
        """Return the test's name for a member."""
        return next((label for label, known in self.ids.items() if known == member_id), member_id)

    def classic_join(
        self,
        label: str,
        topics: Sequence[str],
        owned: Partitions | None = None,
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        metadata: bytes | None = None,
        as_new: bool = False,
    ) -> dict[str, Any]:
        """Send a member's JoinGroup; a new member asks for its id first."""
        fields: dict[str, Any] = {"group_instance_id": instance} if version >= 5 else {}
        data = subscription(topics, owned or {}) if metadata is None else metadata
        member_id = "" if as_new else self.ids.get(label, "")
        while True:
            answer = self.client.call(
                JOIN_GROUP,
                version,
                group_id=self.group_id,
                member_id=member_id,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                protocol_type=protocol_type,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name in protocols],
                **fields,
            )
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            member_id = answer.member_id
        if answer.error_code == ErrorCode.NONE:
            self.ids[label] = answer.member_id
        return {
            "code": ErrorCode(answer.error_code).name,
            "member": self.label(answer.member_id),
            "generation": answer.generation_id,
            "protocol": (answer.protocol_type if version >= 7 else "", answer.protocol_name),
            "leader": self.label(answer.leader),
            "members": sorted(str(self.label(member.member_id)) for member in answer.members),
        }

    def sync(
        self, label: str, generation: int, given: Mapping[str, Partitions] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send a SyncGroup; a leader of a classic group sends assignments by name."""
        assignments = [
            SyncGroupRequestAssignment(member_id=self.ids[to], assignment=assignment(partitions))
            for to, partitions in (given or {}).items()
        ]
        fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
        answer = self.client.call(
            SYNC_GROUP,
            5,
            group_id=self.group_id,
            member_id=self.ids.get(label, label),
            generation_id=generation,
            assignments=assignments,
            **fields,
        )
        return {"code": ErrorCode(answer.error_code).name, "assignment": read_assignment(answer.assignment)}

    def heartbeat(self, label: str, generation: int, instance: str | None = None) -> str:
        """Send a Heartbeat of the classic protocol."""
        answer = self.client.call(
            HEARTBEAT,
            4,
            group_id=self.group_id,
            member_id=self.ids.get(label, label),
            generation_id=generation,
            group_instance_id=instance,
        )
        return ErrorCode(answer.error_code).name

    def leave(self, *members: tuple[str, str | None]) -> list[str]:
        """Send a LeaveGroup of members by name and instance id."""
        identities = [
            MemberIdentity(member_id=self.ids.get(label, label), group_instance_id=instance)
            for label, instance in members
        ]
        answer = self.client.call(LEAVE_GROUP, 5, group_id=self.group_id, members=identities)
        return [ErrorCode(member.error_code).name for member in answer.members]

    def classic(self) -> tuple[Any, ...]:
        """Return the group of DescribeGroups."""
        (group,) = self.client.call(DESCRIBE_GROUPS, 6, groups=[self.group_id]).groups
        members = {
            self.label(member.member_id): (member.group_instance_id, read_assignment(member.member_assignment))
            for member in group.members
        }
        message = group.error_message
        return ErrorCode(group.error_code).name, message, group.group_state, group.protocol_data, members

    def listed(self) -> tuple[str, str, str] | None:
        """Return state, type and protocol type from ListGroups."""
        for group in self.client.call(LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups:
            if group.group_id == self.group_id:
                return group.group_state, group.group_type, group.protocol_type
        return None

    # -- offsets ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        topic: str,
        offsets: Mapping[int, int],
        label: str = "",
        epoch: int = -1,
        *,
        version: int = 9,
        **fields: Any,
    ) -> dict[int, str]:
        """Send an OffsetCommit of one topic; return the code of each partition."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            for index, offset in offsets.items()
        ]
        place = {"topic_id": self._ids[topic]} if version >= 10 else {"name": topic}
        answer = self.client.call(
            OFFSET_COMMIT,
            version,
            group_id=self.group_id,
            member_id=self.ids.get(label, label),
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(partitions=partitions, **place)],
            **fields,
        )
        return {each.partition_index: ErrorCode(each.error_code).name for each in answer.topics[0].partitions}

    def committed(self, topic: str, member_id: str | None = None, epoch: int = -1) -> tuple[str, dict[int, int]]:
        """Send an OffsetFetch; return all partitions of a topic that have an offset."""
        wanted = OffsetFetchRequestGroup(group_id=self.group_id, member_id=member_id, member_epoch=epoch, topics=None)
        (group,) = self.client.call(OFFSET_FETCH, 9, groups=[wanted]).groups
        found = {
            each.partition_index: each.committed_offset
            for each_topic in group.topics
            if each_topic.name == topic
            for each in each_topic.partitions
        }
        return ErrorCode(group.error_code).name, dict(sorted(found.items()))

    def configure(self, **settings: int) -> tuple[str, str | None]:
        """Set configurations of the group; `_` stands for a dot."""
        configs = [
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=str(value))
            for name, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=configs)
        (answer,) = self.client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
        time.sleep(0.2)  # Kafka applies them soon after
        return ErrorCode(answer.error_code).name, answer.error_message

    def delete(self) -> str:
        """Send a DeleteGroups."""
        (result,) = self.client.call(DELETE_GROUPS, 2, groups_names=[self.group_id]).results
        return ErrorCode(result.error_code).name


def subscription(topics: Sequence[str], owned: Partitions, version: int = 3) -> bytes:
    """Return a consumer's metadata."""
    value = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in owned.items()
        ],
        rack_id="rack" if version >= 3 else None,
    )
    return version.to_bytes(2, "big") + ConsumerProtocolSubscription.encode(version, value)


def assignment(partitions: Partitions, version: int = 3) -> bytes:
    """Return a leader's assignment of a member."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(each))
            for topic, each in partitions.items()
        ]
    )
    return version.to_bytes(2, "big") + ConsumerProtocolAssignment.encode(version, value)


def read_assignment(data: bytes) -> tuple[int, dict[str, list[int]]] | None:
    """Return version and partitions of an assignment; None if there is none."""
    if not data:
        return None
    version = int.from_bytes(data[:2], "big")
    value, _ = ConsumerProtocolAssignment.decode(version, data, 2)
    return version, {topic.topic: sorted(topic.partitions) for topic in value.assigned_partitions}
