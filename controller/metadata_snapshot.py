"""Snapshots of the metadata log (`<end offset>-<epoch>.checkpoint`, KIP-630), and bootstrap.checkpoint.

A snapshot replaces all records of the log below its end offset. Layout: a control batch with the snapshot's header
(and, under kraft.version 1, that version and the voters), batches of metadata records, a control batch with the footer.
Offsets count from 0. A file without a footer is incomplete: a snapshot is written under another name first.
bootstrap.checkpoint, which formatting writes, has the same layout, with the first feature levels. Since Apache Kafka
4.4 formatting writes them into the snapshot with end offset 0 instead (KIP-1170).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec import field

from metadata.bulk_records import PartitionChanges, encode_records
from metadata.framing import AnyRecord, decode_record
from protocol.messages.data import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.batch import iter_batches, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.records.control import ControlType, build_control_batch, control_type
from protocol.records.record import iter_batch_records
from protocol.schema import Struct
from storage.errors import CorruptFile
from storage.fs import FileSystem

BOOTSTRAP_FILE = "bootstrap.checkpoint"
BATCH_RECORDS = 1000  # records per batch, so that batches stay below the 8 MiB that Kafka's reader allocates
#: The largest metadata of a node, and the size in which a snapshot's first batch fits.
_MOST_BYTES, _FRONT_BYTES = 512 << 20, 64 << 10

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(msgspec.Struct, frozen=True, order=True):
    """The offset of the first record after the snapshot, and the leader epoch of its last record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


#: The file name of the snapshot that formatting writes.
ZERO_CHECKPOINT = SnapshotId(0, 0).file_name


def snapshot_id(name: str) -> SnapshotId | None:
    """Return the id of the snapshot with that file name; None if the file is not a snapshot."""
    match = _NAME.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match is not None else None


class Quorum(msgspec.Struct):
    """The quorum as the log describes it: the kraft.version, and under version 1 the voters (a VotersRecord)."""

    kraft_version: int = 0
    voters: Struct | None = None

    def take(self, kind: ControlType, value: bytes) -> None:
        """Apply a control record."""
        if kind is ControlType.KRAFT_VERSION:
            self.kraft_version = KRaftVersionRecord.decode(0, value)[0].kraft_version
        elif kind is ControlType.KRAFT_VOTERS:
            self.voters = VotersRecord.decode(0, value)[0]

    def control_records(self) -> list[tuple[ControlType, bytes]]:
        """Return the control records of this state."""
        if not self.kraft_version or self.voters is None:
            return []
        version = KRaftVersionRecord(kraft_version=self.kraft_version)
        return [
            (ControlType.KRAFT_VERSION, KRaftVersionRecord.encode(0, version)),
            (ControlType.KRAFT_VOTERS, VotersRecord.encode(0, self.voters)),
        ]


class Snapshot(msgspec.Struct):
    """A snapshot that was read: its records as bytes, with valid checksums."""

    values: list[bytes] = field(default_factory=list)
    quorum: Quorum = field(default_factory=Quorum)

    @property
    def records(self) -> list[AnyRecord]:
        """Decode the records. Raises ProtocolError."""
        return [decode_record(value) for value in self.values]


def metadata_batch(
    records: Iterable[AnyRecord | PartitionChanges], now_ms: int, *, base_offset: int = 0, leader_epoch: int = 0
) -> bytes:
    """Return a batch of metadata records."""
    builder = BatchBuilder(base_offset, leader_epoch=leader_epoch)
    builder.extend(now_ms, ((None, value) for value in encode_records(records)))
    return builder.build()


def build_snapshot(
    records: Iterable[AnyRecord],
    now_ms: int,
    *,
    epoch: int = 0,
    last_contained_ms: int = 0,
    quorum: Quorum | None = None,
) -> bytes:
    """Return the bytes of a snapshot. `last_contained_ms`: the timestamp of the last record that it covers."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_ms)
    head = [(ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord.encode(0, header))]
    head += quorum.control_records() if quorum is not None else []
    parts = [build_control_batch(head, now_ms, leader_epoch=epoch)]
    offset = len(head)
    rest = iter(records)
    while batch := list(islice(rest, BATCH_RECORDS)):
        parts.append(metadata_batch(batch, now_ms, base_offset=offset, leader_epoch=epoch))
        offset += len(batch)
    footer = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord.encode(0, SnapshotFooterRecord()))]
    parts.append(build_control_batch(footer, now_ms, base_offset=offset, leader_epoch=epoch))
    return b"".join(parts)


def read_snapshot(fs: FileSystem, path: str) -> Snapshot:
    """Read a snapshot. Raises CorruptFile if it is damaged or incomplete, OSError if it cannot be read."""
    return parse_snapshot(fs.read_file(path, _MOST_BYTES), path)


def parse_snapshot(data: bytes, path: str) -> Snapshot:
    """Return the snapshot in the bytes of a file. Raises CorruptFile, with this path."""
    snapshot = Snapshot()
    whole = False
    for position, header in iter_batches(data):
        if not verify_crc(data, position, header.size_bytes):
            raise CorruptFile(path, f"the batch at byte {position} fails its checksum")
        for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
            if record.value is None:
                raise CorruptFile(path, f"the record at offset {record.offset} has no value")
            if header.is_control:
                kind = control_type(record)
                whole = whole or kind is ControlType.SNAPSHOT_FOOTER
                snapshot.quorum.take(kind, record.value)
            else:
                snapshot.values.append(record.value)
    if not whole:
        raise CorruptFile(path, "the snapshot has no footer: it was not written to its end")
    return snapshot


def last_contained_ms(fs: FileSystem, path: str) -> int:
    """Return the timestamp of the last record that a snapshot covers. Raises CorruptFile, OSError."""
    data = fs.read_file(path, _FRONT_BYTES)
    for position, header in iter_batches(data):
        for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
            if header.is_control and control_type(record) is ControlType.SNAPSHOT_HEADER and record.value is not None:
                timestamp: int = SnapshotHeaderRecord.decode(0, record.value)[0].last_contained_log_timestamp
                return timestamp
        break
    raise CorruptFile(path, "the snapshot has no header")


def snapshots_in(fs: FileSystem, directory: str) -> list[SnapshotId]:
    """Return the snapshots in a metadata log's directory, oldest first."""
    return sorted(each for entry in fs.list(directory) if (each := snapshot_id(entry.name)) is not None)


def write_snapshot(fs: FileSystem, directory: str, snapshot_id: SnapshotId, data: bytes) -> None:
    """Write the file and sync it to the disk. It gets its name only once it is complete."""
    fs.replace_file(f"{directory}/{snapshot_id.file_name}", data, sync=True)
