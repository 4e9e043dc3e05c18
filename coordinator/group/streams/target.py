"""The target of a group: the tasks of each member at the group's epoch.

An empty group waits for more members before its first target (group.streams.initial.rebalance.delay.ms). After that,
targets are computed at most once per assignment interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.group.modern.interval import is_too_early
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.streams.configured import ConfiguredTopology
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.records import target_epoch_record, target_record
from coordinator.group.streams.tasks import NO_TASKS, Tasks

STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"


class MemberTarget(NamedTuple):
    """The target of one member, and its epoch.

    `delayed_by`: what the next targets wait for; None if they do not wait.
    """

    epoch: int
    target: Tasks
    delayed_by: str | None = None


def assignment_configs(shard: GroupShard, group_id: str) -> dict[str, str]:
    """Return the settings whose change makes the group compute its targets again."""
    config = shard.cluster.streams_config(group_id)
    configs = {STANDBY_REPLICAS: str(config.num_standby_replicas)}
    if config.rack_aware_tags:
        configs[RACK_AWARE_TAGS] = ",".join(config.rack_aware_tags)
    return configs


def delay_first_target(draft: Draft) -> bool:
    """Return whether the group waits for more members. An empty group starts to wait."""
    group_id, timers = draft.group.group_id, draft.shard.timers
    key = TimerKey("delay", group_id)
    if key in timers:
        return True
    delay_ms = draft.shard.cluster.streams_config(group_id).initial_rebalance_delay_ms
    if not draft.group.is_empty or delay_ms <= 0:
        return False
    deadline_ms = draft.now.tick_ms + delay_ms
    draft.after.append(lambda _: timers.schedule(key, deadline_ms))
    return True


def next_target(
    draft: Draft, member: StreamsMember | None, configured: ConfiguredTopology, configs: Mapping[str, str]
) -> MemberTarget:
    """Return the target of a member that has just changed, if any has.

    If the group's epoch is ahead, the targets of all members are computed into the draft.
    """
    group, now_ms = draft.group, draft.now.wall_ms
    if member is not None and delay_first_target(draft):
        return MemberTarget(group.target_epoch, NO_TASKS, "initial rebalance delay")
    own = None if member is None else draft.target_of(member)
    last = MemberTarget(group.target_epoch, own or NO_TASKS)
    if group.target_epoch >= draft.epoch:
        return last
    interval_ms = draft.shard.cluster.streams_config(group.group_id).assignment_interval_ms
    if is_too_early(group.target_timestamp_ms, interval_ms, now_ms):
        return last._replace(delayed_by="assignment interval")
    members = draft.members_with(member)
    targets = compute(group, members, configured, configs)
    for each, target in targets.items():
        if target != draft.target_of(members[each]):
            draft.records.append(target_record(group.group_id, each, target))
    draft.records.append(target_epoch_record(group.group_id, draft.epoch, now_ms))
    return MemberTarget(draft.epoch, NO_TASKS if member is None else targets[member.member_id])


def compute(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
) -> dict[str, Tasks]:
    """Return the targets of these members. While topics are missing, no member gets a task."""
    from coordinator.group.streams.assignor import MemberSpec, SubtopologySpec, assign  # few brokers have such groups

    if not configured.is_ready or configured.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    subtopologies = {
        each: SubtopologySpec(subtopology.task_count, subtopology.is_stateful)
        for each, subtopology in configured.subtopologies.items()
    }
    specs = {
        each: MemberSpec(known.process_id, known.assigned.tasks, group.offsets_of(each).offsets)
        for each, known in members.items()
    }
    return assign(subtopologies, specs, int(configs.get(STANDBY_REPLICAS, 0)))


def first_target(draft: Draft, effects: GroupEffects) -> None:
    """Compute the first target, once the group has waited for members."""
    group = draft.group
    configured = group.soft.configured
    if not group.is_empty and configured is not None:
        next_target(draft, None, configured, group.assignment_configs)
        draft.carry_out(effects)
