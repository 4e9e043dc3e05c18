"""`__remote_log_metadata`: create it, replay it, and append to it (KIP-405, TopicBasedRemoteLogMetadataManager).

A record counts once it is on the disk, and is replayed from the log then: the state of a remote log is always that of
its records. After a start the partitions are replayed in slices, while clients are served.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.tiering.metadata_reader import MetadataReader
from metadata.topic_names import REMOTE_LOG_METADATA
from protocol.error_codes import ErrorCode
from protocol.records.builder import BatchBuilder
from protocol.records.errors import RecordsError
from runtime.deferred import Deferred
from storage.errors import StorageError
from tiered.metadata_records import Event, TopicIdPartition, encode, metadata_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tiering.services import TierServices
    from tiered.segment import RemoteSegment, SegmentUpdate

log = logging.getLogger(__name__)

#: How long a slice of replaying may block the event loop.
_SLICE_MS = 5
#: How long to wait before the topic is created again.
_RETRY_MS = 1_000


class MetadataNotWritten(Exception):
    """A record could not be appended, or not be made safe."""

    def __init__(self, partition: TopicIdPartition, code: ErrorCode) -> None:
        super().__init__(f"the metadata of {partition.topic}-{partition.partition} cannot be written: {code.name}")
        self.code = code


class MetadataLog:
    """The partitions of the topic that this broker leads.

    Args:
        replay: called with each committed record, in the order of its partition.
        on_loaded: called with the number of a partition of the topic once all of it is replayed.
    """

    def __init__(
        self,
        services: TierServices,
        replay: Callable[[TopicIdPartition, Event], None],
        on_loaded: Callable[[int], None] = lambda index: None,
    ) -> None:
        self._services = services
        self._replay = replay
        self._on_loaded = on_loaded
        self._readers: dict[int, MetadataReader] = {}
        self._loaded: set[int] = set()
        self._loading: deque[MetadataReader] = deque()
        self._steps: Iterator[None] | None = None
        self._count = 0  # partitions of the topic; 0 while there is none
        self._is_closed = False

    def start(self) -> None:
        """Create the topic if it is missing, and begin to replay it."""
        if not self._is_closed:
            self._services.topics.ensure(REMOTE_LOG_METADATA).add_done_callback(self._on_topic)

    def close(self) -> None:
        """Replay nothing more."""
        self._is_closed = True
        self._loading.clear()

    @property
    def count(self) -> int:
        """The number of partitions of the topic; 0 while it is missing."""
        return self._count

    def index_of(self, partition: TopicIdPartition) -> int | None:
        """Return which partition of the topic has the records of `partition`; None while the topic is missing."""
        return metadata_partition(partition, self._count) if self._count else None

    def is_loaded(self, partition: TopicIdPartition) -> bool:
        """Return whether all records of a partition are replayed that were there at the start."""
        return self.index_of(partition) in self._loaded

    # -- loading -----------------------------------------------------------------------------------------------------

    def _on_topic(self, ensured: Deferred[bool]) -> None:
        count = self._services.topics.partition_count(REMOTE_LOG_METADATA)
        if not count:  # the failure is logged where topics are created
            self._services.timers.call_later(_RETRY_MS, self.start)
            return
        self._count = count
        self.load_led()

    def load_led(self) -> None:
        """Replay the partitions of the topic that this broker leads and has not replayed yet."""
        for index, partition in self._services.partitions.of_topic(REMOTE_LOG_METADATA).items():
            known = self._readers.get(index)
            if known is None or known.partition is not partition:
                self._loaded.discard(index)
                reader = self._readers[index] = MetadataReader(partition, self._replay)
                self._loading.append(reader)
        if self._loading and self._steps is None:
            self._load()

    def _load(self) -> None:
        """Replay for a while, and schedule the rest for a later turn of the loop."""
        until = time.monotonic() + _SLICE_MS / 1000
        while self._loading and not self._is_closed:
            reader = self._loading[0]
            try:
                if self._steps is None:
                    self._services.partitions.open_now(reader.partition)
                    self._steps = reader.read()
                for _ in self._steps:
                    if time.monotonic() >= until:
                        self._services.loop.call_soon(self._load)
                        return
                self._has_loaded(reader)
            except (RecordsError, StorageError, OSError) as error:
                log.error(
                    "%s cannot be read from offset %d on: %s. Partitions whose metadata it has are neither copied to"
                    " remote storage nor removed from there.",
                    reader.partition,
                    reader.next_offset,
                    error,
                )
            self._steps = None
            self._loading.popleft()

    def _has_loaded(self, reader: MetadataReader) -> None:
        index = reader.partition.index
        if self._readers.get(index) is reader:
            self._loaded.add(index)
            self._on_loaded(index)

    def catch_up(self, index: int | None = None) -> None:
        """Replay what was appended to a loaded partition since, by this broker or by others; None: to all."""
        for each in self._loaded if index is None else self._loaded & {index}:
            reader = self._readers[each]
            try:
                for _ in reader.read():
                    pass
            except (RecordsError, StorageError, OSError) as error:
                log.error("%s cannot be read from offset %d on: %s", reader.partition, reader.next_offset, error)

    # -- appending ---------------------------------------------------------------------------------------------------

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
            self.catch_up(index)
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
