"""Every recorded log of a real Kafka decodes to what kafka-dump-log printed about it."""

from itertools import zip_longest
from pathlib import Path

import pytest

from protocol.records.batch import entry_at, parse_header, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.control import ControlType, control_type, coordinator_epoch
from protocol.records.entries import iter_records
from protocol.records.legacy import parse_message, verify_message_crc
from protocol.records.record import Record
from tests.support.dump_log import LOGS, DumpedEntry, dump_files, dumped_logs

DUMPS = [path for path in dump_files() if "2-damaged" not in str(path)]


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: str(path.relative_to(LOGS)))
def test_recorded_log_decodes_to_its_dump(dump: Path) -> None:
    """Headers, checksums and records of every entry, of all formats and codecs (S8.1, S8.2, S7.3)."""
    for file in dumped_logs(dump):
        data = file.path.read_bytes()
        position = 0
        for expected in file.entries:
            entry = entry_at(data, position)
            assert entry is not None
            _, size, magic = entry
            assert int(expected.fields["position"]) == position
            assert int(expected.fields["magic"]) == magic
            assert int(expected.fields["size"]) == size
            if magic == 2:
                check_batch(data, position, expected)
            else:
                check_message(data, position, size, expected)
            check_records(list(iter_records(data[position : position + size])), expected)
            position += size
        assert position == len(data)


def check_batch(data: bytes, position: int, expected: DumpedEntry) -> None:
    header = parse_header(data, position)
    assert verify_crc(data, position, header.size_bytes)
    assert expected.fields["isvalid"] == "true"
    horizon = "OptionalLong.empty" if header.delete_horizon is None else f"OptionalLong[{header.delete_horizon}]"
    ours = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": str(header.is_transactional).lower(),
        "isControl": str(header.is_control).lower(),
        "deleteHorizonMs": horizon,
        ("LogAppendTime" if header.timestamp_type else "CreateTime"): header.max_timestamp,
        "compresscodec": Codec(header.codec).name.lower(),
        "crc": header.crc,
    }
    assert {name: str(value) for name, value in ours.items()} == {name: expected.fields[name] for name in ours}


def check_message(data: bytes, position: int, size: int, expected: DumpedEntry) -> None:
    message = parse_message(data, position)
    assert verify_message_crc(data, position, size)
    assert int(expected.fields["offset"]) == message.offset
    assert int(expected.fields["crc"]) == message.crc
    assert expected.fields["compresscodec"] == Codec(message.codec).name.lower()
    kind = "NoTimestampType" if message.magic == 0 else "LogAppendTime" if message.is_log_append_time else "CreateTime"
    assert int(expected.fields[kind]) == message.timestamp


def check_records(records: list[Record], expected: DumpedEntry) -> None:
    for record, fields in zip_longest(records, expected.records):
        assert int(fields["offset"]) == record.offset
        assert int(fields["keySize"]) == (-1 if record.key is None else len(record.key))
        assert int(fields["valueSize"]) == (-1 if record.value is None else len(record.value))
        assert int(fields.get("sequence", "-1")) == record.sequence
        times = [int(fields[kind]) for kind in ("CreateTime", "LogAppendTime", "NoTimestampType") if kind in fields]
        assert times == [record.timestamp]
        assert fields.get("headerKeys", "") == ",".join(name for name, _ in record.headers)
        for printed, ours in (("key", record.key), ("payload", record.value)):
            if ours is not None and ours.isascii() and ours.decode().isprintable() and printed in fields:
                assert fields[printed] == ours.decode()
        if "endTxnMarker" in fields:
            assert fields["endTxnMarker"] == control_type(record).name
            assert int(fields["coordinatorEpoch"]) == coordinator_epoch(record)
        if "LeaderChange" in fields:
            assert control_type(record) is ControlType.LEADER_CHANGE


def test_recorded_uncompressed_batches_are_rebuilt_byte_by_byte() -> None:
    """Our builder writes the same bytes as the Java producer and broker: headers, control batches, gaps."""
    rebuilt = 0
    for dump in DUMPS:
        for file in dumped_logs(dump):
            data = file.path.read_bytes()
            for entry in file.entries:
                if entry.fields["magic"] != "2" or entry.fields["compresscodec"] != "none":
                    continue
                position = int(entry.fields["position"])
                header = parse_header(data, position)
                batch = data[position : position + header.size_bytes]
                builder = BatchBuilder(
                    header.base_offset,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    transactional=header.is_transactional,
                    control=header.is_control,
                    leader_epoch=header.leader_epoch,
                    log_append_time_ms=header.max_timestamp if header.timestamp_type else None,
                )
                offset = header.base_offset
                for record in iter_records(batch):
                    builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
                    offset = record.offset
                # The base timestamp, or the end of what was removed, is not always in the records.
                if header.base_timestamp == builder.base_timestamp and header.last_offset == offset:
                    assert builder.build() == batch
                    rebuilt += 1
    assert rebuilt > 300, rebuilt
