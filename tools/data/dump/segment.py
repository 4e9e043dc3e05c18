"""Dump a segment (.log) or a snapshot of the metadata log (.checkpoint): batches and their records."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from struct import Struct

from protocol.error_codes import ProtocolError
from protocol.messages.data import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
)
from protocol.records.compression import Codec
from protocol.records.control import ControlType, control_type, coordinator_epoch
from protocol.records.errors import RecordsError
from protocol.records.legacy import Message, parse_message, unwrap
from protocol.records.record import Record, iter_batch_records
from tools.data.decoders import Decoder
from tools.data.dump.events import (
    Batch,
    Control,
    Event,
    LoggedRecord,
    Note,
)
from tools.data.java_text import decode, message_json
from tools.data.log_reader import LogReader, RawEntry
from tools.errors import DumpFailed

_CREATE_TIME, _APPEND_TIME, _NO_TIME = "CreateTime", "LogAppendTime", "NoTimestampType"
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_MAX_INT = (1 << 31) - 1
_MAGIC, _TIMESTAMP, _LENGTH = Struct(">bb"), Struct(">q"), Struct(">i")

#: The names that Kafka's tool gives to control records whose value is a message.
_CONTROL_MESSAGES = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """How much of a segment to dump. `decoder` None: no keys and payloads."""

    deep: bool = False
    decoder: Decoder | None = None
    with_metadata: bool = True
    max_bytes: int = _MAX_INT


class Gaps:
    """Gaps between offsets, by file: the last offset before and the first after, as Kafka's tool counts.

    The tool begins each file at -1, so every segment but the first has a gap.
    """

    def __init__(self) -> None:
        self.by_path: dict[str, dict[int, int]] = {}

    def report(self) -> Iterator[Note]:
        """Yield the lines that a dump prints at its end."""
        for path, pairs in self.by_path.items():
            yield Note(f"Non-consecutive offsets in {path}", problem=True)
            for before, after in sorted(pairs.items()):
                yield Note(f"  {before} is followed by {after}", problem=True)


def dump_segment(path: str, options: SegmentOptions, gaps: Gaps) -> Iterator[Event]:
    """Yield the contents of the file. Raises DumpFailed, RecordsError or OSError where it cannot be read further."""
    name = os.path.basename(path)
    yield Note(_title(name))
    with LogReader(path) as reader:
        last_offset = -1
        end = 0
        for entry in reader.entries(0, options.max_bytes):
            batch = _batch(reader, entry)
            yield batch
            if options.deep:
                for record in _records(reader, entry, batch, options):
                    if record.offset != last_offset + 1:
                        gaps.by_path.setdefault(os.path.abspath(path), {})[last_offset] = record.offset
                    last_offset = record.offset
                    yield record
            end = entry.position + entry.size_bytes
        if reader.size_bytes > end and options.max_bytes == _MAX_INT:
            yield Note(f"Found {reader.size_bytes - end} invalid bytes at the end of {name}")


def _title(name: str) -> str:
    if name.endswith(".log"):
        stem = name.partition(".")[0]
        if not stem.isascii() or not stem.isdigit():
            raise DumpFailed(f"{name} is not named after an offset")
        return f"Log starting offset: {int(stem)}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    match = _SNAPSHOT_NAME.fullmatch(name)
    if match is None:
        raise DumpFailed(f"{name} is not named after an offset and an epoch")
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"


def _batch(reader: LogReader, entry: RawEntry) -> Batch:
    crc, is_valid = reader.checksum(entry)
    if entry.magic < 2:
        return _old_batch(entry, crc, is_valid)
    if len(entry.head) < HEADER_SIZE:
        raise DumpFailed(f"{len(entry.head)} bytes at position {entry.position} are not a batch header")
    header = parse_header(entry.head)
    return Batch(
        entry.position,
        entry.size_bytes,
        entry.magic,
        header.last_offset,
        _APPEND_TIME if header.timestamp_type == LOG_APPEND_TIME else _CREATE_TIME,
        header.max_timestamp,
        _codec(header.codec),
        crc,
        is_valid,
        header.base_offset,
        header.record_count,
        header.base_sequence,
        header.last_sequence,
        header.producer_id,
        header.producer_epoch,
        header.leader_epoch,
        header.is_transactional,
        header.is_control,
        header.delete_horizon,
    )


def _old_batch(entry: RawEntry, crc: int, is_valid: bool) -> Batch:
    attributes = entry.head[MAGIC_OFFSET + 1]
    kind, timestamp = _NO_TIME, NO_TIMESTAMP
    if entry.magic:
        kind = _APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else _CREATE_TIME
        timestamp = int.from_bytes(entry.head[MAGIC_OFFSET + 2 : MAGIC_OFFSET + 10], "big", signed=True)
    codec = _codec(attributes & CODEC_MASK)
    return Batch(entry.position, entry.size_bytes, entry.magic, entry.offset, kind, timestamp, codec, crc, is_valid)


def _codec(codec: int) -> str:
    try:
        return Codec(codec).name.lower()
    except ValueError:
        raise DumpFailed(f"no codec has the id {codec}") from None


def _records(reader: LogReader, entry: RawEntry, batch: Batch, options: SegmentOptions) -> Iterator[LoggedRecord]:
    if entry.magic < 2:
        yield from _old_records(reader.whole(entry), batch, options)
        return
    header = parse_header(entry.head)
    for record in _in_kafkas_steps(reader.whole(entry), header):
        control = _control(record) if header.is_control and options.with_metadata else None
        key, payload = None, None
        if options.decoder is not None and not header.is_control:
            key, payload = options.decoder(record)
        yield LoggedRecord(
            record.offset,
            batch.timestamp_type,
            record.timestamp,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
            record.sequence,
            tuple(_header_key(name) for name, _ in record.headers) if record.headers else (),
            control=control,
            key=key,
            payload=payload,
            with_metadata=options.with_metadata,
        )


def _header_key(name: str) -> str:
    return decode(name.encode("utf-8", "surrogateescape"))


def _in_kafkas_steps(batch: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Yield a batch's records, up to the point where Kafka stops in a damaged batch.

    Kafka decodes compressed records all at once and others one by one. It checks for surplus bytes before the last.
    """
    if header.record_count == 0:
        return iter(())
    if header.record_count < 0:
        raise DumpFailed(f"a batch cannot have {header.record_count} records")
    records = iter_batch_records(batch, header)
    if header.codec != Codec.NONE:
        return iter(list(records))
    first = islice(records, header.record_count - 1)
    return chain(first, _all(records))


