"""Convert message sets of old clients (Produce v0-v2) to a record batch.

The rejections are those of Apache Kafka 3.9, the last version that accepts them. This is work per record: more than a
few records are converted in a worker process (broker/replicas/append_scheduler.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.records.batch import LOG_OVERHEAD, MAGIC_OFFSET, MIN_ENTRY_LENGTH, NO_TIMESTAMP, entry_at
from protocol.records.buffer import Buffer
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.errors import CorruptBatch, InvalidRecord, TooLarge, UnsupportedCodec, WrongChecksum
from protocol.records.legacy import Message, iter_entry_records, parse_message, verify_message_crc
from protocol.records.record import Record
from storage.append.record_validation import (
    checked_records,
    codec_level,
    target_codec,
    unpacked_limit,
)
from storage.errors import (
    CorruptRecords,
    InvalidRecords,
    InvalidTimestamp,
    RecordTooLarge,
    TooMuchToOpen,
    UnreadableRecords,
)
from storage.log_config import LogConfig

_MAGICS = (0, 1)
#: A wrapper decompresses to at most this many bytes and messages: old clients limit their batches before they compress
#: them. A message takes a worker about 10 us.
_UNPACKED_BYTES, _MOST_MESSAGES = 64 << 20, 1 << 18


def are_messages(records: Buffer) -> bool:
    """Return whether the first entry is a message of an old format, if it is long enough to tell."""
    return len(records) <= MAGIC_OFFSET or records[MAGIC_OFFSET] in _MAGICS


def has_whole_message(records: Buffer) -> bool:
    """Return whether there is a whole message. Kafka accepts requests without one and appends nothing."""
    return entry_at(records, 0) is not None


def batch_of_messages(records: Buffer, config: LogConfig, now_ms: int) -> bytes:
    """Convert all whole messages in `records`, at least one, to one batch with base offset 0.

    They are uncompressed messages or one wrapper, all of one format. The batch has the wrapper's codec unless the topic
    has another one. Timestamps are kept, -1 in v0. Raises CorruptRecords, InvalidRecords, InvalidTimestamp,
    RecordTooLarge, TooMuchToOpen and UnreadableRecords.
    """
    view = memoryview(records)
    source = _check(view, config)
    codec = target_codec(config, source)
    builder = BatchBuilder(codec=codec, level=codec_level(config, codec) if codec != source else None)
    try:
        for record in checked_records(_iter_records(view, config), config, now_ms):
            builder.append(record.timestamp, record.key, record.value)
    except TooLarge as error:
        raise TooMuchToOpen(f"{error}.") from None
    except WrongChecksum as error:
        raise CorruptRecords(str(error)) from None
    except CorruptBatch as error:
        raise UnreadableRecords(str(error)) from None
    except (InvalidRecord, UnsupportedCodec) as error:
        raise InvalidRecords(str(error)) from None
    batch = builder.build()
    if len(batch) > config.max_message_bytes:
        raise RecordTooLarge(len(batch), config.max_message_bytes)
    return batch


def _iter_records(records: memoryview, config: LogConfig) -> Iterator[Record]:
    """Yield the records of all whole messages."""
    most_bytes = min(unpacked_limit(config), _UNPACKED_BYTES)
    position = 0
    while (found := entry_at(records, position)) is not None:
        end = position + found[1]
        yield from iter_entry_records(records[position:end], most_bytes, max_records=_MOST_MESSAGES, verify_inner=True)
        position = end


def _check(records: memoryview, config: LogConfig) -> int:
    """Check sizes, checksums and formats of the whole messages and return their codec."""
    position = count = source = 0
    while len(records) - position > MAGIC_OFFSET:
        length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        if length < MIN_ENTRY_LENGTH:
            raise CorruptRecords(f"Found record size {length} smaller than minimum record overhead (14).")
        size = length + LOG_OVERHEAD
        if size > len(records) - position:
            break
        count += 1
        if count > _MOST_MESSAGES:
            raise TooMuchToOpen(f"There are more than {_MOST_MESSAGES} messages.")
        entry = records[position : position + size]
        if size > config.max_message_bytes:
            raise RecordTooLarge(size, config.max_message_bytes)
        if entry[MAGIC_OFFSET] != records[MAGIC_OFFSET]:
            raise InvalidRecords(f"Magic {entry[MAGIC_OFFSET]} differs from that of the first message.")
        if not verify_message_crc(entry, 0, size):
            raise CorruptRecords(f"The message at byte {position} has a wrong checksum.")
        source = max(source, _message(entry, config).codec)
        position += size
    if source and count > 1:
        raise InvalidRecords("Compressed outer record has more than one batch")
    return source


def _message(entry: memoryview, config: LogConfig) -> Message:
    try:
        message = parse_message(entry)
    except CorruptBatch as error:
        raise UnreadableRecords(str(error)) from None
    if message.codec > Codec.ZSTD:
        raise UnreadableRecords(f"Unknown compression type id: {message.codec}")
    if config.log_append_time and message.is_log_append_time:
        raise InvalidTimestamp("Producer should not set timestamp type to LogAppendTime.")
    if message.timestamp < NO_TIMESTAMP:
        raise UnreadableRecords(f"Invalid negative timestamp {message.timestamp}")
    return message
