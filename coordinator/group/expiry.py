"""Offsets that nobody uses any more, and then the groups that are left with nothing (KIP-211).

| group | an offset expires when `offsets.retention.minutes` have passed since |
|---|---|
| had members, empty now | the group became empty (if the log does not say when: since the commit) |
| stable, of consumers | the commit, of topics that no member reads any more |
| simple, without members ever | the commit |
| of consumers by KIP-848 | the commit, of topics that no member reads |
| share | never, nor does the group go |
| any other | never |

An offset that a client gave a retention time of its own (OffsetCommit up to v4) expires at that time.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.group.group import Group
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.shard import GroupShard


def expired_offsets(shard: GroupShard, now_ms: int) -> Iterator[list[StoredRecord]]:
    """Tombstones for a shard's expired offsets; a step is a topic of a group, since there may be many offsets.

    What a step gives holds for as long as nothing else is written; between two steps anything may be.
    """
    for group_id in list(shard.groups):
        for topic in list(shard.offsets.of_group(group_id)):
            yield expired_in_topic(shard, group_id, topic, now_ms)


def expired_in_topic(shard: GroupShard, group_id: str, topic: str, now_ms: int) -> list[StoredRecord]:
    """Tombstones for a group's expired offsets in a topic."""
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
    """Tombstones for a shard's groups without members and offsets; a step is a group, otherwise as `expired_offsets`.

    To be called when the tombstones of expired offsets are written.
    """
    for group_id in list(shard.groups):
        group = shard.groups.get(group_id)
        yield [*group.tombstones()] if group is not None and can_go(shard, group) else []


def can_go(shard: GroupShard, group: Group) -> bool:
    """Whether a group is left with nothing: no members, no offsets, none on the way."""
    offsets = shard.offsets
    return (
        group.expires
        and group.is_empty
        and not offsets.of_group(group.group_id)
        and not offsets.has_open_transactions(group.group_id)
    )


def is_expired(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Whether an offset has lasted as long as it may."""
    if committed.expire_timestamp_ms != -1:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
