"""Delete from remote storage what has expired, what a deleted topic had, and what is left of failed copies (KIP-405).

The start of the log moves first, and is on the disk before anything is deleted: no offset of the log is ever missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.tiering.local_segments import lineage_of, only_local_bytes
from broker.tiering.steps import Steps, wait
from storage.checkpoints import LOG_START_OFFSETS
from tiered.expiry import RemoteRetention, expired, of_other_lineages
from tiered.segment import SegmentState

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.tiering.remote_logs import RemoteLog
    from broker.tiering.remover import Remover
    from broker.tiering.services import TierServices
    from storage.log.partition_log import PartitionLog
    from tiered.segment import RemoteSegment

log = logging.getLogger(__name__)


class Expirer:
    """Deletes segments of partitions that this broker leads, and of topics that do not exist any more."""

    def __init__(self, services: TierServices, remover: Remover) -> None:
        self._services = services
        self._remover = remover

    def expire(self, partition: Partition, remote_log: RemoteLog) -> Steps[None]:
        """Delete what is due of a partition. Raises what `Remover.remove` raises, and LogOffline."""
        if not partition.hosted or not partition.online:
            return
        if not remote_log.is_loaded or not remote_log.segments.count:
            return
        local_log = partition.log
        if local_log.config.tiered:
            yield from self._expire(local_log, remote_log)
        elif self._is_turned_off(local_log):
            # Before any wait: a copy that is made once the topic is tiered again may be all that has its records.
            doomed = list(remote_log.segments)
            yield from self._raise_start(local_log, local_log.local_start_offset)
            yield from self._remove(remote_log, doomed, lambda: not local_log.config.tiered)

    def _expire(self, local_log: PartitionLog, remote_log: RemoteLog) -> Steps[None]:
        lineage, config = lineage_of(local_log), local_log.config
        limits = (config.retention_ms, config.retention_bytes) if config.deletes else ()
        began_ms = self._services.clock.monotonic_ms()
        found = expired(
            remote_log.segments,
            lineage,
            RemoteRetention(*limits),
            log_start_offset=local_log.log_start_offset,
            only_local_bytes=only_local_bytes(local_log),
            broker_id=self._services.config.node_id,
            copying=remote_log.copying,
            now_ms=self._services.clock.now_ms(),
        )
        remote_log.size_took_ms = self._services.clock.monotonic_ms() - began_ms
        left = [
            each
            for each in of_other_lineages(remote_log.segments, lineage)
            # at the start or behind it, they may be records whose epochs a damaged file has lost
            if self._is_ours(each) and each.end_offset < local_log.log_start_offset
        ]
        if found.segments or left:  # DeleteRecords may have moved the start, too, even to a later epoch
            yield from self._raise_start(local_log, found.log_start_offset or 0)
        yield from self._remove(remote_log, [*found.segments, *left])

    def _is_ours(self, segment: RemoteSegment) -> bool:
        """Return whether no other broker may still copy the segment."""
        return segment.state is not SegmentState.COPY_STARTED or segment.broker_id == self._services.config.node_id

    def _is_turned_off(self, local_log: PartitionLog) -> bool:
        """Return whether the topic's settings ask for the deletion of what was copied."""
        image = self._services.metadata.image
        own = image.topic_config(local_log.topic)
        is_enabled = own.get("remote.storage.enable", "false").lower() == "true"
        return not is_enabled and own.get("remote.log.delete.on.disable", "false").lower() == "true"

    def _raise_start(self, local_log: PartitionLog, offset: int) -> Steps[None]:
        """Raise the log start to `offset`, and wait until that is on the disk. Raises LogOffline."""
        if offset > local_log.log_start_offset:
            with local_log.directory.offline_on_error():
                local_log.raise_log_start(offset)
            self._services.logs.on_start_raised(local_log)
            log.info("The log start of %s is %d now, as older records have expired", local_log.name, offset)
        yield from wait(self._services.background.checkpoint(LOG_START_OFFSETS))
        local_log.check_usable()

    def _remove(
        self, remote_log: RemoteLog, segments: Iterable[RemoteSegment], still: Callable[[], bool] = lambda: True
    ) -> Steps[None]:
        """Delete segments while `still()` is true."""
        doomed = [segment for segment in dict.fromkeys(segments) if segment.id not in remote_log.copying]
        remote_log.delete_lag_segments = len(doomed)
        remote_log.delete_lag_bytes = sum(segment.size_bytes for segment in doomed)
        for segment in doomed:
            if not still():
                return
            yield from self._remover.remove(remote_log, segment)
            remote_log.delete_lag_segments -= 1
            remote_log.delete_lag_bytes -= segment.size_bytes

    def remove_deleted(self, remote_log: RemoteLog) -> Steps[None]:
        """Delete everything of a partition whose topic does not exist any more."""
        if remote_log.is_loaded and self._services.metadata.image.topic_by_id(remote_log.partition.topic_id) is None:
            yield from self._remove(remote_log, list(remote_log.segments))
