"""The start offsets of a share group (KIP-932): the group has read what is before them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from kafka.protocol.admin import ListGroupsRequest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.messages import AlterShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Place


def check_is_empty(client: Administration, group: str) -> None:
    """Raise UsageError, as Kafka's tool does before it computes offsets, if the share group has members."""
    answer = client.send(ListGroupsRequest(states_filter=[], types_filter=["share"]), client.group_coordinator(group))
    client.check(answer)
    if any(each.group_id == group and each.group_state not in ("Empty", "Dead") for each in answer.groups):
        raise UsageError(f"Share group '{group}' is not empty.")


def start_offsets(client: Administration, group: str) -> dict[Place, int]:
    """Return the start offsets of all partitions that have one. Raises CommandError."""
    wanted = DescribeShareGroupOffsetsRequest.Group(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    (described,) = client.send(request, client.group_coordinator(group)).groups
    client.check(described, group)
    return {
        (topic.topic_name, each.partition_index): each.start_offset
        for topic in described.topics
        for each in topic.partitions
        if not each.error_code and each.start_offset >= 0
    }


def set_start_offsets(client: Administration, group: str, targets: Mapping[Place, int]) -> None:
    """Set start offsets; a group that does not exist is created. Raises CommandError."""
    new_topic = AlterShareGroupOffsetsRequest.Topic
    topics = [
        new_topic(
            topic_name=topic,
            partitions=[new_topic.Partition(partition_index=each[1], start_offset=targets[each]) for each in places],
        )
        for topic, places in groupby(sorted(targets), key=lambda place: place[0])
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
    answer = client.send(request, client.group_coordinator(group))
    client.check(answer, group)
    for topic in answer.responses:
        for each in topic.partitions:
            client.check(each, f"{group}: {topic.topic_name}-{each.partition_index}")
