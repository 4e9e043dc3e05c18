"""flush.messages on the groups' topic: each write waits for the disk, whatever API and partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from tests.support.disk_doubles.slow_disk import SlowDisk
from tests.support.share_broker import ShareBroker, ShareMemberClient
from tests.support.streams_groups import request, subtopology, topology

SETTINGS = {
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "7",
    "share.coordinator.state.topic.num.partitions": "7",
    "group.share.assignment.interval.ms": "0",
}

Ask: TypeAlias = Callable[[ShareBroker, ShareMemberClient], object]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ShareBroker]:
    made = ShareBroker(tmp_path, SETTINGS)
    made.create("t")
    made.create("u")
    yield made
    made.close()


@pytest.fixture
def member(broker: ShareBroker) -> ShareMemberClient:
    """A member of a share group that has acquired all three records."""
    client = broker.member()
    client.configure(share_auto_offset_reset="earliest")
    broker.fill(3)
    epoch = 0
    for _ in range(3):
        epoch = client.beat(epoch, ["t"]).member_epoch
        broker.advance(1_000)
    assert client.acquire(wait_ms=0) == [(0, 2, 1)]
    return client


def commit(broker: ShareBroker, _: ShareMemberClient) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequestTopic(name="u", partitions=[partition])]
    broker.call(OFFSET_COMMIT, 8, group_id="simple", generation_id_or_member_epoch=-1, member_id="", topics=topics)


def delete_offset(broker: ShareBroker, _: ShareMemberClient) -> None:
    topics = [OffsetDeleteRequestTopic(name="u", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    broker.call(OFFSET_DELETE, 0, group_id="simple", topics=topics)


def delete_group(broker: ShareBroker, _: ShareMemberClient) -> None:
    broker.call(DELETE_GROUPS, 2, groups_names=["simple"])


def enter_streams(broker: ShareBroker, _: ShareMemberClient) -> None:
    wanted = topology(subtopology("0", ["t"]))
    answer = broker.call(STREAMS_GROUP_HEARTBEAT, 0, **request("m", 0, told=wanted, group_id="streams"))
    assert not answer.error_code


def alter_start(broker: ShareBroker, member: ShareMemberClient) -> None:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])]
    broker.call(ALTER_SHARE_GROUP_OFFSETS, 0, group_id=member.group, topics=topics)


def delete_start(broker: ShareBroker, member: ShareMemberClient) -> None:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id=member.group, topics=topics)


def leave(_: ShareBroker, member: ShareMemberClient) -> None:
    member.beat(-1)


WRITING: list[tuple[str, Ask, Ask | None]] = [
    (CONSUMER_OFFSETS, commit, None),
    (CONSUMER_OFFSETS, delete_offset, commit),
    (CONSUMER_OFFSETS, delete_group, commit),
    (CONSUMER_OFFSETS, enter_streams, None),
    (CONSUMER_OFFSETS, leave, None),
    (SHARE_GROUP_STATE, lambda _, member: member.acknowledge((0, 1, [1])), None),
    (SHARE_GROUP_STATE, lambda _, member: member.share_fetch((0, 1, [1]), wait_ms=0), None),
    (SHARE_GROUP_STATE, lambda _, member: member.initialize(9, 1), None),
    (SHARE_GROUP_STATE, lambda _, member: member.delete(), None),
    (SHARE_GROUP_STATE, alter_start, leave),
    (SHARE_GROUP_STATE, delete_start, leave),
]
"""The topic, what is asked, and what before it."""


@pytest.mark.parametrize(("topic", "ask", "before"), WRITING)
def test_each_write_waits_for_the_flush(
    broker: ShareBroker, member: ShareMemberClient, topic: str, ask: Ask, before: Ask | None
) -> None:
    if before is not None:
        before(broker, member)
    disk = SlowDisk(broker, topic)
    with pytest.raises(RuntimeError, match="not done yet"):
        ask(broker, member)
    assert len(disk)
    disk.release()
