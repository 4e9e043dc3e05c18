"""DescribeShareGroupOffsets v0-v1: list the start offsets of share groups in their partitions (KIP-932).

Versions: v1 lag (KIP-1226): the records after the start offset that are not acknowledged for good. A partition of which
the group has no state has start offset -1, whether or not the partition exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinators.share.requests import serves_share_groups
from broker.replicas.end_offsets import EndOffsets
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from coordinator.group.share.states import partitions_of
from coordinator.share.state import UNINITIALIZED, UNKNOWN_COUNT, ShareKey, ShareState
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct
from runtime.deferred import Deferred, after, settled

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.states import AllShareStates
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


class Needs(NamedTuple):
    """The services that describe a group."""

    image: MetadataImage
    is_served: bool
    groups: GroupCoordinator
    share_states: AllShareStates
    end_offsets: EndOffsets


@handles(DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    config: BrokerConfig,
    groups: GroupCoordinator,
    share_states: AllShareStates,
    end_offsets: EndOffsets,
) -> Reply:
    needs = Needs(metadata.image, serves_share_groups(metadata, config), groups, share_states, end_offsets)
    pending: list[Deferred[None]] = []
    found = [describe_group(ctx, needs, asked, pending) for asked in request.groups]
    response = DESCRIBE_SHARE_GROUP_OFFSETS.response(groups=found)
    return settled(pending).then(lambda _: response) if pending else response


def describe_group(ctx: RequestContext, needs: Needs, asked: Struct, pending: list[Deferred[None]]) -> Struct:
    """Describe the requested topics, or all of the group. Adds offsets that other processes have to `pending`."""
    group_id = asked.group_id
    if not needs.is_served:
        return refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
    shard = needs.groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return refused(group_id, shard)
    wanted = all_of(shard, group_id) if asked.topics is None else named_in(asked.topics)
    topics = [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=topic_id_of(needs.image, name),
            partitions=[describe_partition(ctx, needs, group_id, name, index, pending) for index in partitions],
        )
        for name, partitions in wanted.items()
    ]
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)


def refused(group_id: str, code: ErrorCode) -> Struct:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code, error_message=code.text)


def all_of(shard: GroupShard, group_id: str) -> dict[str, list[int]]:
    """Return the partitions of which the group has a state; none for another kind of group."""
    group = shard.share(group_id)
    if group is None:
        return {}
    return {
        topic.name: sorted(partitions_of(group.states, topic_id))
        for topic_id, topic in group.states.initialized.items()
    }


def named_in(topics: Sequence[Struct]) -> dict[str, list[int]]:
    """Return the partitions that a request names, each once."""
    named: dict[str, dict[int, None]] = {}
    for topic in topics:
        named.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
    return {name: list(partitions) for name, partitions in named.items()}


def topic_id_of(image: MetadataImage, name: str) -> bytes:
    topic = image.topic(name)
    return ZERO_UUID if topic is None else topic.topic_id


def describe_partition(
    ctx: RequestContext, needs: Needs, group_id: str, name: str, index: int, pending: list[Deferred[None]]
) -> Struct:
    """Describe the start offset and the lag of one partition."""
    answer = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED)
    topic = needs.image.topic(name)
    if topic is None or index not in topic.partitions:
        return answer
    described = _described(ctx, needs, answer, ShareKey(group_id, topic.topic_id, index), name)
    if described is not None:
        pending.append(described)
    return answer


def _described(ctx: RequestContext, needs: Needs, answer: Struct, share: ShareKey, name: str) -> Deferred[None] | None:
    """Set the start offset and the lag in an answer. Returns a Deferred if another process has one of them."""
    try:
        found = needs.share_states.summarize(share)
    except Refused as refusal:
        set_error(answer, refusal)
        return None
    if not isinstance(found, Deferred):
        return set_state(ctx, needs, answer, found, name)

    def finish() -> Deferred[None] | None:
        try:
            state = found.result()
        except Refused as refusal:
            set_error(answer, refusal)
            return None
        return set_state(ctx, needs, answer, state, name)

    return after(settled([found]), finish)


def set_error(answer: Struct, refusal: Refused) -> None:
    if refusal.code is not ErrorCode.NOT_COORDINATOR:  # in that case no group has any state yet
        answer.error_code, answer.error_message = refusal.code, refusal.message


def set_state(ctx: RequestContext, needs: Needs, answer: Struct, state: ShareState, name: str) -> Deferred[None] | None:
    """Set the start offset, and the lag once the partition's end is known."""
    answer.start_offset = state.start_offset
    answer.leader_epoch = state.leader_epoch
    is_counted = state.start_offset != UNINITIALIZED and state.delivery_complete_count != UNKNOWN_COUNT
    if ctx.api_version < 1 or not is_counted:
        return None
    end = needs.end_offsets.end_offset(name, answer.partition_index)
    if end.done:
        set_lag(answer, state, end)
        return None
    return after(settled([end]), lambda: set_lag(answer, state, end))


def set_lag(answer: Struct, state: ShareState, end: Deferred[int]) -> None:
    """Set the lag: the number of records that are not acknowledged for good."""
    try:
        answer.lag = end.result() - state.start_offset - state.delivery_complete_count
    except Exception as error:
        code = _code_of(error)
        answer.error_code, answer.error_message = code, code.text


def _code_of(error: Exception) -> ErrorCode:
    return error.code if isinstance(error, Refused) else error_code_of(error)
