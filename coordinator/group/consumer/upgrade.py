"""Convert a classic group with members to a consumer group, when a member of the consumer protocol joins.

The members stay, with their partitions and their protocol; see classic_members.py. So an application can be migrated
instance by instance (KIP-848, online migration).
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.assignors.spec import Target
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NO_ASSIGNMENT, Member
from coordinator.group.cluster import Cluster
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.embedded import as_target, read_assignment, read_subscription
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ClassicMetadata, ConsumerMember
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.consumer.records import (
    ConsumerRecord,
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from coordinator.group.records import GroupRecord
from coordinator.group.refused import Refused
from coordinator.group.settings import MigrationPolicy
from coordinator.group.shard import GroupEffects, GroupShard
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.sync_group import SYNC_GROUP


def upgrade(shard: GroupShard, classic: ClassicGroup, now: Now) -> Draft:
    """Return a draft of the converted group.

    Parked requests of the classic group are answered, so that members come back.

    Raises Refused: GROUP_ID_NOT_FOUND for a group that cannot or may not be converted.
    """
    check_upgrade(shard, classic)
    group_id, epoch = classic.group_id, classic.generation
    try:
        targets = {member.member_id: target_of(classic, member, shard.cluster) for member in classic.members.values()}
        members = [upgraded(classic, member, targets[member.member_id]) for member in classic.members.values()]
    except ProtocolError as error:
        raise refused(classic, "the embedded consumer protocol is malformed.") from error
    names = {name for member in members for name in member.topic_names}
    records: list[ConsumerRecord] = [member_record(group_id, member) for member in members]
    records.append(group_record(group_id, epoch, metadata_hash(shard.cluster, names)))
    records += [target_record(group_id, member_id, target) for member_id, target in targets.items()]
    records.append(target_epoch_record(group_id, epoch, 0))
    records += [current_record(group_id, member) for member in members]
    draft = Draft(shard, ConsumerGroup(group_id, records), now, [GroupRecord(group_id, None), *records])
    sessions = {member.member_id: member.session_timeout_ms for member in classic.members.values()}

    def begin_sessions(_: GroupEffects) -> None:
        for member_id, session_timeout_ms in sessions.items():
            draft.extend_session(member_id, session_timeout_ms)

    draft.after += [lambda effects: answer_parked(classic, effects), begin_sessions]
    return draft


def answer_parked(classic: ClassicGroup, effects: GroupEffects) -> None:
    """Answer all parked requests with REBALANCE_IN_PROGRESS."""
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in classic.members.values():
        effects.reply(classic.take_join(member), JOIN_GROUP.response(error_code=code, member_id=member.member_id))
        effects.reply(member.awaiting_sync, SYNC_GROUP.response(error_code=code))
        member.awaiting_sync = None


def check_upgrade(shard: GroupShard, classic: ClassicGroup) -> None:
    """Raise Refused unless the group may be converted to a consumer group."""
    settings = shard.settings.consumer
    if MigrationPolicy.UPGRADE not in settings.migration:
        raise refused(classic, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise refused(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > settings.max_size:
        raise refused(classic, "the group size exceeds the consumer group maximum size.")


def refused(classic: ClassicGroup, reason: str) -> Refused:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}"
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def target_of(classic: ClassicGroup, member: Member, cluster: Cluster) -> Target:
    """Return the partitions that the leader assigned to the member: its assignment, and its target until a change."""
    if member.assignment == NO_ASSIGNMENT:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade.",
        )
    return as_target(assignment, cluster)


def upgraded(classic: ClassicGroup, member: Member, target: Target) -> ConsumerMember:
    """Return the member in the consumer group; its epoch is its generation. Raises ProtocolError."""
    if classic.protocol_name is None:
        raise ProtocolError("the group has not chosen a protocol yet")
    subscription = read_subscription(member.metadata_for(classic.protocol_name))
    epoch = classic.generation
    return ConsumerMember(
        member.member_id,
        epoch,
        epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        assigned={topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in target.items()},
    )
