"""Rules: the parts that they remove from a request and add to its response. Only the handlers are stubs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.requests.dispatcher import CloseConnection
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.list_groups import LIST_GROUPS, ListedGroup
from protocol.messages.metadata import METADATA, MetadataRequestTopic, MetadataResponseTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestTopic
from protocol.messages.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.schema import Struct
from runtime.deferred import Deferred
from security.acl import Operation, ResourceType
from tests.support.guarded import Guarded, allow

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produced(request: Struct) -> Struct:
    return PRODUCE.response(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[PartitionProduceResponse(index=0, base_offset=5)],
            )
            for topic in request.topic_data
        ]
    )


def topic_data(*names: str) -> list[Struct]:
    data = [PartitionProduceData(index=0, records=b"")]
    return [TopicProduceData(name=name, partition_data=data) for name in names]


@pytest.mark.parametrize("later", [False, True])
def test_rejected_items_come_after_the_allowed_ones(later: bool) -> None:
    """The order is the same if the handler answers later."""

    def reply(request: Struct) -> Any:
        return Deferred.resolved(produced(request)) if later else produced(request)

    guarded = Guarded(allow(TOPIC, "open", Operation.WRITE))
    answer = guarded.ask(PRODUCE, 9, reply, acks=1, topic_data=topic_data("secret", "open"))
    answer = answer.result() if later else answer
    assert guarded.asked is not None
    assert [topic.name for topic in guarded.asked.topic_data] == ["open"]
    found = [(topic.name, topic.partition_responses[0].error_code) for topic in answer.responses]
    assert found == [("open", 0), ("secret", FAILED)]


def test_a_request_with_nothing_left_calls_no_handler() -> None:
    guarded = Guarded()
    answer = guarded.ask(PRODUCE, 9, produced, acks=-1, topic_data=topic_data("secret"))
    assert guarded.asked is None
    assert [topic.partition_responses[0].error_code for topic in answer.responses] == [FAILED]


def test_a_rejection_without_a_response_closes() -> None:
    """acks=0: the allowed records are still appended."""
    guarded = Guarded(allow(TOPIC, "open", Operation.WRITE))
    assert guarded.ask(PRODUCE, 9, None, acks=0, topic_data=topic_data("open")) is None
    with pytest.raises(CloseConnection):
        guarded.ask(PRODUCE, 9, None, acks=0, topic_data=topic_data("secret", "open"))
    assert guarded.asked is not None
    assert [topic.name for topic in guarded.asked.topic_data] == ["open"]


def test_metadata_by_id_reveals_no_name() -> None:
    guarded = Guarded()
    topic_id = guarded.harness.controller.image.topics_by_name["secret"].topic_id
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id)]
    answer = guarded.ask(METADATA, 12, METADATA.response(), topics=topics, allow_auto_topic_creation=True)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [(None, topic_id, FAILED)]


def test_the_id_counts_if_a_name_is_given_too() -> None:
    """Handlers use the id. Before v12 they reject any id."""
    guarded = Guarded(allow(TOPIC, "open", Operation.DESCRIBE))
    topic_id = guarded.harness.controller.image.topics_by_name["secret"].topic_id
    topics = [MetadataRequestTopic(name="open", topic_id=topic_id)]
    answer = guarded.ask(METADATA, 12, METADATA.response(), topics=topics)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [(None, topic_id, FAILED)]
    assert guarded.ask(METADATA, 12, METADATA.response(), topics=[*topics, MetadataRequestTopic(name="open")]).topics
    assert guarded.asked is not None
    assert [topic.topic_id for topic in guarded.asked.topics] == [bytes(16)]
    assert guarded.ask(METADATA, 10, METADATA.response(error_code=42), topics=topics).topics == []


def test_metadata_without_topics_is_not_all_topics() -> None:
    """In v0 an empty list means all topics. If a rule rejects every topic, the handler must not see an empty list."""
    guarded = Guarded()
    everything = METADATA.response(topics=[MetadataResponseTopic(name="secret"), MetadataResponseTopic(name="open")])
    answer = guarded.ask(METADATA, 0, everything, topics=[MetadataRequestTopic(name="secret")])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("secret", FAILED)]
    assert guarded.ask(METADATA, 0, everything, topics=[]).topics == []


def test_describe_without_create() -> None:
    """A missing topic is not created, and the response says so. An existing topic is returned."""
    guarded = Guarded(allow(TOPIC, "new", Operation.DESCRIBE), allow(TOPIC, "open", Operation.DESCRIBE))
    topics = [MetadataRequestTopic(name=name) for name in ("new", "open")]
    for creates, asked in ((True, ["open"]), (False, ["new", "open"])):
        guarded.ask(METADATA, 12, METADATA.response(), topics=topics, allow_auto_topic_creation=creates)
        assert guarded.asked is not None
        assert [topic.name for topic in guarded.asked.topics] == asked


def test_the_configuration_of_a_new_topic() -> None:
    """Only clients with DescribeConfigs get it."""
    topic = CreatableTopic(name="new", num_partitions=3, replication_factor=1)
    create = allow(TOPIC, "new", Operation.CREATE)
    for acls, partitions, code in (
        ([create], -1, FAILED),
        ([create, allow(TOPIC, "new", Operation.ALTER_CONFIGS)], 3, 0),
    ):
        created = CreatableTopicResult(
            name="new", num_partitions=3, replication_factor=1, configs=[CreatableTopicConfigs(name="a", value="b")]
        )
        (answered,) = (
            Guarded(*acls).ask(CREATE_TOPICS, 7, CREATE_TOPICS.response(topics=[created]), topics=[topic]).topics
        )
        assert (answered.num_partitions, answered.topic_config_error_code, len(answered.configs)) == (
            partitions,
            code,
            code == 0,
        )


def test_delete_by_id_reveals_the_name_only_with_describe() -> None:
    for acls, name in (((), None), ((allow(TOPIC, "secret", Operation.DESCRIBE),), "secret")):
        guarded = Guarded(*acls)
        topic_id = guarded.harness.controller.image.topics_by_name["secret"].topic_id
        topics = [DeleteTopicState(name=None, topic_id=topic_id)]
        answer = guarded.ask(DELETE_TOPICS, 6, None, topics=topics)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [(name, topic_id, FAILED)]


def test_auto_creation_needs_create() -> None:
    """CREATE on the cluster, or on each topic."""
    for acls, refused in (
        ((), ["a", "b"]),
        ((allow(TOPIC, "a", Operation.CREATE), allow(TOPIC, "b", Operation.DESCRIBE)), ["b"]),
        ((allow(CLUSTER, "kafka-cluster", Operation.CREATE),), []),
    ):
        guarded = Guarded(*acls)
        found: list[str] = []

        def reply(ctx: Any, request: Struct, guarded: Guarded = guarded, found: list[str] = found) -> None:
            ctx.connection.principal = "User:alice"
            found += guarded.guard.uncreatable(ctx, ["a", "b"])

        guarded.harness.start(reply, METADATA, 12)
        assert found == refused


def test_rejections_have_messages_where_kafka_sets_them() -> None:
    """The same messages as Kafka: tools show them to users."""
    guarded, words = Guarded(), "Topic authorization failed."
    (created,) = guarded.ask(CREATE_TOPICS, 7, None, topics=[CreatableTopic(name="new")]).topics
    assert (created.error_code, created.error_message) == (FAILED, "Authorization failed.")
    (deleted,) = guarded.ask(DELETE_TOPICS, 6, None, topics=[DeleteTopicState(name="secret")]).responses
    assert (deleted.error_code, deleted.error_message) == (FAILED, words)
    resources = [DescribeConfigsResource(resource_type=2, resource_name="secret")]
    (described,) = guarded.ask(DESCRIBE_CONFIGS, 4, None, resources=resources).results
    assert (described.error_code, described.error_message) == (FAILED, words)


def test_rejections_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each on one line, and limited for each principal: no principal hides the rejections of another."""
    guarded = Guarded()
    topics = topic_data("one\ntwo", *(f"t{number}" for number in range(100)))
    caplog.clear()
    guarded.ask(PRODUCE, 9, produced, acks=1, topic_data=topics)
    assert len(caplog.messages) == 10
    assert caplog.messages[0].startswith("Principal = User:alice is Denied operation = WRITE from host = 192.0.2.1")
    assert r"on resource = Topic:LITERAL:one\ntwo for request = Produce" in caplog.messages[0]
    guarded.guard.denials("User:bob").warning("bob's")
    assert caplog.messages[-1] == "bob's"


def test_lists_leave_out_hidden_items() -> None:
    groups = [ListedGroup(group_id=name) for name in ("mine", "theirs")]
    for acl, answered in (
        (allow(GROUP, "mine", Operation.READ), ["mine"]),
        (allow(CLUSTER, "kafka-cluster", Operation.DESCRIBE), ["mine", "theirs"]),
    ):
        answer = Guarded(acl).ask(LIST_GROUPS, 4, LIST_GROUPS.response(groups=groups))
        assert [group.group_id for group in answer.groups] == answered


def test_offsets_of_hidden_topics() -> None:
    """Topics that the request names are rejected one by one."""
    guarded = Guarded(allow(GROUP, "g", Operation.READ), allow(TOPIC, "open", Operation.READ))
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("secret", "open")]
    answer = guarded.ask(OFFSET_FETCH, 7, OFFSET_FETCH.response(), group_id="g", topics=topics)
    assert guarded.asked is not None
    assert [topic.name for topic in guarded.asked.topics] == ["open"]
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [("secret", FAILED)]
