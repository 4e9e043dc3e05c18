"""What is asked of records and of topics that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
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
    """An id without such records is asked for nothing; such records without an id are nobody's."""
    guarded = Guarded(WRITE_OPEN, WRITE_T)
    fields = {"acks": 1, "topic_data": of_partition(transactional=transactional), "transactional_id": transactional_id}
    answer = guarded.ask(PRODUCE, 9, PRODUCE.response(), **fields)
    codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    assert (guarded.asked is not None, codes) == (passes, [] if passes else [REFUSED])


def test_a_transactional_id_comes_before_topics() -> None:
    fields = {"acks": 1, "topic_data": of_partition(transactional=True), "transactional_id": "t"}
    answer = Guarded().ask(PRODUCE, 9, None, **fields)
    assert answer.responses[0].partition_responses[0].error_code == REFUSED


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (12, 29), (13, None)])
def test_the_empty_name_is_checked_where_topics_have_names(version: int, code: int | None) -> None:
    """By id, zeros are left to the handler: there is no topic to ask about."""
    guarded = Guarded()
    data = [TopicProduceData(name="", partition_data=[PartitionProduceData(index=0, records=None)])]
    answer = guarded.ask(PRODUCE, version, PRODUCE.response(), acks=1, topic_data=data)
    codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    assert codes == ([] if code is None else [code])


def test_nobody_has_to_be_allowed_what_is_not_done() -> None:
    """Where topics are not made by asking for them, who may describe one that is not there is told that it is not."""
    guarded = Guarded(allow(ResourceType.TOPIC, "new", Operation.DESCRIBE), auto_create_topics_enable="false")
    topics = [MetadataRequestTopic(name="new")]
    guarded.ask(METADATA, 12, METADATA.response(), topics=topics, allow_auto_topic_creation=True)
    assert guarded.asked is not None
    assert [topic.name for topic in guarded.asked.topics] == ["new"]


@pytest.mark.parametrize("version", [0, 1, 12])
@pytest.mark.parametrize("operations", [(), (Operation.DESCRIBE,)])
def test_topics_are_not_made_for_who_may_not(version: int, operations: tuple[Operation, ...]) -> None:
    """Neither who may not know of a topic nor who may only describe it gets it made by asking for it."""
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
    ("acls", "told"),
    [
        ([], {"open": 29, "nobodys": 29}),
        ([Operation.DESCRIBE], {"open": 29, "nobodys": 0}),
        ([Operation.DELETE], {"open": 0, "nobodys": 0}),
    ],
)
def test_missing_topics_are_reported_only_with_describe(acls: list[Operation], told: dict[str, int]) -> None:
    """To delete one that is there takes more; 0: it came through to who deletes."""
    guarded = Guarded(*(allow(ResourceType.TOPIC, name, each) for name in ("open", "nobodys") for each in acls))

    def delete(request: Struct) -> Struct:
        return DELETE_TOPICS.response(responses=[DeletableTopicResult(name=name) for name in request.topic_names])

    answer = guarded.ask(DELETE_TOPICS, 5, delete, topic_names=["open", "nobodys"])
    assert {each.name: each.error_code for each in answer.responses} == told
