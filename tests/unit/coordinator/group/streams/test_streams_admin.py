"""Streams groups for administrators: descriptions, lists, deletion, offsets, expiry (KIP-1071)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coordinator.effects import Effects
from coordinator.group.admin import delete_group, list_groups
from coordinator.group.offset_commit import check_commit, check_delete, is_current
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.describe import describe, describe_topology
from coordinator.group.streams.offsets import check_fetch
from coordinator.group.txn_offset_commit import check_transactional_commit
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.streams_groups import WORD_COUNT, StreamsHarness, task_map


def commit(
    h: StreamsHarness, member: str, epoch: int, topic: str = "t", partition: int = 0, version: int = 9
) -> ErrorCode:
    request = OFFSET_COMMIT.request(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic, partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)]
            )
        ],
    )
    return check_commit(h.shard, request, request.topics, version)


def may_commit_all(h: StreamsHarness, member: str, epoch: int, version: int = 9) -> bool:
    sender = OFFSET_COMMIT.request(group_id="g", member_id=member, generation_id_or_member_epoch=epoch)
    return is_current(h.shard, sender, version)


def transactional(h: StreamsHarness, member: str, epoch: int, version: int = 5) -> ErrorCode:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    request = TXN_OFFSET_COMMIT.request(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    return check_transactional_commit(h.shard, request, version)


def delete(h: StreamsHarness) -> ErrorCode:
    effects: GroupEffects = Effects()
    code = delete_group(h.shard, "g", effects)
    h.run(lambda other: other.writes.extend(effects.writes))
    return code


# -- descriptions -----------------------------------------------------------------------------------------------------


def test_group_is_described(h: StreamsHarness) -> None:
    tags = [KeyValue(key="k", value="v")]
    h.enter_streams("m", WORD_COUNT, user_endpoint=Endpoint(host="h", port=1), client_tags=tags)
    before = describe(h.shard, "g")
    assert (before.group_state, before.group_epoch, before.assignment_epoch) == ("NotReady", 2, 2)
    assert [t.partitions for s in before.topology.subtopologies for t in s.state_changelog_topics] == [0]
    h.make_topics()
    h.follow("m")
    group = describe(h.shard, "g")
    assert (group.group_state, group.group_epoch, group.topology.epoch) == ("Stable", 3, 0)
    first, second = group.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["t"], ["app-rep"])
    assert [(t.name, t.partitions) for t in second.repartition_source_topics] == [("app-rep", 3)]
    log = second.state_changelog_topics[0]
    assert (log.partitions, [(c.key, c.value) for c in log.topic_configs]) == (3, [("cleanup.policy", "compact")])
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.process_id, member.topology_epoch) == ("m", 3, "process-m", 0)
    assert (member.user_endpoint.port, [(tag.key, tag.value) for tag in member.client_tags]) == (1, [("k", "v")])
    assert task_map(member.assignment.active_tasks) == {"0": [0, 1, 2], "1": [0, 1, 2]}
    assert member.assignment == member.target_assignment


def test_group_without_topology_is_described(h: StreamsHarness) -> None:
    h.enter_streams("m")
    h.group.topology = None
    assert describe_topology(h.group) is None


@pytest.mark.parametrize("group_id", ["none", "g"])
def test_groups_of_other_types_are_not_described(h: StreamsHarness, group_id: str) -> None:
    h.commit({("t", 0): 1})
    with pytest.raises(Refused) as refused:
        describe(h.shard, group_id)
    reason = "not found" if group_id == "none" else "is not a streams group"
    assert (refused.value.code, refused.value.message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def test_groups_are_listed(h: StreamsHarness) -> None:
    """Kafka's filter has its own name for groups that are not ready."""
    h.enter_streams("m", WORD_COUNT)
    found = [(group.group_id, group.protocol_type, group.group_state) for group in list_groups(h.shard, (), ())]
    assert found == [("g", "streams", "NotReady")]
    assert len(list_groups(h.shard, {"not_ready"}, {"streams"})) == 1
    assert list_groups(h.shard, {"notready"}, ()) == []


