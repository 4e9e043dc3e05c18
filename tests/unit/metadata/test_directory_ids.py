"""Ids that stand for no log directory, in records of Apache Kafka: unassigned, migrating, lost (KIP-858)."""

from __future__ import annotations

import pytest

from metadata.create_topics import NewTopic
from metadata.image import MetadataImage
from metadata.registration import keep_online_directories
from tests.support.images import cluster, with_topics
from tests.support.kafka_constants import kafka_constants

ONE, OTHER = b"a-directory-16-b", b"another-one-16-b"


def reserved(name: str) -> bytes:
    """Return an id of Kafka's DirectoryId."""
    found = kafka_constants()["common.DirectoryId", name].value()
    assert isinstance(found, bytes)
    return found


def image_with(directory: bytes) -> MetadataImage:
    """Return a cluster whose broker has two log directories, and a topic with a replica in this directory."""
    image = with_topics(cluster(log_directories=(ONE, OTHER)), NewTopic("orders"))
    topic = image.topics_by_name["orders"]
    topic.partitions[0] = topic.partitions[0]._replace(directories=(directory,))
    return image


@pytest.mark.parametrize(("name", "is_offline"), [("UNASSIGNED", False), ("MIGRATING", False), ("LOST", True)], ids=str)
def test_replica_without_a_directory(name: str, is_offline: bool) -> None:
    """Only a lost one is offline, as DirectoryId.isOnline says: the broker reports its directory later."""
    image = image_with(reserved(name))

    assert image.offline_replicas(image.topics_by_name["orders"].partitions[0]) == ([1] if is_offline else [])


@pytest.mark.parametrize("name", ["UNASSIGNED", "MIGRATING"])
def test_failed_directory_keeps_unassigned_partitions(name: str) -> None:
    """Nobody knows that they were in the directory that failed."""
    image = image_with(reserved(name))

    records = keep_online_directories(image, 1, [ONE])

    assert [record.message.name for record in records] == ["BrokerRegistrationChangeRecord"]


@pytest.mark.parametrize(
    ("directories", "expected"),
    [((ONE,), ONE), ((ONE, OTHER), "UNASSIGNED"), ((), "MIGRATING")],
    ids=["one", "several", "none"],
)
def test_directory_of_a_new_replica(directories: tuple[bytes, ...], expected: bytes | str) -> None:
    """As ClusterControlManager.defaultDir."""
    image = with_topics(cluster(log_directories=directories), NewTopic("orders"))

    wanted = reserved(expected) if isinstance(expected, str) else expected
    assert image.topics_by_name["orders"].partitions[0].directories == (wanted,)
