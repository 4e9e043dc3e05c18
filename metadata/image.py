"""The state of the cluster: the sum of all records of the metadata log so far.

`MetadataImage` has look-ups by name and by id. Only `metadata.replay` changes an image; all other code reads it.
Secrets, tokens, ACLs and quotas are kept even where no decision uses them, because a snapshot has to hold all that the
log held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import field

from metadata.features import METADATA_VERSION
from metadata.framing import UnknownRecord
from metadata.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)
from metadata.topic_names import collision_key, may_collide
from protocol.schema import Struct

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


class ResourceType(IntEnum):
    """The kinds of resources with a configuration. BROKER with the name "" is the default of all brokers.
    BROKER_LOGGER is never stored.
    """

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a listener of a broker or controller; `security_protocol` is Kafka's number."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(msgspec.Struct, frozen=True):
    """The levels of a feature that a node supports, both inclusive."""

    name: str
    minimum: int
    maximum: int


class BrokerRegistration(msgspec.Struct, frozen=True):
    """A registered broker. A fenced broker may not lead, and clients do not see it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_directories: tuple[bytes, ...]
    #: None before the broker has reported them (KIP-1066).
    cordoned_log_directories: tuple[bytes, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def is_active(self) -> bool:
        """Whether the broker may take part in partitions: it is neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Whether the broker gets no new partitions, because all of its log directories are cordoned (KIP-1066)."""
        return bool(self.log_directories) and set(self.log_directories) <= set(self.cordoned_log_directories or ())

    def has_directory(self, directory: bytes) -> bool:
        """Return whether a log directory is online, as last reported (Kafka's DirectoryId.isOnline).

        An unassigned or unknown directory counts as online, a lost one as offline.
        """
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        return directory != LOST_DIRECTORY and (not self.log_directories or directory in self.log_directories)


class ControllerRegistration(msgspec.Struct, frozen=True):
    """A registered controller (KIP-919)."""

    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]


class TopicImage(msgspec.Struct):
    """A topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]  # sorted (entity type, entity name or None for the default)


class MetadataImage(msgspec.Struct):
    """The whole state. Equal images give equal responses."""

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)
    topics_by_name: dict[str, TopicImage] = field(default_factory=dict)
    topics_by_id: dict[bytes, TopicImage] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram_credentials: dict[tuple[str, int], Struct] = field(default_factory=dict)
    scram_iterations: dict[int, Counter[int]] = field(default_factory=dict)  # mechanism -> iterations -> users
    acls: dict[bytes, Struct] = field(default_factory=dict)
    delegation_tokens: dict[str, Struct] = field(default_factory=dict)
    zk_migration_state: int = 0
    unknown_records: list[UnknownRecord] = field(default_factory=list)
    colliding_names: dict[str, set[str]] = field(default_factory=dict)  # collision key -> topics with "." or "_"

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version, which determines the record versions that may be written."""
        return self.features.get(METADATA_VERSION, 0)

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name, or None."""
        return self.topics_by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic of that id (16 bytes), or None."""
        return self.topics_by_id.get(topic_id)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the settings of the resource itself, without inherited ones and defaults."""
        return self.configs.get((resource_type, name), NO_CONFIGS)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the settings of the topic itself."""
        return self.configs.get((ResourceType.TOPIC, name), NO_CONFIGS)

    def offline_replicas(self, partition: PartitionRegistration) -> list[int]:
        """Return the offline replicas: their broker, or the log directory with the replica, is offline."""
        return [
            broker_id
            for position, broker_id in enumerate(partition.replicas)
            if (broker := self.brokers.get(broker_id)) is None
            or broker.fenced
            or (position < len(partition.directories) and not broker.has_directory(partition.directories[position]))
        ]

    def add_topic(self, topic: TopicImage) -> None:
        """Add a topic under its name and its id."""
        self.topics_by_name[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        if may_collide(topic.name):
            self.colliding_names.setdefault(collision_key(topic.name), set()).add(topic.name)

    def remove_topic(self, topic: TopicImage) -> None:
        """Remove a topic and its settings."""
        del self.topics_by_name[topic.name]
        del self.topics_by_id[topic.topic_id]
        self.configs.pop((ResourceType.TOPIC, topic.name), None)
        if may_collide(topic.name):
            key = collision_key(topic.name)
            self.colliding_names[key].discard(topic.name)
            if not self.colliding_names[key]:
                del self.colliding_names[key]
