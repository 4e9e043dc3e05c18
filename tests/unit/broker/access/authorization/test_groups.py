"""Authorization of groups, and of the topics in their responses."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
from protocol.messages.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from tests.support.guarded import Guarded, allow

DESCRIBE_G, DELETE_G = (allow(ResourceType.GROUP, "g", each) for each in (Operation.DESCRIBE, Operation.DELETE))
READ_OPEN = allow(ResourceType.TOPIC, "open", Operation.READ)
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def consumer_group(*topics: str) -> Struct:
    module = consumer_group_describe
    target = module.Assignment(topic_partitions=[module.TopicPartitions(topic_name=name) for name in topics])
    return module.DescribedGroup(group_id="g", members=[module.Member(target_assignment=target)])


def share_group(*topics: str) -> Struct:
    module = share_group_describe
    assignment = module.Assignment(topic_partitions=[module.TopicPartitions(topic_name=name) for name in topics])
    return module.DescribedGroup(group_id="g", members=[module.Member(assignment=assignment)])


def streams_group(*topics: str) -> Struct:
    module = streams_group_describe
    parts = [module.Subtopology(state_changelog_topics=[module.TopicInfo(name=name) for name in topics])]
    return module.DescribedGroup(group_id="g", topology=module.Topology(subtopologies=parts))


@pytest.mark.parametrize(
    ("api", "group", "words"),
    [
        (consumer_group_describe.CONSUMER_GROUP_DESCRIBE, consumer_group, "The group has described topic(s) that"),
        (share_group_describe.SHARE_GROUP_DESCRIBE, share_group, "The group has described topic(s) that"),
        (streams_group_describe.STREAMS_GROUP_DESCRIBE, streams_group, "The described group uses topics that"),
    ],
)
def test_a_group_with_a_hidden_topic_is_hidden(api: Any, group: Any, words: str) -> None:
    """The whole group is hidden, because its members name the topics."""
    version = api.current.max
    guarded = Guarded(DESCRIBE_G, READ_OPEN)

    def described(*topics: str) -> Any:
        (answered,) = guarded.ask(api, version, api.response(groups=[group(*topics)]), group_ids=["g"]).groups
        return answered

    assert described("open") == group("open")
    hidden = described("open", "secret")
    assert (hidden.group_id, hidden.error_code, hidden.members) == ("g", FAILED, [])
    assert hidden.error_message == f"{words} the client is not authorized to describe."


def test_a_streams_group_without_topology_hides_nothing() -> None:
    module = streams_group_describe
    group = module.DescribedGroup(group_id="g")
    reply = module.STREAMS_GROUP_DESCRIBE.response(groups=[group])
    assert Guarded(DESCRIBE_G).ask(module.STREAMS_GROUP_DESCRIBE, 0, reply, group_ids=["g"]).groups == [group]


@pytest.mark.parametrize(("version", "protocol", "asked"), [(5, None, True), (5, "range", False), (4, None, False)])
def test_a_missing_protocol_is_reported_first(version: int, protocol: str | None, asked: bool) -> None:
    """The handler reports it, from v5 on, where the protocol is required."""
    guarded = Guarded()
    named = {"protocol_type": protocol, "protocol_name": protocol} if version == 5 else {}
    guarded.ask(SYNC_GROUP, version, SYNC_GROUP.response(), group_id="g", **named)
    assert (guarded.asked is not None) == asked


def deleted(topic: Struct, code: int = 0) -> Struct:
    partitions = [OffsetDeleteResponsePartition(partition_index=0, error_code=code)]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


@pytest.mark.parametrize("names", [("open", "secret"), ("secret",)])
def test_offsets_of_each_topic_are_deleted_or_rejected(names: tuple[str, ...]) -> None:
    """If the group has an error, only that is returned, even if no topic is left."""
    guarded = Guarded(DELETE_G, READ_OPEN)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names]

    def reply(request: Struct) -> Struct:
        return OFFSET_DELETE.response(topics=[deleted(topic) for topic in request.topics])

    answer = guarded.ask(OFFSET_DELETE, 0, reply, group_id="g", topics=topics)
    assert answer.error_code == 0
    assert answer.topics == [deleted(topic, FAILED if topic.name == "secret" else 0) for topic in topics]
    failed = OFFSET_DELETE.response(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    assert guarded.ask(OFFSET_DELETE, 0, failed, group_id="g", topics=topics) == failed
