"""DescribeTopicPartitions: pages and cursors are the same as in Apache Kafka 4.3.1."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.handlers.describe_topic_partitions import describe_topic_partitions
from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, Cursor, TopicRequest
from protocol.schema import Struct
from tests.support.controllers import ControllerHarness


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness().with_topics(*(NewTopic(f"big{number}", 3, 1) for number in (3, 1, 2)))


def ask(
    harness: ControllerHarness, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[dict[str, list[int]], tuple[str, int] | None, Struct]:
    """Return the topics with the partitions on the page, the next cursor, and the whole response."""
    answer = harness.ask(
        describe_topic_partitions,
        DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    found = {topic.name: [p.partition_index for p in topic.partitions] for topic in answer.topics}
    following = answer.next_cursor
    return found, None if following is None else (following.topic_name, following.partition_index), answer


ALL = ["big1", "big2", "big3"]
WHOLE = [0, 1, 2]


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "page", "following"),
    [
        (["big2", "big1"], 2000, None, {"big1": WHOLE, "big2": WHOLE}, None),
        (["big1", "big1"], 2000, None, {"big1": WHOLE}, None),
        (["big1", "big2"], 4, None, {"big1": WHOLE, "big2": [0]}, ("big2", 1)),
        (ALL, 4, ("big2", 1), {"big2": [1, 2], "big3": [0, 1]}, ("big3", 2)),
        (["big1", "big2"], 3, None, {"big1": WHOLE}, ("big2", 0)),
        (["big1", "big2"], 3, ("big1", 3), {"big1": [], "big2": WHOLE}, None),
        (["big1"], 0, None, {"big1": [0]}, ("big1", 1)),
        (["big1"], -5, None, {"big1": [0]}, ("big1", 1)),
        ([], 5, None, {"big1": WHOLE, "big2": [0, 1]}, ("big2", 2)),
        ([], 5, ("big15", 1), {"big2": WHOLE, "big3": [0, 1]}, ("big3", 2)),
        (["big1", "zzz"], 3, None, {"big1": WHOLE}, ("zzz", 0)),
    ],
)
def test_pages(harness: ControllerHarness, names, limit, cursor, page, following):
    """Topics are sorted by name. A page has at least one partition, and a cursor if another page follows."""
    found, next_cursor, _ = ask(harness, names, limit, cursor)

    assert (found, next_cursor) == (page, following)
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("names", "cursor"), [(["big1", "big3"], ("big2", 1)), (["big1"], ("big1", -1)), (["big1"], ("big2", 0))]
)
def test_a_cursor_that_no_page_returned(harness: ControllerHarness, names, cursor):
    """Such as one for a topic that was not requested, or before the first partition."""
    _, next_cursor, answer = ask(harness, names, 4, cursor)

    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST] * len(names)
    assert next_cursor is None


@pytest.mark.parametrize(("name", "code"), [("zzz", "UNKNOWN_TOPIC_OR_PARTITION"), ("a b", "INVALID_TOPIC_EXCEPTION")])
def test_a_missing_topic(harness: ControllerHarness, name: str, code: str):
    """The cursor may name a missing topic too. The authorized operations are reported all the same."""
    for cursor in (None, (name, 0)):
        _, _, answer = ask(harness, [name], 3, cursor)
        (topic,) = answer.topics
        assert (ErrorCode(topic.error_code).name, topic.topic_authorized_operations) == (code, 3576)


def test_hidden_topics(harness: ControllerHarness):
    """Pages and cursors leave them out. A request that names one gets an error, whether the topic exists or not."""
    hidden = ["big1", "big3", "zzz"]
    harness.broker.guard = SimpleNamespace(
        describer=lambda ctx, *, log_if_denied: lambda name: name not in hidden,
        operations=lambda ctx, kind, name: 1 << 8,
    )
    assert ask(harness, [])[:2] == ({"big2": WHOLE}, None)
    assert ask(harness, [], 3)[:2] == ({"big2": WHOLE}, None)
    assert ask(harness, [], 2, ("big1", 0))[:2] == ({"big2": [0, 1]}, ("big2", 2))
    found, following, answer = ask(harness, ["big3", "big2", "zzz"], 3)
    assert (found, following) == ({"big2": WHOLE, "big3": [], "zzz": []}, None)
    refused = (29, bytes(16), -(2**31))
    assert [(t.error_code, t.topic_id, t.topic_authorized_operations) for t in answer.topics[1:]] == [refused] * 2


def test_limit_of_the_broker():
    """max.request.partition.size.limit."""
    harness = ControllerHarness({"max.request.partition.size.limit": "2"}).with_topics(NewTopic("t", 5, 1))

    assert ask(harness, ["t"])[:2] == ({"t": [0, 1]}, ("t", 2))


def test_all_fields_of_a_partition(harness: ControllerHarness):
    """Every field of one partition."""
    _, _, answer = ask(harness, ["big1"])
    topic = answer.topics[0]
    partition = topic.partitions[1]

    assert topic.topic_id == harness.controller.image.topics_by_name["big1"].topic_id
    assert (topic.error_code, topic.is_internal, topic.topic_authorized_operations) == (0, False, 3576)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
