"""AlterShareGroupOffsets and DescribeShareGroupOffsets by hand; a test compares answers as short texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.error_codes import ErrorCode
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
from tests.support.share_client import ShareClient


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
