"""Share groups (KIP-932): their state, members and start offsets. A group has read what is before its start offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import ListGroupsRequest

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Place


def check_is_empty(client: Administration, group: str) -> None:
    """Raise UsageError, as Kafka's tool does before it computes offsets, if the share group has members."""
    answer = client.send(ListGroupsRequest(states_filter=[], types_filter=["share"]), client.group_coordinator(group))
    client.check(answer)
    if any(each.group_id == group and each.group_state not in ("Empty", "Dead") for each in answer.groups):
        raise UsageError(f"Share group '{group}' is not empty.")


def describe(client: Administration, group: str) -> Any:
    """Return state and members of a share group. Raises CommandError."""
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (described,) = client.send(request, client.group_coordinator(group)).groups
    client.check(described, group)
    return described


def member_rows(described: Any) -> list[dict[str, object]]:
    """Return a row for each member, with its partitions."""
    return [
        {
            "member": each.member_id,
            "client": each.client_id,
            "host": each.client_host,
            "epoch": each.member_epoch,
            "partitions": sorted(
                f"{topic.topic_name}-{partition}"
                for topic in each.assignment.topic_partitions
                for partition in topic.partitions
            ),
        }
        for each in described.members
    ]


def offset_rows(client: Administration, group: str) -> list[dict[str, object]]:
    """Return a row for each partition of the group. Raises CommandError."""
    rows: list[dict[str, object]] = [
        {
            "topic": topic,
            "partition": each.partition_index,
            "start_offset": each.start_offset if each.start_offset >= 0 else None,
            "leader_epoch": each.leader_epoch if each.start_offset >= 0 else None,
            "lag": each.lag if each.lag >= 0 else None,
        }
        for topic, each in _partitions(client, group)
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))


def start_offsets(client: Administration, group: str) -> dict[Place, int]:
    """Return the start offsets of all partitions that have one. Raises CommandError."""
    return {
        (topic, each.partition_index): each.start_offset
        for topic, each in _partitions(client, group)
        if each.start_offset >= 0
    }


def _partitions(client: Administration, group: str) -> list[tuple[str, Any]]:
    """Return the group's partitions, with their topics. Raises CommandError."""
    wanted = DescribeShareGroupOffsetsRequest.Group(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    (described,) = client.send(request, client.group_coordinator(group)).groups
    client.check(described, group)
    return [(topic.topic_name, each) for topic in described.topics for each in topic.partitions if not each.error_code]


def delete_start_offsets(client: Administration, group: str, topics: Iterable[str]) -> list[str]:
    """Delete the start offsets in these topics; return the topics. Raises CommandError after all have been tried."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequest.Topic(topic_name=topic) for topic in topics]
    )
    answer = client.send(request, client.group_coordinator(group))
    client.check(answer, group)
    deleted, problems = [], []
    for each in answer.responses:
        try:
            client.check(each, f"{group}: {each.topic_name}")
            deleted.append(each.topic_name)
        except CommandError as error:
            problems.append(str(error))
    if problems:
        raise CommandError("; ".join(problems))
    return deleted


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
