"""Rules of APIs about offsets of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.access.authorization.rule import (
    Handle,
    add_refused,
    changed,
    one,
    split,
    to_topic,
)
from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.messages.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsResponseTopic,
)
from protocol.schema import Api, Struct
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

_read_group = one(Operation.READ, ResourceType.GROUP, "group_id")
_delete_group = one(Operation.DELETE, ResourceType.GROUP, "group_id")


def alter_offsets(access: Access, request: Struct, handle: Handle) -> Reply:
    """READ on the group and each topic. A refused topic has its id in the answer, as in Kafka."""

    def refuse(topic: Struct, code: ErrorCode) -> Struct:
        return _not_altered(topic, access.topic_id(topic.topic_name), code)

    return _read_group(
        access, request, lambda allowed: _each_topic(access, allowed, handle, ALTER_SHARE_GROUP_OFFSETS, refuse)
    )


def delete_offsets(access: Access, request: Struct, handle: Handle) -> Reply:
    """DELETE on the group, and READ on each topic."""
    return _delete_group(
        access, request, lambda allowed: _each_topic(access, allowed, handle, DELETE_SHARE_GROUP_OFFSETS, _not_deleted)
    )


def _each_topic(
    access: Access, request: Struct, handle: Handle, api: Api, refuse: Callable[[Struct, ErrorCode], Struct]
) -> Reply:
    """READ on each topic. The handler is called even if none is left: the group may have an error."""
    allowed, refused = split(access, request.topics, to_topic(Operation.READ))
    answer = api.response(responses=[refuse(topic, code) for code, topics in refused.items() for topic in topics])
    return add_refused(handle(changed(request, topics=allowed)), answer)


def _not_altered(topic: Struct, topic_id: bytes, code: ErrorCode) -> Struct:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=code.text
            )
            for each in topic.partitions
        ],
    )


def _not_deleted(topic: Struct, code: ErrorCode) -> Struct:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, error_code=code, error_message=code.text)
