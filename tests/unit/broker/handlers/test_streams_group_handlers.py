"""Handlers of streams groups: checks before the group is called, the topics that they create, their responses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from metadata.create_topics import NewTopic, NewTopicResult
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.errors import LogOffline
from tests.support.group_broker import GroupBroker
from tests.support.streams_groups import WORD_COUNT, internal, request, subtopology, task_map, topology

PLAIN = topology(subtopology("0", ["t"]))
LOGGED = topology(subtopology("0", ["t"], changelogs=[internal("log", cleanup_policy="compact")]))


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker()
    broker.controller.add("t")
    return broker


def beat(broker: GroupBroker, member_id: str, epoch: int, **fields: Any) -> Struct:
    return broker.call(STREAMS_GROUP_HEARTBEAT, 0, **request(member_id, epoch, **fields))


def describe(broker: GroupBroker, group_id: str = "g", **fields: Any) -> Struct:
    fields = {"include_authorized_operations": False, **fields}
    (group,) = broker.call(STREAMS_GROUP_DESCRIBE, 0, group_ids=[group_id], **fields).groups
    return group


class Topics:
    """Records the requests to the controller. The test decides when each is answered."""

    def __init__(self, broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wanted: list[NewTopic] = []
        self.made: Deferred[list[NewTopicResult]] = Deferred()
        monkeypatch.setattr(broker.controller, "create_topics", self.create, raising=False)

    def create(self, topics: list[NewTopic]) -> Deferred[list[NewTopicResult]]:
        self.wanted += topics
        self.made = Deferred()
        return self.made


def test_member_joins_and_is_described(broker: GroupBroker) -> None:
    answer = beat(broker, "m", 0, told=PLAIN)
    assert (answer.member_epoch, task_map(answer.active_tasks)) == (2, {"0": [0, 1]})
    group = describe(broker, include_authorized_operations=True)
    assert (group.group_state, group.members[0].client_host) == ("Stable", "/127.0.0.1")
    assert group.authorized_operations > 0
    assert describe(broker).authorized_operations == -(2**31)


def test_groups_with_an_empty_name_are_described_first(broker: GroupBroker) -> None:
    answer = broker.call(STREAMS_GROUP_DESCRIBE, 0, group_ids=["x", ""], include_authorized_operations=False)
    codes = [(each.group_id, each.error_code) for each in answer.groups]
    assert codes == [("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)]


@pytest.mark.parametrize("why", ["protocols", "feature"])
def test_unsupported_groups(why: str) -> None:
    served = ("classic",) if why == "protocols" else ("classic", "streams")
    broker = GroupBroker({"group.coordinator.rebalance.protocols": served})
    if why == "feature":
        broker.controller.features = {"group.version": 1}
    assert beat(broker, "m", 0, told=PLAIN).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert describe(broker).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (
            topology(subtopology("0", ["__consumer_offsets", "t"], sinks=["__transaction_state"])),
            "Use of Kafka internal topics __consumer_offsets,__transaction_state in a Kafka Streams topology is"
            " prohibited.",
        ),
        (
            topology(subtopology("0", ["a b"], repartition=[internal("c/d")], changelogs=[internal("")])),
            "Topic names a b,c/d, are not valid topic names.",
        ),
    ],
)
def test_topic_names_are_checked_first(broker: GroupBroker, expected: Struct, message: str) -> None:
    answer = beat(broker, "", 0, told=expected)
    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def test_rejections_have_messages(broker: GroupBroker) -> None:
    answer = beat(broker, "m", 7)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Streams group g not found.",
    )


def test_missing_topics_are_created_once(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(broker, monkeypatch)
    answer = beat(broker, "m", 0, told=WORD_COUNT)
    assert answer.status[0].status_code == 3
    wanted = {topic.name: topic for topic in topics.wanted}
    assert wanted.keys() == {"app-rep", "app-log"}
    assert (wanted["app-log"].num_partitions, wanted["app-log"].replication_factor) == (2, -1)
    assert wanted["app-log"].configs == {"cleanup.policy": "compact"}
    beat(broker, "m", 2, active={})
    assert len(topics.wanted) == 2
    for name in wanted:
        broker.controller.add(name)
    topics.made.resolve([NewTopicResult(name) for name in wanted])
    assert task_map(beat(broker, "m", 2, active={}).active_tasks) == {"0": [0, 1], "1": [0, 1]}


def test_a_failure_is_reported_for_two_heartbeats(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The creation is not retried before that."""
    topics = Topics(broker, monkeypatch)
    beat(broker, "m", 0, told=LOGGED)
    topics.made.resolve([NewTopicResult("log", ErrorCode.INVALID_CONFIG, "no such policy")])
    expected = "Internal topics are missing: log; Creation failed: log (no such policy)."
    assert [status.status_detail for status in beat(broker, "m", 2, active={}).status] == [expected]
    assert len(topics.wanted) == 1
    broker.advance(10_001)
    assert beat(broker, "m", 2, active={}).status[0].status_detail == "Internal topics are missing: log"
    assert len(topics.wanted) == 2
    topics.made.resolve([NewTopicResult("log", ErrorCode.INVALID_REPLICATION_FACTOR)])
    assert ErrorCode.INVALID_REPLICATION_FACTOR.text in beat(broker, "m", 2, active={}).status[0].status_detail
    broker.advance(10_001)
    beat(broker, "m", 2, active={})
    topics.made.fail(LogOffline("/data", "disk on fire"))
    assert "disk on fire" in beat(broker, "m", 2, active={}).status[0].status_detail


