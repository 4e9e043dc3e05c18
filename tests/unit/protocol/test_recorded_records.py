"""Records in Apache Kafka's own topics and files are decoded, and encoded to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.messages.coordinator import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from protocol.messages.data import (
    ControlRecordTypeSchema,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    ProducerSnapshot,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from protocol.primitives import read_unsigned_varint
from protocol.records.batch import iter_batches
from protocol.records.record import Record, iter_batch_records
from protocol.schema import Message

LOGS = Path(__file__).parents[2] / "data" / "logs"
CLEAN = LOGS / "v4.3.1-clean-shutdown"


def recorded(path: Path) -> Iterator[tuple[bool, Record]]:
    """Return (is control, record) of all records in a segment file."""
    data = memoryview(path.read_bytes())
    for position, header in iter_batches(data):
        for record in iter_batch_records(data[position : position + header.size_bytes], header):
            yield header.is_control, record


def assert_same(message: Message, version: int, data: bytes) -> None:
    value, end = message.decode(version, data)

    assert end == len(data)
    assert message.encode(version, value) == data


@pytest.mark.parametrize("name", ["__cluster_metadata-0/00000000000000000000.log", "bootstrap.checkpoint"])
def test_metadata_records(name: str):
    """Frame version, record type, version, body; in logs and snapshots."""
    seen = set()
    for is_control, record in recorded(CLEAN / name):
        if is_control:
            continue
        value = record.value or b""
        frame_version, position = read_unsigned_varint(value, 0)
        record_type, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
        assert frame_version == 1
        assert_same(METADATA_RECORDS[record_type], version, value[position:])
        seen.add(METADATA_RECORDS[record_type].name)
    assert "FeatureLevelRecord" in seen


@pytest.mark.parametrize(
    ("directory", "schemas", "expected"),
    [
        ("__consumer_offsets-0", GROUP_RECORDS, {1, 2, 3, 5, 7, 8, 11, 16}),
        ("__transaction_state-0", TRANSACTION_RECORDS, {0}),
        ("__share_group_state-0", SHARE_STATE_RECORDS, {0, 1}),
    ],
)
def test_coordinator_records(directory: str, schemas: dict[int, tuple[Message, Message]], expected: set[int]):
    """The version of the key is the record type; its body is always in version 0. null values are tombstones."""
    seen = set()
    for path in sorted((CLEAN / directory).glob("*.log")):
        for is_control, record in recorded(path):
            if is_control:
                continue
            assert record.key is not None
            record_type = int.from_bytes(record.key[:2], "big")
            key, value = schemas[record_type]
            assert key.key == value.key == record_type
            assert_same(key, 0, record.key[2:])
            if record.value is not None:
                assert_same(value, int.from_bytes(record.value[:2], "big"), record.value[2:])
                seen.add(record_type)
    assert expected <= seen


CONTROL_VALUES = {0: EndTxnMarker, 1: EndTxnMarker, 2: LeaderChangeMessage, 3: SnapshotHeaderRecord}
CONTROL_VALUES |= {4: SnapshotFooterRecord, 5: KRaftVersionRecord}


def test_control_records():
    """The key is an int16 version and the type; a value begins with its version or has it as its first field."""
    seen = set()
    for path in [*CLEAN.glob("*/*.log"), CLEAN / "bootstrap.checkpoint"]:
        for is_control, record in recorded(path):
            if is_control:
                assert record.key is not None
                assert record.value is not None
                key, _ = ControlRecordTypeSchema.decode(0, record.key, 2)
                message = CONTROL_VALUES[key.type]
                version = int.from_bytes(record.value[:2], "big")
                assert_same(message, version, record.value[2 if message is EndTxnMarker else 0 :])
                seen.add(key.type)
    assert {0, 1, 2, 3, 4} <= seen


def test_producer_snapshots():
    """An int16 version, then the body."""
    paths = sorted(LOGS.glob("*/*/*.snapshot"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        assert_same(ProducerSnapshot, int.from_bytes(data[:2], "big"), data[2:])
