"""Segments reach remote storage once they are closed, stable and synced; each step is on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from metadata.delete_topics import TopicReference
from protocol.records.control import build_end_transaction_marker
from storage.append.header_validation import AppendOrigin
from storage.producers.snapshot import decode_snapshot
from tests.support.copying_broker import CopyingBroker
from tests.support.data_client import batch
from tiered.metadata_records import decode
from tiered.segment import RemoteSegment, SegmentState

STARTED, FINISHED = SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED
DELETING, DELETED = SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED


@pytest.fixture
def broker(tmp_path: Path) -> CopyingBroker:
    return CopyingBroker(tmp_path)


def states(broker: CopyingBroker) -> list[SegmentState]:
    """Return the states in all records of the metadata topic, in their order."""
    found = []
    for index in range(2):
        for record in broker.records("__remote_log_metadata", index):
            assert record.value is not None
            event = decode(record.value)[1]
            found.append(SegmentState(event.state))
    return found


def test_closed_segments_are_copied_with_their_indexes(broker: CopyingBroker):
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.round()
    log = partition.log
    closed = log.segments[:-1]
    copies = broker.remote(partition)
    assert [each.start_offset for each in copies] == [segment.base_offset for segment in closed]
    assert {each.state for each in copies} == {FINISHED}
    assert log.copied_offset == log.active_segment.base_offset - 1
    first, end_offset = copies[0], copies[1].start_offset
    files = broker.layout.files[first.id]
    assert broker.layout.objects[first.id] == Path(closed[0].log.path).read_bytes()
    assert files.offset_index == Path(closed[0].paths[1]).read_bytes()
    assert files.time_index == Path(closed[0].paths[2]).read_bytes()
    assert files.producer_snapshot == Path(log.snapshot_path(end_offset)).read_bytes()
    assert files.leader_epochs == b"0\n1\n0 0\n"
    assert files.transaction_index is None
    assert first.has_no_aborted
    assert first.max_timestamp_ms == closed[0].largest_timestamp
    assert first.epochs == ((0, 0),)


def test_local_retention_removes_only_what_is_copied(broker: CopyingBroker):
    partition = broker.tiered(local_retention_bytes="1")
    broker.layout.fails.add("copy")
    broker.append(partition, 10)
    broker.round(3)
    assert partition.log.local_start_offset == 0
    broker.layout.fails.clear()
    broker.round(60)
    assert partition.log.local_start_offset == partition.log.active_segment.base_offset > 0
    assert partition.log.log_start_offset == 0
    broker.check_all_readable(partition)


def test_failed_copy_is_deleted_and_tried_again(broker: CopyingBroker, caplog: pytest.LogCaptureFixture):
    """One line a minute says why, without a traceback."""
    partition = broker.tiered()
    broker.append(partition, 6)
    broker.layout.fails.add("copy")
    broker.round(20)
    assert broker.layout.calls[:4] == ["copy 0", "delete 0", "copy 0", "delete 0"]
    assert states(broker)[:3] == [STARTED, DELETING, DELETED]
    assert not broker.layout.objects
    assert not broker.remote(partition)
    lines = [record for record in caplog.records if "cannot be copied" in record.getMessage()]
    assert len(lines) == 1
    assert "t-0 cannot be copied to remote storage, and is tried again in" in lines[0].getMessage()
    assert lines[0].exc_info is None
    broker.layout.fails.clear()
    broker.round(60)
    assert {each.state for each in broker.remote(partition)} == {FINISHED}
    counts = broker.tier.counts.of("t")
    assert counts.copy_errors == counts.copy_requests - len(broker.remote(partition)) > 1
    assert counts.copied_bytes == sum(each.size_bytes for each in broker.remote(partition))


def test_copy_that_cannot_be_deleted_is_deleted_later(broker: CopyingBroker):
    partition = broker.tiered()
    broker.append(partition, 6)
    broker.layout.fails |= {"copy", "delete"}
    broker.round(3)
    assert DELETING in {each.state for each in broker.remote(partition)}
    broker.layout.fails.clear()
    broker.round(60)
    assert {each.state for each in broker.remote(partition)} == {FINISHED}
    assert broker.layout.objects.keys() == {each.id for each in broker.remote(partition)}


def test_unsynced_segments_are_synced_first(broker: CopyingBroker):
    partition = broker.tiered()
    broker.append(partition, 10)
    assert partition.log.recovery_point == 0
    broker.background.held = True
    broker.round()
    assert not broker.layout.calls
    broker.background.held = False
    broker.background.release()
    broker.round()
    assert broker.layout.calls
    assert partition.log.recovery_point == partition.log.log_end_offset


def test_open_transaction_holds_segments_back(broker: CopyingBroker):
    """Its segment is copied once the transaction has ended, with the index of aborted transactions."""
    partition = broker.tiered()
    broker.append(partition, 1)
    now_ms = broker.clock.now_ms()
    header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    partition.append(bytearray(batch(b"x", timestamp=now_ms, **header)), now_ms)
    broker.append(partition, 10)
    broker.round()
    assert not broker.layout.calls
    marker = build_end_transaction_marker(7, 0, commit=False, coordinator_epoch=0, timestamp_ms=now_ms)
    partition.append(bytearray(marker), now_ms, AppendOrigin.COORDINATOR)
    broker.append(partition, 10)
    broker.round()
    copies = broker.remote(partition)
    aborted = [each for each in copies if not each.has_no_aborted]
    assert len(aborted) == 1
    index = broker.layout.files[aborted[0].id].transaction_index
    assert index is not None
    assert len(index) == 34
    snapshot = decode_snapshot(broker.layout.files[copies[0].id].producer_snapshot, "snapshot")
    assert [each.producer_id for each in snapshot] == [7]


def test_no_copies_while_they_are_disabled(broker: CopyingBroker):
    partition = broker.tiered(remote_log_copy_disable="true")
    broker.append(partition, 10)
    broker.round(2)
    assert not broker.layout.calls


def test_copies_lag_by_bytes(broker: CopyingBroker):
    """KIP-1241: a segment is copied once so many bytes follow it."""
    partition = broker.tiered(remote_copy_lag_ms="1000000", remote_copy_lag_bytes="2000")
    broker.append(partition, 6)
    broker.round(2)
    assert not broker.layout.calls
    broker.append(partition, 10)
    broker.round(2)
    following = partition.log.size_bytes - sum(each.size_bytes for each in broker.remote(partition))
    assert broker.layout.calls
    assert 2000 <= following < 4000


def test_quota_delays_copies(tmp_path: Path):
    broker = CopyingBroker(tmp_path, {"remote.log.manager.copy.max.bytes.per.second": "1000"})
    partition = broker.tiered()
    broker.append(partition, 30)
    broker.advance(1000)
    few = len(broker.layout.calls)
    assert 1 <= few <= 3
    broker.advance(4000)
    assert few < len(broker.layout.calls) <= few + 6
    assert broker.tier.counts.copy_throttle.count


def test_custom_metadata_is_recorded(broker: CopyingBroker):
    broker.layout.custom = b"where"
    partition = broker.tiered()
    broker.append(partition, 6)
    broker.round()
    assert {each.custom for each in broker.remote(partition)} == {b"where"}


def test_too_large_custom_metadata_is_refused(broker: CopyingBroker, caplog: pytest.LogCaptureFixture):
    broker.layout.custom = bytes(129)
    partition = broker.tiered()
    broker.append(partition, 6)
    broker.round()
    assert not broker.layout.objects
    assert "its custom metadata has 129 bytes, and 128 are allowed" in caplog.text


def test_snapshot_that_no_file_has_is_rebuilt(broker: CopyingBroker):
    """A recovery writes a snapshot at the end of the log only."""
    partition = broker.tiered(remote_log_copy_disable="true")
    now_ms = broker.clock.now_ms()
    for sequence in range(12):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        partition.append(bytearray(batch(b"x" * 200, timestamp=now_ms, **header)), now_ms)
    log = partition.log
    kept = {offset: Path(log.snapshot_path(offset)).read_bytes() for offset in log.snapshots}
    for offset in log.snapshots:
        Path(log.snapshot_path(offset)).unlink()
    log.snapshots.clear()
    log.config = broker.config.log_config({"remote.storage.enable": "true"})
    broker.round()
    copies = broker.remote(partition)
    assert len(copies) > 1
    for each in copies:
        assert broker.layout.files[each.id].producer_snapshot == kept[each.end_offset + 1]


def test_segments_without_leader_epochs_are_not_copied(broker: CopyingBroker, caplog: pytest.LogCaptureFixture):
    partition = broker.tiered()
    broker.append(partition, 10)
    partition.log.leader_epochs.clear()
    broker.round()
    assert not broker.layout.calls
    assert "its records have no leader epochs" in caplog.text


def test_deleted_while_copied(broker: CopyingBroker):
    """A topic that is deleted during a copy leaves no objects."""
    partition = broker.tiered()
    broker.append(partition, 10)
    store = broker.layout.copy

    def copy_and_delete(*arguments: object) -> bytes | None:
        broker.controller.delete_topics([TopicReference("t")])
        return store(*arguments)  # type: ignore[arg-type]

    broker.layout.copy = copy_and_delete  # type: ignore[method-assign, assignment]
    broker.round(3)
    assert not broker.layout.objects
    assert not any(isinstance(each, RemoteSegment) for each in broker.remote(partition))