def test_three_failures_are_reported(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(broker, monkeypatch)
    names = [f"log{number}" for number in range(5)]
    beat(broker, "m", 0, told=topology(subtopology("0", ["t"], changelogs=[internal(name) for name in names])))
    topics.made.resolve([NewTopicResult(name, ErrorCode.INVALID_CONFIG, "no") for name in names])
    detail = beat(broker, "m", 2, active={}).status[0].status_detail
    assert detail.count(" (no)") == 3
    assert detail.endswith(" and 2 more.")


def test_not_all_failures_are_remembered(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordinators.group.streams_topics.REMEMBERED", 2)
    topics = Topics(broker, monkeypatch)
    names = [f"log{number}" for number in range(5)]
    beat(broker, "m", 0, told=topology(subtopology("0", ["t"], changelogs=[internal(name) for name in names])))
    topics.made.resolve([NewTopicResult(name, ErrorCode.INVALID_CONFIG, "no") for name in names])
    assert beat(broker, "m", 2, active={}).status[0].status_detail.count(" (no)") == 2


def test_a_group_has_its_own_configuration(broker: GroupBroker) -> None:
    broker.controller.configs[ResourceType.GROUP, "g"] = {"streams.heartbeat.interval.ms": "7000"}
    assert beat(broker, "m", 0, told=PLAIN).heartbeat_interval_ms == 7_000
    assert beat(broker, "m", 0, told=PLAIN, group_id="h").heartbeat_interval_ms == 5_000


def test_offsets_are_fetched_at_the_member_epoch(broker: GroupBroker) -> None:
    beat(broker, "m", 0, told=PLAIN)
    wanted = [
        OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        for member_id, epoch in (("m", 2), ("m", 1), ("x", 2))
    ]
    codes = [each.error_code for each in broker.call(OFFSET_FETCH, 9, groups=wanted).groups]
    assert codes == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_failed_write_is_the_response(broker: GroupBroker) -> None:
    for partition in broker.hosted.values():
        partition.go_offline()
    answer = beat(broker, "m", 0, told=PLAIN)
    assert answer.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_without_the_offsets_topic_no_coordinator() -> None:
    broker = GroupBroker(partitions=0)
    broker.controller.refuses = True
    assert describe(broker).error_code == ErrorCode.NOT_COORDINATOR


def test_topics_that_the_client_may_not_create(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """No topic is created, and the response names the topics that the client lacks permission for."""
    refused = ["log1", "log2"]
    broker.guard = SimpleNamespace(uncreatable=lambda ctx, names: [name for name in names if name in refused])
    topics = Topics(broker, monkeypatch)
    logs = [internal(f"log{number}") for number in range(3)]
    (status,) = beat(broker, "m", 0, told=topology(subtopology("0", ["t"], changelogs=logs))).status
    assert status.status_detail.endswith("; Unauthorized to CREATE on topics log1, log2.")
    assert topics.wanted == []
    refused.clear()
    (status,) = beat(broker, "m", 2, active={}).status
    assert "Unauthorized" not in status.status_detail
    assert [topic.name for topic in topics.wanted] == ["log0", "log1", "log2"]
