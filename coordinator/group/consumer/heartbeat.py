"""ConsumerGroupHeartbeat: the one request by which a member joins, stays, moves to its target, and leaves.

Each heartbeat takes the same steps: find the group and the member; update the member's fields; bump the group's epoch
if they or the topics have changed; compute the targets if the group's epoch is ahead of them; move the member one step
towards its target. Nearly all heartbeats change nothing: the caller first calls `answer_if_unchanged`.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.consumer import checks
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.leave import leave
from coordinator.group.consumer.member import ConsumerMember, Owned, Reported
from coordinator.group.consumer.membership import find_group, subscribe_dynamic, subscribe_static
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.consumer.reconcile import Reconciliation
from coordinator.group.consumer.records import PARTITION_METADATA, current_record, member_record, tombstone
from coordinator.group.consumer.regex import RegexChange, must_resolve, remember_check, update_regexes
from coordinator.group.consumer.target import MemberTarget, next_target
from coordinator.group.modern.caller import Caller
from coordinator.group.modern.checks import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVE_EPOCH
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT, Assignment, TopicPartitions
from protocol.schema import Struct

new_tuple = tuple.__new__
new_response = CONSUMER_GROUP_HEARTBEAT.response.new


def heartbeat(
    shard: GroupShard, request: Struct, api_version: int, caller: Caller, now: Now, effects: GroupEffects
) -> Struct:
    """Decide a heartbeat and return the response, which is valid once the effects are in the log.

    Raises Refused, without effects: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION,
    GROUP_ID_NOT_FOUND (also for a group of another type), GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    checks.check_request(request, api_version, shard.settings.consumer)
    if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVE_EPOCH):
        return leave(shard, request, now, effects)
    is_joining = request.member_epoch == JOINING_EPOCH
    draft = find_group(shard, request.group_id, is_joining, now)
    draft.may_describe = caller.may_describe
    group = draft.group
    checks.check_room(group, request.member_id, shard.settings.consumer.max_size)
    member_id = request.member_id or caller.fresh_id
    if request.instance_id is None:
        old = subscribe_dynamic(group, member_id, is_joining)
        checks.check_epoch(old, request.member_epoch, request.topic_partitions)
    else:
        old = subscribe_static(draft, member_id, request.instance_id, is_joining)
        if not is_joining:
            checks.check_epoch(old, request.member_epoch, request.topic_partitions)
    member = with_request(old, request, caller)
    member = advance(draft, old, member, reported_partitions(request), regex_bumps_at_once=False)
    if member.member_id not in group.members:
        effects.note("group %s: member %s joins, epoch %s", group.group_id, member.member_id, draft.epoch)
    draft.after.append(lambda _: draft.extend_session(member.member_id))
    draft.carry_out(effects)

    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    includes_assignment = is_joining or is_full or member.assigned != old.assigned
    return new_response(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=shard.cluster.consumer_config(group.group_id).heartbeat_interval_ms,
        assignment=assignment(member.assigned) if includes_assignment else None,
    )


def answer_if_unchanged(shard: GroupShard, request: Struct, caller: Caller, now: Now) -> Struct | None:
    """Return the response to a heartbeat that changes nothing, and restart the member's session.

    Returns None if anything may have changed; then `heartbeat` has to decide the request. A request that passes here
    also passes `check_request`.
    """
    if request.topic_partitions is not None or not has_no_optional_fields(request):
        return None
    interval_ms = refresh_session_if_unchanged(shard, request, caller, now)
    if interval_ms is None:
        return None
    return new_response(
        member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
    )


