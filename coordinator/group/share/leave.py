"""Members of a share group that leave, or whose sessions time out."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.modern.checks import member_of
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share import checks
from coordinator.group.share.draft import Draft
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import ShareMember
from coordinator.group.share.records import member_tombstones, target_epoch_record
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.schema import Struct


def leave(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> Struct:
    """Decide a heartbeat that leaves the group. Raises Refused: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID."""
    group = checks.existing_group(shard, request.group_id)
    member = member_of(group, request.member_id)
    effects.note("group %s: member %s left", group.group_id, member.member_id)
    remove(Draft(shard, group, now), member, effects)
    return SHARE_GROUP_HEARTBEAT.response(member_id=request.member_id, member_epoch=request.member_epoch)


def remove(draft: Draft, member: ShareMember, effects: GroupEffects) -> None:
    """Remove a member and bump the epoch."""
    group = draft.group
    draft.records += member_tombstones(group.group_id, member.member_id)
    nobody = ShareMember(member.member_id)
    draft.bump(metadata_hash(draft.shard.cluster, group.topics_with(member, nobody)))
    draft.settle_if_empty(1, target_epoch_record)
    draft.carry_out(effects)


def fence(shard: GroupShard, group: ShareGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Remove a member whose session has ended, if it still exists; retry soon if the write fails."""
    member = group.members.get(key.member_id)
    if member is not None:
        draft = Draft.at_deadline(shard, group, key, now)
        effects.note("group %s: member %s is fenced: its session timed out", group.group_id, key.member_id)
        remove(draft, member, effects)
