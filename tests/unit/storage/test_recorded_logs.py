"""Logs of a real Kafka: appending their batches gives the same files, and opening them gives their content."""

from pathlib import Path

import pytest

from protocol.records.batch import parse_header
from protocol.records.entries import iter_records
from storage.append.header_validation import AppendOrigin
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LONG_MAX
from storage.recovery.loading import load_log
from tests.support.batch_values import patch_in_place
from tests.support.dump_log import LOGS, dumped_logs
from tests.support.logs import open_log
from tests.support.recorded_logs import NOW_MS, copied, recorded_batches, recorded_directories, topic_config

CLEAN = LOGS / "v4.3.1-clean-shutdown"
#: Written by appends alone, without cleaning or deletion.
APPENDED = [
    path
    for path in recorded_directories()
    if path.parent.name in ("v4.3.1-clean-shutdown", "v4.3.1-compaction-1-before")
    and not path.name.startswith(("delrec", "retained", "__cluster", "empty", "name."))
    and not list(path.glob("*.deleted"))
]
#: The files that a start may find after a clean shutdown.
WHOLE = [path for path in recorded_directories(v2_only=False) if not path.parent.name.endswith("2-damaged")]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def opened(path: Path, *, clean: bool, recovery_point: int = 0, expiration_ms: int = LONG_MAX) -> PartitionLog:
    topic, _, partition = path.name.rpartition("-")
    stored = StoredLog(
        str(path),
        topic,
        int(partition),
        topic_config(path),
        NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
        producer_expiration_ms=expiration_ms,
    )
    return load_log(LogDirectory(str(path.parent)), stored)


@pytest.mark.parametrize("path", APPENDED, ids=name_of)
def test_appending_recorded_batches_gives_the_recorded_files(path: Path, tmp_path: Path) -> None:
    """Records, both indexes, aborted transactions, snapshots, and roll offsets (S3.1-S3.3, S4.2, S5.3, S6.1)."""
    config = topic_config(CLEAN / path.name)
    # Batches that the broker rewrote are appended in their rewritten form.
    log = open_log(tmp_path, config)
    log.producer_state.expiration_ms = LONG_MAX
    for data in recorded_batches(path):
        header = parse_header(data)
        internal = path.name.startswith("__") or header.is_control
        records = bytearray(data)
        if not internal:
            patch_in_place(records, 0, 0, -1)
        log.config = config
        if header.timestamp_type:
            patch_back_to_create_time(records)
        now_ms = header.max_timestamp if header.timestamp_type else max(NOW_MS, header.max_timestamp)
        origin = AppendOrigin.COORDINATOR if internal else AppendOrigin.CLIENT
        result = log.append(records, leader_epoch=header.leader_epoch, now_ms=now_ms, origin=origin)
        assert (header.base_offset, header.last_offset) == (result.base_offset, result.last_offset)
    log.close()

    ours = {file.name: file.read_bytes() for file in (tmp_path / "orders-0").iterdir()}
    theirs = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "partition.metadata"}
    assert sorted(theirs) == sorted(ours)
    for name, data in theirs.items():
        assert data == ours[name], name


def patch_back_to_create_time(records: bytearray) -> None:
    """Undo LogAppendTime, as the producer sent the batch."""
    from protocol.records.batch import patch_timestamp

    found = parse_header(records)
    times = [record.timestamp for record in iter_records(bytes(records))]
    patch_timestamp(records, 0, found.size_bytes, 0, max(times))


@pytest.mark.parametrize("path", WHOLE, ids=name_of)
def test_recorded_log_reads_back_its_dump(path: Path, tmp_path: Path) -> None:
    """After a clean shutdown or a crash, all formats: each entry of the dump is read at its offset (S4.9)."""
    expected = [entry for file in dumped_logs(path.parent / f"{path.name}.dump.txt") for entry in file.entries]
    last_offsets = [int(entry.fields.get("lastOffset") or entry.fields["offset"]) for entry in expected]
    for clean in (True, False):
        log = opened(copied(path, tmp_path / str(clean)), clean=clean)
        if expected:
            assert last_offsets[-1] + 1 == log.log_end_offset
        for entry, last_offset in zip(expected, last_offsets, strict=True):
            part = log.read(last_offset, 1, log.log_end_offset)
            assert not isinstance(part, bytes)
            assert int(entry.fields["size"]) == len(part)
            assert [record.offset for record in iter_records(part.read())] == [
                int(record["offset"]) for record in entry.records
            ]
