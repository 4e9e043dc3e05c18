"""The group protocol frame by frame: our broker and Apache Kafka give the same answers to the same requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_delete import OFFSET_DELETE
from tests.conformance.classic_group import Group
from tests.conformance.conftest import StartBroker
from tests.support.brokers import RunningBroker
from tests.support.groups import subscription
from tests.support.settled import settled

BRIEF_MS = 3_000
"""A time that members let pass; longer than an involuntary pause of a busy machine."""


@pytest.fixture
def group(reference: RunningBroker, name: str) -> Iterator[Group]:
    group = Group(reference, name, name)
    yield group
    group.close()


def test_the_life_of_a_group(group: Group) -> None:
    """A new group, a stable generation, a rebalance, an empty group that is deleted."""
    assert group.describe(5).group_state == "Dead"
    missing = group.describe()
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.group_id} not found.",
    )
    one, two = group.connect(), group.connect()
    first, second = group.stable(one, two)
    described = group.describe()
    assert (described.group_state, described.protocol_data, len(described.members)) == ("Stable", "range", 2)
    assert {(m.client_id, m.client_host) for m in described.members} == {("member", "/127.0.0.1")}
    assert {m.member_assignment for m in described.members} == {first.encode(), second.encode()}
    assert {m.member_metadata for m in described.members} == {subscription(group.topic)}

    assert group.leave((first, None), ("nobody", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.heartbeat(second, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.describe().group_state == "PreparingRebalance"
    answer = group.admin.call(DELETE_GROUPS, 2, groups_names=[group.group_id])
    assert answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    group.send_join(two, second)
    assert two.receive().generation_id == group.generation + 1
    assert group.describe().group_state == "CompletingRebalance"
    assert group.commit(5, second, group.generation + 1) is ErrorCode.REBALANCE_IN_PROGRESS
    group.leave((second, None))
    empty = group.describe()
    assert (empty.group_state, empty.protocol_type, empty.protocol_data, empty.members) == ("Empty", "consumer", "", [])
    answer = group.admin.call(DELETE_GROUPS, 2, groups_names=[group.group_id])
    assert answer.results[0].error_code == ErrorCode.NONE
    assert group.describe(5).group_state == "Dead"


def test_members_are_checked(group: Group) -> None:
    member = group.connect()
    (member_id,) = group.stable(member)
    generation = group.generation
    assert group.heartbeat(member_id, generation) is ErrorCode.NONE
    assert group.heartbeat(member_id, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat("nobody", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(member_id, generation, "x") is ErrorCode.UNKNOWN_MEMBER_ID
    group.send_sync(member, member_id, generation - 1)
    assert member.receive().error_code == ErrorCode.ILLEGAL_GENERATION
    group.send_join(member, "nobody")
    assert member.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    group.send_join(member, protocols=(("sticky", b""),))
    assert member.receive().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group.send_join(member, session_ms=10)
    assert member.receive().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    answer = group.admin.call(JOIN_GROUP, 5, group_id="", session_timeout_ms=10_000, rebalance_timeout_ms=1_000)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


def test_offsets_are_checked_and_kept(group: Group) -> None:
    assert group.commit(1, "m", 3) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.commit(1, "m", 3, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(1) is ErrorCode.NONE
    assert group.commit(2, metadata="ä" * 4_096) is ErrorCode.NONE
    assert group.commit(3, metadata="x" * 4_097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert group.committed() == (2, "ä" * 4_096)
    assert group.commit(3, topic=f"{group.topic}-not") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert group.commit(3, partition=2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert group.committed(1) == (-1, "")

    (member_id,) = group.stable(group.connect())
    assert group.commit(4) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(4, member_id) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(4, member_id, group.generation) is ErrorCode.NONE
    assert group.committed() == (4, "")
    assert group.delete_offset() is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.leave((member_id, None))
    assert group.delete_offset() is ErrorCode.NONE
    assert group.committed() == (-1, "")
    answer = group.admin.call(OFFSET_DELETE, 0, group_id=f"{group.group_id}-not", topics=[])
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_rejoins(group: Group, version: int) -> None:
    """KIP-345: no rebalance. KIP-814: from v9 on the answer says that it leads and must skip the assignment."""
    one = group.connect()
    group.send_join(one, instance="one")
    old = one.receive()
    group.send_sync(one, old.member_id, 1, {old.member_id: b"mine"})
    assert one.receive().assignment == b"mine"
    group.send_join(one, instance="one", version=version)
    new = one.receive()
    assert (new.error_code, new.generation_id) == (ErrorCode.NONE, 1)
    assert new.member_id != old.member_id
    assert new.member_id.startswith("one-")
    if version >= 9:
        assert (new.leader, new.skip_assignment, len(new.members)) == (new.member_id, True, 1)
    else:
        assert (new.leader, new.members) == (old.member_id, [])
    group.send_sync(one, new.member_id, 1)
    assert one.receive().assignment == b"mine"
    assert group.heartbeat(old.member_id, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat(new.member_id, 1, "one") is ErrorCode.NONE
    assert group.commit(1, old.member_id, 1, group_instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert group.leave((old.member_id, "one"), ("", "one"), ("", "two")) == [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_a_static_member_rejoins_with_another_topic(group: Group) -> None:
    """Without a rebalance it keeps its partitions: their offsets are still in use."""
    one = group.connect()
    group.send_join(one, instance="one")
    old = one.receive()
    group.send_sync(one, old.member_id, 1, {old.member_id: b"mine"})
    one.receive()
    group.send_join(one, instance="one", protocols=(("range", subscription("another")),))
    assert one.receive().generation_id == 1
    assert group.delete_offset() is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.leave(("", "one"))
    assert group.delete_offset() is ErrorCode.NONE


def test_only_changed_followers_start_a_rebalance(group: Group) -> None:
    one, two = group.connect(), group.connect()
    ids = group.stable(one, two)
    leader, follower = (one, two) if group.leader == ids[0] else (two, one)
    follower_id = next(each for each in ids if each != group.leader)
    group.send_join(follower, follower_id)
    again = follower.receive()
    assert (again.generation_id, again.members, again.leader) == (group.generation, [], group.leader)
    group.send_join(follower, follower_id, protocols=(("range", subscription("other")),))
    group.wait_for_state("PreparingRebalance")
    group.send_join(leader, group.leader)
    answers = [leader.receive(), follower.receive()]
    assert {answer.generation_id for answer in answers} == {group.generation + 1}
    assert {m.member_id: m.metadata for m in answers[0].members} == {
        group.leader: subscription(group.topic),
        follower_id: subscription("other"),
    }


def test_protocol_is_chosen_by_votes(group: Group) -> None:
    """Two of three members prefer "c", and all support "b" and "c"."""
    likes = (
        (("b", b"b1"), ("a", b""), ("c", b"c1")),
        (("c", b"c2"), ("b", b"b2")),
        (("c", b"c3"), ("b", b"b3"), ("a", b"")),
    )
    members = [group.connect() for _ in likes]
    group.gather(members, [{"protocols": protocols} for protocols in likes])
    answers = [member.receive() for member in members]
    assert {(answer.error_code, answer.protocol_name) for answer in answers} == {(ErrorCode.NONE, "c")}
    (told,) = (answer.members for answer in answers if answer.members)
    assert {each.metadata for each in told} == {b"c1", b"c2", b"c3"}


def test_groups_are_listed_by_state_and_type(group: Group) -> None:
    def loaded() -> None:  # Kafka lists no group while it loads any partition of groups
        assert group.admin.call(LIST_GROUPS, 5).error_code == ErrorCode.NONE

    def listed(**filters: object) -> set[tuple[str, str, str]]:
        groups = group.admin.call(LIST_GROUPS, 5, **filters).groups
        return {(g.protocol_type, g.group_state, g.group_type) for g in groups if g.group_id == group.group_id}

    group.commit(1)
    settled(group.broker, loaded)
    assert listed() == {("", "Empty", "classic")}
    assert listed(states_filter=["EMPTY"], types_filter=["Classic"]) == {("", "Empty", "classic")}
    assert listed(states_filter=["Stable"]) == set()
    assert listed(states_filter=["Nonsense"]) == set()
    assert listed(types_filter=["consumer"]) == set()
    assert listed(types_filter=["nonsense"]) == set()
    group.stable(group.connect())
    assert listed(states_filter=["stable"]) == {("consumer", "Stable", "classic")}


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_deadlines(start_broker: StartBroker, kind: str) -> None:
    """A silent member is removed: by its session, for a missing join, for a missing sync."""
    broker = start_broker(kind, {"group.min.session.timeout.ms": "200"})
    group = Group(broker, "deadlines", "deadlines")
    one, two = group.connect(), group.connect()
    silent, alive = group.stable(one, two, each=[{"session_ms": BRIEF_MS}, {}])
    group.wait_for_state("PreparingRebalance")
    assert group.heartbeat(alive, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(silent, group.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    group.send_join(two, alive, rebalance_ms=BRIEF_MS)
    assert two.receive().generation_id == group.generation + 1
    group.wait_for_state("Empty")  # no sync follows
    assert group.heartbeat(alive, group.generation + 1) is ErrorCode.UNKNOWN_MEMBER_ID

    slow, quick = group.stable(one, two, rebalance_ms=BRIEF_MS)
    group.send_join(two, quick, rebalance_ms=BRIEF_MS, protocols=(("range", subscription("other")),))
    answer = two.receive()
    assert (answer.generation_id, answer.leader) == (group.generation + 1, quick)
    assert group.heartbeat(slow, group.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    group.close()


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_initial_delay(start_broker: StartBroker, kind: str) -> None:
    """KIP-134: an empty group waits for more members after each join, for the rebalance timeout at most."""
    broker = start_broker(kind, {"group.initial.rebalance.delay.ms": "1000"})
    group = Group(broker, "delayed", "delayed")
    one, two, three = group.connect(), group.connect(), group.connect()
    began = time.monotonic()
    group.enter(one, rebalance_ms=2_500)
    time.sleep(0.6)
    group.enter(two, rebalance_ms=2_500)
    time.sleep(0.7)
    group.enter(three, rebalance_ms=2_500)
    answers = [member.receive() for member in (one, two, three)]
    took_s = time.monotonic() - began
    assert [each.generation_id for each in answers] == [1, 1, 1]
    assert sum(len(each.members) for each in answers) == 3
    assert 2.4 < took_s < 4.5, took_s
    group.close()
