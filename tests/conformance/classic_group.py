"""A group of the classic protocol that test clients drive by hand, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestTopic
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from protocol.schema import Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.groups import subscription
from tests.support.settled import wait_for_topic
from tests.support.wire import WireClient


class Group:
    """A group that test clients drive by hand, each member on a connection of its own."""

    def __init__(self, broker: RunningBroker, group_id: str, topic: str) -> None:
        self.broker = broker
        self.group_id = group_id
        self.topic = topic
        self._connections: list[WireClient] = []
        self.admin = self.connect()
        self.wait_for_coordinator()
        topics = [CreatableTopic(name=topic, num_partitions=2, replication_factor=1)]
        self.admin.call(CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        wait_for_topic(broker, topic, 2)

    def connect(self) -> WireClient:
        connection = WireClient(HOST, self.broker.port, client_id="member")
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def wait_for_coordinator(self) -> None:
        """Wait for the coordinator: Kafka creates the groups' topic at the first request, and names a coordinator
        afterwards.
        """
        self.admin.call(FIND_COORDINATOR, 3, key=self.group_id)
        eventually(lambda: self.describe(5).error_code, equal_to=ErrorCode.NONE)

    def send_join(
        self,
        member: WireClient,
        member_id: str = "",
        version: int = 9,
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] | None = None,
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
    ) -> None:
        protocols = protocols or (("range", subscription(self.topic)),)
        fields = {"rebalance_timeout_ms": rebalance_ms} if version >= 1 else {}
        if version >= 5:
            fields["group_instance_id"] = instance  # type: ignore[assignment]
        member.send(
            JOIN_GROUP,
            version,
            group_id=self.group_id,
            member_id=member_id,
            session_timeout_ms=session_ms,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
            **fields,
        )

    def enter(self, member: WireClient, **options: object) -> str:
        """Get an id and send a join, which is answered at the end of the rebalance; return the id."""
        self.send_join(member, **options)  # type: ignore[arg-type]
        answer = member.receive()
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = answer.member_id
        self.send_join(member, member_id, **options)  # type: ignore[arg-type]
        return member_id

    def send_sync(
        self, member: WireClient, member_id: str, generation: int, assignments: dict[str, bytes] | None = None
    ) -> None:
        member.send(
            SYNC_GROUP,
            5,
            group_id=self.group_id,
            member_id=member_id,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )

    def stable(self, *members: WireClient, each: Sequence[Mapping[str, object]] = (), **options: object) -> list[str]:
        """Make the clients a stable group in which each has its own id as its assignment; return their ids."""
        ids = self.gather(members, each or [options] * len(members))
        answers = [member.receive() for member in members]
        self.generation: int = answers[0].generation_id
        self.leader: str = answers[0].leader
        assert {answer.generation_id for answer in answers} == {self.generation}
        everything = {member_id: member_id.encode() for member_id in ids}
        for member, member_id in zip(members, ids, strict=True):
            self.send_sync(member, member_id, self.generation, everything if member_id == self.leader else None)
        for member, member_id in zip(members, ids, strict=True):
            assert member.receive().assignment == member_id.encode()
        return ids

    def gather(self, members: Sequence[WireClient], options: Sequence[Mapping[str, object]]) -> list[str]:
        """Let clients join one after the other; return their ids. The last answers are on their way."""
        ids: list[str] = []
        for newcomer, wanted in zip(members, options, strict=True):
            if ids:  # else it would take part in the previous rebalance
                self.wait_for_state("CompletingRebalance")
            member_id = self.enter(newcomer, **wanted)
            if ids:  # it starts a rebalance, which ends when the earlier members have joined again
                self.wait_for_state("PreparingRebalance")
            for member, known_id, known in zip(members, ids, options, strict=False):
                member.receive()
                self.send_join(member, known_id, **known)  # type: ignore[arg-type]
            ids.append(member_id)
        return ids

    def wait_for_state(self, state: str) -> None:
        """Wait for a state: requests of several connections are served in no certain order."""
        eventually(lambda: self.describe().group_state, equal_to=state)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        answer = self.admin.call(
            HEARTBEAT,
            4,
            group_id=self.group_id,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance,
        )
        return ErrorCode(answer.error_code)

    def commit(
        self, offset: int, member_id: str = "", generation: int = -1, *, version: int = 9, **options: object
    ) -> ErrorCode:
        partition = OffsetCommitRequestPartition(
            partition_index=options.pop("partition", 0),
            committed_offset=offset,
            committed_metadata=options.pop("metadata", ""),
        )
        topics = [OffsetCommitRequestTopic(name=options.pop("topic", self.topic), partitions=[partition])]
        answer = self.admin.call(
            OFFSET_COMMIT,
            version,
            group_id=self.group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=topics,
            **options,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def committed(self, partition: int = 0) -> tuple[int, str]:
        topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=[partition])]
        answer = self.admin.call(OFFSET_FETCH, 7, group_id=self.group_id, topics=topics)
        found = answer.topics[0].partitions[0]
        return found.committed_offset, found.metadata

    def delete_offset(self) -> ErrorCode:
        """Return the result for the topic's first partition."""
        wanted = [OffsetDeleteRequestPartition(partition_index=0)]
        topics = [OffsetDeleteRequestTopic(name=self.topic, partitions=wanted)]
        answer = self.admin.call(OFFSET_DELETE, 0, group_id=self.group_id, topics=topics)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def describe(self, version: int = 6) -> Struct:
        described: Struct = self.admin.call(DESCRIBE_GROUPS, version, groups=[self.group_id]).groups[0]
        return described

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        answer = self.admin.call(LEAVE_GROUP, 5, group_id=self.group_id, members=identities)
        return [ErrorCode(each.error_code) for each in answer.members]
