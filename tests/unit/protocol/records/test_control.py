"""Control batches: keys, values, and markers byte for byte as in a recorded log."""

import pytest

from protocol.records.batch import parse_header
from protocol.records.control import (
    ControlType,
    build_control_batch,
    build_end_transaction_marker,
    control_type,
    coordinator_epoch,
    encode_control_key,
)
from protocol.records.entries import iter_records
from protocol.records.errors import InvalidRecord
from protocol.records.record import Record
from tests.support.dump_log import LOGS, dumped_logs


def test_markers_equal_the_recorded_ones() -> None:
    """Commit and abort markers of a real transaction coordinator."""
    markers = 0
    for file in dumped_logs(LOGS / "v4.3.1-clean-shutdown" / "txn-0.dump.txt"):
        data = file.path.read_bytes()
        for entry in file.entries:
            header = parse_header(data, int(entry.fields["position"]))
            if not header.is_control:
                continue
            batch = data[int(entry.fields["position"]) :][: header.size_bytes]
            [record] = iter_records(batch)
            built = build_end_transaction_marker(
                header.producer_id,
                header.producer_epoch,
                commit=control_type(record) is ControlType.COMMIT,
                coordinator_epoch=coordinator_epoch(record),
                timestamp_ms=record.timestamp,
                leader_epoch=header.leader_epoch,
            )
            assert built[8:] == batch[8:]
            markers += 1
    assert markers > 3


def test_leader_change_is_a_control_batch_without_producer() -> None:
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"value")], 5, base_offset=3, leader_epoch=2)
    header = parse_header(batch)
    [record] = iter_records(batch)

    assert (header.is_control, header.is_transactional, header.producer_id) == (True, False, -1)
    assert (header.base_offset, header.leader_epoch) == (3, 2)
    assert (control_type(record), record.value) == (ControlType.LEADER_CHANGE, b"value")


def test_unknown_control_types_are_not_an_error() -> None:
    """Newer brokers may write types that older readers skip (KIP-98)."""
    assert control_type(Record(0, 0, b"\0\0\0\x63", None)) is ControlType.UNKNOWN
    assert encode_control_key(ControlType.COMMIT) == b"\0\0\0\1"


def test_short_control_keys_and_values_are_rejected() -> None:
    for record in (Record(0, 0, None, b""), Record(0, 0, b"\0", b""), Record(0, 0, b"\xff\xff\0\0", b"")):
        with pytest.raises(InvalidRecord):
            control_type(record)
    for value in (None, b"\0\0\0"):
        with pytest.raises(InvalidRecord):
            coordinator_epoch(Record(0, 0, b"\0\0\0\0", value))
