"""Decisions about deleting topics. Codes and messages are Apache Kafka 4.3.1's."""

from __future__ import annotations

import pytest

from metadata.create_topics import NewTopic
from metadata.delete_topics import DeletedTopic, TopicReference, delete_topics
from metadata.image import MetadataImage
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from tests.support.images import cluster, with_topics

NO_ID = bytes(16)
OTHER_ID = b"1" * 16


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(), NewTopic("orders", configs={"retention.ms": "1"}), NewTopic("audit"))


@pytest.mark.parametrize("by_id", [False, True])
def test_topic_is_deleted_by_name_or_by_id(image: MetadataImage, by_id: bool):
    """The result has both."""
    topic_id = image.topics_by_name["orders"].topic_id
    decision = delete_topics(image, [TopicReference(None, topic_id) if by_id else TopicReference("orders")])
    replay_all(image, decision.records)

    assert decision.results == [DeletedTopic("orders", topic_id)]
    assert list(image.topics_by_name) == ["audit"]
    assert image.topic_config("orders") == {}


@pytest.mark.parametrize(
    ("references", "code", "message"),
    [
        ([TopicReference(None)], "INVALID_REQUEST", "Neither topic name nor id were specified."),
        (
            [TopicReference("orders", OTHER_ID)],
            "INVALID_REQUEST",
            "You may not specify both topic name and topic id.",
        ),
        ([TopicReference("orders")] * 2, "INVALID_REQUEST", "Duplicate topic name."),
        ([TopicReference(None, OTHER_ID)] * 2, "INVALID_REQUEST", "Duplicate topic id."),
        ([TopicReference(None, OTHER_ID)], "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        (
            [TopicReference("nope")],
            "UNKNOWN_TOPIC_OR_PARTITION",
            "This server does not host this topic-partition.",
        ),
    ],
)
def test_rejected_deletion(image: MetadataImage, references: list[TopicReference], code: str, message: str):
    """Each kind of error, once; nothing is written."""
    decision = delete_topics(image, references)

    assert [(r.error_code.name, r.error_message) for r in decision.results] == [(code, message)]
    assert decision.records == []


def test_name_and_id_of_the_same_topic(image: MetadataImage):
    """It is unclear which of the two is meant."""
    topic_id = image.topics_by_name["orders"].topic_id
    decision = delete_topics(image, [TopicReference("orders"), TopicReference(None, topic_id)])

    assert decision.results == [
        DeletedTopic(
            "orders",
            topic_id,
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )
    ]
    assert decision.records == []
