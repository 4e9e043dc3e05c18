"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They are migrating to the consumer protocol or back. None of them is a leader: the broker assigns partitions, as for the
other members, and translates to the classic protocol. The generation is the member's epoch. If a member has to
join again, its heartbeat gets an error. The member releases partitions by joining without them, and gets new ones with
the next sync.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.effects import Waiter
from coordinator.group.classic.join_request import Join
from coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from coordinator.group.consumer import checks
from coordinator.group.consumer.downgrade import can_downgrade_by_replacing, downgrade
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.embedded import as_reported, read_subscription, version_of, write_assignment
from coordinator.group.consumer.group import FREE, ConsumerGroup
from coordinator.group.consumer.heartbeat import advance, reconcile, update_subscription
from coordinator.group.consumer.leave import remove_members
from coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState
from coordinator.group.consumer.membership import subscribe_dynamic, subscribe_static
from coordinator.group.consumer.target import MemberTarget
from coordinator.group.modern.checks import check_instance_is_known, check_instance_is_ours, member_of
from coordinator.group.refused import Refused
from coordinator.group.settings import MigrationPolicy
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.leave_group import MemberResponse
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct

FIRST_VERSION_NEEDING_MEMBER_ID = 4


def join(shard: GroupShard, group: ConsumerGroup, request: Join, now: Now, effects: GroupEffects) -> None:
    """Join, for the first time or again. The response is sent at once, because no other member has to join.

    Raises Refused: INCONSISTENT_GROUP_PROTOCOL (also if migration is disabled), GROUP_MAX_SIZE_REACHED, and the errors
    of static members.
    """
    group_id, waiter = group.group_id, request.waiter
    if shard.settings.consumer.migration is MigrationPolicy.DISABLED:
        message = f"Cannot join the consumer group {group_id} with the classic protocol because the group migration is"
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{message} disabled.")
    is_new = not request.member_id
    member_id = request.member_id or request.fresh_uuid
    checks.check_room(group, member_id, shard.settings.consumer.max_size)
    if not supports(group, request):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if is_new and request.group_instance_id is None and waiter.api_version >= FIRST_VERSION_NEEDING_MEMBER_ID:
        effects.reply(waiter, JOIN_GROUP.response(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        return
    draft = Draft(
        shard,
        group,
        now,
        on_failed=lambda code: effects.reply(waiter, JOIN_GROUP.response(error_code=code, member_id=request.member_id)),
        may_describe=request.may_describe,
    )
    holder = group.static_member(request.group_instance_id)
    if request.group_instance_id is None:
        old = subscribe_dynamic(group, member_id, True)
    else:
        old = subscribe_static(draft, member_id, request.group_instance_id, is_new, uses_classic_protocol=True)
    is_last = can_downgrade_by_replacing(shard, group, holder)
    subscription = read_first(request)
    member = with_request(old, request, subscription)
    reported = as_reported(subscription, shard.cluster)

    if is_last:
        has_changed = update_subscription(draft, old, member, regex_bumps_at_once=True)
        is_stale = group.target_epoch < draft.epoch
        if not is_stale:
            target = MemberTarget(group.target_epoch, group.target_of(member.member_id, member.instance_id))
            member = reconcile(draft, member, target, reported, has_changed)
        draft.after.append(lambda effects: effects.reply(waiter, joined(member)))
        reason = "its last member of the consumer protocol came back with the classic one" if is_stale else None
        downgrade(draft, (), effects, joining=member, reason=reason)
        return

    member = advance(draft, old, member, reported, regex_bumps_at_once=True)

    def answer(effects: GroupEffects) -> None:
        timers = shard.timers
        timers.cancel(TimerKey("join", group_id, member.member_id))
        draft.extend_session(member.member_id, request.session_timeout_ms)
        timers.schedule(TimerKey("sync", group_id, member.member_id), now.tick_ms + request.rebalance_timeout_ms)
        effects.reply(waiter, joined(member))

    draft.after.append(answer)
    draft.carry_out(effects)


def supports(group: ConsumerGroup, request: Join) -> bool:
    """Return whether the member is a consumer with a protocol that all classic members support."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    others = [{p.name for p in m.classic.protocols} for m in group.members.values() if m.classic is not None]
    return any(all(name in names for names in others) for name in request.protocol_names)


def read_first(request: Join) -> Struct:
    """Return the subscription, which is the same under all protocols of the member."""
    try:
        return read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error


def with_request(old: ConsumerMember, request: Join, subscription: Struct) -> ConsumerMember:
    """Return the member with the fields of its join."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )


def joined(member: ConsumerMember) -> Struct:
    """Return the response to a join: it has no leader."""
    assert member.classic is not None
    return JOIN_GROUP.response(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
    )


def sync(
    shard: GroupShard, group: ConsumerGroup, request: Struct, waiter: Waiter, now: Now, effects: GroupEffects
) -> None:
    """Give the member its assignment.

    Raises Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS.
    """
    member, classic = check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    own = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The protocol type is not {CONSUMER_PROTOCOL_TYPE}.")
    if request.protocol_name not in (None, own.name):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The protocol is not {own.name}.")
    draft = Draft(shard, group, now)
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        ask_to_join(draft, member)
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    shard.timers.cancel(TimerKey("sync", group.group_id, member.member_id))
    draft.extend_session(member.member_id, classic.session_timeout_ms)
    assignment = write_assignment(version_of(own.metadata), member.assigned, shard.cluster)
    effects.reply(
        waiter,
        SYNC_GROUP.response(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        ),
    )


def heartbeat(
    shard: GroupShard, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """Extend the session. Return REBALANCE_IN_PROGRESS for a member that has to join again.

    Raises Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member, classic = check_member(group, member_id, instance_id, generation)
    draft = Draft(shard, group, now)
    draft.extend_session(member.member_id, classic.session_timeout_ms)
    if (
        member.epoch < group.target_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not is_waiting(group, member))
    ):
        ask_to_join(draft, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    shard: GroupShard, group: ConsumerGroup, members: list[Struct], now: Now, effects: GroupEffects
) -> list[Struct]:
    """Remove the members that a LeaveGroup names, of either protocol. Return the response of each."""
    answers = []
    leaving: dict[str, ConsumerMember] = {}
    for identity in members:
        code = ErrorCode.NONE
        try:
            member = find_leaving(group, identity)
            leaving[member.member_id] = member
        except Refused as refusal:
            code = refusal.code
        answers.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if leaving:
        effects.note("group %s: members left: %s", group.group_id, ", ".join(leaving))
        remove_members(Draft(shard, group, now), list(leaving.values()), effects)
    return answers


def find_leaving(group: ConsumerGroup, identity: Struct) -> ConsumerMember:
    """Return the member of a LeaveGroup entry: by its member id, or by its instance id and, if given, its member id."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return member_of(group, identity.member_id)
    member = check_instance_is_known(group.static_member(instance_id), instance_id)
    if identity.member_id:
        check_instance_is_ours(member, identity.member_id, instance_id)
    return member


def check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    """Return the member of a sync or a heartbeat, which must use the classic protocol and be at its generation."""
    if instance_id is None:
        member = member_of(group, member_id)
    else:
        member = check_instance_is_known(group.static_member(instance_id), instance_id)
        check_instance_is_ours(member, member_id, instance_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION, f"Member {member.member_id} is at epoch {member.epoch}.")
    return member, member.classic


def is_waiting(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether another member still owns a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.owner_epoch(topic_id, partition) != FREE
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )


def ask_to_join(draft: Draft, member: ConsumerMember) -> None:
    """Start the member's rebalance timeout, within which it has to join again."""
    key = TimerKey("join", draft.group.group_id, member.member_id)
    if key not in draft.shard.timers:
        draft.shard.timers.schedule(key, draft.now.tick_ms + member.rebalance_timeout_ms)
