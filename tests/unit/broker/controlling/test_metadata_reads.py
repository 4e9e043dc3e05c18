"""Reads of the metadata log: what a fetch of an observer costs."""

from __future__ import annotations

from unittest.mock import Mock, patch

import pytest

from broker.controlling import metadata_reads
from broker.controlling.metadata_reads import MetadataReads, Position
from controller.metadata_snapshot import SnapshotId
from protocol.records.control import ControlType, build_control_batch
from storage.log.leader_epoch import EpochEntry

LATEST = 3


@pytest.mark.parametrize(
    ("position", "listings"),
    [
        (Position(50, LATEST), 0),
        (Position(100, LATEST), 0),
        (Position(0, 0), 1),
        (Position(10, LATEST), 1),
        (Position(101, LATEST), 1),
        (Position(50, LATEST - 1), 1),
    ],
)
def test_an_observer_of_the_latest_epoch_costs_no_listing(position: Position, listings: int) -> None:
    """Brokers fetch twice a second, and more often; snapshots are for those that are behind or diverge."""
    log = Mock()
    log.partition_log.log_start_offset, log.partition_log.log_end_offset = 10, 100
    log.partition_log.leader_epochs.latest = LATEST
    log.partition_log.end_offset_for_epoch.return_value = EpochEntry(LATEST, 100)
    reads = MetadataReads(log, Mock())
    with patch.object(metadata_reads, "snapshots_in", return_value=[SnapshotId(60, LATEST)]) as listed:
        found = reads.check(position)
    assert listed.call_count == listings
    assert listings or found is None


def test_observers_at_one_offset_share_a_read() -> None:
    """A change of the metadata wakes all brokers at once. Another offset, limit or end is another read."""
    log = Mock()
    log.partition_log.log_start_offset, log.partition_log.recovery_point = 0, 9
    log.partition_log.log_end_offset = 9
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"")], 0)
    log.partition_log.read.side_effect = lambda offset, *_: batch * offset
    reads = MetadataReads(log, Mock())
    for offset, most in ((3, 100), (3, 100), (4, 100), (3, 200)):
        assert reads.read(offset, most) == batch * offset
    log.partition_log.recovery_point = log.partition_log.log_end_offset = 10
    reads.read(3, 200)
    assert [each.args for each in log.partition_log.read.call_args_list] == [
        (3, 100, 9),
        (4, 100, 9),
        (3, 200, 9),
        (3, 200, 10),
    ]
