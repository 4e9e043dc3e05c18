"""`__remote_log_metadata`: create it, and append to it (KIP-405, TopicBasedRemoteLogMetadataManager).

A record counts once it is on the disk, and is replayed from the log then: the state of a remote log is always that of
its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.tiering.metadata_replay import MetadataReplay
from metadata.topic_names import REMOTE_LOG_METADATA
from protocol.error_codes import ErrorCode
from protocol.records.builder import BatchBuilder
from runtime.deferred import Deferred
from storage.errors import StorageError
from tiered.metadata_records import Event, TopicIdPartition, encode, metadata_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.tiering.services import TierServices
    from tiered.segment import RemoteSegment, SegmentUpdate

#: How long to wait before the topic is created again.
_RETRY_MS = 1_000


class MetadataNotWritten(Exception):
    """A record could not be appended, or not be made safe."""

    def __init__(self, partition: TopicIdPartition, code: ErrorCode) -> None:
        super().__init__(f"the metadata of {partition.topic}-{partition.partition} cannot be written: {code.name}")
        self.code = code


class MetadataLog:
    """The topic.

    Args:
        replay: called with each committed record, in the order of its partition.
        on_loaded: called with the number of a partition of the topic once all of it is replayed.
        needed: returns the partitions of the topic that this broker needs, beside those that it leads.
    """

    def __init__(
        self,
        services: TierServices,
        replay: Callable[[TopicIdPartition, Event], None],
        on_loaded: Callable[[int], None] = lambda index: None,
        needed: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._services = services
        self._replay = MetadataReplay(services, replay, on_loaded, needed, lambda: self.on_poll())
        self._count = 0  # partitions of the topic; 0 while there is none
        self._is_closed = False
        #: Called every second in a member of a cluster, which reads the partitions of other leaders then.
        self.on_poll: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Create the topic if it is missing, and begin to replay it."""
        if not self._is_closed:
            self._services.topics.ensure(REMOTE_LOG_METADATA).add_done_callback(self._on_topic)

    def close(self) -> None:
        """Replay nothing more."""
        self._is_closed = True
        self._replay.close()

    def _on_topic(self, ensured: Deferred[bool]) -> None:
        count = self._services.topics.partition_count(REMOTE_LOG_METADATA)
        if count:
            self._count = count
            self._replay.start()
        else:  # the failure is logged where topics are created
            self._services.timers.call_later(_RETRY_MS, self.start)

    @property
    def count(self) -> int:
        """The number of partitions of the topic; 0 while it is missing."""
        return self._count

    def index_of(self, partition: TopicIdPartition) -> int | None:
        """Return which partition of the topic has the records of `partition`; None while the topic is missing."""
        return metadata_partition(partition, self._count) if self._count else None

    def is_loaded(self, partition: TopicIdPartition) -> bool:
        """Return whether all records of a partition are replayed that were there at the start."""
        return self.index_of(partition) in self._replay.loaded

    def leads(self, partition: TopicIdPartition) -> bool:
        """Return whether this broker leads the partition of the topic that has the records of `partition`."""
        index = self.index_of(partition)
        return index is not None and self._services.partitions.get(REMOTE_LOG_METADATA, index) is not None

    def catch_up(self) -> None:
        """Replay what was appended since, by this broker or by others."""
        if self._count:
            self._replay.catch_up()

    def refresh(self, partition: TopicIdPartition) -> Deferred[None]:
        """Resolve once all records of a partition are replayed that are there now. Fails with CannotRead."""
        index = self.index_of(partition)
        return Deferred.resolved(None) if index is None else self._replay.refresh(index)

    def append(self, partition: TopicIdPartition, event: RemoteSegment | SegmentUpdate) -> Deferred[None]:
        """Append a record; resolve once it is on the disk and replayed. Fails with MetadataNotWritten."""
        written: Deferred[None] = Deferred()
        index = self.index_of(partition)
        if index is None or self._is_closed:
            written.fail(MetadataNotWritten(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return written

        def on_appended(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                written.fail(MetadataNotWritten(partition, code))
                return
            self._force(index).add_done_callback(on_safe)

        def on_safe(done: Deferred[None]) -> None:
            try:
                done.result()
            except StorageError:
                written.fail(MetadataNotWritten(partition, ErrorCode.KAFKA_STORAGE_ERROR))
                return
            self._replay.catch_up_with(index).add_done_callback(on_replayed)

        def on_replayed(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception:
                written.fail(MetadataNotWritten(partition, ErrorCode.NETWORK_EXCEPTION))
            else:
                written.resolve(None)

        batch = BatchBuilder()
        batch.append(self._services.clock.now_ms(), None, encode(partition, event))
        code = self._services.appends.append(REMOTE_LOG_METADATA, index, batch.build())
        if isinstance(code, Deferred):
            code.add_done_callback(lambda done: on_appended(done.result()))
        else:
            on_appended(code)
        return written

    def _force(self, index: int) -> Deferred[None]:
        """Resolve once all records of a partition of the topic are on the disk, if this broker leads it."""
        partition = self._services.partitions.get(REMOTE_LOG_METADATA, index)
        if partition is None:
            return Deferred.resolved(None)
        try:
            return self._services.background.flush(partition.log)
        except StorageError as error:
            failed: Deferred[None] = Deferred()
            failed.fail(error)
            return failed
