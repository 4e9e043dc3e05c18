"""All logs of a broker: load, create, flush, clean shutdown; several directories."""

import errno
import json
from pathlib import Path

import pytest

from storage.checkpoints import read_offsets
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.dump_log import LOGS
from tests.support.logs import T0, TOPIC_ID, append, batch, do, idempotent, killed, read_all, started
from tests.support.recorded_logs import NOW_MS, copied


def test_logs_are_loaded_after_a_clean_shutdown(tmp_path: Path) -> None:
    """With offsets and topic ids; the clean shutdown mark is used once."""
    manager = started(tmp_path)
    for partition in range(3):
        log = manager.create("with-dash.and_more", partition, TOPIC_ID, LogConfig(), T0)
        for _ in range(partition):
            append(log, batch())
    manager.logs["with-dash.and_more", 2].delete_records(1)
    manager.close(T0, broker_epoch=12)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 12}
    assert read_offsets(LOCAL, str(tmp_path / "log-start-offset-checkpoint")) == {("with-dash.and_more", 2): 1}

    manager = started(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    found = {key: (log.log_start_offset, log.log_end_offset, log.topic_id) for key, log in manager.logs.items()}
    assert found == {
        ("with-dash.and_more", 0): (0, 0, TOPIC_ID),
        ("with-dash.and_more", 1): (0, 1, TOPIC_ID),
        ("with-dash.and_more", 2): (1, 2, TOPIC_ID),
    }
    assert manager.open("with-dash.and_more", 2) is manager.logs["with-dash.and_more", 2]
    assert manager.open("none", 0) is None
    killed(manager)


def test_clean_stop_writes_the_leader_epochs_of_the_start(tmp_path: Path) -> None:
    """The file equals Apache Kafka's, for partitions with and without new batches; a kill before loses no epoch."""
    for epoch in (0, 2, 3):
        manager = started(tmp_path)
        for partition in range(2):
            log = manager.create("t", partition, TOPIC_ID, LogConfig(), T0)
            log.assign_leader_epoch(epoch)
            if not epoch or (epoch == 3 and partition):
                append(log, batch(), leader_epoch=epoch)
        if epoch == 2:
            killed(manager)
        else:
            manager.close(T0)
    assert (tmp_path / "t-0/leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n3 1\n"
    assert (tmp_path / "t-1/leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n3 1\n"


def test_crash_recovers_from_the_recovery_points(tmp_path: Path) -> None:
    """S16.5, S16.9: kill -9 loses nothing that was written."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(segment_bytes=300), T0)
    for sequence in range(10):
        append(log, idempotent(sequence))
    assert do(manager.flush_tasks(T0)) == 1
    assert log.recovery_point == log.segments[-1].base_offset > 0
    do(manager.checkpoint_tasks())
    points = read_offsets(LOCAL, str(tmp_path / "recovery-point-offset-checkpoint"))
    assert points == {("t", 0): log.recovery_point}
    killed(manager)
    manager = started(tmp_path, config=LogConfig(segment_bytes=300))
    again = manager.logs["t", 0]
    assert (again.log_end_offset, again.recovery_point) == (10, log.recovery_point)
    assert [record.sequence for record in read_all(again)] == list(range(10))
    killed(manager)


def test_new_partition_goes_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    """S2: several log.dirs."""
    manager = started(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for partition in range(7):
        manager.create("t", partition, TOPIC_ID, LogConfig(), T0)
    assert [len(list((tmp_path / name).glob("t-*"))) for name in "abc"] == [3, 2, 2]
    manager.delete("t", 1, "f" * 32, T0)
    manager.delete("t", 4, "e" * 32, T0)
    for partition in range(7, 9):
        assert manager.create("t", partition, TOPIC_ID, LogConfig(), T0).directory is manager.directories[1]
    manager.close(T0)


def test_cordoned_directory_gets_no_new_log(tmp_path: Path) -> None:
    """KIP-1066; if all are cordoned, Kafka 4.3.1 uses the one with the fewest logs."""
    manager = started(tmp_path / "a", tmp_path / "b")
    first, second = manager.directories
    manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    second.is_cordoned = True
    manager.preferred["t", 2] = second
    for partition in (1, 2):
        assert manager.create("t", partition, TOPIC_ID, LogConfig(), T0).directory is first
    first.is_cordoned = True
    assert manager.create("t", 3, TOPIC_ID, LogConfig(), T0).directory is second
    manager.close(T0)


def test_create_again_returns_the_same_log(tmp_path: Path) -> None:
    """A second call creates nothing."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    assert manager.create("t", 0, TOPIC_ID, LogConfig(), T0) is log
    assert sorted(path.name for path in Path(log.path).iterdir()) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        "partition.metadata",
    ]
    manager.close(T0)


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    """lost+found of a mounted disk; the metadata log, which the controller opens."""
    for name in ("lost+found", "x", "t-0.abc-future", "__cluster_metadata-0"):
        (tmp_path / name).mkdir()
    manager = started(tmp_path)
    assert manager.logs == {}
    assert sorted(manager.ignored) == [f"{tmp_path}/{name}" for name in ("lost+found", "t-0.abc-future", "x")]
    manager.close(T0)
    assert (tmp_path / "lost+found").is_dir()


def test_second_broker_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    """One locked directory is enough; those locked before are released."""
    import subprocess
    import sys

    manager = started(tmp_path / "b")
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from storage.log_manager import LogManager\n"
        f"LogManager([{str(tmp_path / 'a')!r}, {str(tmp_path / 'b')!r}]).lock()\n"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "DirectoryRefused" in other.stderr
    assert not list((tmp_path / "b").glob("t-*"))
    manager.close(T0)
    first = LogManager([str(tmp_path / "file" / "x")])
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DirectoryRefused):
        first.lock()


def test_flush_by_time(tmp_path: Path) -> None:
    """S16.3: flush.ms counts from the last flush."""
    manager = started(tmp_path)
    timed = manager.create("timed", 0, TOPIC_ID, LogConfig(flush_ms=1000), T0)
    other = manager.create("other", 0, TOPIC_ID, LogConfig(), T0)
    do(manager.flush_tasks(T0))
    append(timed, batch())
    append(other, batch())
    do(manager.flush_tasks(T0 + 999))
    assert (timed.recovery_point, other.recovery_point) == (0, 0)
    do(manager.flush_tasks(T0 + 1000))
    assert (timed.recovery_point, other.recovery_point) == (1, 0)
    assert manager.flush_task(timed, T0) is None
    manager.close(T0 + 2000)
    assert other.recovery_point == 1


def test_directory_of_a_real_kafka_is_served(tmp_path: Path) -> None:
    """The whole recorded directory: every log, and the offsets of its checkpoint files."""
    copy = copied(LOGS / "v4.3.1-clean-shutdown", tmp_path)
    manager = LogManager([str(copy)])
    manager.lock()
    manager.load(lambda topic: LogConfig(), NOW_MS)
    ends = read_offsets(LOCAL, str(LOGS / "v4.3.1-clean-shutdown/recovery-point-offset-checkpoint"))
    starts = read_offsets(LOCAL, str(LOGS / "v4.3.1-clean-shutdown/log-start-offset-checkpoint"))
    assert {key: log.log_end_offset for key, log in manager.logs.items()} == ends
    for key, start in starts.items():
        assert manager.logs[key].log_start_offset == start
    manager.close(NOW_MS)
    assert read_offsets(LOCAL, str(copy / "recovery-point-offset-checkpoint")) == ends
    assert read_offsets(LOCAL, str(copy / "log-start-offset-checkpoint")) == starts


def test_idle_producers_expire(tmp_path: Path) -> None:
    """producer.id.expiration.ms may change."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    append(log, idempotent(0))
    manager.expire_producers(T0 + 86_399_999)
    assert 7 in log.producer_state.producers
    manager.producer_expiration_ms = 1000
    manager.expire_producers(T0 + 1000)
    assert log.producer_state.producers == {}
    manager.close(T0)


def test_all_directories_offline(tmp_path: Path) -> None:
    """Nothing can be created, and the shutdown marks nothing clean."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    manager.directories[0].fail("gone")
    with pytest.raises(LogOffline):
        manager.create("t", 1, TOPIC_ID, LogConfig(), T0)
    with pytest.raises(LogOffline):
        append(log, batch())
    manager.delete("t", 0, "0" * 32, T0)
    assert manager.checkpoint_tasks() == []
    assert list(manager.retention_tasks(T0)) == []
    manager.close(T0)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_flush_without_descriptor_is_due_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule D3: the directory continues, and the waiter of this flush gets an error."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    append(log, batch())
    error = OSError(errno.EMFILE, "Too many open files")
    with monkeypatch.context() as patched:
        patched.setattr(type(LOCAL), "sync_path", lambda *_: (_ for _ in ()).throw(error))
        task = manager.flush_task(log, T0)
        assert task is not None
        do([task])
    with pytest.raises(LogOffline, match="Too many open files"):
        task.check()
    assert log.directory.is_online
    assert log.recovery_point == 0
    assert do(manager.flush_tasks(T0)) == 1
    task = manager.flush_task(log, T0)
    assert task is not None
    do([task])
    task.check()
    assert log.recovery_point == 1
    manager.close(T0)


def test_unreadable_log_does_not_stop_the_others(tmp_path: Path) -> None:
    """It goes offline alone, with its reason; its directory may be deleted and the partition created again."""
    config = LogConfig(segment_bytes=200, file_delete_delay_ms=0)
    manager = started(tmp_path, config=config)
    for partition in range(3):
        log = manager.create("t", partition, TOPIC_ID, config, T0)
        for sequence in range(5):
            append(log, idempotent(sequence))
    manager.close(T0)
    for path in (tmp_path / "t-1").glob("*.snapshot"):
        path.unlink()
    first = min((tmp_path / "t-1").glob("*.log"))
    first.write_bytes(b"\xff" * first.stat().st_size)
    manager = started(tmp_path, config=config)
    assert set(manager.logs) == {("t", 0), ("t", 2)}
    assert manager.directories[0].is_online
    assert "t-1" in str(manager.unopened.refused["t", 1])
    for is_new in (True, False):
        with pytest.raises(LogOffline, match="CorruptBatch"):
            manager.create("t", 1, TOPIC_ID, config, T0, is_new=is_new)
    manager.delete("t", 1, "f" * 32, T0)
    assert not (tmp_path / "t-1").exists()
    assert do(manager.removal_tasks(T0)) == 1
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-2"]
    assert manager.create("t", 1, TOPIC_ID, config, T0).log_end_offset == 0
    killed(manager)


def test_segment_files_have_names_of_20_digits(tmp_path: Path) -> None:
    """Files with similar names are foreign: neither read nor removed, and no start fails because of them."""
    manager = started(tmp_path)
    append(manager.create("t", 0, TOPIC_ID, LogConfig(), T0), batch())
    killed(manager)
    foreign = ["5.log", "7.index", "notes.log", "1.snapshot", "00000000000000000000.log.0.corrupt", "x.txt"]
    for name in foreign:
        (tmp_path / "t-0" / name).write_bytes(b"something")
    (tmp_path / "t-0" / "folder").mkdir()
    manager = started(tmp_path)
    assert manager.logs["t", 0].log_end_offset == 1
    assert {path.name for path in (tmp_path / "t-0").iterdir()} >= {*foreign, "folder"}
    manager.close(T0)


def test_damaged_files_are_reported(tmp_path: Path) -> None:
    """After a clean shutdown: a checkpoint, a log's epochs, an index. Apache Kafka creates empty checkpoint files."""
    manager = started(tmp_path)
    for partition in range(3):
        append(manager.create("t", partition, TOPIC_ID, LogConfig(), T0), batch())
    manager.close(T0)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("garbage")
    (tmp_path / "log-start-offset-checkpoint").write_text("")
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("garbage")
    (tmp_path / "t-1" / f"{0:020}.index").unlink()
    manager = started(tmp_path)

    assert manager.directories[0].remarks == [
        f"{tmp_path}/recovery-point-offset-checkpoint: not a checkpoint file: version or number of entries is missing; "
        "the file is ignored",
        f"{tmp_path}/t-0/leader-epoch-checkpoint: is damaged and was rebuilt from the records",
        f"{tmp_path}/t-1/{0:020}.log: an index is missing or damaged; all indexes of the segment were rebuilt",
    ]
    manager.close(T0)
    manager = started(tmp_path)
    assert manager.directories[0].remarks == []
    manager.close(T0)


def test_empty_epochs_of_an_empty_log_are_no_damage(tmp_path: Path) -> None:
    """Apache Kafka leaves such a file in each replica that has no record yet."""
    manager = started(tmp_path)
    for partition in range(2):
        manager.create("t", partition, TOPIC_ID, LogConfig(), T0)
    append(manager.logs["t", 1], batch())
    manager.close(T0)
    for partition in range(2):
        (tmp_path / f"t-{partition}" / "leader-epoch-checkpoint").write_text("")
    manager = started(tmp_path)
    assert manager.directories[0].remarks == [
        f"{tmp_path}/t-1/leader-epoch-checkpoint: is damaged and was rebuilt from the records"
    ]
    manager.close(T0)


def test_invalid_checkpoint_lines_are_reported(tmp_path: Path) -> None:
    """The other lines count."""
    path, remarks = tmp_path / "checkpoint", []
    path.write_text("0\n2\na 0 7\nnonsense\n")

    assert read_offsets(LOCAL, str(path), remarks) == {("a", 0): 7}
    assert remarks == [f"{path}: 'nonsense' is not an entry and is ignored"]
