"""Recovery in separate processes: the outcome equals that in this process, even if a process dies."""

import io
import shutil
from pathlib import Path

import pytest

from broker.startup import recovery
from broker.startup.recovery import recover
from runtime.progress import Progress
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.recovery.job import Recovered, RecoveryJob
from storage.recovery.segment import Cut
from tests.support.logs import T0, append, batch, idempotent, read_all

CONFIG = LogConfig(segment_bytes=2000)
PARTITIONS = 6


def filled(root: Path) -> Path:
    """Partitions of several segments after a crash; the third is damaged, the last has a torn tail."""
    manager = LogManager([str(root)])
    manager.lock()
    manager.load(lambda topic: CONFIG, T0)
    for partition in range(PARTITIONS):
        log = manager.create("t", partition, bytes(range(16)), CONFIG, T0)
        for number in range(10 * partition):
            append(log, idempotent(number))
            append(log, batch(b"value"))
        log.close_files()
    manager.unlock()
    damaged = sorted((root / "t-3").glob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    torn = sorted((root / f"t-{PARTITIONS - 1}").glob("*.log"))[-1]
    torn.write_bytes(torn.read_bytes()[:-5])
    return root


def loaded(root: Path, small_bytes: int) -> tuple[object, list[Cut], list[RecoveryJob], dict[str, Recovered]]:
    """Return the state of the logs after recovery by processes, if there are at least `small_bytes`."""
    manager = LogManager([str(root)])
    jobs: list[RecoveryJob] = []
    done: dict[str, Recovered] = {}

    def run(given: list[RecoveryJob]) -> dict[str, Recovered]:
        jobs.extend(given)
        done.update(recover(given, 2, small_bytes=small_bytes))
        return done

    manager.load(lambda topic: CONFIG, T0, run)
    state = {
        key: (
            log.log_start_offset,
            log.log_end_offset,
            log.recovery_point,
            log.segments.base_offsets,
            log.leader_epochs.entries,
            [(each.producer_id, each.last_sequence) for each in log.producer_state.producers.values()],
            read_all(log),
            bool(log.unsynced),
        )
        for key, log in manager.logs.items()
    }
    for log in manager.logs.values():
        append(log, idempotent(log.producer_state.producers[7].last_sequence + 1 if log.log_end_offset else 0))
        log.close_files()
    return state, manager.cuts, jobs, done


def test_processes_recover_as_this_process_does(tmp_path: Path) -> None:
    """Offsets, segments, producers, records, truncations; the next flush syncs everything."""
    here = filled(tmp_path / "logs")
    shutil.copytree(here, tmp_path / "copy")
    state, cuts, jobs, done = loaded(here, small_bytes=1 << 40)
    assert done == {}
    shutil.rmtree(here)
    (tmp_path / "copy").rename(here)
    other_state, other_cuts, other_jobs, other_done = loaded(here, small_bytes=0)
    assert other_state == state
    assert sorted(map(str, other_cuts)) == sorted(map(str, cuts))
    assert other_jobs == jobs
    assert set(other_done) == {f"{here}/t-{partition}" for partition in range(PARTITIONS)}
    sizes = {job.log.path: job.size_bytes for job in jobs}
    assert sizes[f"{here}/t-0"] == 0 < sizes[f"{here}/t-1"] < sizes[f"{here}/t-5"]


def test_unrecoverable_partition_is_left_for_its_open(tmp_path: Path) -> None:
    """The others are recovered. Opening the log raises the same error."""
    root = filled(tmp_path)
    jobs = [
        RecoveryJob(str(root), StoredLog(f"{root}/t-{partition}", "t", partition, CONFIG, T0), 1)
        for partition in range(PARTITIONS)
    ]
    segment = next((root / "t-1").glob("*.log"))
    segment.unlink()
    segment.mkdir()
    (segment.with_suffix(".index")).unlink()
    (segment.with_suffix(".index")).mkdir()
    done = recover(jobs, 2, small_bytes=0)
    assert {f"{root}/t-{partition}" for partition in range(PARTITIONS) if partition != 1} <= set(done)


def test_jobs_of_a_dead_process_are_done_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs are recovered when they are opened."""
    root = filled(tmp_path)
    script = tmp_path / "dies.py"
    script.write_text("import sys; sys.stdin.buffer.read(8)")
    monkeypatch.setattr(recovery.worker, "__file__", str(script))
    state, cuts, jobs, done = loaded(root, small_bytes=0)
    assert (len(jobs), done) == (PARTITIONS, {})
    assert {Path(cut.path).parent.name for cut in cuts} == {"t-3", f"t-{PARTITIONS - 1}"}
    assert isinstance(state, dict)
    assert len(state) == PARTITIONS


def test_recreated_files_of_a_process_are_logged(tmp_path: Path) -> None:
    """As by a start without processes."""
    here = filled(tmp_path / "logs")
    (here / "t-2/leader-epoch-checkpoint").write_text("nonsense")
    shutil.copytree(here, tmp_path / "copy")
    logged = []
    for root, small_bytes in ((here, 1 << 40), (tmp_path / "copy", 0)):
        manager = LogManager([str(root)])
        manager.load(lambda topic: CONFIG, T0, lambda jobs, small=small_bytes: recover(jobs, 2, small_bytes=small))
        logged.append([each.replace(str(root), "") for each in manager.directories[0].remarks])
        for log in manager.logs.values():
            log.close_files()
    assert logged[0] == logged[1]
    assert "/t-2/leader-epoch-checkpoint: is damaged and was rebuilt from the records" in logged[1]


def test_log_lines_of_a_process_reach_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last lines before its end are included."""
    script = tmp_path / "says.py"
    script.write_text("import sys; sys.stdin.buffer.read(8); sys.stderr.write('one\\ntw\\u00f6'); sys.exit(1)")
    monkeypatch.setattr(recovery.worker, "__file__", str(script))
    loaded(filled(tmp_path / "logs"), small_bytes=0)
    assert {record.getMessage() for record in caplog.records} >= {"recovery: one", "recovery: twö"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """It is overwritten, and cleared at the end."""
    seconds = iter([0.0, 2.0, 4.0])
    stream = Terminal()
    progress = Progress("Recovery", 10, 100 << 20, stream=stream, now=lambda: next(seconds))
    progress.show(3, 50 << 20)
    last = stream.getvalue().rpartition("\r\x1b[K")[2]
    assert last == "Recovery [###############...............] 3 of 10 partitions, 50 of 100 MB, about 2 s left"
    progress.show(10, 200 << 20)
    assert "100 of 100 MB, about 0 s left" in stream.getvalue()
    progress.end()
    assert stream.getvalue().endswith("\r\x1b[K")
    assert caplog.text == ""


def test_progress_elsewhere_is_logged_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = Progress("Recovery", 10, 100 << 20, stream=stream, now=lambda: now[0])
    with caplog.at_level("INFO"):
        for second in range(1, 13):
            now[0] = second
            progress.show(second // 2, second * 5 << 20)
        progress.end()
    assert [record.getMessage() for record in caplog.records] == [
        "Recovery: 2 of 10 partitions, 25 of 100 MB, about 15 s left",
        "Recovery: 5 of 10 partitions, 50 of 100 MB, about 10 s left",
    ]
    assert stream.getvalue() == ""
