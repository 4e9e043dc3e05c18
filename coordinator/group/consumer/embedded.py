"""Subscriptions and assignments inside the classic protocol, by topic names.

A consumer group with members of the classic protocol reads their subscriptions and writes their assignments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.assignors.spec import Target
from coordinator.group.cluster import Cluster
from coordinator.group.consumer.member import Reported
from protocol.error_codes import ProtocolError
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.data.consumer_protocol import ConsumerProtocolAssignmentTopicPartition
from protocol.schema import Message, Struct

VERSION_BYTES = 2
NEWEST_VERSION = 3


def version_of(data: bytes) -> int:
    """Return the version prefix. Raises ProtocolError for an invalid one. Fields of newer versions are ignored."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        raise ProtocolError("no version of the consumer protocol")
    return min(version, NEWEST_VERSION)


def read_subscription(data: bytes) -> Struct:
    """Return topics, owned partitions and rack. Raises ProtocolError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> Struct:
    """Return assigned partitions and user data. Raises ProtocolError."""
    return _read(ConsumerProtocolAssignment, data)


def _read(message: Message, data: bytes) -> Struct:
    return message.decode(version_of(data), data, VERSION_BYTES)[0]


def write_assignment(version: int, partitions: Mapping[bytes, Collection[int]], cluster: Cluster) -> bytes:
    """Return an assignment's bytes, without topics that no longer exist."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    body = ConsumerProtocolAssignment.encode(version, ConsumerProtocolAssignment(assigned_partitions=topics))
    return version.to_bytes(VERSION_BYTES, "big") + body


def as_target(assignment: Struct, cluster: Cluster) -> Target:
    """Return an assignment by topic ids."""
    return {
        topic.topic_id: frozenset(given.partitions)
        for given in assignment.assigned_partitions
        if (topic := cluster.topic(given.topic)) is not None
    }


def as_reported(subscription: Struct, cluster: Cluster) -> Reported:
    """Return the partitions that a member reports in its subscription, by topic ids."""
    return {
        topic.topic_id: given.partitions
        for given in subscription.owned_partitions
        if (topic := cluster.topic(given.topic)) is not None
    }
