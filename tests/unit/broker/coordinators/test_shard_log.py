"""Loading groups from a damaged log: unreadable parts are logged with file and position, never skipped silently.

Also: writing more than one batch holds.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from broker.coordinators.group.coordinator import OFFSETS_TOPIC
from broker.coordinators.shard_log import ShardLog
from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.records.batch import iter_batches
from storage.checkpoints import write_clean_shutdown
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.data_broker import DataBroker
from tests.support.logs import T0, bytes_of

COMMITS = 12
CONFIG = LogConfig(segment_bytes=500)
#: Positions of base offset and length in a batch, which its checksum does not cover.
BASE_OFFSET, LENGTH = 0, 8
LIMIT = 10 * COMMITS


def opened(broker: DataBroker, partition: int = 0) -> ShardLog[GroupShard, StoredRecord]:
    found = broker.partitions.get(OFFSETS_TOPIC, partition)
    assert found is not None
    return ShardLog(found, GroupShard(GROUP_KINDS, partition, GroupSettings(), Timers()), broker.clock, 0, "group")


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    """A log with one commit per batch, and segments of a few batches."""
    made = DataBroker(tmp_path)
    made.topic(OFFSETS_TOPIC, config=CONFIG)
    shard_log = opened(made)
    for number in range(COMMITS):
        shard_log.write([OffsetRecord("g", "t", number, CommittedOffset(100 + number, -1, "", 7))])
    assert len(shard_log.partition.log.segments) >= 3
    made.logs.close(T0)
    return made


def loaded(broker: DataBroker, chunk_bytes: int) -> list[int]:
    """Load the log; return its commits."""
    shard_log = opened(broker)
    steps = len(list(islice(shard_log.load(chunk_bytes), LIMIT)))
    assert steps < LIMIT, "the load makes no progress"
    assert shard_log.loaded
    return [number for number in range(COMMITS) if shard_log.shard.offsets.get("g", "t", number) is not None]


def open_again(broker: DataBroker) -> PartitionLog:
    """Restart after a clean stop."""
    partition = broker.partitions.get(OFFSETS_TOPIC, 0)
    assert partition is not None
    root = partition.log.directory.path
    write_clean_shutdown(LOCAL, root, 1)
    logs = LogManager([root])
    logs.load(lambda topic: CONFIG, T0)
    partition.log = logs.logs[OFFSETS_TOPIC, 0]
    return partition.log


@pytest.mark.parametrize("chunk_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("field", [BASE_OFFSET, LENGTH])
def test_wrong_batch_length_is_logged(
    broker: DataBroker, field: int, chunk_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """D6: the rest of its segment may be lost. All else is loaded."""
    segment = open_again(broker).segments[1]
    path = Path(segment.log.path)
    whole = path.read_bytes()
    places = [(position, header.base_offset) for position, header in iter_batches(whole)]
    assert len(places) >= 3
    size = 8 if field == BASE_OFFSET else 4
    for place, first_lost in places:
        for bit in (0, 2, 7, 9, 15, 30, 31):
            data = bytearray(whole)
            data[place + field + size - 1 - bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            open_again(broker)
            caplog.clear()
            there = loaded(broker, chunk_bytes)
            case = f"bit {bit} of the batch at byte {place}"
            lost = sorted(set(range(COMMITS)) - set(there))
            assert set(lost) <= {first_lost + number for number in range(len(places))}, case
            errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
            assert errors or (field == BASE_OFFSET and not lost), case
            assert all(line.startswith(f"{path}: ") for line in errors), case
            if field == LENGTH:
                assert lost, case
                assert any(f"byte {place}" in line for line in errors), (case, errors)
            path.write_bytes(whole)


def test_intact_log_is_loaded_without_a_log_line(broker: DataBroker, caplog: pytest.LogCaptureFixture) -> None:
    for chunk_bytes in (1, 300, 1 << 20):
        open_again(broker)
        assert loaded(broker, chunk_bytes) == list(range(COMMITS))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_log_that_starts_within_a_segment_is_intact(broker: DataBroker, caplog: pytest.LogCaptureFixture) -> None:
    """After DeleteRecords."""
    open_again(broker).raise_log_start(2)
    assert loaded(broker, 1 << 20) == list(range(2, COMMITS))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_tombstones_fill_as_few_batches_as_possible(tmp_path: Path) -> None:
    """In any order of sizes. A key too large for any batch stops the ones behind it."""
    broker = DataBroker(tmp_path)
    broker.topic(OFFSETS_TOPIC, config=LogConfig(max_message_bytes=20_000))
    shard_log = opened(broker)
    sizes = [450] * 40 + [20] * 1_200 + [6_000] * 3
    limit_bytes = 20_000 - 1_024
    records = [OffsetRecord("g", f"{number:05}".ljust(size, "x"), 0, None) for number, size in enumerate(sizes)]
    assert shard_log.write(records) is ErrorCode.NONE
    log = shard_log.partition.log
    batches = [header for _, header in iter_batches(bytes_of(log.read(0, 1 << 30, log.log_end_offset)))]
    assert sum(batch.record_count for batch in batches) == len(records)
    assert all(batch.size_bytes <= limit_bytes for batch in batches)
    least = -(-sum(len(record.key) + 7 for record in records) // limit_bytes)
    assert least <= len(batches) <= least + 2
    too_large = OffsetRecord("g", "x" * 30_000, 0, None)
    assert shard_log.write([too_large, *records]) is ErrorCode.UNKNOWN_SERVER_ERROR
    broker.close()
