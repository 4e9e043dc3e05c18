"""Delete segments from remote storage: a record, the objects, a record (KIP-405)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.tiering.steps import Steps, wait
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tiering.counts import TierCounts
    from broker.tiering.metadata_log import MetadataLog
    from broker.tiering.remote_logs import RemoteLog
    from broker.tiering.services import TierServices
    from broker.tiering.threads import TierThreads
    from remote.layout import Layout


class Remover:
    """Deletes segments. Its callers have moved the start of the log before, so that no client reads them any more."""

    def __init__(
        self,
        services: TierServices,
        layout: Layout,
        threads: TierThreads,
        metadata_log: MetadataLog,
        counts: TierCounts,
        forget: Callable[[RemoteSegment], None] = lambda segment: None,
    ) -> None:
        """Create it. `forget` is called with each segment that was deleted."""
        self._services = services
        self._layout = layout
        self._threads = threads
        self._metadata_log = metadata_log
        self._counts = counts
        self._forget = forget

    def remove(self, remote_log: RemoteLog, segment: RemoteSegment) -> Steps[None]:
        """Delete a segment. Raises MetadataNotWritten and RemoteStorageError; then it is tried again later."""
        place, counts = remote_log.partition, self._counts.of(remote_log.partition.topic)
        if segment.state is not SegmentState.DELETE_STARTED:
            yield from wait(self._metadata_log.append(place, self._update(segment, SegmentState.DELETE_STARTED)))
        counts.delete_requests += 1
        try:
            yield from wait(self._threads.deleting(self._layout.delete, place, segment))
        except Exception:
            counts.delete_errors += 1
            raise
        self._forget(segment)
        yield from wait(self._metadata_log.append(place, self._update(segment, SegmentState.DELETE_FINISHED)))

    def _update(self, segment: RemoteSegment, state: SegmentState) -> SegmentUpdate:
        now_ms, node_id = self._services.clock.now_ms(), self._services.config.node_id
        return SegmentUpdate(segment.id, state, now_ms, node_id, segment.custom)
