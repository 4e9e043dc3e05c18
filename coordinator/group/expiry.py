"""Expiry of offsets that are no longer used, and of groups without members and offsets (KIP-211).

| group | an offset expires `offsets.retention.minutes` after |
|---|---|
| classic, now empty, had members | the group became empty; if the log does not record that, the commit |
| classic, stable, consumers | the commit, for topics that no member reads |
| classic, simple: never had members | the commit |
| consumer or streams | the commit, for topics that no member reads |
| share | never; the group does not expire either |
| any other | never |

If a client gave an offset a retention time of its own (OffsetCommit up to v4), the offset expires at that time.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.group.group import Group
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.shard import GroupShard


def expired_offsets(shard: GroupShard, now_ms: int) -> Iterator[list[StoredRecord]]:
    """Yield tombstones for a shard's expired offsets, in steps of one topic of a group.

    The tombstones of a step are valid until something else is written. Other requests may be served between two steps.
    """
    for group_id in list(shard.groups):
        for topic in list(shard.offsets.of_group(group_id)):
            yield expired_in_topic(shard, group_id, topic, now_ms)


def expired_in_topic(shard: GroupShard, group_id: str, topic: str, now_ms: int) -> list[StoredRecord]:
    """Return tombstones for a group's expired offsets of a topic."""
    group = shard.groups.get(group_id)
    since = None if group is None or not group.expires else group.retention_start()
    if group is None or since is None or group.is_subscribed_to(topic):
        return []
    has_open_transactions = shard.offsets.has_open_transactions(group_id)
    retention_ms = shard.settings.offsets_retention_ms
    return [
        OffsetRecord(group_id, topic, partition, None)
        for partition, committed in shard.offsets.of_group(group_id).get(topic, {}).items()
        if is_expired(committed, since(committed), now_ms, retention_ms)
        and not (has_open_transactions and shard.offsets.has_pending(group_id, topic, partition))
    ]


def expired_groups(shard: GroupShard) -> Iterator[list[StoredRecord]]:
    """Yield tombstones for groups without members and offsets, in steps of one group, as `expired_offsets` does.

    Call this once the tombstones of expired offsets are written.
    """
    for group_id in list(shard.groups):
        group = shard.groups.get(group_id)
        yield [*group.tombstones()] if group is not None and is_deletable(shard, group) else []


def is_deletable(shard: GroupShard, group: Group) -> bool:
    """Return whether a group has no members and no offsets, committed or pending."""
    offsets = shard.offsets
    return (
        group.expires
        and group.is_empty
        and not offsets.of_group(group.group_id)
        and not offsets.has_open_transactions(group.group_id)
    )


def is_expired(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Return whether the retention time of an offset is over."""
    if committed.expire_timestamp_ms != -1:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
