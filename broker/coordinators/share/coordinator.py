"""The share coordinator of this broker: the state of share-partitions on `__share_group_state` (KIP-932).

This broker's own share-partitions and group coordinator call it, and so do five inter-broker APIs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.runtime import CoordinatorRuntime
from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.group.refused import Refused
from coordinator.share import decisions
from coordinator.share.records import ShareRecord, SnapshotRecord
from coordinator.share.shard import ShareCoordinatorSettings, ShareEffects, ShareShard
from coordinator.share.state import ShareKey, ShareState, StateBatch
from metadata.topic_names import SHARE_GROUP_STATE
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from storage.errors import LogOffline, OffsetOutOfRange

if TYPE_CHECKING:
    from config import BrokerConfig

log = logging.getLogger(__name__)

#: Limits of one turn of the loop on cold snapshots, about 2 ms: how many share-partitions it examines, and how
#: many of them a written snapshot counts for. After the turn the loop serves others for the pause.
_PARTITIONS_PER_TURN, _PARTITIONS_PER_SNAPSHOT, _PAUSE_MS = 1000, 50, 2

T = TypeVar("T")
_Decision: TypeAlias = Callable[[ShareShard, ShareEffects], T]


def read_settings(config: BrokerConfig) -> ShareCoordinatorSettings:
    """Return the settings of the share coordinator from the broker's configuration."""
    return ShareCoordinatorSettings(
        updates_per_snapshot=config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        cold_snapshot_interval_ms=config.get_int("share.coordinator.cold.partition.snapshot.interval.ms"),
    )


class ShareCoordinator(CoordinatorRuntime[ShareShard, ShareRecord, str]):
    """The share coordinator. Its methods raise Refused.

    Codes: those of `decisions`, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and the
    errors of a failed write.
    """

    def __init__(self, environment: CoordinatorEnvironment) -> None:
        config = environment.config
        super().__init__(
            environment,
            SHARE_GROUP_STATE,
            noun="share-partition",
            codec=config.get_int("share.coordinator.state.topic.compression.codec"),
            load_buffer_bytes=config.get_int("share.coordinator.load.buffer.size"),
            write_timeout_ms=config.get_int("share.coordinator.write.timeout.ms"),
        )
        self.settings = read_settings(config)
        #: The snapshots that are being written.
        self._snapshots: Iterator[None] | None = None

    def start(self) -> None:
        super().start()
        config = self._environment.config
        self.repeat(config.get_int("share.coordinator.state.topic.prune.interval.ms"), self._prune)
        self.repeat(self.settings.cold_snapshot_interval_ms, self._snapshot_cold)

    # -- callbacks of the runtime -----------------------------------------------------------------------------------

    def new_shard(self, index: int) -> ShareShard:
        return ShareShard(index, self.settings)

    def on_loaded(self, shard: ShareShard, now: Now, effects: ShareEffects) -> None:
        """Do nothing: share-partitions read their state when they are first used."""

    def on_deadline(self, key: str, now: Now) -> None:
        """Do nothing: this coordinator sets no deadlines."""

    def on_unload(self, shard: ShareShard, now: Now, effects: ShareEffects) -> None:
        """Do nothing: no request waits for a shard."""

    # -- the state --------------------------------------------------------------------------------------------------

    def initialize(self, share: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Create the state of a share-partition, or reset it. Also raises FENCED_STATE_EPOCH."""
        now = self.now()
        self._decide(
            share, lambda shard, wanted: decisions.initialize(shard, share, state_epoch, start_offset, now, wanted)
        )

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for the leader of that epoch. Also raises FENCED_LEADER_EPOCH."""
        return self._decide(share, lambda shard, wanted: decisions.read(shard, share, leader_epoch, wanted))

    def write(
        self,
        share: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Deferred[None] | None:
        """Write changes. Also raises FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.

        Returns a Deferred where another broker writes them (broker/membership/coordination/peer_share_states.py).
        """
        now = self.now()
        self._decide(
            share,
            lambda shard, wanted: decisions.write(
                shard,
                share,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                batches=batches,
                now=now,
                effects=wanted,
            ),
        )
        return None

    def delete(self, share: ShareKey) -> None:
        """Delete the state."""
        self._decide(share, lambda shard, wanted: decisions.delete(shard, share, wanted))

    def summarize(self, share: ShareKey) -> ShareState:
        """Return the state, whatever the leader epoch is."""
        return self._decide(share, lambda shard, _: decisions.summarize(shard, share))

    def _decide(self, share: ShareKey, decide: _Decision[T]) -> T:
        decisions.check_partition(share)
        shard = self.at(share.coordinator_key)
        if isinstance(shard, ErrorCode):
            raise Refused(shard, shard.text)
        effects: ShareEffects = Effects()
        found = decide(shard, effects)
        if effects.writes:
            code = self.run(shard, effects)
            if code is not ErrorCode.NONE:
                raise Refused(code, code.text)
        return found

    # -- its log ----------------------------------------------------------------------------------------------------

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Delete the states of a topic; unload all shards if the topic is the coordinator's own."""
        super().topic_deleted(topic, topic_id)
        for found in self.loaded_logs():
            self.run_records(
                found, [SnapshotRecord(share, None) for share in found.shard.states if share.topic_id == topic_id]
            )

    def _snapshot_cold(self) -> None:
        if self._snapshots is None:
            self._snapshots = self._snapshots_in_turns()
            self._snapshot_some()

    def _snapshot_some(self) -> None:
        """Write snapshots for one turn, and schedule the rest: there may be 100,000."""
        snapshots, self._snapshots = self._snapshots, None  # an error ends this run, not later ones
        if snapshots is not None and next(snapshots, self) is not self:
            self._snapshots = snapshots
            self.call_later(_PAUSE_MS, self._snapshot_some)

    def _snapshots_in_turns(self) -> Iterator[None]:
        """Write the snapshots. Each yield ends a turn of the loop."""
        left = _PARTITIONS_PER_TURN
        for found in self.loaded_logs():
            for record in decisions.cold_snapshots(found.shard, self.now):
                if record is not None:
                    self.run_records(found, [record])
                    left -= _PARTITIONS_PER_SNAPSHOT
                left -= 1
                if left <= 0:
                    yield
                    left = _PARTITIONS_PER_TURN

    def _prune(self) -> None:
        """Delete the records that later snapshots have made obsolete."""
        for found in self.loaded_logs():
            needed_from, partition = found.shard.needed_from, found.partition
            if partition.log_start_offset < needed_from <= partition.high_watermark:
                try:
                    partition.delete_records(needed_from)
                except (LogOffline, OffsetOutOfRange) as error:
                    log.error("Cutting %s at %d failed: %s", partition, needed_from, error)
