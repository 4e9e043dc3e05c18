"""ShareGroupHeartbeat: the one request by which a member joins, stays, gets its partitions, and leaves.

It works as in consumer groups, except that a member moves to its target in one step: no other member has to give
partitions up first. A partition can be assigned once the share coordinator has a state for it. Until then it is
*initializing*.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.assignors.java_order import name_set_order
from coordinator.group.assignors.spec import Target
from coordinator.group.cluster import Cluster
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.modern.caller import Caller
from coordinator.group.modern.checks import JOINING_EPOCH, LEAVING_EPOCH, member_of
from coordinator.group.modern.interval import is_too_early
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share import assignor, checks
from coordinator.group.share.draft import Draft
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.leave import leave
from coordinator.group.share.member import ShareMember
from coordinator.group.share.records import (
    current_record,
    member_record,
    states_record,
    target_epoch_record,
    target_record,
)
from coordinator.group.share.states import to_initialize
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT, Assignment, TopicPartitions
from protocol.schema import Struct

new_response = SHARE_GROUP_HEARTBEAT.response.new


def heartbeat(shard: GroupShard, request: Struct, caller: Caller, now: Now, effects: GroupEffects) -> Struct:
    """Decide a request that passed `check_request`, and return the response, valid once the effects are in the log.

    Raises Refused, without effects: GROUP_ID_NOT_FOUND (also for a group of another type), GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    if request.member_epoch == LEAVING_EPOCH:
        return leave(shard, request, now, effects)
    unchanged = answer_if_unchanged(shard, request, caller, now)
    if unchanged is not None:
        return unchanged
    is_joining = request.member_epoch == JOINING_EPOCH
    group = checks.find_group(shard, request.group_id, is_joining)
    checks.check_room(group, request.member_id, shard.settings.share.max_size)
    old = group.members.get(request.member_id)
    if not is_joining:
        old = member_of(group, request.member_id)
        checks.check_epoch(old, request.member_epoch)
    draft = Draft(shard, group, now)
    member = with_request(old, request, caller)
    has_new_subscription = update_subscription(draft, old, member)
    member = assign(draft, old, member, has_new_subscription)
    initialize(draft, old, member)
    if old is None:
        effects.note("group %s: member %s joins, epoch %s", group.group_id, member.member_id, draft.epoch)
    draft.after.append(lambda _: draft.extend_session(member.member_id))
    if not draft.records:
        group.settled_at = (group.revision, shard.cluster.topics_version)
    draft.carry_out(effects)
    has_subscription = request.subscribed_topic_names is not None
    includes_assignment = is_joining or has_subscription or old is None or member.assigned != old.assigned
    return new_response(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=shard.cluster.share_config(group.group_id).heartbeat_interval_ms,
        assignment=assignment(member.assigned) if includes_assignment else None,
    )


def answer_if_unchanged(shard: GroupShard, request: Struct, caller: Caller, now: Now) -> Struct | None:
    """Return the response to a heartbeat that changes nothing, and restart the member's session.

    Returns None if anything may have changed; then `heartbeat` has to decide the request.
    """
    group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return None
    member = group.members.get(member_id)
    if (
        member is None
        or epoch == JOINING_EPOCH
        or not epoch == member.epoch == group.target_epoch == group.epoch
        or request.subscribed_topic_names is not None
        or request.rack_id is not None
        or member.client_id != caller.client_id
        or member.client_host != caller.client_host
        or group.settled_at != (group.revision, shard.cluster.topics_version)
    ):
        return None
    config = shard.cluster.share_config(group_id)
    shard.timers.schedule(TimerKey("session", group_id, member_id), now.tick_ms + config.session_timeout_ms)
    return new_response(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=config.heartbeat_interval_ms)


