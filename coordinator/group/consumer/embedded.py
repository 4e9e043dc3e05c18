"""What consumers tell each other inside of the classic protocol: subscriptions and assignments, by topic names.

A consumer group that has members of the classic protocol reads the ones and writes the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.assignors.spec import Target
from coordinator.group.cluster import Cluster
from coordinator.group.consumer.member import Reported
from protocol.errors import ProtocolError
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.data.consumer_protocol import ConsumerProtocolAssignmentTopicPartition
from protocol.schema import Message, Struct

VERSION_BYTES = 2
NEWEST_VERSION = 3


def version_of(data: bytes) -> int:
    """The version in front. Raises ProtocolError for one that cannot be; from newer ones we take what we know."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        raise ProtocolError("no version of the consumer protocol")
    return min(version, NEWEST_VERSION)


def read_subscription(data: bytes) -> Struct:
    """Topics, owned partitions, rack. Raises ProtocolError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> Struct:
    """Assigned partitions, user data. Raises ProtocolError."""
    return _read(ConsumerProtocolAssignment, data)


def _read(message: Message, data: bytes) -> Struct:
    return message.decode(version_of(data), data, VERSION_BYTES)[0]


def write_assignment(version: int, partitions: Mapping[bytes, Collection[int]], cluster: Cluster) -> bytes:
    """An assignment; topics that are no more are left out."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    body = ConsumerProtocolAssignment.encode(version, ConsumerProtocolAssignment(assigned_partitions=topics))
    return version.to_bytes(VERSION_BYTES, "big") + body


def as_target(assignment: Struct, cluster: Cluster) -> Target:
    """An assignment by topic ids."""
    return {
        topic.topic_id: frozenset(given.partitions)
        for given in assignment.assigned_partitions
        if (topic := cluster.topic(given.topic)) is not None
    }


def as_reported(subscription: Struct, cluster: Cluster) -> Reported:
    """What a subscription says that the member owns, by topic ids."""
    return {
        topic.topic_id: given.partitions
        for given in subscription.owned_partitions
        if (topic := cluster.topic(given.topic)) is not None
    }
