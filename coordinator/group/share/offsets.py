"""The start offsets of a share group, as administrators change them: the group's part.

Each of these functions runs before or after the request to the share coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from coordinator.group.records import StoredRecord
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard
from coordinator.group.share.checks import existing_group, not_a_share_group
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import TopicStates, group_record, states_record
from coordinator.group.share.states import to_delete, with_initializing, without
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.schema import Struct


def alter(shard: GroupShard, group_id: str, topics: Mapping[bytes, TopicStates], effects: GroupEffects) -> None:
    """Restart these partitions at new offsets; create the group if it does not exist.

    Raises Refused: GROUP_ID_NOT_FOUND for a group of another type, NON_EMPTY_GROUP.
    """
    there = shard.groups.get(group_id)
    group = ShareGroup(group_id) if there is None else there
    if not isinstance(group, ShareGroup):
        raise not_a_share_group(group_id)
    check_empty(group)
    if topics:
        new = [] if there is not None else [group_record(group_id, group.epoch, group.metadata_hash)]
        effects.write([*new, states_record(group_id, with_initializing(group.states, topics))])


def begin_delete(shard: GroupShard, group_id: str, topic_ids: Collection[bytes], effects: GroupEffects) -> None:
    """Mark the states of these topics for deletion. Raises Refused: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group = existing_group(shard, group_id)
    check_empty(group)
    if topic_ids:
        effects.write([states_record(group_id, to_delete(group.states, topic_ids))])


def finish_delete(group: ShareGroup, topic_ids: Collection[bytes], effects: GroupEffects) -> None:
    """Remove these topics once the share coordinator has deleted their states."""
    effects.write([states_record(group.group_id, without(group.states, topic_ids))])


def check_commit(
    group: ShareGroup, sender: Struct | SingleCommit, topics: Sequence[Struct], api_version: int
) -> ErrorCode:
    """Return GROUP_ID_NOT_FOUND: members of share groups acknowledge records, and commit no offsets."""
    return ErrorCode.GROUP_ID_NOT_FOUND


def check_empty(group: ShareGroup) -> None:
    """Raise Refused NON_EMPTY_GROUP if the group has members."""
    if not group.is_empty:
        raise Refused(ErrorCode.NON_EMPTY_GROUP)


def topics_of(group: ShareGroup) -> dict[bytes, str]:
    """Return the names of all topics of which the group has states, or states that are being deleted."""
    states = group.states
    names = {topic_id: topic.name for topic_id, topic in (*states.initialized.items(), *states.initializing.items())}
    return {**states.deleting, **names}


def without_topic_records(shard: GroupShard, topic_id: bytes) -> list[StoredRecord]:
    """Return the records that remove a deleted topic's states from share groups."""
    return [
        states_record(group.group_id, without(group.states, [topic_id]))
        for group in shard.groups.values()
        if isinstance(group, ShareGroup) and topic_id in topics_of(group)
    ]
