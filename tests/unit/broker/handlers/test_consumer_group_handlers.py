"""Handlers of consumer groups: the checks before the group is called, and the shape of the responses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup
from protocol.schema import Struct
from tests.support.group_broker import GroupBroker


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker({"group.consumer.assignment.interval.ms": 0})
    broker.controller.add("t")
    return broker


def join(broker: GroupBroker, member_id: str = "m", **fields: Any) -> Struct:
    fields = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    return broker.call(CONSUMER_GROUP_HEARTBEAT, 1, **fields)


def describe(broker: GroupBroker, group_id: str = "g", **fields: Any) -> Struct:
    (group,) = broker.call(CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group_id], **fields).groups
    return group


def test_member_joins_and_is_described(broker: GroupBroker) -> None:
    answer = join(broker)
    (topic,) = answer.assignment.topic_partitions
    assert (answer.member_epoch, topic.topic_id, topic.partitions) == (2, bytes(15) + b"\1", [0, 1])
    group = describe(broker, include_authorized_operations=True)
    (member,) = group.members
    assert (member.client_id, member.client_host, member.member_type) == ("client", "/127.0.0.1", 1)
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert group.authorized_operations > 0
    assert describe(broker).authorized_operations == -(2**31)


def test_expressions_match_topics_the_client_may_describe(broker: GroupBroker) -> None:
    """This holds too when a member of the classic protocol triggers the match."""
    broker.guard = SimpleNamespace(describer=lambda ctx, *, log_if_denied: lambda topic: "secret" not in topic)
    broker.controller.add("secret", bytes(15) + b"\2")
    join(broker, subscribed_topic_names=None, subscribed_topic_regex="[a-z].*")
    broker.advance(0)

    def read() -> list[str]:
        group = broker.groups.at("g").consumer("g")
        return sorted(group.regexes["[a-z].*"].topics)

    assert read() == ["t"]
    broker.controller.add("secret2", bytes(15) + b"\3")
    broker.controller.add("t2", bytes(15) + b"\4")
    broker.advance(10_001)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")]
    fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 1_000, "protocol_type": "consumer"}
    broker.call(JOIN_GROUP, 3, group_id="g", member_id="", protocols=protocols, **fields)
    broker.advance(0)
    assert read() == ["t", "t2"]


def test_ids_that_the_broker_generates_are_kafka_uuids(broker: GroupBroker) -> None:
    answer = broker.call(
        CONSUMER_GROUP_HEARTBEAT,
        0,
        group_id="g",
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert len(answer.member_id) == 22


def test_groups_with_an_empty_name_come_first(broker: GroupBroker) -> None:
    groups = broker.call(CONSUMER_GROUP_DESCRIBE, 0, group_ids=["g", ""]).groups
    assert [(group.group_id, group.error_code) for group in groups] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("g", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_rejections_have_messages(broker: GroupBroker) -> None:
    answer = join(broker, "")
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    missing = describe(broker)
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


@pytest.mark.parametrize(
    "settings",
    [{"group.coordinator.rebalance.protocols": ("classic",)}, {"group.version": 0}],
    ids=["config", "feature"],
)
def test_brokers_without_the_protocol_report_it(settings: dict[str, Any]) -> None:
    broker = GroupBroker(settings)
    broker.controller.features["group.version"] = settings.get("group.version", 1)
    assert join(broker).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert describe(broker).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_first_member_creates_the_offsets_topic() -> None:
    broker = GroupBroker(partitions=0)
    assert describe(broker).error_code == ErrorCode.NOT_COORDINATOR
    assert join(broker).error_code == ErrorCode.NONE
    broker.groups.stop()
    assert join(broker).error_code == ErrorCode.NOT_COORDINATOR


def test_a_failed_write_is_the_response(broker: GroupBroker) -> None:
    broker.partition_of("g").go_offline()
    assert join(broker).error_code == ErrorCode.NOT_COORDINATOR


def test_responses_wait_for_the_disk_if_configured(broker: GroupBroker) -> None:
    """flush.messages makes them wait."""
    broker.partition_of("g").must_wait = True
    reply = broker.send(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    broker.advance(0)
    assert not reply.done
    broker.flushes[-1].resolve(None)
    broker.advance(0)
    assert reply.result().member_epoch == 2


def test_group_configuration_overrides_the_brokers(broker: GroupBroker) -> None:
    broker.controller.configs[ResourceType.GROUP, "g"] = {"consumer.heartbeat.interval.ms": "7000"}
    assert join(broker).heartbeat_interval_ms == 7_000
    assert join(broker, group_id="h").heartbeat_interval_ms == 5_000


def test_offsets_are_fetched_by_members_at_their_epoch(broker: GroupBroker) -> None:
    join(broker)

    def fetch(member_id: str | None, epoch: int) -> int:
        wanted = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        (group,) = broker.call(OFFSET_FETCH, 9, groups=[wanted]).groups
        return int(group.error_code)

    assert [fetch("m", 2), fetch(None, -1)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert fetch("m", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("n", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_changed_racks_of_brokers_change_the_hash(broker: GroupBroker) -> None:
    """The group's metadata hash includes the racks."""
    view = broker.groups.cluster
    plain = view.topic("t")
    assert plain is not None
    assert plain.racks == ()
    for partition in broker.controller.topics["t"].partitions.values():
        partition.replicas = [1]
    broker.controller.brokers[1].rack = "r"  # type: ignore[attr-defined]
    racked = view.topic_by_id(plain.topic_id)
    assert racked is not None
    assert racked.racks == (("r",), ("r",))
    assert view.topic_by_id(b"?" * 16) is None


def test_changed_topics_have_versions(broker: GroupBroker) -> None:
    view = broker.groups.cluster
    before = view.topics_version, view.new_topics_version
    broker.controller.add("u")
    assert view.topics_version == view.new_topics_version == before[0] + 1 == view.version
    broker.controller.delete("u")
    assert (view.topics_version, view.new_topics_version) == (before[0] + 2, before[1] + 1)