# -- deletion, expiry -------------------------------------------------------------------------------------------------


def test_group_without_members_can_be_deleted(h: StreamsHarness) -> None:
    h.enter_streams("m")
    assert delete(h) is ErrorCode.NON_EMPTY_GROUP
    h.beat("m", -1)
    h.commit({("t", 0): 1})
    assert delete(h) is ErrorCode.NONE
    assert h.shard.groups == {}
    other = h.reloaded()
    assert other.shard.groups == {}
    assert other.shard.offsets.get("g", "t", 0) is None


def test_offsets_expire_where_they_are_not_in_use(h: StreamsHarness) -> None:
    h.enter_streams("m")
    h.beat("m", -1)
    h.commit({("t", 0): 1, ("x", 0): 1})
    h.enter_streams("m")
    later = h.wall_ms + h.settings.offsets_retention_ms
    assert [getattr(record, "topic", "") for record in h.expire_offsets(later)] == ["x"]
    h.beat("m", -1)
    assert h.expire_offsets() == []
    tombstones = list(h.group.tombstones())
    assert [getattr(record, "topic", "") for record in h.expire_offsets(later)] == ["t"] + [""] * len(tombstones)


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_members_commit_at_their_epoch(h: StreamsHarness) -> None:
    """An earlier epoch is valid for tasks owned since then."""
    h.enter_streams("a")
    h.enter_streams("b")
    h.follow("a")
    h.follow("a")
    member = h.group.members["a"]
    assert (member.epoch, member.assigned.active) == (3, {"0": {0: 2, 1: 2}, "1": {0: 2}})
    assert commit(h, "a", 3) is commit(h, "a", 2) is commit(h, "a", 2, "u") is ErrorCode.NONE
    for code in (
        commit(h, "a", 1),
        commit(h, "a", 4),
        commit(h, "a", 2, "t", 2),
        commit(h, "a", 2, "other"),
        commit(h, "a", -1),
    ):
        assert code is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(h, "x", 3) is commit(h, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(h, "a", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert [epoch for epoch in range(-1, 5) if may_commit_all(h, "a", epoch)] == [3]
    assert not may_commit_all(h, "a", 3, version=8)
    assert not may_commit_all(h, "x", 3)
    assert transactional(h, "a", 3) is ErrorCode.NONE
    assert transactional(h, "a", 1) is ErrorCode.ILLEGAL_GENERATION
    assert transactional(h, "a", 1, version=6) is ErrorCode.STALE_MEMBER_EPOCH
    assert transactional(h, "", -1) is ErrorCode.NONE


def test_tasks_in_revocation_may_be_committed(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.enter_streams("b")
    h.follow("a")
    assert h.group.members["a"].revoking.active == {"0": {2: 2}, "1": {1: 2}}
    h.group.members["a"] = replace(h.group.members["a"], epoch=3)
    assert commit(h, "a", 2, "t", 2) is ErrorCode.NONE


def test_non_members_commit_while_the_group_is_empty(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.beat("a", -1)
    assert commit(h, "", -1) is ErrorCode.NONE
    assert may_commit_all(h, "", -1)
    assert commit(h, "a", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_fetch_at_their_epoch(h: StreamsHarness) -> None:
    h.enter_streams("a")
    assert check_fetch(h.group, None, -1) is ErrorCode.NONE
    assert check_fetch(h.group, "a", 2) is ErrorCode.NONE
    for member_id, epoch, code in (
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert check_fetch(h.group, member_id, epoch) is code


def test_offsets_of_sources_are_not_deleted_under_members(h: StreamsHarness) -> None:
    h.enter_streams("a")
    assert check_delete(h.group) is ErrorCode.NONE
    assert (h.group.is_subscribed_to("t"), h.group.is_subscribed_to("x")) == (True, False)
    h.beat("a", -1)
    assert not h.group.is_subscribed_to("t")