def with_request(old: ShareMember | None, request: Struct, caller: Caller) -> ShareMember:
    """Return the member with the fields of its heartbeat; fields that were not sent stay as they are."""
    member = old or ShareMember(request.member_id)
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topic_names=member.topic_names if names is None else frozenset(names),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def update_subscription(draft: Draft, old: ShareMember | None, member: ShareMember) -> bool:
    """Write the member if it has changed, and bump the group's epoch if necessary.

    Returns whether the member now reads other topics.
    """
    group, cluster = draft.group, draft.shard.cluster
    has_new_names = old is None or member.topic_names != old.topic_names
    if member != old:
        draft.records.append(member_record(group.group_id, member))
    must_bump = has_new_names or has_unassigned(group, cluster)
    if must_bump or group.checked_version != cluster.topics_version:
        value = metadata_hash(cluster, group.topics_with(old, member))
        if must_bump or value != group.metadata_hash:
            draft.bump(value)
        version, group_id = cluster.topics_version, group.group_id

        def remember_check(_: GroupEffects) -> None:
            there = draft.shard.groups.get(group_id)
            if isinstance(there, ShareGroup):
                there.checked_version = version

        draft.after.append(remember_check)
    return has_new_names


def has_unassigned(group: ShareGroup, cluster: Cluster) -> bool:
    """Return whether partitions got their state after the targets were computed."""
    if not group.members or group.epoch > group.target_epoch:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        topic.name in group.subscribers
        and cluster.topic_by_id(topic_id) is not None
        and not topic.partitions <= assigned.get(topic_id, set())
        for topic_id, topic in group.states.initialized.items()
    )


def assign(draft: Draft, old: ShareMember | None, member: ShareMember, has_new_subscription: bool) -> ShareMember:
    """Compute the targets if the group's epoch is ahead of them, and move the member to its target, in the draft.

    Targets are computed at most once per share.assignment.interval.ms.
    """
    group, now_ms = draft.group, draft.now.wall_ms
    group_id = group.group_id
    epoch, target = group.target_epoch, group.target_of(member.member_id)
    interval_ms = draft.shard.cluster.share_config(group_id).assignment_interval_ms
    if epoch < draft.epoch and not is_too_early(group.target_timestamp_ms, interval_ms, now_ms):
        members = {**group.members, member.member_id: member}
        topics = {names: readable(draft, names) for names in {each.topic_names for each in members.values()}}
        targets = assignor.assign({each: topics[members[each].topic_names] for each in members}, group.targets)
        for member_id, wanted in targets.items():
            if wanted != group.targets.get(member_id):
                draft.records.append(target_record(group_id, member_id, wanted))
        draft.records.append(target_epoch_record(group_id, draft.epoch, now_ms))
        epoch, target = draft.epoch, targets[member.member_id]
    if old is not None and not has_new_subscription and old.epoch == epoch:
        return member
    by_id = draft.shard.cluster.topic_by_id
    assigned = {
        topic_id: partitions
        for topic_id, partitions in target.items()
        if (topic := by_id(topic_id)) is not None and topic.name in member.topic_names
    }
    previous_epoch = member.previous_epoch if member.epoch == epoch else member.epoch
    following = replace(member, epoch=epoch, previous_epoch=previous_epoch, assigned=assigned)
    if following != old:
        draft.records.append(current_record(group_id, following))
    return following


def readable(draft: Draft, names: frozenset[str]) -> dict[bytes, list[int]]:
    """Return the partitions of these topics that may be assigned: those that have a state."""
    initialized = draft.group.states.initialized
    topics = {}
    for name in name_set_order(names):
        topic = draft.shard.cluster.topic(name)
        if topic is not None and topic.topic_id in initialized:
            topics[topic.topic_id] = sorted(initialized[topic.topic_id].partitions)
    return topics


def initialize(draft: Draft, old: ShareMember | None, member: ShareMember) -> None:
    """Write which partitions are read and have no state yet."""
    states = to_initialize(draft.group, draft.group.topics_with(old, member), draft.shard.cluster)
    if states != draft.group.states:
        draft.records.append(states_record(draft.group.group_id, states))
        draft.after.append(lambda _: draft.initialize_soon())


def assignment(assigned: Target) -> Struct:
    """Return a member's assignment, for its response."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
