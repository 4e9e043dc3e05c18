"""Convert a consumer group to a classic one, once only members of the classic protocol are left.

This is the way back of the migration, when an application is rolled back. The members keep the partitions of their
targets. If the targets are out of date, or a member left, the group rebalances at once.
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator.group.classic import rebalance
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.state import GroupState
from coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from coordinator.group.consumer import records as stored
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.embedded import version_of, write_assignment
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.records import GroupRecord, StoredRecord
from coordinator.group.settings import MigrationPolicy
from coordinator.group.shard import GroupEffects, GroupShard


def can_downgrade(shard: GroupShard, group: ConsumerGroup, without: Collection[ConsumerMember]) -> bool:
    """Return whether the group may become classic without these members: all others use the classic protocol."""
    left = len(group.members) - len(without)
    classic_left = group.classic_member_count - sum(member.uses_classic_protocol for member in without)
    return 0 < left == classic_left and is_allowed(shard, left)


def can_downgrade_by_replacing(shard: GroupShard, group: ConsumerGroup, holder: ConsumerMember | None) -> bool:
    """Return whether the group becomes classic when its last member of the consumer protocol is replaced.

    Its replacement uses the classic protocol.
    """
    if holder is None or holder.uses_classic_protocol:
        return False
    return group.classic_member_count == len(group.members) - 1 and is_allowed(shard, len(group.members))


def is_allowed(shard: GroupShard, size: int) -> bool:
    """Return whether the settings allow a group of this size to become classic."""
    settings = shard.settings
    return MigrationPolicy.DOWNGRADE in settings.consumer.migration and size <= settings.max_size


def downgrade(
    draft: Draft,
    leaving: Collection[ConsumerMember],
    effects: GroupEffects,
    *,
    joining: ConsumerMember | None = None,
    reason: str | None,
) -> None:
    """Write the group as a classic one, with the changes of the draft. `joining` replaces its static member.

    `reason` None: the group need not rebalance.
    """
    shard, group, now = draft.shard, draft.group, draft.now
    gone = {member.member_id for member in leaving}
    holder = None if joining is None else group.static_member(joining.instance_id)
    members = [each for each in group.members.values() if each.member_id not in gone and each is not holder]
    if joining is not None:
        members.append(joining)
    classic = ClassicGroup(group.group_id, now.wall_ms)
    for each in members:
        classic.add(as_classic(each), None, CONSUMER_PROTOCOL_TYPE)
    classic.state, classic.generation = GroupState.STABLE, draft.epoch
    classic.protocol_name = classic.select_protocol()
    assignments = {}
    for each in members:
        target = group.target_of(each.member_id, each.instance_id)
        version = version_of(classic.members[each.member_id].metadata_for(classic.protocol_name))
        assignments[each.member_id] = write_assignment(version, target, shard.cluster)
    draft.records += tombstones(group, holder, joining)
    draft.records.append(GroupRecord(group.group_id, classic.metadata(assignments)))

    def begin(effects: GroupEffects) -> None:
        live = shard.classic(group.group_id)
        if live is None:
            return
        for made in classic.members.values():
            member = live.members[made.member_id]
            live.update(member, made.protocols, made.rebalance_timeout_ms, made.session_timeout_ms)
            rebalance.extend_session(shard, live, member, now)
        effects.note("group %s is a classic group now", group.group_id)
        if reason is not None:
            rebalance.prepare(shard, live, reason, now, effects)

    draft.after.append(begin)
    draft.carry_out(effects)


def as_classic(member: ConsumerMember) -> Member:
    """Return the member as one of a classic group."""
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols,
    )


def tombstones(
    group: ConsumerGroup, holder: ConsumerMember | None, joining: ConsumerMember | None
) -> list[StoredRecord]:
    """Return the tombstones of the consumer group, and those of a member that joins in place of another."""
    records: list[StoredRecord] = []
    if holder is not None and joining is not None and holder.member_id != joining.member_id:
        records += stored.member_tombstones(group.group_id, joining.member_id)
    return [*records, *group.tombstones()]