def refresh_session_if_unchanged(shard: GroupShard, sender: Struct, caller: Caller, now: Now) -> int | None:
    """Restart the session of a member with nothing to report.

    Return the heartbeat interval (ms) for the response; None if the heartbeat is not a plain one.
    """
    member_id, epoch = sender.member_id, sender.member_epoch
    group = shard.groups.get(sender.group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(member_id)
    if (
        member is None
        or epoch == JOINING_EPOCH
        or member_id[:1] <= " "  # perhaps blank: `check_request` decides
        or epoch != member.epoch
        or epoch != group.epoch
        or not member.is_reconciled_to(group.target_epoch)
        or not is_known(member, sender.instance_id, caller)
        or (sender.instance_id is not None and group.static_members.get(sender.instance_id) != member_id)
        or group.checked_version != shard.cluster.topics_version
        or (group.subscribed_regexes and must_resolve(shard, group, group.subscribed_regexes, now))
    ):
        return None
    config = shard.cluster.consumer_config(group.group_id)
    # These are the shard's own id objects, so the dictionary compares identities, not characters.
    session = new_tuple(TimerKey, ("session", group.group_id, member.member_id))
    shard.timers.schedule(session, now.tick_ms + config.session_timeout_ms)
    return config.heartbeat_interval_ms


def is_unchanged(member: ConsumerMember, request: Struct, caller: Caller) -> bool:
    """Return whether a heartbeat changes nothing in the member, apart from its partitions."""
    return has_no_optional_fields(request) and is_known(member, request.instance_id, caller)


def has_no_optional_fields(request: Struct) -> bool:
    """Return whether a heartbeat leaves out all optional fields, apart from partitions and instance id."""
    return (
        request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
    )


def is_known(member: ConsumerMember, instance_id: str | None, caller: Caller) -> bool:
    """Return whether a member of this protocol still has the same instance id, client id and host."""
    return (
        (instance_id is None or instance_id == member.instance_id)
        and member.client_id == caller.client_id
        and member.client_host == caller.client_host
        and member.classic is None
    )


def with_request(old: ConsumerMember, request: Struct, caller: Caller) -> ConsumerMember:
    """Return the member with the fields of its heartbeat; fields that were not sent stay as they are."""
    if is_unchanged(old, request, caller):
        return old
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=old.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=old.topic_names if names is None else frozenset(names),
        topic_regex=old.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def reported_partitions(request: Struct) -> Reported | None:
    """Return the partitions that the member reports; None if it reports none."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def advance(
    draft: Draft,
    old: ConsumerMember,
    member: ConsumerMember,
    reported: Reported | None,
    *,
    regex_bumps_at_once: bool,
) -> ConsumerMember:
    """Bring the group and the member up to date: epoch, targets, and the member's next step.

    `regex_bumps_at_once`: whether a new regular expression bumps the epoch at once, as for classic members. Otherwise
    it bumps the epoch when its topics are known.
    """
    has_new_subscription = update_subscription(draft, old, member, regex_bumps_at_once=regex_bumps_at_once)
    target = next_target(draft, old, member)
    return reconcile(draft, member, target, reported, has_new_subscription)


def update_subscription(
    draft: Draft, old: ConsumerMember, member: ConsumerMember, *, regex_bumps_at_once: bool
) -> bool:
    """Write the member if it has changed, and bump the group's epoch if necessary.

    Returns whether the member now reads other topics.
    """
    group, cluster = draft.group, draft.shard.cluster
    has_new_names = False
    if member is not old and member != old:
        draft.records.append(member_record(group.group_id, member))
        has_new_names = member.topic_names != old.topic_names
    change, resolves = update_regexes(draft.shard, group, old, member, draft.now, draft.records)
    if resolves:
        draft.after.append(lambda _: draft.resolve_regexes_soon())
    has_new_subscription = has_new_names or change is not RegexChange.NONE
    bumps = has_new_subscription if regex_bumps_at_once else has_new_names or change is RegexChange.RESOLVED
    bumps = bumps or changes_assignor(draft, old, member)
    if bumps or group.checked_version != cluster.topics_version:
        value = metadata_hash(cluster, group.subscription_with(member).topics)
        if bumps or value != group.metadata_hash:
            draft.bump(value)
        if group.has_partition_metadata:
            draft.records.append(tombstone(group.group_id, PARTITION_METADATA))
        version = cluster.topics_version
        draft.after.append(lambda _: remember_check(draft.shard, group.group_id, version))
    return has_new_subscription


def changes_assignor(draft: Draft, old: ConsumerMember, member: ConsumerMember) -> bool:
    """Return whether the changed member makes the group use another assignor, for which targets are computed again."""
    if member.server_assignor == old.server_assignor:
        return False
    group, default = draft.group, draft.shard.settings.consumer.assignors[0]
    return (group.preferred_assignor() or default) != (group.preferred_assignor(old, member) or default)


def reconcile(
    draft: Draft, member: ConsumerMember, target: MemberTarget, reported: Reported | None, has_new_subscription: bool
) -> ConsumerMember:
    """Return the member after its next step, and write it if it has changed."""
    if not has_new_subscription and member.is_reconciled_to(target.epoch):
        return member
    by_id = draft.shard.cluster.topic_by_id
    readable = frozenset(
        topic_id
        for topic_id in {**target.target, **member.assigned}
        if (topic := by_id(topic_id)) is not None and draft.group.reads(member, topic.name)
    )
    step = Reconciliation(
        target.epoch, target.target, has_new_subscription, reported, readable, draft.group.owner_epoch
    ).step(member)
    if step != member:
        draft.records.append(current_record(draft.group.group_id, step))
        if not step.uses_classic_protocol:
            draft.after.append(lambda _: draft.watch_revocation(step))
    return step


def assignment(assigned: Owned) -> Struct:
    """Return a member's assignment, for its response."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