def _all(records: Iterator[Record]) -> Iterator[Record]:
    yield from list(records)


def _old_records(data: memoryview, batch: Batch, options: SegmentOptions) -> Iterator[LoggedRecord]:
    message = parse_message(data)
    if message.codec == Codec.NONE:
        yield _old_record(message, message.offset, message.timestamp, batch.is_valid, batch, options)
        return
    inner = unwrap(message)
    shift = message.offset - inner[-1].offset if message.magic == 1 else 0
    for each in inner:
        timestamp = message.timestamp if message.is_log_append_time else each.timestamp
        yield _old_record(each, each.offset + shift, timestamp, _is_valid(each), batch, options)


def _is_valid(message: Message) -> bool:
    """Return whether the checksum of an inner message is correct."""
    crc = zlib.crc32(_MAGIC.pack(message.magic, message.attributes))
    if message.magic == 1:
        crc = zlib.crc32(_TIMESTAMP.pack(message.timestamp), crc)
    for field in (message.key, message.value):
        crc = zlib.crc32(_LENGTH.pack(-1 if field is None else len(field)), crc)
        crc = zlib.crc32(field or b"", crc)
    return crc == message.crc


def _old_record(
    message: Message, offset: int, timestamp: int, is_valid: bool, batch: Batch, options: SegmentOptions
) -> LoggedRecord:
    key, payload = None, None
    if options.decoder is not None:
        key, payload = options.decoder(Record(offset, timestamp, message.key, message.value))
    return LoggedRecord(
        offset,
        batch.timestamp_type,
        timestamp,
        -1 if message.key is None else len(message.key),
        -1 if message.value is None else len(message.value),
        is_valid=is_valid,
        crc=message.crc,
        key=key,
        payload=payload,
        with_metadata=options.with_metadata,
    )


def _control(record: Record) -> Control:
    kind = control_type(record)
    try:
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return Control("endTxnMarker:", f"{kind.name} coordinatorEpoch: {coordinator_epoch(record)}")
        if kind in _CONTROL_MESSAGES:
            name, message = _CONTROL_MESSAGES[kind]
            data = record.value or b""
            version = min(int.from_bytes(data[:2], "big", signed=True), message.versions.max)
            return Control(name, message_json(message, version, message.decode(version, data)[0]))
    except ProtocolError as error:
        raise RecordsError(f"the control record at offset {record.offset} cannot be read: {error}") from None
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return Control("controlType:", f"UNKNOWN({number})")
