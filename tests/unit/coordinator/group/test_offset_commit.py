"""OffsetCommit and OffsetDelete."""

from coordinator.effects import Effects
from coordinator.group.offset_commit import check_delete, commit_offsets, delete_offsets, utf16_length
from coordinator.group.settings import GroupSettings
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.support.groups import GroupHarness

TOPIC_ID = bytes(range(16))


def test_member_commits_in_its_generation(h):
    (member,) = h.stable_group()
    assert h.commit({("t", 0): 5, ("t", 1): 6}, member, 1, topic_id=TOPIC_ID, metadata="note") is ErrorCode.NONE
    stored = h.shard.offsets.get("g", "t", 0)
    assert (stored.offset, stored.metadata, stored.topic_id) == (5, "note", TOPIC_ID)
    assert (stored.commit_timestamp_ms, stored.expire_timestamp_ms) == (h.wall_ms, -1)
    assert h.shard.offsets.get("g", "t", 1).offset == 6
    assert h.reloaded().shard.offsets.of_group("g") == h.shard.offsets.of_group("g")


def test_commits_are_checked(h):
    assert h.commit({("t", 0): 1}, "m", 1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.commit({("t", 0): 1}, "m", 1, version=8) is ErrorCode.ILLEGAL_GENERATION
    (member,) = h.stable_group(session_ms=100_000)
    assert h.commit({("t", 0): 1}, member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert h.commit({("t", 0): 1}, "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit({("t", 0): 1}, member, 1, instance="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit({("t", 0): 1}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit({("t", 0): 1}, member) is ErrorCode.ILLEGAL_GENERATION
    h.join(member_id=member, protocols=[("range", b"other")], session_ms=100_000)
    assert h.commit({("t", 0): 1}, member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.shard.offsets.get("g", "t", 0) is None


def test_fenced_static_member_cannot_commit(h):
    old = h.join(instance="one")
    h.advance(3_000)
    h.sync(old.response.member_id, 1, {})
    h.join(instance="one")
    assert h.commit({("t", 0): 1}, old.response.member_id, 1, instance="one") is ErrorCode.FENCED_INSTANCE_ID


def test_commit_in_the_join_phase_is_accepted(h):
    leader, follower = h.stable_group(2)
    h.join(member_id=leader)
    assert h.commit({("t", 0): 1}, follower, 1) is ErrorCode.NONE


def test_commit_keeps_the_session_up(h):
    (member,) = h.stable_group()
    for _ in range(3):
        h.advance(9_000)
        assert h.commit({("t", 0): 1}, member, 1) is ErrorCode.NONE


def test_client_without_a_group_creates_a_simple_one(h):
    """Old clients may use the empty group id."""
    assert h.commit({("t", 0): 1}) is ErrorCode.NONE
    assert h.commit({("t", 0): 1}, group_id="") is ErrorCode.NONE
    assert h.shard.classic("g").is_simple
    assert h.reloaded().shard.classic("g").is_simple
    (member,) = h.stable_group()
    assert not h.shard.classic("g").is_simple
    h.leave((member, None))
    assert h.commit({("t", 0): 9}) is ErrorCode.NONE
    assert h.shard.offsets.get("g", "t", 0).offset == 9


def test_metadata_has_a_limit(h):
    """offset.metadata.max.bytes, which Kafka compares with UTF-16 units."""
    h = GroupHarness(GroupSettings(offset_metadata_max_length=4))
    assert h.commit({("t", 0): 1}, metadata="äöüß") is ErrorCode.NONE
    assert h.commit({("t", 0): 2}, metadata="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert h.commit({("t", 0): 3}, metadata="😀😀😀") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert h.shard.offsets.get("g", "t", 0).offset == 1
    assert h.commit({("t", 0): 4}, metadata=None) is ErrorCode.NONE
    assert h.shard.offsets.get("g", "t", 0).metadata == ""
    assert (utf16_length("ab"), utf16_length("😀")) == (2, 2)


def test_failed_commit_changes_nothing(h):
    h.commit({("t", 0): 1})
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.commit({("t", 0): 2}) is ErrorCode.NOT_COORDINATOR
    assert h.shard.offsets.get("g", "t", 0).offset == 1


def test_commit_without_partitions_writes_no_record(h):
    """A log has no batches without records; the sender's session is extended nevertheless."""
    (member,) = h.stable_group()
    topics = [OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID)]
    request = OFFSET_COMMIT.request(group_id="g", member_id=member, generation_id_or_member_epoch=1, topics=topics)
    for _ in range(3):
        h.advance(9_000)
        effects = Effects()
        (answered,) = commit_offsets(h.shard, request, h.now, effects)
        assert (answered.name, answered.topic_id, answered.partitions) == ("t", TOPIC_ID, [])
        assert effects.writes == []
    assert h.commit({("t", 0): 5}, member, 1) is ErrorCode.NONE


def test_retention_time_of_old_versions_is_kept(h):
    """OffsetCommit v2-v4."""
    h.commit({("t", 0): 1}, retention_ms=1_000)
    assert h.shard.offsets.get("g", "t", 0).expire_timestamp_ms == h.wall_ms + 1_000
    assert h.reloaded().shard.offsets.get("g", "t", 0).expire_timestamp_ms == h.wall_ms + 1_000


def test_huge_retention_times_end_at_once(h):
    """As in Apache Kafka the sum overflows; the record can be read."""
    h.commit({("t", 0): 1}, retention_ms=(1 << 63) - 1)
    expires_ms = h.reloaded().shard.offsets.get("g", "t", 0).expire_timestamp_ms
    assert expires_ms == h.wall_ms - 1 - (1 << 63)


# -- OffsetDelete -----------------------------------------------------------------------------------------------------


def delete(h, *places, group_id="g"):
    """Return the codes of the partitions, in order."""
    group = h.shard.groups.get(group_id)
    code = check_delete(group)
    if code is not ErrorCode.NONE:
        return code
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        for topic, partition in places
    ]
    results = []
    h.run(lambda effects: results.extend(delete_offsets(h.shard, group, topics, effects)))
    return [ErrorCode(topic.partitions[0].error_code) for topic in results]


def test_offsets_are_deleted_unless_a_member_reads_the_topic(h):
    assert delete(h, ("t", 0)) is ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = h.stable_group()
    h.commit({("t", 0): 1, ("other", 0): 1}, member, 1)
    assert delete(h, ("t", 0), ("other", 0), ("other", 7)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0, 0]
    assert h.shard.offsets.get("g", "other", 0) is None
    assert h.shard.offsets.get("g", "t", 0) is not None
    assert h.reloaded().shard.offsets.of_group("g") == h.shard.offsets.of_group("g")
    h.leave((member, None))
    assert delete(h, ("t", 0)) == [ErrorCode.NONE]
    assert h.log[-1][1] is None


def test_offsets_of_consumers_with_unknown_topics_stay(h):
    h.stable_group(protocols=[("range", b"\0")])
    assert delete(h, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_a_live_group_of_another_kind_stay(h):
    h.stable_group(protocol_type="connect", protocols=[("v1", b"")])
    assert delete(h, ("t", 0)) is ErrorCode.NON_EMPTY_GROUP


def test_no_write_without_offsets_to_delete(h):
    h.commit({("t", 0): 1})
    effects: Effects[object] = Effects()
    topics = [OffsetDeleteRequestTopic(name="x", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    delete_offsets(h.shard, h.shard.groups["g"], topics, effects)
    assert effects.writes == []
