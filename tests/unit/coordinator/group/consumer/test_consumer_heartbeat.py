"""Heartbeats of consumer groups: their effects and records, and deadlines."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from coordinator.group.admin import delete_group, describe_group, list_groups
from coordinator.group.cluster import ConsumerGroupConfig
from coordinator.group.consumer.describe import describe
from coordinator.group.consumer.heartbeat import answer_if_unchanged
from coordinator.group.consumer.member import MemberState
from coordinator.group.modern.caller import Caller
from coordinator.group.refused import Refused
from coordinator.group.settings import ConsumerSettings, GroupSettings
from coordinator.group.txn_offset_commit import check_transactional_commit
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.consumer_groups import CALLER, ConsumerHarness, assigned, by_name

T = {"t": [0, 1, 2, 3]}


def test_first_member_gets_all_partitions(h: ConsumerHarness) -> None:
    """Member, epoch, target, epoch of targets, assignment: in Kafka's order, as one batch."""
    answer = h.enter_consumer("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert (answer.heartbeat_interval_ms, assigned(answer)) == (5_000, T)
    assert h.written_types() == [5, 3, 7, 6, 8]


def test_a_heartbeat_that_changes_nothing_writes_nothing(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    written = len(h.log)
    answer = h.beat("a", 2, T)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert h.beat("a", 2).assignment is None
    assert len(h.log) == written


def test_decisions_leave_no_reference_cycles(h: ConsumerHarness) -> None:
    """The garbage collector runs rarely: each heartbeat with changes would leave memory until then."""
    gc.collect()
    gc.disable()
    try:
        h.enter_consumer("a")
        h.beat("a", 2, T, topics=["t", "u"])
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_clock_that_was_set_back_delays_no_target(h: ConsumerHarness) -> None:
    """Targets wait for their interval, and the time of the last one is in the future."""
    h.topics.config = ConsumerGroupConfig(assignment_interval_ms=1_000)
    h.enter_consumer("a")
    h.wall_ms -= 3_600_000
    h.enter_consumer("b")
    assert h.group.target_epoch == h.group.epoch


def stays(h: ConsumerHarness, caller: Caller = CALLER, **fields: Any) -> bool:
    """Return whether a heartbeat of member "a", by default at epoch 2, uses the short path."""
    named = {"group_id": "g", "member_id": "a", "member_epoch": 2, **fields}
    return answer_if_unchanged(h.shard, CONSUMER_GROUP_HEARTBEAT.request(**named), caller, h.now) is not None


def test_only_unchanged_heartbeats_use_the_short_path(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    h.enter("classic")
    assert stays(h)
    for fields in (
        {"group_id": "other"},
        {"group_id": "classic"},
        {"member_id": "b"},
        {"member_epoch": 0},
        {"member_epoch": 1},
        {"member_epoch": 3},
        {"instance_id": "i"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 30_000},
        {"subscribed_topic_names": ["t"]},
        {"subscribed_topic_regex": ""},
        {"server_assignor": "uniform"},
        {"topic_partitions": []},
    ):
        assert not stays(h, **fields), fields
    assert not stays(h, CALLER._replace(client_id="other"))
    assert not stays(h, CALLER._replace(client_host="/127.0.0.2"))


def test_reconciling_members_use_the_long_path(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    h.topics.put("u", 1)
    assert not stays(h)  # until it is known whether that is a topic of the group
    h.beat("a", 2)
    assert stays(h)
    h.enter_consumer("b")
    assert not stays(h)
    h.settle(["a", "b"])
    assert stays(h, member_epoch=3)
    assert stays(h, member_id="b", member_epoch=3)


def test_blank_ids_use_the_long_path(h: ConsumerHarness) -> None:
    """In v0 a client may join with any id, but not continue with a blank one."""
    joined = h.beat(" ", 0, {}, topics=["t"], version=0, rebalance_timeout_ms=30_000)
    assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, " ")
    assert not stays(h, member_id=" ", member_epoch=joined.member_epoch)
    assert h.beat(" ", joined.member_epoch, version=0).error_code == ErrorCode.INVALID_REQUEST


def test_static_members_use_the_short_path_too(h: ConsumerHarness) -> None:
    h.enter_consumer("a", instance_id="i")
    assert stays(h, instance_id="i")
    assert stays(h)
    h.beat("a", -2, instance_id="i")
    h.enter_consumer("b", instance_id="i")
    assert stays(h, member_id="b", member_epoch=h.group.epoch, instance_id="i")
    assert not stays(h, member_epoch=h.group.epoch, instance_id="i")


def test_expressions_are_resolved_in_time(h: ConsumerHarness) -> None:
    h.enter_consumer("a", None, subscribed_topic_regex="t.*")
    h.advance(0)
    h.settle(["a"])
    epoch = h.group.epoch
    assert stays(h, member_epoch=epoch)
    h.topics.put("other", 1)
    h.beat("a", epoch)  # too early to resolve again
    assert stays(h, member_epoch=epoch)
    h.advance(10_001)
    assert not stays(h, member_epoch=epoch)
    h.beat("a", epoch)
    assert stays(h, member_epoch=epoch)
    h.advance(0)
    assert h.group.regexes["t.*"].version == h.topics.version


def test_full_heartbeat_gets_the_assignment_again(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    assert assigned(h.beat("a", 2, {}, topics=["t"], rebalance_timeout_ms=30_000)) == T


def test_old_clients_get_an_id(h: ConsumerHarness) -> None:
    """v0."""
    assert h.enter_consumer("", version=0).member_id == "uuid1"
    assert set(h.group.members) == {"uuid1"}


def test_partitions_are_given_up_before_another_has_them(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    assert assigned(h.enter_consumer("b")) == {}
    assert h.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    answer = h.beat("a", 2, T)
    kept = assigned(answer)
    assert kept is not None
    assert (answer.member_epoch, len(kept["t"])) == (2, 2)
    assert h.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert assigned(h.beat("b", 3, {})) is None
    assert h.beat("a", 2, kept).member_epoch == 3
    rest = assigned(h.beat("b", 3, {}))
    assert rest is not None
    assert sorted(kept["t"] + rest["t"]) == T["t"]
    assert h.group.state.value == "Stable"


def test_member_that_revokes_too_late_is_fenced(h: ConsumerHarness) -> None:
    h.enter_consumer("a", rebalance_timeout_ms=7_000)
    h.enter_consumer("b")
    h.beat("a", 2, T)
    h.advance(6_999)
    h.beat("a", 2, T)
    assert "a" in h.group.members
    h.advance(1)
    assert "a" not in h.group.members
    assert "did not give its partitions up" in str(h.notes[-1])
    h.settle(["b"])
    assert by_name(h.group.members["b"].assigned) == T


def test_revocation_continues_after_a_restart(h: ConsumerHarness) -> None:
    h.enter_consumer("a", rebalance_timeout_ms=7_000)
    h.enter_consumer("b")
    h.beat("a", 2, T)
    again = h.reloaded()
    again.advance(7_000)
    assert set(again.group.members) == {"b"}


def test_silent_member_is_fenced(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    h.advance(44_999)
    h.beat("a", 2)
    h.advance(44_999)
    assert "a" in h.group.members
    h.advance(1)
    assert h.group.is_empty
    assert (h.group.state.value, h.group.epoch) == ("Empty", 3)
    assert len(h.timers) == 0


def test_failed_write_changes_nothing(h: ConsumerHarness) -> None:
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.enter_consumer("a").error_code == ErrorCode.NOT_COORDINATOR
    assert h.shard.groups == {}
    assert len(h.timers) == 0
    h.failure = ErrorCode.NONE
    h.enter_consumer("a")
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.enter_consumer("b").error_code == ErrorCode.NOT_COORDINATOR
    assert h.beat("a", -1).error_code == ErrorCode.NOT_COORDINATOR
    assert set(h.group.members) == {"a"}


def test_topics_that_change_bump_the_epoch_once(h: ConsumerHarness) -> None:
    h.enter_consumer("a", ["t", "later"])
    h.topics.put("other", 1)
    assert h.beat("a", 2, T).member_epoch == 2
    h.topics.put("later", 2)
    assert assigned(h.beat("a", 2, T)) == {**T, "later": [0, 1]}
    h.topics.put("t", 5)
    assert h.beat("a", 3).member_epoch == 4
    h.topics.remove("later")
    answer = h.beat("a", 4, {"t": [0, 1, 2, 3, 4], "later": [0, 1]})
    assert assigned(answer) == {"t": [0, 1, 2, 3, 4]}


def test_groups_own_settings_are_used(h: ConsumerHarness) -> None:
    h.topics.config = ConsumerGroupConfig(10_000, 700, 5_000)
    assert h.enter_consumer("a").heartbeat_interval_ms == 700
    assert h.enter_consumer("b").member_epoch == 2
    assert h.group.state.value == "Assigning"
    h.advance(4_999)
    assert h.beat("b", 2).member_epoch == 2
    h.advance(1)
    assert h.beat("b", 2).member_epoch == 3
    h.advance(5_000)
    assert set(h.group.members) == {"b"}


def test_member_that_changes_the_assignor_bumps_the_epoch(h: ConsumerHarness) -> None:
    """Without a choice the group uses the uniform assignor; the choice of most members decides."""
    h.enter_consumer("a")
    assert h.beat("a", 2, T, server_assignor="uniform").member_epoch == 2
    assert h.beat("a", 2, T, server_assignor="range").member_epoch == 3
    assert h.beat("a", 3, T, server_assignor="range").member_epoch == 3
    h.enter_consumer("b", server_assignor="range")
    h.enter_consumer("c", server_assignor="range")
    h.beat("c", 5, server_assignor="uniform")
    assert h.group.epoch == 5


def test_static_member_may_leave_for_a_session(h: ConsumerHarness) -> None:
    h.enter_consumer("a", instance_id="one")
    epoch = h.group.epoch
    assert h.beat("a", -2, instance_id="one").member_epoch == -2
    back = h.enter_consumer("b", instance_id="one")
    assert (back.member_epoch, assigned(back), h.group.epoch) == (2, T, epoch)
    assert set(h.group.members) == {"b"}
    h.beat("b", -2, instance_id="one")
    h.advance(45_000)
    assert h.group.is_empty


def test_empty_classic_group_is_replaced(h: ConsumerHarness) -> None:
    """Offsets of the replaced group stay."""
    h.commit({("t", 0): 7})
    h.enter_consumer("a")
    assert h.shard.offsets.get("g", "t", 0).offset == 7  # type: ignore[union-attr]
    assert h.reloaded().group.members == h.group.members


def test_empty_group_is_replaced_by_a_classic_one(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    h.beat("a", -1)
    h.stable_group()
    assert h.shard.classic("g") is not None
    assert h.reloaded().shard.classic("g") is not None


def test_group_is_listed_described_and_deleted(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    (listed,) = list_groups(h.shard, {"stable"}, {"consumer"})
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("g", "consumer", "consumer")
    described = describe(h.shard, "g")
    assert (described.group_state, described.group_epoch, described.assignor_name) == ("Stable", 2, "uniform")
    assert describe_group(h.shard, "g", 6).error_message == "Group g is not a classic group."
    codes: list[ErrorCode] = []
    h.run(lambda effects: codes.append(delete_group(h.shard, "g", effects)))
    h.beat("a", -1)
    h.run(lambda effects: codes.append(delete_group(h.shard, "g", effects)))
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    assert h.reloaded().shard.groups == {}
    with pytest.raises(Refused, match="Group g not found"):
        describe(h.shard, "g")


def test_unused_offsets_expire_and_then_the_group(h: ConsumerHarness) -> None:
    """KIP-211."""
    h.enter_consumer("a")
    h.commit({("t", 0): 1, ("u", 0): 1}, "a", 2)
    late = h.wall_ms + h.settings.offsets_retention_ms
    assert [record.topic for record in h.expire_offsets(late)] == ["u"]  # type: ignore[union-attr]
    h.beat("a", -1)
    h.expire_offsets(late)
    assert h.shard.groups == {}
    assert h.reloaded().shard.groups == {}


def test_full_group_rejects_new_members() -> None:
    h = ConsumerHarness(GroupSettings(consumer=ConsumerSettings(max_size=1)))
    h.enter_consumer("a")
    assert h.enter_consumer("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.enter_consumer("a").error_code == ErrorCode.NONE


# -- offsets -----------------------------------------------------------------------------------------------------------


def test_commits_of_a_transaction_are_checked_like_others(h: ConsumerHarness) -> None:
    """KIP-848: for partitions owned since an earlier epoch, also with the epoch before."""
    h.enter_consumer("a")
    h.enter_consumer("b")
    h.beat("a", 2, T)
    kept = by_name(h.group.members["a"].assigned)["t"]
    h.beat("a", 2, {"t": kept})
    h.beat("b", 3, {})
    (mine, *_), (theirs, *_) = kept, by_name(h.group.members["b"].assigned)["t"]

    def check(partition: int, member_id: str = "a", generation: int = 2, version: int = 5) -> ErrorCode:
        partitions = [TxnOffsetCommitRequestPartition(partition_index=partition)]
        topics = [TxnOffsetCommitRequestTopic(name="t", partitions=partitions)]
        request = TXN_OFFSET_COMMIT.request(
            group_id="g", member_id=member_id, generation_id_or_member_epoch=generation, topics=topics
        )
        return check_transactional_commit(h.shard, request, version)

    assert check(mine) is ErrorCode.NONE
    assert check(theirs) is ErrorCode.ILLEGAL_GENERATION
    assert check(mine, generation=4) is ErrorCode.ILLEGAL_GENERATION
    assert check(mine, "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(mine, "", -1) is ErrorCode.NONE
    assert check(mine, version=6) is ErrorCode.NONE
    assert check(mine, generation=4, version=6) is ErrorCode.STALE_MEMBER_EPOCH
    assert check(theirs, version=6) is ErrorCode.STALE_MEMBER_EPOCH
    assert check(mine, "nobody", version=6) is ErrorCode.UNKNOWN_MEMBER_ID


def test_deadline_is_due_again_after_a_failed_write(h: ConsumerHarness) -> None:
    h.enter_consumer("a")
    h.failure = ErrorCode.NOT_COORDINATOR
    h.advance(45_100)
    assert set(h.group.members) == {"a"}
    h.failure = ErrorCode.NONE
    h.advance(500)
    assert h.group.is_empty


def test_recreated_topic_is_another_topic(h: ConsumerHarness) -> None:
    """Its partitions are assigned with the new id; those of the old id are gone."""
    h.enter_consumer("a")
    old = h.topics.topic("t")
    assert old is not None
    h.topics.remove("t")
    h.topics.put("t", 2)
    h.topics._topics["t"] = old._replace(topic_id=b"new".ljust(16, b"\1"), partition_count=2)
    answer = h.beat("a", 2, {})
    assert (answer.member_epoch, assigned(answer)) == (3, {"new": [0, 1]})
    assert h.group.owner_epoch(old.topic_id, 0) == -1
