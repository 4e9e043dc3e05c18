"""Expiry of offsets and groups: KIP-211."""

import pytest

from coordinator.group.expiry import expired_groups, expired_offsets
from coordinator.group.records import CommittedOffset, GroupMetadata, GroupRecord, OffsetRecord
from coordinator.group.settings import GroupSettings
from tests.support.groups import GroupHarness, subscription

RETENTION_MS = 1_000_000


@pytest.fixture
def h() -> GroupHarness:
    return GroupHarness(GroupSettings(offsets_retention_ms=RETENTION_MS))


def expire(h):
    """Run the check, and return the topics whose offsets expired."""
    records = h.expire_offsets()
    assert h.expire_offsets() == []
    return sorted(record.topic for record in records if isinstance(record, OffsetRecord))


def test_offsets_of_an_empty_group_expire_after_it_became_empty(h):
    (member,) = h.stable_group()
    h.commit({("t", 0): 1}, member, 1)
    h.wall_ms += RETENTION_MS
    assert expire(h) == []
    h.leave((member, None))
    h.wall_ms += RETENTION_MS - 1
    assert expire(h) == []
    h.wall_ms += 1
    assert expire(h) == ["t"]
    assert h.shard.groups == {}
    assert h.reloaded().shard.groups == {}


def test_offsets_of_unread_topics_expire(h):
    (member,) = h.stable_group(protocols=[("range", subscription("t"))])
    h.commit({("t", 0): 1, ("left", 0): 1}, member, 1)
    h.wall_ms += RETENTION_MS
    assert expire(h) == ["left"]
    assert "g" in h.shard.groups


def test_offsets_of_a_group_in_a_rebalance_do_not_expire(h):
    leader, _ = h.stable_group(2)
    h.commit({("left", 0): 1}, leader, 1)
    h.join(member_id=leader)
    h.wall_ms += RETENTION_MS
    assert expire(h) == []


def test_offsets_of_other_live_groups_do_not_expire(h):
    (member,) = h.stable_group(protocol_type="connect", protocols=[("v1", b"")])
    h.commit({("left", 0): 1}, member, 1)
    h.wall_ms += RETENTION_MS
    assert expire(h) == []


def test_offsets_of_a_simple_group_expire_after_their_commit(h):
    h.commit({("t", 0): 1})
    h.wall_ms += 10
    h.commit({("u", 0): 1})
    h.wall_ms += RETENTION_MS - 10
    assert expire(h) == ["t"]
    h.wall_ms += 10
    assert expire(h) == ["u"]
    assert h.shard.groups == {}


def test_offset_with_a_retention_time_of_its_own_expires_then(h):
    h.commit({("t", 0): 1}, retention_ms=500)
    h.wall_ms += 499
    assert expire(h) == []
    h.wall_ms += 1
    assert expire(h) == ["t"]


def test_empty_group_without_offsets_is_deleted_at_once(h):
    h.join()
    assert expire(h) == []
    assert h.shard.groups == {}
    assert len(h.timers) == 0


def test_group_of_an_open_transaction_stays(h):
    h.shard.replay(OffsetRecord("g", "t", 0, CommittedOffset(1, 0, "", 0)), 0, producer_id=7)
    h.shard.replay(OffsetRecord("g", "t", 1, CommittedOffset(1, 0, "", 0)), 1)
    h.shard.replay(OffsetRecord("g", "u", 0, CommittedOffset(1, 0, "", 0)), 2)
    h.shard.replay(OffsetRecord("g", "t", 0, CommittedOffset(1, 0, "", 0)), 3)
    assert h.expire_offsets() == [OffsetRecord("g", "t", 1, None), OffsetRecord("g", "u", 0, None)]
    assert "g" in h.shard.groups


def test_empty_group_from_an_old_log_counts_from_the_commit(h):
    """Group metadata before v2 has no time of the last change."""
    h.shard.replay(GroupRecord("g", GroupMetadata("consumer", 3, None, None, -1)), 0)
    h.shard.replay(OffsetRecord("g", "t", 0, CommittedOffset(1, 0, "", h.wall_ms)), 1)
    h.wall_ms += RETENTION_MS - 1
    assert expire(h) == []
    h.wall_ms += 1
    assert expire(h) == ["t"]


def test_changes_between_two_steps_count(h):
    """The loop runs between them: groups are deleted and created, and commit again."""
    for topic in "tuv":
        h.commit({(topic, 0): 1}, group_id="g")
    h.commit({("t", 0): 1}, group_id="gone")
    h.wall_ms += RETENTION_MS
    walk = expired_offsets(h.shard, h.wall_ms)
    h.write(next(walk))
    h.commit({("u", 0): 2}, group_id="g")
    h.write([OffsetRecord("gone", "t", 0, None), GroupRecord("gone", None)])
    for records in walk:
        h.write(records)
    assert list(h.shard.offsets.of_group("g")) == ["u"]

    walk = expired_groups(h.shard)
    h.shard.groups["h"] = h.shard.groups.pop("g")
    assert list(walk) == [[]]


def test_a_step_is_a_topic_of_a_group(h):
    for group_id in ("g", "h"):
        h.commit({(topic, partition): 1 for topic in "tu" for partition in range(3)}, group_id=group_id)
    h.wall_ms += RETENTION_MS
    assert [len(records) for records in expired_offsets(h.shard, h.wall_ms)] == [3] * 4
