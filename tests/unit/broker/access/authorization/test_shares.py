"""Authorization of the offsets of share groups."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.messages.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponseTopic,
)
from protocol.schema import Api, Struct
from security.acl import Operation, ResourceType
from tests.support.guarded import Guarded, allow

READ_G, DELETE_G = (allow(ResourceType.GROUP, "g", each) for each in (Operation.READ, Operation.DELETE))
READ_OPEN = allow(ResourceType.TOPIC, "open", Operation.READ)
REFUSED = {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "error_message": "Topic authorization failed."}


def to_alter(name: str) -> Struct:
    partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=2, start_offset=5)]
    return AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)


def altered(guarded: Guarded, name: str, **error: Any) -> Struct:
    partitions = [AlterShareGroupOffsetsResponsePartition(partition_index=2, **error)]
    topic = guarded.harness.controller.image.topic(name)
    assert topic is not None
    return AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.topic_id, partitions=partitions)


def to_delete(name: str) -> Struct:
    return DeleteShareGroupOffsetsRequestTopic(topic_name=name)


def deleted(_: Guarded, name: str, **error: Any) -> Struct:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, **error)


@pytest.mark.parametrize(
    ("api", "ask", "expected_answer"),
    [(ALTER_SHARE_GROUP_OFFSETS, to_alter, altered), (DELETE_SHARE_GROUP_OFFSETS, to_delete, deleted)],
)
def test_each_topic_is_served_or_rejected(api: Api, ask: Any, expected_answer: Any) -> None:
    """If the group has an error, only that is returned, even if no topic may be read."""
    guarded = Guarded(READ_G, DELETE_G, READ_OPEN)

    def answer(reply: Any, *names: str) -> Struct:
        guarded.asked = None
        answered: Struct = guarded.ask(api, 0, reply, group_id="g", topics=[ask(name) for name in names])
        return answered

    def serve(request: Struct) -> Struct:
        return api.response(responses=[expected_answer(guarded, topic.topic_name) for topic in request.topics])

    both = answer(serve, "secret", "open")
    assert (both.error_code, both.responses) == (
        0,
        [expected_answer(guarded, "open"), expected_answer(guarded, "secret", **REFUSED)],
    )
    failed = api.response(error_code=ErrorCode.NON_EMPTY_GROUP)
    assert answer(failed, "secret", "open") == failed
    assert answer(failed, "secret") == failed
    assert answer(serve, "secret").responses == [expected_answer(guarded, "secret", **REFUSED)]


@pytest.mark.parametrize("api", [ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS], ids=lambda api: api.name)
def test_the_group_is_checked_first(api: Api) -> None:
    answered = Guarded(READ_OPEN).ask(api, 0, None, group_id="g", topics=[])
    assert answered.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
