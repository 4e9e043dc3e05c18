"""What holds of a log whatever happened to it before: the rules of storage/README.md, each by its name."""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import iter_batches, verify_crc
from protocol.records.entries import iter_records
from protocol.records.record import Record
from storage.log.partition_log import PartitionLog
from storage.producers.markers import read_marker
from tests.support.logs import read_all


def check_rules(log: PartitionLog, removed_below: int = 0) -> list[Record]:
    """Check a log that was opened, by its files and by what readers get; the records from its start on.

    `removed_below`: what lies below was removed once, and may be there again or not (docs/reference/durability.md).
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
    """R4: whole batches only, with right checksums, in order; also across segments, and where segments begin."""
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
    """W5, R6: what is found by the indexes is what is found by reading all."""
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
    """R4: the state of producers is that of their last batches in the log, from `start` on.

    Of a producer whose last batch was removed the state may still tell, or have nothing any more: with that batch, or
    with another of its before it, back in the log it is none the wiser.
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
    """R4: of the transactions in the log just those are told as aborted that have an abort marker."""
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
