"""Dump producer snapshots (.snapshot) and transaction indexes (.txnindex)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from protocol.records.crc32c import crc32c
from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.producers.snapshot import decode_snapshot
from tools.data.dump.events import (
    AbortedTransactionEntry,
    Event,
    Note,
    Producer,
)
from tools.errors import DumpFailed

_TRANSACTION = Struct(">hqqqq")
#: Version, checksum and number of producers; the checksum covers the number and what follows.
_SNAPSHOT_HEAD = Struct(">hIi")
_CRC_END, _PRODUCER_BYTES = 6, 46


def dump_snapshot(path: str) -> Iterator[Event]:
    """Yield the producers in a snapshot. Raises OSError."""
    data = LOCAL.read_file(path)
    try:
        entries = decode_snapshot(data, path)
    except CorruptFile as error:
        yield Note(_what_is_wrong(data, error), problem=True)
        return
    for entry in entries:
        open_from = None if entry.transaction_offset < 0 else entry.transaction_offset
        head = (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, open_from, entry.last_timestamp)
        if not entry.batches:
            yield Producer(*head)
            continue
        batch = entry.batches[-1]
        yield Producer(*head, batch.first_sequence, *batch)


def _what_is_wrong(data: bytes, error: CorruptFile) -> str:
    """Return the error text; Kafka's tool names an unknown version, else both checksums."""
    if len(data) < _SNAPSHOT_HEAD.size:
        return f"Snapshot failed schema validation: {error.reason}"
    version, stored, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        return f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}"
    if not 0 <= count <= (len(data) - _SNAPSHOT_HEAD.size) // _PRODUCER_BYTES:
        return f"Snapshot failed schema validation: it does not hold {count} producers"
    computed = crc32c(memoryview(data)[_CRC_END:])
    return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"


def dump_transaction_index(path: str) -> Iterator[Event]:
    """Yield the aborted transactions in an index. Raises OSError; DumpFailed: unknown version, cut-off entry."""
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) // _TRANSACTION.size * _TRANSACTION.size
    entries = [AbortedTransactionEntry(*fields) for fields in _TRANSACTION.iter_unpack(memoryview(data)[:whole])]
    newest = max((entry.version for entry in entries), default=0)
    if newest > 0:
        raise DumpFailed(f"{path} has an entry of the unknown version {newest}")
    if whole < len(data):
        raise DumpFailed(f"{path} ends with {len(data) - whole} bytes that are not an entry")
    yield from entries
