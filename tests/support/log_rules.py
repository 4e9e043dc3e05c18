"""The rules of storage/README.md that hold for every log, each by its name."""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import iter_batches, verify_crc
from protocol.records.entries import iter_records
from protocol.records.record import Record
from storage.log.partition_log import PartitionLog
from storage.producers.markers import read_marker
from tests.support.logs import read_all


def check_rules(log: PartitionLog, removed_below: int = 0) -> list[Record]:
    """Check an opened log by its files and by its readers; return the records from its start on.

    `removed_below`: records below were removed once, and may be back (docs/reference/durability.md).
    """
    _check_files(log)
    records = read_all(log)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets)), "R4: offsets go up"
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset, (
        "R4: log's offsets"
    )
    assert log.recovery_point <= log.log_end_offset, "W3: the recovery point lies in the log"
    _check_look_ups(log, records)
    _check_producers(log, max(removed_below, log.log_start_offset))
    return records


def _check_files(log: PartitionLog) -> None:
    """R4: only whole batches, with right checksums, in order; also across segments and at their first offsets."""
    end = log.segments[0].base_offset
    for segment in log.segments:
        data = Path(segment.log.path).read_bytes()[: segment.size_bytes]
        assert end <= segment.base_offset, "R4: segments do not overlap"
        end = max(end, segment.base_offset)
        position = 0
        for start, header in iter_batches(data):
            assert verify_crc(data, start, header.size_bytes), "R4: the checksum is right"
            assert end <= header.base_offset <= header.last_offset, "R4: batches follow each other"
            end = header.next_offset
            position = start + header.size_bytes
        assert position == len(data), "R4: whole batches only"
    assert end <= log.log_end_offset, "R4: the log ends behind its last batch"


def _check_look_ups(log: PartitionLog, records: list[Record]) -> None:
    """W5, R6: a look-up by an index finds the same as a full read."""
    largest = -1
    for record in records:
        part = log.read(record.offset, 1, log.log_end_offset)
        found = list(iter_records(part if isinstance(part, bytes) else part.read()))
        assert found[0].offset <= record.offset <= found[-1].offset, "R6: an offset is found by the index"
        if record.timestamp > largest:
            at = log.offset_for_timestamp(record.timestamp)
            assert at is not None, "R6: a time is found by the index"
            assert (at.timestamp, at.offset) == (record.timestamp, record.offset), "R6: a time is found by the index"
            largest = record.timestamp
    assert log.offset_for_timestamp(largest + 1) is None, "R6: nothing is later than the latest"


def _check_producers(log: PartitionLog, start: int) -> None:
    """R4: the state of producers matches their last batches in the log, from `start` on.

    If the last batch of a producer was removed, its state may still be there or not: an older batch of it may be in the
    log again.
    """
    last: dict[int, tuple[int, int, int]] = {}
    for segment in log.segments:
        for entry in segment.scan(0):
            header = entry.header
            if header is not None and header.producer_id >= 0 and not header.is_control:
                last[header.producer_id] = header.producer_epoch, header.last_sequence, header.last_offset
    for producer_id, expected in last.items():
        if expected[2] < start:
            continue
        known = log.producer_state.producers[producer_id]
        assert (known.producer_epoch, known.last_sequence, known.last_offset) == expected, "R4: producers agree"


def check_aborted(log: PartitionLog) -> None:
    """R4: only transactions with an abort marker in the log are reported as aborted."""
    opened: dict[int, int] = {}
    markers: dict[int, int] = {}
    expected: set[tuple[int, int, int]] = set()
    for segment in log.segments:
        data = memoryview(Path(segment.log.path).read_bytes())[: segment.size_bytes]
        for start, header in iter_batches(data):
            if header.is_transactional and not header.is_control:
                opened.setdefault(header.producer_id, header.base_offset)
            elif header.is_control and (marker := read_marker(data[start : start + header.size_bytes], header)):
                first = opened.pop(header.producer_id, None)
                if marker.aborted:
                    markers[header.base_offset] = header.producer_id
                    if first is not None and first >= log.log_start_offset:
                        expected.add((header.producer_id, first, header.base_offset))
    found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    assert expected <= {each[:3] for each in found}, "R4: what was aborted is known"
    assert all(markers[each.last_offset] == each.producer_id for each in found), "R4: nothing else is"
