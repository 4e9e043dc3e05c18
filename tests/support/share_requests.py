"""ShareFetch and ShareAcknowledge of several partitions and topics, and requests about start offsets.

A test compares answers as short texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
)
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
)
from protocol.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from protocol.messages.share_fetch import SHARE_FETCH
from tests.support.share_client import FETCH_LIMITS, Acknowledgement, ShareClient, acquired, batches_of

#: topic id -> partition -> acknowledgements of its records
Asked: TypeAlias = "Mapping[bytes, Mapping[int, Sequence[Acknowledgement]]]"

#: the limits of a fetch that only renews
NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def fetch_of(
    client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any
) -> dict[str, Any]:
    """Return the fields of a ShareFetch; `forgotten` partitions belong to the client's topic."""
    gone = [{"topic_id": client.topic_id, "partitions": list(forgotten)}] if forgotten else []
    own = {"topics": _topics(asked), "forgotten_topics_data": gone}
    return client.session_fields(epoch) | FETCH_LIMITS | own | fields


def fetch(client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any) -> str:
    """Send a ShareFetch: code, and by partition its code, that of acknowledgements, and the acquired records."""
    answer = client.call(SHARE_FETCH, 2, **fetch_of(client, epoch, asked, forgotten, **fields))
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)} "
        f"{_code(each.acknowledge_error_code)} {acquired(each)}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def acknowledge(client: ShareClient, epoch: int, asked: Asked) -> str:
    """Send a ShareAcknowledge: code, and that of each partition."""
    answer = client.call(SHARE_ACKNOWLEDGE, 2, client.session_fields(epoch), topics=_topics(asked))
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def _topics(asked: Asked) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic_id,
            "partitions": [
                {"partition_index": index, "acknowledgement_batches": batches_of(each)}
                for index, each in partitions.items()
            ],
        }
        for topic_id, partitions in asked.items()
    ]


def _topic(client: ShareClient, topic_id: bytes) -> str:
    return "own" if topic_id == client.topic_id else "other"


def _code(code: int) -> str:
    return ErrorCode(code).name


def alter(client: ShareClient, *topics: tuple[str, Mapping[int, int]]) -> str:
    """Set start offsets by partition in the client's group; return its code, and by topic those of partitions."""
    asked = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "start_offset": offset} for index, offset in offsets.items()],
        }
        for name, offsets in topics
    ]
    answer = client.call(ALTER_SHARE_GROUP_OFFSETS, 0, group_id=client.group, topics=asked)
    found = sorted(
        (
            topic.topic_name,
            sorted((each.partition_index, ErrorCode(each.error_code).name) for each in topic.partitions),
        )
        for topic in answer.responses
    )
    return f"{ErrorCode(answer.error_code).name} {found}"


def describe(client: ShareClient, *topics: tuple[str, Sequence[int]]) -> str:
    """Return start offsets of partitions of the client's group, by topic."""
    asked = [{"topic_name": name, "partitions": list(each)} for name, each in topics]
    group = {"group_id": client.group, "topics": asked}
    [answer] = client.call(DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[group]).groups
    found = sorted(
        (topic.topic_name, sorted((each.partition_index, each.start_offset) for each in topic.partitions))
        for topic in answer.topics
    )
    return f"{ErrorCode(answer.error_code).name} {found}"
