"""The broker's settings for the group coordinator. Names and defaults are Kafka's."""

from __future__ import annotations

from enum import Flag

import msgspec

#: How long the join of a new member may stay parked: the member cannot send heartbeats before it knows its id.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
#: The shortest interval between two checks of a group whose static members do not join, whatever timeout they have
#: sent.
LEAST_JOIN_WAIT_MS = 1_000


class MigrationPolicy(Flag):
    """The protocol changes allowed for a group with members (group.consumer.migration.policy)."""

    DISABLED = 0
    UPGRADE = 1
    """From the classic protocol to the consumer protocol."""
    DOWNGRADE = 2
    BIDIRECTIONAL = 3


class ConsumerSettings(msgspec.Struct, frozen=True):
    """Settings of consumer groups (KIP-848) that a group cannot override; ConsumerGroupConfig has the others."""

    max_size: int = 2_147_483_647  # group.consumer.max.size
    assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors; the first is the default
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy
    regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms


class StreamsSettings(msgspec.Struct, frozen=True):
    """Settings of streams groups (KIP-1071) that a group cannot override; StreamsGroupConfig has the others."""

    max_size: int = 2_147_483_647  # group.streams.max.size
    #: Whether group.streams.topology.description.plugin.class is set.
    describes_topologies: bool = False


class ShareSettings(msgspec.Struct, frozen=True):
    """Settings of share groups (KIP-932) that a group cannot override; ShareGroupConfig has the others."""

    max_size: int = 200  # group.share.max.size
    initialize_retry_interval_ms: int = 30_000  # group.share.initialize.retry.interval.ms


class GroupSettings(msgspec.Struct, frozen=True):
    """All settings. They are frozen, because all of these keys are read-only while a broker runs."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2_147_483_647  # group.max.size
    offset_metadata_max_length: int = 4_096  # offset.metadata.max.bytes; compared with characters, as in Kafka
    offsets_retention_ms: int = 10_080 * 60_000  # offsets.retention.minutes
    protocols: frozenset[str] = frozenset({"classic", "consumer", "streams"})  # group.coordinator.rebalance.protocols
    consumer: ConsumerSettings = ConsumerSettings()
    streams: StreamsSettings = StreamsSettings()
    share: ShareSettings = ShareSettings()
