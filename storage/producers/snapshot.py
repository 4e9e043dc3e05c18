"""Producer state in a file <end offset>.snapshot, so that a start need not read the whole log.

    version int16 (1) | crc uint32 | count int32 | entries ...                                       big-endian
    entry: producerId int64 | epoch int16 | lastSequence int32 | lastOffset int64 | offsetDelta int32 |
           timestamp int64 | coordinatorEpoch int32 | currentTxnFirstOffset int64                    46 bytes

The CRC-32C covers the bytes after it. Only the last batch of each producer is stored. A snapshot is written on roll (at
the base offset of the new segment), on close (at the log end offset), and by recovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from protocol.records.crc32c import crc32c
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.producers.state import BatchMetadata, ProducerEntry
from storage.segment.files import SNAPSHOT_SUFFIX, file_name

_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def snapshot_path(directory: str, offset: int) -> str:
    """Return the path of the producer snapshot at `offset`."""
    return f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the file content, byte for byte as Apache Kafka writes it for producers added in this order."""
    ordered = _in_hash_order(list(entries))
    body = _COUNT.pack(len(ordered)) + b"".join(
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_offset,
        )
        for entry in ordered
    )
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    """Return the entries of a snapshot file.

    Raises CorruptFile for another version, a wrong checksum, or entries that do not fill the file.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptFile(path, f"{len(data)} bytes are too short for a snapshot")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION or crc != crc32c(body):
        raise CorruptFile(path, f"version {version} with a checksum of {crc}")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise CorruptFile(path, f"{count} entries do not fill {len(data)} bytes")
    entries = []
    for (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        coordinator_epoch,
        transaction_offset,
    ) in _ENTRY.iter_unpack(body[_COUNT.size :]):
        batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if last_offset >= 0 else []
        open_from = max(transaction_offset, -1)
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, open_from, batches, complete=False)
        entries.append(entry)
    return entries


def write_snapshot(fs: FileSystem, path: str, entries: Iterable[ProducerEntry]) -> None:
    """Write a snapshot without an fsync. The next flush forces it to the disk before the recovery point moves."""
    fs.write_file(path, encode_snapshot(entries))


def read_snapshot(fs: FileSystem, path: str) -> list[ProducerEntry]:
    return decode_snapshot(fs.read_file(path), path)


def _in_hash_order(entries: list[ProducerEntry]) -> list[ProducerEntry]:
    """Sort entries as a java.util.HashMap iterates over Long keys that were added in this order.

    It iterates by bucket, and its table doubles when it is three quarters full. Readers ignore the order, but files
    that equal Kafka's byte for byte are easier to verify.
    """
    size = 16
    while len(entries) > size * 3 // 4:
        size *= 2

    def bucket(entry: ProducerEntry) -> int:
        folded = (entry.producer_id ^ entry.producer_id >> 32) & 0xFFFFFFFF
        return (folded ^ folded >> 16) & (size - 1)

    return sorted(entries, key=bucket)
