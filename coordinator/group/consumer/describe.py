"""ConsumerGroupDescribe: a consumer group with its members, their assignments and their targets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.cluster import Cluster
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from protocol.schema import Struct

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(shard: GroupShard, group_id: str) -> Struct:
    """Describe the group. Raises Refused: GROUP_ID_NOT_FOUND, also for a group of another type."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        reason = "not found" if group is None else "is not a consumer group"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor() or shard.settings.consumer.assignors[0],
        members=[describe_member(group, member, shard.cluster) for member in group.members.values()],
    )


def describe_member(group: ConsumerGroup, member: ConsumerMember, cluster: Cluster) -> Struct:
    """Describe a member. Its assignment includes the partitions that it has to give up."""
    has: dict[bytes, list[int]] = {}
    for topic_id, partition in member.owned():
        has.setdefault(topic_id, []).append(partition)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=named(has, cluster),
        target_assignment=named(group.target_of(member.member_id), cluster),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def named(partitions: Mapping[bytes, Collection[int]], cluster: Cluster) -> Struct:
    """Return partitions with the names of their topics, without topics that no longer exist."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
