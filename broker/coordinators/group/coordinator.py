"""The group coordinator of this broker, for its handlers and its timers.

It runs the pure decisions of `coordinator.group` on `__consumer_offsets` (see broker/coordinators/runtime.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.expiry_runner import Expiry
from broker.coordinators.group.cluster_view import ClusterView, MetadataProgress
from broker.coordinators.group.streams_topics import StreamsTopics, TopicController
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard_log import ShardLog
from config.resources import capped_group_numbers
from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.group.admin import topic_deleted_records
from coordinator.group.deadlines import on_deadline, on_loaded
from coordinator.group.expiry import expired_groups, expired_offsets
from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.records import StoredRecord
from coordinator.group.settings import ConsumerSettings, GroupSettings, MigrationPolicy, ShareSettings, StreamsSettings
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from metadata.features import GROUP_VERSION
from metadata.image import ResourceType
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.coordinators.share.group_states import ShareGroupStates
    from broker.coordinators.share.states import AllShareStates
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig

log = logging.getLogger(__name__)

OFFSETS_TOPIC = CONSUMER_OFFSETS
#: Kafka also names an assignor by its class.
ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def read_settings(config: BrokerConfig) -> GroupSettings:
    """Return the settings of the group coordinator from the broker's configuration."""
    return GroupSettings(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_length=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        protocols=frozenset(config.get_list("group.coordinator.rebalance.protocols")),
        consumer=ConsumerSettings(
            max_size=config.get_int("group.consumer.max.size"),
            assignors=tuple(ASSIGNOR_CLASSES.get(name, name) for name in config.get_list("group.consumer.assignors")),
            migration=MigrationPolicy[str(config.get_str("group.consumer.migration.policy")).upper()],
            regex_refresh_interval_ms=config.get_int("group.consumer.regex.refresh.interval.ms"),
        ),
        share=ShareSettings(
            max_size=config.get_int("group.share.max.size"),
            initialize_retry_interval_ms=config.get_int("group.share.initialize.retry.interval.ms"),
        ),
        streams=StreamsSettings(
            max_size=config.get_int("group.streams.max.size"),
            describes_topologies=config.get_str("group.streams.topology.description.plugin.class") is not None,
        ),
    )


def has_consumer_groups(groups: GroupCoordinator, metadata: MetadataCache) -> bool:
    """Return whether the broker's configuration and the cluster's features enable KIP-848 groups."""
    return "consumer" in groups.settings.protocols and metadata.image.features.get(GROUP_VERSION, 0) > 0


class GroupController(MetadataProgress, TopicController, Protocol):
    """The controller as the group coordinator needs it."""


class GroupCoordinator(CoordinatorRuntime[GroupShard, StoredRecord, TimerKey]):
    """The group coordinator. `at(group_id)` returns the shard to decide on, `run` carries a decision out."""

    def __init__(
        self, environment: CoordinatorEnvironment, controller: GroupController, share_states: AllShareStates
    ) -> None:
        config = environment.config
        super().__init__(
            environment,
            OFFSETS_TOPIC,
            noun="group",
            codec=config.get_int("offsets.topic.compression.codec"),
            load_buffer_bytes=config.get_int("offsets.load.buffer.size"),
            write_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
        )
        self.settings = read_settings(config)
        self.cluster = ClusterView(environment.metadata, controller, config)
        self.streams_topics = StreamsTopics(controller, environment.clock.monotonic_ms)
        self._all_share_states = share_states

    @cached_property
    def share_states(self) -> ShareGroupStates:
        """The states of share groups' partitions; created for the first share group."""
        from broker.coordinators.share.group_states import ShareGroupStates

        return ShareGroupStates(self, self._all_share_states, self._environment.metadata)

    def start(self) -> None:
        super().start()
        self._log_capped_settings()
        self.repeat(self._environment.config.get_int("offsets.retention.check.interval.ms"), self._expire)

    def new_shard(self, index: int) -> GroupShard:
        return GroupShard(GROUP_KINDS, index, self.settings, self.timers, self.cluster)

    def on_loaded(self, shard: GroupShard, now: Now, effects: GroupEffects) -> None:
        on_loaded(shard, now, effects)

    def on_deadline(self, key: TimerKey, now: Now) -> None:
        if key.kind == "initialize":
            self.share_states.initialize(key.group_id)
            return
        shard = self.at(key.group_id)
        if isinstance(shard, GroupShard):
            effects: GroupEffects = Effects()
            on_deadline(shard, key, now, effects)
            self.run(shard, effects)

    def on_unload(self, shard: GroupShard, now: Now, effects: GroupEffects) -> None:
        shard.unload(now, effects)

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Delete a topic's committed offsets; unload all groups if the topic is the coordinator's own."""
        super().topic_deleted(topic, topic_id)
        for found in self.loaded_logs():
            self.run_records(found, topic_deleted_records(found.shard, topic, topic_id))
            if any(group.group_type == "share" for group in found.shard.groups.values()):
                from coordinator.group.share.offsets import without_topic_records  # imported with the first share group

                self.run_records(found, without_topic_records(found.shard, topic_id))

    def _log_capped_settings(self) -> None:
        """Log the groups whose stored settings exceed the broker's current limits."""
        for (kind, group_id), own in self._environment.metadata.image.configs.items():
            if kind == ResourceType.GROUP:
                for line in capped_group_numbers(self._environment.config, group_id, own):
                    log.warning("%s", line)

    def _expire(self) -> None:
        """Remove state older than offsets.retention.minutes; runs every offsets.retention.check.interval.ms."""
        now_ms = self._environment.clock.now_ms()
        walks = (
            (found, walk)
            for found in self.loaded_logs()
            for walk in (expired_offsets(found.shard, now_ms), expired_groups(found.shard))
        )
        Expiry(self._environment.loop, self._remove, walks).go_on()

    def _remove(self, found: ShardLog[GroupShard, StoredRecord], records: Sequence[StoredRecord]) -> None:
        if found in self.loaded_logs() and self.run_records(found, records) is ErrorCode.NONE:
            log.info("Removed %d expired offsets and groups from %s", len(records), found.partition)
