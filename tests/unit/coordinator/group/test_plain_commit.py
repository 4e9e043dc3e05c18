"""A plain commit has the bytes and the effect of its records one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.plain_commit import MOST_RECORDS, PlainCommit, TopicCommit
from coordinator.group.records import CommittedOffset, OffsetRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.timers import Timers
from protocol.records.batch import plain_batch
from protocol.records.builder import BatchBuilder

TOPIC_ID = b"0123456789abcdef"


def topic_commit(name: str, topic_id: bytes, rows: list[tuple[int, int, int]]) -> TopicCommit:
    partitions, offsets, leader_epochs = ([row[column] for row in rows] for column in range(3))
    return TopicCommit(name, topic_id, tuple(partitions), tuple(offsets), tuple(leader_epochs))


names = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
offsets = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))
topics = st.builds(topic_commit, names, st.binary(min_size=16, max_size=16).filter(any), st.lists(offsets, max_size=20))
commits = st.builds(PlainCommit, names, st.integers(0, 2**62), st.lists(topics, max_size=3)).filter(len)


@given(commits)
def test_packed_records_equal_those_of_a_builder(commit: PlainCommit) -> None:
    packed = commit.pack()
    assert packed is not None

    builder = BatchBuilder()
    builder.extend(1_700_000_000_123, [(record.key, record.value) for record in commit])
    assert plain_batch(packed, len(commit), 1_700_000_000_123) == builder.build()


def shard_with(groups: list[str]) -> GroupShard:
    shard = GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers())
    for group_id in groups:
        pending = OffsetRecord(group_id, "open", 0, CommittedOffset(1, -1, "", 5))
        shard.replay(pending, 3, producer_id=7)
    return shard


@given(commits, st.booleans())
def test_it_replays_as_its_records(commit: PlainCommit, is_transaction_open: bool) -> None:
    """The group may have an open transaction, and the commit may name a partition twice."""
    groups = [commit.group_id] if is_transaction_open else []
    at_once, one_by_one = shard_with(groups), shard_with(groups)
    at_once.replay_all(commit, 10)
    for offset, record in enumerate(commit, 10):
        one_by_one.replay(record, offset)

    assert at_once.groups.keys() == one_by_one.groups.keys()
    for shard in (at_once, one_by_one):
        shard.replay_transaction_end(7, committed=True)
    assert at_once.offsets.of_group(commit.group_id) == one_by_one.offsets.of_group(commit.group_id)


def test_it_stays_pending_in_a_transaction() -> None:
    commit = PlainCommit("g", 5, [topic_commit("t", TOPIC_ID, [(0, 7, 1)])])
    shard = shard_with([])
    shard.replay_all(commit, 10, producer_id=7)
    assert shard.offsets.get("g", "t", 0) is None
    shard.replay_transaction_end(7, committed=True)
    assert shard.offsets.of_group("g") == {"t": {0: CommittedOffset(7, 1, "", 5, topic_id=TOPIC_ID)}}


def test_it_is_a_sequence() -> None:
    commit = PlainCommit("g", 5, [topic_commit("t", TOPIC_ID, [(0, 7, 1), (1, 8, -1)])])
    second = OffsetRecord("g", "t", 1, CommittedOffset(8, -1, "", 5, topic_id=TOPIC_ID))
    assert (len(commit), commit[1], list(commit[1:])) == (2, second, [second])


def test_large_commits_are_not_packed() -> None:
    rows = [(partition, 5, -1) for partition in range(MOST_RECORDS + 1)]
    assert PlainCommit("g", 5, [topic_commit("t", TOPIC_ID, rows[1:])]).pack() is not None
    assert PlainCommit("g", 5, [topic_commit("t", TOPIC_ID, rows)]).pack() is None


few_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.just(-1)), min_size=1, max_size=3)
few_topics = st.builds(topic_commit, st.sampled_from("tu"), st.just(TOPIC_ID), few_rows)
plain = st.builds(PlainCommit, st.just("g"), st.integers(0, 5), st.lists(few_topics, min_size=1, max_size=2))
tombstone = st.builds(OffsetRecord, st.just("g"), st.sampled_from("tu"), st.integers(0, 3), st.none())


@given(st.lists(plain | tombstone | st.sampled_from(["ask", "open", "end"]), max_size=12))
def test_many_commits_replay_as_their_records(steps: list[PlainCommit | OffsetRecord | str]) -> None:
    """With any other requests in between."""
    at_once, one_by_one = shard_with([]), shard_with([])
    for offset, step in enumerate(steps):
        for shard in (at_once, one_by_one):
            if isinstance(step, OffsetRecord):
                shard.replay(step, 10 * offset)
            elif step == "open":
                shard.replay(OffsetRecord("g", "t", 1, CommittedOffset(99, -1, "", 5)), 10 * offset, producer_id=7)
            elif step == "end":
                shard.replay_transaction_end(7, committed=True)
        if isinstance(step, PlainCommit):
            at_once.replay_all(step, 10 * offset)
            for place, record in enumerate(step, 10 * offset):
                one_by_one.replay(record, place)
        elif step == "ask":
            assert at_once.offsets.get("g", "t", 0) == one_by_one.offsets.get("g", "t", 0)
    ours, expected = at_once.offsets, one_by_one.offsets
    assert ours.group_ids() == expected.group_ids()
    assert ours.groups_with("t") == expected.groups_with("t")
    assert set(ours.topic_partitions("g")) == set(expected.topic_partitions("g"))
    assert ours.of_group("g") == expected.of_group("g")
