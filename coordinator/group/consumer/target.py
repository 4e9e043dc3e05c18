"""The target of a group: the partitions of each member at the group's epoch, computed by an assignor."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from coordinator.group.assignors import range as range_assignor
from coordinator.group.assignors import uniform
from coordinator.group.assignors.java_order import name_set_order
from coordinator.group.assignors.spec import Assignor, GroupSpec, MemberSpec, Target
from coordinator.group.cluster import Cluster
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.group import ConsumerGroup, regex_of
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.records import target_epoch_record, target_record
from coordinator.group.modern.interval import is_too_early

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}
)


class MemberTarget(NamedTuple):
    """The target of one member, and its epoch."""

    epoch: int
    target: Target


def next_target(draft: Draft, old: ConsumerMember, member: ConsumerMember) -> MemberTarget:
    """Return the target of a member that has just changed.

    If the group's epoch is ahead, compute the targets of all members into the draft.

    Targets are computed at most once per consumer.assignment.interval.ms, so that one computation serves members that
    join at the same time.
    """
    group, cluster, now_ms = draft.group, draft.shard.cluster, draft.now.wall_ms
    last = MemberTarget(group.target_epoch, group.target_of(member.member_id, member.instance_id))
    if group.target_epoch >= draft.epoch:
        return last
    interval_ms = cluster.consumer_config(group.group_id).assignment_interval_ms
    if is_too_early(group.target_timestamp_ms, interval_ms, now_ms):
        return last
    name = group.preferred_assignor(old, member) or draft.shard.settings.consumer.assignors[0]
    spec = group_spec(group, member, cluster)
    targets = ASSIGNORS[name](spec)
    for member_id in spec.members:
        target = targets.get(member_id, {})
        if target != group.targets.get(member_id):
            draft.records.append(target_record(group.group_id, member_id, target))
    draft.records.append(target_epoch_record(group.group_id, draft.epoch, now_ms))
    return MemberTarget(draft.epoch, targets.get(member.member_id, {}))


def group_spec(group: ConsumerGroup, member: ConsumerMember, cluster: Cluster) -> GroupSpec:
    """Return the group with the changed member, in place of the one that it replaces."""
    members = {**group.members, member.member_id: member}
    replaced = group.static_members.get(member.instance_id or "")
    if replaced is not None and replaced != member.member_id:
        del members[replaced]
    known: dict[frozenset[str], dict[bytes, int]] = {}  # most members read the same topics
    specs = {}
    for member_id, each in members.items():
        names = topics_of(group, each)
        topics = known.get(names)
        if topics is None:
            found = map(cluster.topic, name_set_order(names))
            topics = known[names] = {topic.topic_id: topic.partition_count for topic in found if topic is not None}
        specs[member_id] = MemberSpec(each.instance_id, topics, group.target_of(member_id, each.instance_id))
    return GroupSpec(specs, group.subscription_with(member).is_homogeneous)


def topics_of(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """Return the names of all topics that a member reads."""
    expression = regex_of(member)
    resolved = None if expression is None else group.regexes.get(expression)
    return member.topic_names if resolved is None else member.topic_names | resolved.topics
