"""Unused offsets expire, and groups with them (KIP-211): when, and which ones, as at Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually
from tests.support.groups import subscription
from tests.support.pairs import Pair
from tests.support.scale import scaled
from tests.support.settled import settled, wait_for_coordinator

PROPERTIES = {
    "offsets.retention.check.interval.ms": "300",
    "offsets.retention.minutes": "1",
    "offsets.topic.num.partitions": "1",
}
TOPICS = ("orders", "audit")


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("expiry"), PROPERTIES)
    made.create_topics(dict.fromkeys(TOPICS, 2))
    for broker in made.brokers:
        wait_for_coordinator(broker)
    yield made
    made.close()


class Group:
    """A group at one of the two brokers."""

    def __init__(self, pair: Pair, broker: RunningBroker, group_id: str) -> None:
        self.group_id = group_id
        self.call: Callable[..., Any] = pair.client(broker).call
        self.broker = broker

    def commit(self, topic: str, partition: int, version: int = 8, **fields: Any) -> None:
        listed = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=listed)]
        fields = {"generation_id_or_member_epoch": -1, "member_id": "", **fields}

        def send() -> None:
            answer = self.call(OFFSET_COMMIT, version, group_id=self.group_id, topics=topics, **fields)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

        settled(self.broker, send)

    def join(self) -> tuple[str, int]:
        """Join a member that reads the first topic; return its id and generation."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(TOPICS[0]))]
        joined = self.call(
            JOIN_GROUP,
            3,
            group_id=self.group_id,
            member_id="",
            session_timeout_ms=120_000,
            rebalance_timeout_ms=120_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
        fields = {"group_id": self.group_id, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert self.call(SYNC_GROUP, 2, assignments=given, **fields).error_code == ErrorCode.NONE
        return joined.member_id, joined.generation_id

    def state(self) -> tuple[str, list[tuple[str, int]]]:
        """Return the group's state, and its offsets."""
        described = self.call(DESCRIBE_GROUPS, 5, groups=[self.group_id]).groups[0].group_state
        answer = self.call(OFFSET_FETCH, 7, group_id=self.group_id, topics=None, require_stable=False)
        return described, sorted((t.name, p.partition_index) for t in answer.topics for p in t.partitions)


def _states(pair: Pair, names: list[str]) -> tuple[list[Any], list[Any]]:
    ours, kafka = pair.each(lambda broker: [Group(pair, broker, name).state() for name in names])
    return ours, kafka


def _wait(pair: Pair, names: list[str], expected: list[Any], timeout_s: float) -> None:
    eventually(lambda: _states(pair, names), equal_to=(expected, expected), timeout_s=timeout_s, interval_s=0.2)


def test_offsets_expire(pair: Pair) -> None:
    """Offsets with a retention time of their own; at full size, a minute, also those with the broker's."""
    names = ["brief", "half", "simple", "left", "live"]
    members = {}
    for broker in pair.brokers:
        brief, half, simple, left, live = (Group(pair, broker, name) for name in names)
        for partition in (0, 1):
            brief.commit(TOPICS[0], partition, 2, retention_time_ms=1_000)
        half.commit(TOPICS[0], 0, 3, retention_time_ms=1_000)
        half.commit(TOPICS[0], 1, 4, retention_time_ms=3_600_000)
        simple.commit(TOPICS[0], 0)
        for group in (left, live):
            member_id, generation = group.join()
            for topic in TOPICS:
                group.commit(topic, 0, generation_id_or_member_epoch=generation, member_id=member_id)
            members[broker.kind, group.group_id] = member_id, generation
        left.call(LEAVE_GROUP, 3, group_id="left", members=[MemberIdentity(member_id=members[broker.kind, "left"][0])])
    both = [(topic, 0) for topic in sorted(TOPICS)]
    kept = [("Empty", [(TOPICS[0], 0)]), ("Empty", both), ("Stable", both)]
    _wait(pair, names, [("Dead", []), ("Empty", [(TOPICS[0], 1)]), *kept], 20)
    if scaled(1) == 1:
        return
    gone = [("Dead", []), ("Dead", []), ("Stable", [(TOPICS[0], 0)])]
    _wait(pair, names, [("Dead", []), ("Empty", [(TOPICS[0], 1)]), *gone], 90)
    for broker in pair.brokers:
        member_id, generation = members[broker.kind, "live"]
        fields = {"group_id": "live", "generation_id": generation, "member_id": member_id}
        assert pair.client(broker).call(HEARTBEAT, 3, **fields).error_code == ErrorCode.NONE
