"""A moved log that is tiered begins where it began: its first records are in remote storage alone (KIP-405)."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from storage.errors import OffsetOutOfRange
from storage.log_config import LogConfig
from tests.support.moving_broker import Moving

TIERED = LogConfig(
    remote_storage_system=True,
    remote_storage_enable=True,
    segment_bytes=400,
    local_retention_bytes=0,
    retention_ms=-1,
    file_delete_delay_ms=0,
)


@pytest.mark.parametrize("epochs", [1, 2])
def test_moved_log_has_both_starts_and_all_epochs(tmp_path: Path, epochs: int) -> None:
    broker = Moving(tmp_path, config=TIERED)
    for number in range(12):
        if epochs == 2 and number == 4:
            broker.partitions.lead(broker.partition, 7)
        broker.append(b"%d" % number * 100)
    source = broker.partition.log
    source.copied_offset = source.active_segment.base_offset - 1
    broker.background.retain()
    broker.settle()
    source.raise_log_start(1)
    before = source.log_start_offset, source.local_start_offset, source.log_end_offset
    assert 1 < before[1] < before[2]
    known = source.leader_epochs.entries
    assert len(known) == epochs
    assert broker.send_to(1) is ErrorCode.NONE
    broker.settle()
    moved = broker.partition.log
    assert moved is not source
    assert broker.place == "data1"
    assert (moved.log_start_offset, moved.local_start_offset, moved.log_end_offset) == before
    assert moved.segments[0].base_offset == before[1]
    assert moved.leader_epochs.entries == known
    assert moved.copied_offset == source.copied_offset
    with pytest.raises(OffsetOutOfRange):
        moved.read(before[1] - 1, 1000, moved.log_end_offset)
    broker.append(b"more")
    assert moved.log_end_offset == before[2] + 1
    broker.moves.close()
    broker.close()
