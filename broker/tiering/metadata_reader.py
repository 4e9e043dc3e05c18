"""Replay one partition of `__remote_log_metadata`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from metadata.topic_names import REMOTE_LOG_METADATA
from protocol.error_codes import ProtocolError
from protocol.records.batch import entry_at, verify_crc
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, WrongChecksum
from tiered.metadata_records import Event, TopicIdPartition, decode

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

log = logging.getLogger(__name__)

#: Bytes read from the log at a time.
_CHUNK_BYTES = 1 << 20
_MAGIC_V2 = 2


class MetadataReader:
    """Reads the committed records of a partition, from its beginning on, whichever broker leads it.

    Args:
        topic_id: the id of the metadata topic.
        replay: called with each record, in order.
    """

    def __init__(self, topic_id: bytes, index: int, replay: Callable[[TopicIdPartition, Event], None]) -> None:
        self.topic_id = topic_id
        self.index = index
        self._replay = replay
        self.next_offset = 0
        #: Whether the log here cannot be read; only a restart reads it again.
        self.has_failed = False

    def read(self, partition: Partition) -> Iterator[None]:
        """Replay up to the high watermark of the log here, with a pause after each batch.

        Raises RecordsError and LogOffline.
        """
        self.next_offset = max(self.next_offset, partition.log_start_offset)
        while (before := self.next_offset) < partition.high_watermark:
            piece = partition.log.read(before, _CHUNK_BYTES, partition.high_watermark)
            yield from self.take(piece if isinstance(piece, bytes) else piece.read())
            if self.next_offset == before:
                raise CorruptBatch(f"no batch continues at offset {before}")

    def take(self, data: bytes) -> Iterator[None]:
        """Replay the whole batches in `data`, with a pause after each of them. Raises RecordsError."""
        view, position = memoryview(data), 0
        while (entry := entry_at(view, position)) is not None:
            _, size, magic = entry
            if magic == _MAGIC_V2 and not verify_crc(view, position, size):
                raise WrongChecksum(f"the checksum of the batch at offset {entry[0]} is wrong")
            following = self.next_offset
            for record in iter_records(view[position : position + size]):
                following = record.offset + 1
                if record.offset >= self.next_offset and record.value is not None:
                    self._take_record(record.offset, record.value)
            self.next_offset = max(self.next_offset, following)
            position += size
            yield

    def _take_record(self, offset: int, value: bytes) -> None:
        try:
            partition, event = decode(value)
        except ProtocolError as error:
            log.error("%s-%d: skipped the record at offset %d: %s", REMOTE_LOG_METADATA, self.index, offset, error)
            return
        self._replay(partition, event)
