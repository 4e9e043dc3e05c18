"""ShareFetch and ShareAcknowledge of several partitions and topics, and requests about start offsets.

A test compares answers as short texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages import share_acknowledge, share_fetch
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tests.support.share_client import Acknowledgement, ShareClient

#: topic id -> partition -> acknowledgements of its records
Asked: TypeAlias = "Mapping[bytes, Mapping[int, Sequence[Acknowledgement]]]"

_FETCH: dict[str, Any] = {
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "max_records": 500,
    "batch_size": 500,
}
#: the limits of a fetch that only renews
NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def fetch_of(
    client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any
) -> dict[str, Any]:
    """Return the fields of a ShareFetch; `forgotten` partitions belong to the client's topic."""
    topics = [
        share_fetch.FetchTopic(
            topic_id=topic_id,
            partitions=[
                share_fetch.FetchPartition(
                    partition_index=partition,
                    acknowledgement_batches=[share_fetch.AcknowledgementBatch(**_batch(each)) for each in acknowledged],
                )
                for partition, acknowledged in partitions.items()
            ],
        )
        for topic_id, partitions in asked.items()
    ]
    gone = [share_fetch.ForgottenTopic(topic_id=client.topic_id, partitions=list(forgotten))] if forgotten else []
    own = {"group_id": client.group, "member_id": client.member, "share_session_epoch": epoch}
    return {**own, **_FETCH, "topics": topics, "forgotten_topics_data": gone, **fields}


def fetch(client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any) -> str:
    """Send a ShareFetch: code, and by partition its code, that of acknowledgements, and the acquired records."""
    answer = client.call(share_fetch.SHARE_FETCH, 2, **fetch_of(client, epoch, asked, forgotten, **fields))
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)} "
        f"{_code(each.acknowledge_error_code)} "
        f"{[(a.first_offset, a.last_offset, a.delivery_count) for a in each.acquired_records]}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def acknowledge(client: ShareClient, epoch: int, asked: Asked) -> str:
    """Send a ShareAcknowledge: code, and that of each partition."""
    topics = [
        share_acknowledge.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                share_acknowledge.AcknowledgePartition(
                    partition_index=partition,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(**_batch(each)) for each in acknowledged
                    ],
                )
                for partition, acknowledged in partitions.items()
            ],
        )
        for topic_id, partitions in asked.items()
    ]
    answer = client.call(
        share_acknowledge.SHARE_ACKNOWLEDGE,
        2,
        group_id=client.group,
        member_id=client.member,
        share_session_epoch=epoch,
        topics=topics,
    )
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def _batch(acknowledged: Acknowledgement) -> dict[str, Any]:
    first, last, types = acknowledged
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}


def _topic(client: ShareClient, topic_id: bytes) -> str:
    return "own" if topic_id == client.topic_id else "other"


def _code(code: int) -> str:
    return ErrorCode(code).name


def alter(client: ShareClient, *topics: tuple[str, Mapping[int, int]]) -> str:
    """Set start offsets by partition in the client's group; return its code, and by topic those of partitions."""
    asked = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in offsets.items()
            ],
        )
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
    asked = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(each)) for name, each in topics]
    group = DescribeShareGroupOffsetsRequestGroup(group_id=client.group, topics=asked)
    [answer] = client.call(DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[group]).groups
    found = sorted(
        (topic.topic_name, sorted((each.partition_index, each.start_offset) for each in topic.partitions))
        for topic in answer.topics
    )
    return f"{ErrorCode(answer.error_code).name} {found}"
