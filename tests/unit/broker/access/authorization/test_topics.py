"""Authorization of records, and of topics that do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DELETE_TOPICS, DeletableTopicResult
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from tests.support.guarded import Guarded, allow

WRITE_OPEN = allow(ResourceType.TOPIC, "open", Operation.WRITE)
WRITE_T = allow(ResourceType.TRANSACTIONAL_ID, "t", Operation.WRITE)
REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def of_partition(*, transactional: bool) -> list[Any]:
    builder = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=0, transactional=transactional)
    builder.append(1, b"k", b"v")
    return [TopicProduceData(name="open", partition_data=[PartitionProduceData(index=0, records=builder.build())])]


@pytest.mark.parametrize(
    ("transactional_id", "transactional", "passes"),
    [("t", True, True), ("other", True, False), (None, True, False), ("other", False, True)],
)
def test_records_of_a_transaction_need_its_id(transactional_id: str | None, transactional: bool, passes: bool) -> None:
    """An id without transactional records needs no permission. Transactional records without an id are rejected."""
    guarded = Guarded(WRITE_OPEN, WRITE_T)
    fields = {"acks": 1, "topic_data": of_partition(transactional=transactional), "transactional_id": transactional_id}
    answer = guarded.ask(PRODUCE, 9, PRODUCE.response(), **fields)
    codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    assert (guarded.asked is not None, codes) == (passes, [] if passes else [REFUSED])


def test_the_transactional_id_is_checked_before_topics() -> None:
    fields = {"acks": 1, "topic_data": of_partition(transactional=True), "transactional_id": "t"}
    answer = Guarded().ask(PRODUCE, 9, None, **fields)
    assert answer.responses[0].partition_responses[0].error_code == REFUSED


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (12, 29), (13, None)])
def test_the_empty_name_is_checked_where_topics_have_names(version: int, code: int | None) -> None:
    """With topic ids, the handler rejects the zero id: there is no topic to authorize."""
    guarded = Guarded()
    data = [TopicProduceData(name="", partition_data=[PartitionProduceData(index=0, records=None)])]
    answer = guarded.ask(PRODUCE, version, PRODUCE.response(), acks=1, topic_data=data)
    codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    assert codes == ([] if code is None else [code])


def test_create_is_not_needed_if_topics_are_not_created() -> None:
    """Without auto-creation, a client with DESCRIBE gets the error that the topic is missing."""
    guarded = Guarded(allow(ResourceType.TOPIC, "new", Operation.DESCRIBE), auto_create_topics_enable="false")
    topics = [MetadataRequestTopic(name="new")]
    guarded.ask(METADATA, 12, METADATA.response(), topics=topics, allow_auto_topic_creation=True)
    assert guarded.asked is not None
    assert [topic.name for topic in guarded.asked.topics] == ["new"]


@pytest.mark.parametrize("version", [0, 1, 12])
@pytest.mark.parametrize("operations", [(), (Operation.DESCRIBE,)])
def test_topics_are_not_created_without_permission(version: int, operations: tuple[Operation, ...]) -> None:
    """A request creates no topic for a client without DESCRIBE, nor for one that has only DESCRIBE."""
    guarded = Guarded(*(allow(ResourceType.TOPIC, "new", each) for each in operations))
    fields = {"allow_auto_topic_creation": True} if version >= 4 else {}
    topics = [MetadataRequestTopic(name="new")]
    answer = guarded.ask(METADATA, version, METADATA.response(), topics=topics, **fields)
    assert guarded.asked is not None
    assert guarded.asked.topics == []
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("new", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ]


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], {"open": 29, "nobodys": 29}),
        ([Operation.DESCRIBE], {"open": 29, "nobodys": 0}),
        ([Operation.DELETE], {"open": 0, "nobodys": 0}),
    ],
)
def test_missing_topics_are_reported_only_with_describe(acls: list[Operation], expected: dict[str, int]) -> None:
    """Deletion of an existing topic needs more than that; 0 means that the request reached the handler."""
    guarded = Guarded(*(allow(ResourceType.TOPIC, name, each) for name in ("open", "nobodys") for each in acls))

    def delete(request: Struct) -> Struct:
        return DELETE_TOPICS.response(responses=[DeletableTopicResult(name=name) for name in request.topic_names])

    answer = guarded.ask(DELETE_TOPICS, 5, delete, topic_names=["open", "nobodys"])
    assert {each.name: each.error_code for each in answer.responses} == expected
