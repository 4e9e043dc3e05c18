"""Follow the metadata log that the controller of the same process leads: there is no second copy of it.

Records are applied once they are on the disk, as by every other broker of the cluster: none acts on a decision that a
power failure could take back.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controlling.metadata_reads import MetadataReads
from broker.membership.committed_metadata import CommittedMetadata
from controller.metadata_log import MetadataLog
from metadata.replay import ReplayError
from protocol.error_codes import ProtocolError
from protocol.records.errors import RecordsError
from replication.observing import Endpoint
from runtime.deferred import Deferred
from storage.errors import StorageError

#: How long one wait for records lasts; the next one follows at once.
_WAIT_MS = 600_000


class SharedLogObserver:
    """A FollowedMetadata of the log in this process.

    Args:
        leader: this node's address as a controller.
        reads: knows which part of the log is on the disk.
        on_change: called after records were applied.
        on_fatal: called with a line when the log cannot be read.
    """

    def __init__(
        self,
        node_id: int,
        leader: Endpoint,
        metadata_log: MetadataLog,
        reads: MetadataReads,
        metadata: CommittedMetadata,
        call_soon: Callable[[Callable[[], None]], object],
        on_change: Callable[[], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self.leader = leader
        self.leader_id = node_id
        self._log = metadata_log
        self._reads = reads
        self._metadata = metadata
        self._call_soon = call_soon
        self._on_change = on_change
        self._on_fatal = on_fatal
        self._waiting: Deferred[None] | None = None
        self._is_closed = False

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self._log.epoch

    @property
    def high_watermark(self) -> int:
        """The end of what is on the disk."""
        return self._reads.high_watermark

    @property
    def end_offset(self) -> int:
        """The end of the log."""
        return self._log.end_offset

    def start(self) -> None:
        """Apply what is on the disk, now and later."""
        if self._is_closed:
            return
        high_watermark = self.high_watermark
        self.apply()
        if self._is_closed:  # the log cannot be read
            return
        self._waiting = self._reads.when_beyond(high_watermark, _WAIT_MS)
        self._waiting.add_done_callback(self._start_soon)

    def _start_soon(self, _: Deferred[None]) -> None:
        """Let the controller first answer what it has just decided."""
        self._call_soon(self.start)

    def apply(self) -> None:
        """Apply what is on the disk, and was not applied while the metadata was paused."""
        try:
            self._metadata.advance(self.high_watermark)
        except (ProtocolError, RecordsError, ReplayError, StorageError, OSError) as error:
            self.close()
            self._on_fatal(f"the metadata log cannot be applied after offset {self._metadata.last_offset}: {error}")
            return
        self._on_change()

    def close(self) -> None:
        """Follow no longer."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
