"""The group protocol frame by frame: the same requests, and the same answers, here and at Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestTopic
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from protocol.schema import Struct
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.groups import subscription
from tests.support.settled import settled, wait_for_topic
from tests.support.wire import WireClient

BRIEF_MS = 3_000
"""A time that members let pass; above what a busy machine keeps one waiting who does not mean to."""


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
        """A Kafka makes the topic of groups at the first question, and only then says who coordinates."""
        deadline = time.monotonic() + 60
        self.admin.call(FIND_COORDINATOR, 3, key=self.group_id)
        while self.describe(5).error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline
            time.sleep(0.1)

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
        """Get an id and send the join that is answered when the rebalance ends."""
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
        """Make the clients a stable group, each with its own id as its assignment. Gives their ids."""
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
        """Have clients join one after the other. Gives their ids; the last answers are on their way."""
        ids: list[str] = []
        for newcomer, wanted in zip(members, options, strict=True):
            if ids:  # else it would take part in the rebalance before
                self.wait_for_state("CompletingRebalance")
            member_id = self.enter(newcomer, **wanted)
            if ids:  # it starts a rebalance, which ends when those before it have joined again
                self.wait_for_state("PreparingRebalance")
            for member, known_id, known in zip(members, ids, options, strict=False):
                member.receive()
                self.send_join(member, known_id, **known)  # type: ignore[arg-type]
            ids.append(member_id)
        return ids

    def wait_for_state(self, state: str) -> None:
        """Requests of several connections are served in no certain order."""
        deadline = time.monotonic() + 60
        while self.describe().group_state != state:
            assert time.monotonic() < deadline
            time.sleep(0.005)

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

    def describe(self, version: int = 6) -> Struct:
        described: Struct = self.admin.call(DESCRIBE_GROUPS, version, groups=[self.group_id]).groups[0]
        return described

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        answer = self.admin.call(LEAVE_GROUP, 5, group_id=self.group_id, members=identities)
        return [ErrorCode(each.error_code) for each in answer.members]


@pytest.fixture
def group(reference: RunningBroker, name: str) -> Iterator[Group]:
    group = Group(reference, name, name)
    yield group
    group.close()


def test_group_lives_and_dies(group: Group) -> None:
    """From nothing over a stable generation and a rebalance to an empty group that can be deleted."""
    assert group.describe(5).group_state == "Dead"
    missing = group.describe()
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.group_id} not found.",
    )
    one, two = group.connect(), group.connect()
    first, second = group.stable(one, two)
    described = group.describe()
    assert (described.group_state, described.protocol_data, len(described.members)) == ("Stable", "range", 2)
    assert {(m.client_id, m.client_host) for m in described.members} == {("member", "/127.0.0.1")}
    assert {m.member_assignment for m in described.members} == {first.encode(), second.encode()}
    assert {m.member_metadata for m in described.members} == {subscription(group.topic)}

    assert group.leave((first, None), ("nobody", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.heartbeat(second, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.describe().group_state == "PreparingRebalance"
    answer = group.admin.call(DELETE_GROUPS, 2, groups_names=[group.group_id])
    assert answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    group.send_join(two, second)
    assert two.receive().generation_id == group.generation + 1
    assert group.describe().group_state == "CompletingRebalance"
    assert group.commit(5, second, group.generation + 1) is ErrorCode.REBALANCE_IN_PROGRESS
    group.leave((second, None))
    empty = group.describe()
    assert (empty.group_state, empty.protocol_type, empty.protocol_data, empty.members) == ("Empty", "consumer", "", [])
    answer = group.admin.call(DELETE_GROUPS, 2, groups_names=[group.group_id])
    assert answer.results[0].error_code == ErrorCode.NONE
    assert group.describe(5).group_state == "Dead"


def test_members_are_checked(group: Group) -> None:
    member = group.connect()
    (member_id,) = group.stable(member)
    generation = group.generation
    assert group.heartbeat(member_id, generation) is ErrorCode.NONE
    assert group.heartbeat(member_id, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat("nobody", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(member_id, generation, "x") is ErrorCode.UNKNOWN_MEMBER_ID
    group.send_sync(member, member_id, generation - 1)
    assert member.receive().error_code == ErrorCode.ILLEGAL_GENERATION
    group.send_join(member, "nobody")
    assert member.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    group.send_join(member, protocols=(("sticky", b""),))
    assert member.receive().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group.send_join(member, session_ms=10)
    assert member.receive().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    answer = group.admin.call(JOIN_GROUP, 5, group_id="", session_timeout_ms=10_000, rebalance_timeout_ms=1_000)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


def test_offsets_are_checked_and_kept(group: Group) -> None:
    assert group.commit(1, "m", 3) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.commit(1, "m", 3, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(1) is ErrorCode.NONE
    assert group.commit(2, metadata="ä" * 4_096) is ErrorCode.NONE
    assert group.commit(3, metadata="x" * 4_097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert group.committed() == (2, "ä" * 4_096)
    assert group.commit(3, topic=f"{group.topic}-not") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert group.commit(3, partition=2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert group.committed(1) == (-1, "")

    (member_id,) = group.stable(group.connect())
    assert group.commit(4) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(4, member_id) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(4, member_id, group.generation) is ErrorCode.NONE
    assert group.committed() == (4, "")
    wanted = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=group.topic, partitions=wanted)]
    answer = group.admin.call(OFFSET_DELETE, 0, group_id=group.group_id, topics=topics)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.leave((member_id, None))
    answer = group.admin.call(OFFSET_DELETE, 0, group_id=group.group_id, topics=topics)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.committed() == (-1, "")
    answer = group.admin.call(OFFSET_DELETE, 0, group_id=f"{group.group_id}-not", topics=topics)
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [8, 9])
def test_static_leader_comes_back(group: Group, version: int) -> None:
    """KIP-345: no rebalance. KIP-814: from v9 on it knows that it leads, and that it is not to assign."""
    one = group.connect()
    group.send_join(one, instance="one")
    old = one.receive()
    group.send_sync(one, old.member_id, 1, {old.member_id: b"mine"})
    assert one.receive().assignment == b"mine"
    group.send_join(one, instance="one", version=version)
    new = one.receive()
    assert (new.error_code, new.generation_id) == (ErrorCode.NONE, 1)
    assert new.member_id != old.member_id
    assert new.member_id.startswith("one-")
    if version >= 9:
        assert (new.leader, new.skip_assignment, len(new.members)) == (new.member_id, True, 1)
    else:
        assert (new.leader, new.members) == (old.member_id, [])
    group.send_sync(one, new.member_id, 1)
    assert one.receive().assignment == b"mine"
    assert group.heartbeat(old.member_id, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat(new.member_id, 1, "one") is ErrorCode.NONE
    assert group.commit(1, old.member_id, 1, group_instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert group.leave((old.member_id, "one"), ("", "one"), ("", "two")) == [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_followers_that_change_start_a_rebalance_and_others_do_not(group: Group) -> None:
    one, two = group.connect(), group.connect()
    ids = group.stable(one, two)
    leader, follower = (one, two) if group.leader == ids[0] else (two, one)
    follower_id = next(each for each in ids if each != group.leader)
    group.send_join(follower, follower_id)
    again = follower.receive()
    assert (again.generation_id, again.members, again.leader) == (group.generation, [], group.leader)
    group.send_join(follower, follower_id, protocols=(("range", subscription("other")),))
    group.wait_for_state("PreparingRebalance")
    group.send_join(leader, group.leader)
    answers = [leader.receive(), follower.receive()]
    assert {answer.generation_id for answer in answers} == {group.generation + 1}
    assert {m.member_id: m.metadata for m in answers[0].members} == {
        group.leader: subscription(group.topic),
        follower_id: subscription("other"),
    }


def test_protocol_is_chosen_by_votes(group: Group) -> None:
    """Of three, two like "c" best, and all can do "b" and "c"."""
    likes = (
        (("b", b"b1"), ("a", b""), ("c", b"c1")),
        (("c", b"c2"), ("b", b"b2")),
        (("c", b"c3"), ("b", b"b3"), ("a", b"")),
    )
    members = [group.connect() for _ in likes]
    group.gather(members, [{"protocols": protocols} for protocols in likes])
    answers = [member.receive() for member in members]
    assert {(answer.error_code, answer.protocol_name) for answer in answers} == {(ErrorCode.NONE, "c")}
    (told,) = (answer.members for answer in answers if answer.members)
    assert {each.metadata for each in told} == {b"c1", b"c2", b"c3"}


def test_groups_are_listed_by_state_and_type(group: Group) -> None:
    def loaded() -> None:  # Kafka lists nothing while it loads any partition of groups, also one of others
        assert group.admin.call(LIST_GROUPS, 5).error_code == ErrorCode.NONE

    def listed(**filters: object) -> set[tuple[str, str, str]]:
        groups = group.admin.call(LIST_GROUPS, 5, **filters).groups
        return {(g.protocol_type, g.group_state, g.group_type) for g in groups if g.group_id == group.group_id}

    group.commit(1)
    settled(group.broker, loaded)
    assert listed() == {("", "Empty", "classic")}
    assert listed(states_filter=["EMPTY"], types_filter=["Classic"]) == {("", "Empty", "classic")}
    assert listed(states_filter=["Stable"]) == set()
    assert listed(states_filter=["Nonsense"]) == set()
    assert listed(types_filter=["consumer"]) == set()
    assert listed(types_filter=["nonsense"]) == set()
    group.stable(group.connect())
    assert listed(states_filter=["stable"]) == {("consumer", "Stable", "classic")}


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_deadlines(start_broker: StartBroker, kind: str) -> None:
    """Who is silent is dropped: by its session, for not joining in time, for not asking for its assignment."""
    broker = start_broker(kind, {"group.min.session.timeout.ms": "200"})
    group = Group(broker, "deadlines", "deadlines")
    one, two = group.connect(), group.connect()
    silent, alive = group.stable(one, two, each=[{"session_ms": BRIEF_MS}, {}])
    group.wait_for_state("PreparingRebalance")
    assert group.heartbeat(alive, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(silent, group.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    group.send_join(two, alive, rebalance_ms=BRIEF_MS)
    assert two.receive().generation_id == group.generation + 1
    group.wait_for_state("Empty")  # there is no sync
    assert group.heartbeat(alive, group.generation + 1) is ErrorCode.UNKNOWN_MEMBER_ID

    slow, quick = group.stable(one, two, rebalance_ms=BRIEF_MS)
    group.send_join(two, quick, rebalance_ms=BRIEF_MS, protocols=(("range", subscription("other")),))
    answer = two.receive()
    assert (answer.generation_id, answer.leader) == (group.generation + 1, quick)
    assert group.heartbeat(slow, group.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    group.close()


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_initial_delay(start_broker: StartBroker, kind: str) -> None:
    """KIP-134: an empty group waits for others, again after each that comes, for the rebalance timeout at most."""
    broker = start_broker(kind, {"group.initial.rebalance.delay.ms": "1000"})
    group = Group(broker, "delayed", "delayed")
    one, two, three = group.connect(), group.connect(), group.connect()
    began = time.monotonic()
    group.enter(one, rebalance_ms=2_500)
    time.sleep(0.6)
    group.enter(two, rebalance_ms=2_500)
    time.sleep(0.7)
    group.enter(three, rebalance_ms=2_500)
    answers = [member.receive() for member in (one, two, three)]
    took_s = time.monotonic() - began
    assert [each.generation_id for each in answers] == [1, 1, 1]
    assert sum(len(each.members) for each in answers) == 3
    assert 2.4 < took_s < 4.5, took_s
    group.close()
