"""Replay `__remote_log_metadata`: all partitions that this broker leads, and those that it needs of other leaders.

After a start the partitions are replayed in slices, while clients are served. A member of a cluster needs the records
of the partitions that it leads or follows, and reads them every second where another broker leads them.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.replicas.leader_reads import CannotRead
from broker.tiering.metadata_reader import MetadataReader
from broker.tiering.steps import Steps, run, wait
from metadata.topic_names import REMOTE_LOG_METADATA
from protocol.error_codes import ErrorCode
from protocol.records.errors import RecordsError
from runtime.deferred import Deferred
from storage.errors import StorageError

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.tiering.services import TierServices
    from runtime.timers import Timer
    from tiered.metadata_records import Event, TopicIdPartition

log = logging.getLogger(__name__)

#: How long a slice of replaying may block the event loop.
_SLICE_MS = 5
#: How often the partitions of other leaders are read. Kafka's consumer waits for their records.
_POLL_MS = 1_000
#: Bytes read from another leader at a time, which are replayed in one turn of the loop.
_PIECE_BYTES = 64 << 10
_ERRORS = (RecordsError, StorageError, OSError)


class MetadataReplay:
    """The replayed partitions. `loaded` has the numbers of those of which all is replayed.

    Args: see MetadataLog.
    """

    def __init__(
        self,
        services: TierServices,
        replay: Callable[[TopicIdPartition, Event], None],
        on_loaded: Callable[[int], None],
        needed: Callable[[], Collection[int]],
        on_poll: Callable[[], None],
    ) -> None:
        self._services = services
        self._replay = replay
        self._on_loaded = on_loaded
        self._needed = needed
        self._on_poll = on_poll
        self.loaded: set[int] = set()
        self._readers: dict[int, MetadataReader] = {}
        self._loading: deque[tuple[MetadataReader, Partition]] = deque()
        self._steps: Iterator[None] | None = None
        self._reading: set[int] = set()
        self._timer: Timer | None = None
        self._is_closed = False

    def start(self) -> None:
        """Begin to replay."""
        self.catch_up()
        if self._services.leader_reads is not None and self._timer is None:
            self._poll()

    def close(self) -> None:
        """Replay nothing more."""
        self._is_closed = True
        self._loading.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self) -> None:
        self._timer = self._services.timers.call_later(_POLL_MS, self._poll)
        self.catch_up()
        self._on_poll()

    def catch_up(self) -> None:
        """Replay what is new in all partitions of the topic that this broker leads or needs."""
        if self._is_closed:
            return
        led = self._services.partitions.of_topic(REMOTE_LOG_METADATA)
        for index, partition in led.items():
            self._reader(index)
            if index in self.loaded:
                self._catch_up_here(index, partition)
            else:
                self._load_here(index, partition)
        if self._services.leader_reads is None:
            return
        needed = {index for index in self._needed() if index not in led}
        self.loaded &= led.keys() | needed  # what is not followed any more may be outdated
        for index in needed - self._reading:
            self._reading.add(index)
            run(self._read_elsewhere(index)).add_done_callback(partial(self._has_read, index))

    def catch_up_with(self, index: int) -> Deferred[None]:
        """Replay all that is committed in one partition at the moment; resolve then. Fails with CannotRead."""
        partition = self._services.partitions.get(REMOTE_LOG_METADATA, index)
        if partition is None:
            return run(self._read_elsewhere(index))
        if index in self.loaded:
            self._catch_up_here(index, partition)
        return Deferred.resolved(None)

    def refresh(self, index: int) -> Deferred[None]:
        """Replay all that may be committed in one partition at the moment; resolve then. Fails with CannotRead.

        The high watermark of a new leader may be below what is committed, so the end of its log counts.
        """
        return run(self._refresh(index))

    def _refresh(self, index: int) -> Steps[None]:
        partition = self._services.partitions.get(REMOTE_LOG_METADATA, index)
        if partition is not None:
            end_offset = partition.log.log_end_offset
        else:
            end_offset = yield from self._end_elsewhere(index)
        yield from wait(self.catch_up_with(index))
        if self._reader(index).next_offset < end_offset:
            raise CannotRead(ErrorCode.OFFSET_NOT_AVAILABLE)

    def _end_elsewhere(self, index: int) -> Steps[int]:
        """Return where the log of the partition's leader ends: its last epoch ends there."""
        reads, topic = self._services.leader_reads, self._services.metadata.image.topic(REMOTE_LOG_METADATA)
        if reads is None or topic is None or index not in topic.partitions:
            raise CannotRead(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader_epoch = topic.partitions[index].leader_epoch
        end = yield from wait(reads.end_of_epoch(REMOTE_LOG_METADATA, index, leader_epoch))
        return end.offset

    def _reader(self, index: int) -> MetadataReader:
        """Return the reader of a partition; a new one if the topic was created again."""
        topic_id = self._services.partitions.topic_id(REMOTE_LOG_METADATA) or b""
        found = self._readers.get(index)
        if found is None or found.topic_id != topic_id:
            found = self._readers[index] = MetadataReader(topic_id, index, self._replay)
            self.loaded.discard(index)
        return found

    def _has_loaded(self, reader: MetadataReader) -> None:
        if self._readers.get(reader.index) is reader and reader.index not in self.loaded:
            self.loaded.add(reader.index)
            self._on_loaded(reader.index)

    # -- partitions that this broker leads ---------------------------------------------------------------------------

    def _catch_up_here(self, index: int, partition: Partition) -> None:
        reader = self._readers[index]
        try:
            for _ in reader.read(partition):
                pass
        except _ERRORS as error:
            log.error("%s cannot be read from offset %d on: %s", partition, reader.next_offset, error)

    def _load_here(self, index: int, partition: Partition) -> None:
        reader = self._readers[index]
        if reader.has_failed or any(each is reader for each, _ in self._loading):
            return
        self._loading.append((reader, partition))
        if self._steps is None:
            self._load()

    def _load(self) -> None:
        """Replay for a while, and schedule the rest for a later turn of the loop."""
        until = time.monotonic() + _SLICE_MS / 1000
        while self._loading and not self._is_closed:
            reader, partition = self._loading[0]
            try:
                if self._steps is None:
                    self._services.partitions.open_now(partition)
                    self._steps = reader.read(partition)
                for _ in self._steps:
                    if time.monotonic() >= until:
                        self._services.loop.call_soon(self._load)
                        return
                self._has_loaded(reader)
            except _ERRORS as error:
                reader.has_failed = True
                log.error(
                    "%s cannot be read from offset %d on: %s. Partitions whose metadata it has are neither copied to"
                    " remote storage nor removed from there.",
                    partition,
                    reader.next_offset,
                    error,
                )
            self._steps = None
            self._loading.popleft()

    # -- partitions of other leaders ---------------------------------------------------------------------------------

    def _read_elsewhere(self, index: int) -> Steps[None]:
        """Replay all that the leader has committed. Raises CannotRead and RecordsError."""
        reads, reader = self._services.leader_reads, self._reader(index)
        assert reads is not None
        while not self._is_closed:
            found = yield from wait(reads.read(REMOTE_LOG_METADATA, index, reader.next_offset, _PIECE_BYTES))
            before = reader.next_offset = max(reader.next_offset, found.log_start_offset)
            for _ in reader.take(found.records):
                pass
            if reader.next_offset >= found.high_watermark or reader.next_offset == before:
                self._has_loaded(reader)
                return

    def _has_read(self, index: int, done: Deferred[None]) -> None:
        self._reading.discard(index)
        try:
            done.result()
        except CannotRead as error:
            log.debug("%s-%d cannot be read: %s", REMOTE_LOG_METADATA, index, error)
        except Exception as error:
            log.error("%s-%d cannot be replayed: %s", REMOTE_LOG_METADATA, index, error)
