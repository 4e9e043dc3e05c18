"""Build record batches v2 from records, as producers and the broker's own topics need them.

The cleaner keeps records as bytes instead (storage/cleaner/records.py).
"""

from collections.abc import Iterable, Sequence

from protocol.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    encode_batch,
)
from protocol.records.compression import Codec, compress
from protocol.records.record import Headers, encode_record

_NEW_TUPLE = tuple.__new__


class BatchBuilder:
    """Collects records and builds the bytes of one batch.

    `base_offset`, `leader_epoch`, `producer_id`, `producer_epoch` and `base_sequence` are header fields. With
    `log_append_time_ms` the batch has the type LogAppendTime and all records have this time. `level` is the compression
    level, None for Kafka's default.
    """

    __slots__ = (
        "_last_offset_delta",
        "_max_timestamp",
        "_records",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "codec",
        "control",
        "leader_epoch",
        "level",
        "log_append_time_ms",
        "producer_epoch",
        "producer_id",
        "size_bytes",
        "transactional",
    )

    def __init__(
        self,
        base_offset: int = 0,
        codec: int = Codec.NONE,
        *,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        log_append_time_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.codec = codec
        self.level = level
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.transactional = transactional
        self.control = control
        self.leader_epoch = leader_epoch
        self.log_append_time_ms = log_append_time_ms
        #: The uncompressed size of header and records so far.
        self.size_bytes = HEADER_SIZE
        self._records: list[bytes] = []
        self.base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset_delta = -1

    @property
    def record_count(self) -> int:
        return len(self._records)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | Sequence[tuple[str, bytes | None]] = (),
        *,
        offset: int | None = None,
    ) -> None:
        """Add a record with a `timestamp` in ms.

        `offset` is absolute; None is the next one. A compacted batch may have gaps. Raises ValueError if it is not
        above the last one.
        """
        if not self._records:
            self.base_timestamp = timestamp
        delta = self._last_offset_delta + 1 if offset is None else offset - self.base_offset
        if delta <= self._last_offset_delta:
            raise ValueError(f"offset {offset} is not above the previous one")
        record = encode_record(delta, timestamp - self.base_timestamp, key, value, headers)
        self._records.append(record)
        self.size_bytes += len(record)
        self._last_offset_delta = delta
        self._max_timestamp = max(self._max_timestamp, timestamp)

    def extend(self, timestamp: int, items: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Add a record without headers for each (key, value), all with the same timestamp."""
        base_timestamp = self.base_timestamp if self._records else timestamp
        first, time_delta = self._last_offset_delta + 1, timestamp - base_timestamp
        records = [encode_record(delta, time_delta, key, value) for delta, (key, value) in enumerate(items, first)]
        if records:
            self.base_timestamp = base_timestamp
            self._records += records
            self.size_bytes += sum(map(len, records))
            self._last_offset_delta += len(records)
            self._max_timestamp = max(self._max_timestamp, timestamp)

    def build(self) -> bytes:
        """Return the bytes of the batch."""
        records = b"".join(self._records)
        if self.codec:
            records = compress(self.codec, records, self.level)
        fields = (
            self.base_offset,
            0,
            self.leader_epoch,
            2,
            0,
            self._attributes(),
            self._last_offset_delta,
            self.base_timestamp,
            self._max_timestamp if self.log_append_time_ms is None else self.log_append_time_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            len(self._records),
        )
        return encode_batch(_NEW_TUPLE(BatchHeader, fields), records)

    def _attributes(self) -> int:
        return (
            self.codec
            | (TIMESTAMP_TYPE_BIT if self.log_append_time_ms is not None else 0)
            | (TRANSACTIONAL_BIT if self.transactional else 0)
            | (CONTROL_BIT if self.control else 0)
        )
