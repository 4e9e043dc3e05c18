"""Calls of members of classic groups on a `GroupBroker`, with defaults for most fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestTopic
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.group_broker import GroupBroker, code_of
from tests.support.groups import subscription


def join(
    broker: GroupBroker, group_id: str = "g", member_id: str = "", version: int = 3, **fields: Any
) -> Deferred[Struct]:
    """Send a member's JoinGroup, which waits for the others."""
    fields.setdefault("session_timeout_ms", 10_000)
    fields.setdefault("rebalance_timeout_ms", 60_000)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
    return broker.send(
        JOIN_GROUP,
        version,
        group_id=group_id,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


def stable_member(broker: GroupBroker, group_id: str = "g") -> str:
    """Return the only member of a stable group of generation 1."""
    joined = join(broker, group_id)
    broker.advance(0)
    member_id: str = joined.result().member_id
    answer = broker.call(
        SYNC_GROUP,
        5,
        group_id=group_id,
        member_id=member_id,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
    )
    assert code_of(answer) is ErrorCode.NONE
    return member_id


def commit(broker: GroupBroker, offset: int, group_id: str = "g", topic: str = "t", partition: int = 0) -> ErrorCode:
    partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    answer = broker.call(OFFSET_COMMIT, 9, group_id=group_id, topics=topics)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetched(broker: GroupBroker, group_id: str = "g", topic: str = "t", partition: int = 0) -> int:
    """Return the committed offset."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    answer = broker.call(OFFSET_FETCH, 7, group_id=group_id, topics=topics)
    assert answer.error_code == 0
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def heartbeat(broker: GroupBroker, member_id: str, group_id: str = "g", generation: int = 1) -> ErrorCode:
    return code_of(broker.call(HEARTBEAT, 4, group_id=group_id, member_id=member_id, generation_id=generation))


def failing_for(what: str | int, decide: Callable[..., None]) -> Callable[..., None]:
    """Return a decision that fails for one group, or for all groups of one partition."""

    def fail_or_decide(shard: GroupShard, *arguments: Any) -> None:
        if what in (shard.partition, getattr(arguments[0], "group_id", None)):
            raise ValueError(f"of {what}")
        decide(shard, *arguments)

    return fail_or_decide
