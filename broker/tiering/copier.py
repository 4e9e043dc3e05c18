"""Copy closed segments of a partition to remote storage, one after the other (KIP-405, RLMCopyTask).

For each segment: a record that the copy has started, the objects, a record that it is finished. Each record is on the
disk before the next step begins, so that a crash leaves no object without a record, and local retention removes nothing
that is not finished.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from broker.replicas.leader_reads import CannotRead
from broker.tiering.local_segments import closed_segments, copy_lag, has_aborted, lineage_of, sources_of
from broker.tiering.metadata_log import MetadataNotWritten
from broker.tiering.steps import Steps, wait
from remote.errors import RemoteStorageError
from runtime.deferred import Deferred
from storage.errors import StorageError
from tiered.copying import due_for_copying
from tiered.lineage import clamped
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.tiering.counts import TierCounts
    from broker.tiering.local_segments import SegmentSources
    from broker.tiering.metadata_log import MetadataLog
    from broker.tiering.rate_quota import RateQuota
    from broker.tiering.remote_logs import RemoteLog
    from broker.tiering.remover import Remover
    from broker.tiering.services import TierServices
    from broker.tiering.threads import TierThreads
    from remote.layout import Layout
    from storage.log.partition_log import PartitionLog
    from storage.segment.segment import Segment
    from tiered.copying import LocalSegment
    from tiered.metadata_records import TopicIdPartition

log = logging.getLogger(__name__)

#: Why a copy may fail; everything else is a fault of this program.
COPY_ERRORS = (RemoteStorageError, MetadataNotWritten, CannotRead, StorageError, OSError)


class CannotCopy(RemoteStorageError):
    """A segment cannot be copied as it is."""

    is_temporary = False


class Copier:
    """Copies the segments of all partitions that this broker leads."""

    def __init__(
        self,
        services: TierServices,
        layout: Layout,
        threads: TierThreads,
        metadata_log: MetadataLog,
        remover: Remover,
        quota: RateQuota,
        counts: TierCounts,
    ) -> None:
        self._services = services
        self._layout = layout
        self._threads = threads
        self._metadata_log = metadata_log
        self._remover = remover
        self._quota = quota
        self._counts = counts

    def copy_due(self, partition: Partition, remote_log: RemoteLog) -> Steps[None]:
        """Copy what is due, oldest first. Raises one of COPY_ERRORS; then the rest is tried again later."""
        clock = self._services.clock
        while partition.hosted and partition.online and remote_log.is_loaded:
            local_log = partition.log
            if not local_log.config.tiered or local_log.config.remote_log_copy_disable:
                return
            found = self._first_due(local_log)
            if found is None:
                return
            local, segment = found
            if local.end_offset >= local_log.recovery_point:
                yield from wait(self._services.background.flush(local_log))
                if local.end_offset >= local_log.recovery_point:
                    return  # the log was truncated meanwhile
            elif delay_ms := self._quota.delay_ms(clock.monotonic_ms()):
                self._counts.copy_throttle.note(delay_ms)
                remote_log.quota_until_ms = clock.now_ms() + delay_ms
                yield from wait(self._sleep(delay_ms))
            else:
                self._quota.note(local.size_bytes, clock.monotonic_ms())
                try:
                    yield from self._copy(partition, remote_log, local, segment)
                except COPY_ERRORS:
                    if partition.hosted:
                        raise
                    return  # the topic is deleted, or another broker leads

    def _first_due(self, local_log: PartitionLog) -> tuple[LocalSegment, Segment] | None:
        """Return the first segment to copy. All of it is stable, but it may have to be flushed first."""
        local_log.check_usable()
        lag = copy_lag(local_log.config)
        first = max(local_log.copied_offset + 1, local_log.log_start_offset)
        with local_log.directory.offline_on_error():
            # Only a lag depends on the segments that follow. There may be thousands.
            closed = closed_segments(local_log, first, None if lag.ms and lag.bytes else 1)
        if not closed:
            return None
        due = due_for_copying(
            [local for local, _ in closed],
            copied_offset=local_log.copied_offset,
            log_start_offset=local_log.log_start_offset,
            safe_offset=local_log.last_stable_offset,
            active_bytes=local_log.active_segment.size_bytes,
            lag=lag,
            now_ms=self._services.clock.now_ms(),
        )
        return next((each for each in closed if due and each[0] is due[0]), None)

    def lag(self, local_log: PartitionLog) -> tuple[int, int]:
        """Return the number of closed segments that remote storage lacks, and their bytes."""
        first = max(local_log.copied_offset + 1, local_log.log_start_offset)
        segments = [each for each in local_log.segments.from_offset(first)[:-1] if each.size_bytes]
        return len(segments), sum(segment.size_bytes for segment in segments)

    def _sleep(self, delay_ms: int) -> Deferred[None]:
        slept: Deferred[None] = Deferred()
        self._services.timers.call_later(delay_ms, lambda: slept.resolve(None))
        return slept

    def _copy(self, partition: Partition, remote_log: RemoteLog, local: LocalSegment, segment: Segment) -> Steps[None]:
        local_log, place = partition.log, remote_log.partition
        with local_log.directory.offline_on_error():
            remote = self._described(local_log, local, segment)
            sources = sources_of(local_log, segment, local.end_offset + 1)
        truncations = local_log.truncations
        remote_log.copying.add(remote.id)
        try:
            yield from wait(self._metadata_log.append(place, remote))
            try:
                self._counts.of(place.topic).copy_requests += 1
                custom = yield from wait(self._threads.copying(_store, self._layout, place, remote, sources))
                self._check(partition, remote, custom, local_log.truncations == truncations)
            except Exception:
                self._counts.of(place.topic).copy_errors += 1
                yield from self._discard(remote_log, remote)
                raise
            now_ms, node_id = self._services.clock.now_ms(), self._services.config.node_id
            finished = SegmentUpdate(remote.id, SegmentState.COPY_FINISHED, now_ms, node_id, custom)
            yield from wait(self._metadata_log.append(place, finished))
        finally:
            remote_log.copying.discard(remote.id)
        self._counts.of(place.topic).copied_bytes += local.size_bytes
        log.info("Copied offsets %d to %d of %s to remote storage", local.start_offset, local.end_offset, remote_log)

    def _described(self, local_log: PartitionLog, local: LocalSegment, segment: Segment) -> RemoteSegment:
        epochs = clamped(lineage_of(local_log).epochs, local.start_offset, local.end_offset + 1)
        if not epochs:
            raise CannotCopy(segment.log.path, "its records have no leader epochs")
        return RemoteSegment(
            id=uuid4().bytes,
            start_offset=local.start_offset,
            end_offset=local.end_offset,
            max_timestamp_ms=local.max_timestamp_ms,
            event_timestamp_ms=self._services.clock.now_ms(),
            broker_id=self._services.config.node_id,
            size_bytes=local.size_bytes,
            epochs=epochs,
            has_no_aborted=not has_aborted(segment),
        )

    def _check(self, partition: Partition, remote: RemoteSegment, custom: bytes | None, is_same: bool) -> None:
        """Raise CannotCopy if what was stored may not be finished."""
        most = self._services.config.get_int("remote.log.metadata.custom.metadata.max.bytes")
        if custom is not None and len(custom) > most:
            reason = f"its custom metadata has {len(custom)} bytes, and {most} are allowed"
            raise CannotCopy(str(partition), reason)
        if not is_same or not partition.hosted:
            reason = f"offsets {remote.start_offset} to {remote.end_offset} were removed while they were copied"
            raise CannotCopy(str(partition), reason)

    def _discard(self, remote_log: RemoteLog, remote: RemoteSegment) -> Steps[None]:
        """Delete what a failed copy may have stored. If that fails, too, it is deleted later with what has expired."""
        try:
            yield from self._remover.remove(remote_log, remote)
        except COPY_ERRORS as error:
            log.debug("What was copied of %s cannot be deleted now: %s", remote_log, error)


def _store(layout: Layout, place: TopicIdPartition, remote: RemoteSegment, sources: SegmentSources) -> bytes | None:
    """Store a segment; in a thread."""
    return layout.copy(place, remote, sources.read())
