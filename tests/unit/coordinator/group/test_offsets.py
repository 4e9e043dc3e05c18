"""Stored offsets, those of open transactions, and OffsetFetch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.offset_fetch import fetch_all_offsets, fetch_offsets
from coordinator.group.offsets import TopicPartition
from coordinator.group.records import CommittedOffset, OffsetRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tests.support.scale import scaled

TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers())


def put(shard, offset, *, at, producer_id=-1, topic="t", partition=0, topic_id=bytes(16)):
    committed = CommittedOffset(offset, 3, f"m{offset}", 1, -1, topic_id)
    shard.replay(OffsetRecord("g", topic, partition, committed), at, producer_id)


def fetch(shard, partition=0, topic="t", topic_id=bytes(16), stable=True):
    topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])]
    (answer,) = fetch_offsets(shard, "g", topics, stable)
    (found,) = answer.partitions
    return found


def test_offsets_round_trip(shard):
    put(shard, 5, at=0)
    put(shard, 6, at=1)
    found = fetch(shard)
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata, found.error_code) == (6, 3, "m6", 0)
    missing = fetch(shard, 1)
    assert (missing.committed_offset, missing.committed_leader_epoch, missing.metadata, missing.error_code) == (
        -1,
        -1,
        "",
        0,
    )


def test_offset_of_an_earlier_topic_is_ignored(shard):
    put(shard, 5, at=0, topic_id=TOPIC_ID)
    assert fetch(shard, topic_id=TOPIC_ID).committed_offset == 5
    assert fetch(shard).committed_offset == 5
    assert fetch(shard, topic_id=OTHER_ID).committed_offset == -1


def test_offsets_of_an_open_transaction_are_unstable(shard):
    """KIP-447: only clients that require stable offsets get an error."""
    put(shard, 5, at=0)
    put(shard, 9, at=1, producer_id=7)
    unstable = fetch(shard)
    assert (unstable.error_code, unstable.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetch(shard, stable=False).committed_offset == 5
    assert fetch(shard, 1).error_code == 0
    (topic,) = fetch_all_offsets(shard, "g", True)
    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    (topic,) = fetch_all_offsets(shard, "g", False)
    assert (topic.name, topic.partitions[0].committed_offset) == ("t", 5)


def test_pending_offsets_are_found_by_partition(shard):
    """A group may have thousands of open transactions, and a fetch checks each of its partitions."""

    class Watched(dict):
        def get(self, key, default=None):
            pytest.fail("transactions are looked at")

    for producer_id in range(5):
        put(shard, 9, at=producer_id, producer_id=producer_id, partition=producer_id)
    shard.offsets._pending = Watched(shard.offsets._pending)
    assert [shard.offsets.has_pending("g", "t", partition) for partition in (0, 4, 5)] == [True, True, False]
    assert set(shard.offsets.topic_partitions("g")) == {TopicPartition("t", partition) for partition in range(5)}


def test_marker_makes_offsets_take_effect_or_forgets_them(shard):
    put(shard, 9, at=1, producer_id=7)
    put(shard, 10, at=2, producer_id=8, partition=1)
    shard.replay_transaction_end(7, True)
    shard.replay_transaction_end(8, False)
    shard.replay_transaction_end(9, True)
    assert (fetch(shard).committed_offset, fetch(shard, 1).committed_offset) == (9, -1)
    assert not shard.offsets.has_open_transactions("g")
    assert "g" in shard.groups


def test_latest_record_wins_not_the_latest_marker(shard):
    put(shard, 9, at=1, producer_id=7)
    put(shard, 5, at=2)
    shard.replay_transaction_end(7, True)
    assert fetch(shard).committed_offset == 5
    put(shard, 11, at=4, producer_id=7)
    shard.replay_transaction_end(7, True)
    assert fetch(shard).committed_offset == 11


def test_latest_record_of_two_transactions_wins(shard):
    """The transaction that ends last has the earlier record."""
    put(shard, 5, at=1, producer_id=7)
    put(shard, 9, at=2, producer_id=8)
    shard.replay_transaction_end(8, True)
    shard.replay_transaction_end(7, True)
    assert fetch(shard).committed_offset == 9
    put(shard, 5, at=5, producer_id=7)
    shard.replay_transaction_end(7, True)
    assert fetch(shard).committed_offset == 5


PLACES = st.sampled_from([("g", 0), ("g", 1), ("h", 0)])
PRODUCERS = st.sampled_from([7, 8])
STEPS = st.one_of(
    st.tuples(st.just("put"), PLACES, st.just(-1) | PRODUCERS),
    st.tuples(st.just("drop"), PLACES),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
)


@settings(max_examples=scaled(200))
@given(st.lists(STEPS, max_size=30))
def test_each_partition_has_its_latest_valid_record(steps):
    """A model that keeps the offset of every record, with and without transactions."""
    shard = GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers())
    stands, pending = {}, {}
    for at, (kind, *what) in enumerate(steps):
        if kind == "put":
            (group_id, partition), producer_id = what
            record = OffsetRecord(group_id, "t", partition, CommittedOffset(at, 0, "", 0))
            shard.replay(record, at, producer_id)
            (stands if producer_id < 0 else pending.setdefault(producer_id, {}))[group_id, partition] = at
        elif kind == "drop":
            [place] = what
            shard.replay(OffsetRecord(place[0], "t", place[1], None), at)
            for store in (stands, *pending.values()):
                store.pop(place, None)
        else:
            producer_id, commits = what
            shard.replay_transaction_end(producer_id, commits)
            for place, where in pending.pop(producer_id, {}).items():
                if commits:
                    stands[place] = max(where, stands.get(place, -1))
    stored = {
        (group_id, partition): committed.offset
        for group_id in shard.offsets.group_ids()
        for partition, committed in shard.offsets.of_group(group_id)["t"].items()
    }
    assert stored == stands
    for place in (("g", 0), ("g", 1), ("h", 0)):
        waits = any(place in places for places in pending.values())
        assert shard.offsets.has_pending(place[0], "t", place[1]) == waits


def test_tombstone_removes_pending_offsets(shard):
    put(shard, 5, at=0)
    put(shard, 9, at=1, producer_id=7)
    put(shard, 9, at=2, producer_id=8)
    put(shard, 9, at=3, producer_id=8, partition=1)
    assert set(shard.offsets.topic_partitions("g")) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    shard.replay(OffsetRecord("g", "t", 0, None), 4)
    assert set(shard.offsets.topic_partitions("g")) == {TopicPartition("t", 1)}
    assert shard.offsets.groups_with("t") == {"g"}
    assert shard.offsets.group_ids() == set()
    shard.replay(OffsetRecord("g", "t", 1, None), 5)
    assert not shard.offsets.has_open_transactions("g")
    shard.replay(OffsetRecord("nobody", "t", 1, None), 6)
    assert "nobody" not in shard.groups
