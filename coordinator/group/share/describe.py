"""ShareGroupDescribe: a share group with its members and their assignments."""

from __future__ import annotations

from coordinator.group.assignors.spec import Target
from coordinator.group.cluster import Cluster
from coordinator.group.shard import GroupShard
from coordinator.group.share import assignor
from coordinator.group.share.checks import existing_group
from coordinator.group.share.member import ShareMember
from protocol.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from protocol.schema import Struct


def describe(shard: GroupShard, group_id: str) -> Struct:
    """Describe the group. Raises Refused: GROUP_ID_NOT_FOUND, also for a group of another type."""
    group = existing_group(shard, group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor.NAME,
        members=[describe_member(member, shard.cluster) for member in group.members.values()],
    )


def describe_member(member: ShareMember, cluster: Cluster) -> Struct:
    """Describe a member."""
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=named(member.assigned, cluster),
    )


def named(target: Target, cluster: Cluster) -> Struct:
    """Return partitions with the names of their topics, without topics that no longer exist."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
