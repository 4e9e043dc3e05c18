"""Background work: when tasks run, and how the thread runs them."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest

from broker.external_readers.holds import RetentionHolds
from broker.maintenance.log_scheduler import TICK_MS, Background
from protocol.records.builder import BatchBuilder
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.tasks import FlushTask
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.data_client import batch


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    made = DataBroker(tmp_path)
    made.background.start()
    return made


def append(broker: DataBroker, count: int = 1, **fields: object) -> None:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    for _ in range(count):
        builder = BatchBuilder(**fields)  # type: ignore[arg-type]
        builder.append(broker.clock.now_ms(), b"k", b"v" * 100)
        partition.append(builder.build(), broker.clock.now_ms())


def test_flush_ms_is_obeyed(broker: DataBroker) -> None:
    partition = broker.topic(config=LogConfig(flush_ms=3_000))
    append(broker)
    broker.advance(2_500)
    assert partition.log.recovery_point == 0
    broker.advance(1_000)
    assert partition.log.recovery_point == 1


def test_without_flush_ms_the_kernel_decides(broker: DataBroker) -> None:
    partition = broker.topic()
    append(broker)
    broker.advance(100_000)

    assert partition.log.recovery_point == 0


def test_rolled_segments_are_flushed_soon(broker: DataBroker) -> None:
    partition = broker.topic(config=LogConfig(segment_bytes=400))
    append(broker, 3)
    assert len(partition.log.segments) == 2
    broker.advance(TICK_MS)

    assert partition.log.recovery_point == partition.log.active_segment.base_offset == 2


def test_retention_removes_segments_and_later_their_files(broker: DataBroker, tmp_path: Path) -> None:
    """Renamed at once, removed after file.delete.delay.ms. The first check follows log.initial.task.delay.ms."""
    partition = broker.topic(config=LogConfig(segment_bytes=400, retention_bytes=500, file_delete_delay_ms=60_000))
    append(broker, 10)
    broker.advance(30_000)
    files = tmp_path / "data0" / "t-0"

    assert partition.log_start_offset == 6
    assert (files / "00000000000000000000.log.deleted").exists()
    broker.advance(60_000 + TICK_MS)
    assert not list(files.glob("*.deleted"))
    broker.clock.advance(1)
    partition.log.config = replace(partition.log.config, retention_bytes=0)
    broker.advance(300_000)
    assert partition.log_start_offset == 10


def test_checkpoints_are_written_at_their_intervals(tmp_path: Path) -> None:
    """Recovery points and log start offsets have separate intervals. An interval of 0 writes once."""
    broker = DataBroker(
        tmp_path,
        {
            "log.initial.task.delay.ms": 5_000,
            "log.flush.offset.checkpoint.interval.ms": 10_000,
            "log.flush.start.offset.checkpoint.interval.ms": 0,
        },
    )
    broker.background.start()
    partition = broker.topic(config=LogConfig(flush_ms=1))

    def written(name: str) -> dict[tuple[str, int], int]:
        return dict(read_offsets(LOCAL, str(tmp_path / "data0" / name)))

    append(broker, 2)
    partition.delete_records(1)
    assert written(RECOVERY_POINTS) == {}
    broker.advance(5_000)
    assert written(RECOVERY_POINTS) == {("t", 0): 2}
    assert written(LOG_START_OFFSETS) == {("t", 0): 1}
    append(broker)
    partition.delete_records(3)
    broker.advance(9_000)
    assert written(RECOVERY_POINTS) == {("t", 0): 2}
    broker.advance(1_000)
    assert written(RECOVERY_POINTS) == written(HIGH_WATERMARKS) == {("t", 0): 3}
    assert written(LOG_START_OFFSETS) == {("t", 0): 1}


def test_inactive_producers_expire(tmp_path: Path) -> None:
    """After producer.id.expiration.ms, at the next check, without log.initial.task.delay.ms."""
    broker = DataBroker(
        tmp_path,
        {
            "log.initial.task.delay.ms": 3_600_000,
            "producer.id.expiration.ms": 20_000,
            "producer.id.expiration.check.interval.ms": 3_000,
        },
    )
    broker.background.start()
    partition = broker.topic()
    append(broker, producer_id=5, producer_epoch=0, base_sequence=0)
    broker.advance(18_000)
    assert 5 in partition.log.producer_state.producers
    broker.advance(6_000)
    assert 5 not in partition.log.producer_state.producers


def test_flush_serves_all_earlier_requests(broker: DataBroker) -> None:
    partition = broker.topic()
    append(broker)
    broker.background.held = True
    first = broker.background.flush(partition.log)
    broker.settle()
    append(broker)
    later = [broker.background.flush(partition.log) for _ in range(2)]
    broker.background.release()
    assert (first.done, [each.done for each in later]) == (True, [False, False])
    assert partition.log.recovery_point == 1
    broker.background.release()
    assert [each.done for each in later] == [True, True]
    assert partition.log.recovery_point == 2


def test_flush_serves_all_requests_of_a_turn(broker: DataBroker) -> None:
    """Of all connections that were ready, with writes after the first request."""
    partition = broker.topic()
    broker.background.held = True
    asked = []
    for _ in range(3):
        append(broker)
        asked.append(broker.background.flush(partition.log))
    broker.background.release()

    assert [each.done for each in asked] == [True] * 3
    assert partition.log.recovery_point == 3


def test_dependants_wait_if_flush_messages_is_set(broker: DataBroker) -> None:
    partition = broker.topic(config=LogConfig(flush_messages=2))
    append(broker)
    assert broker.background.forced(partition.log) is None
    append(broker)
    forced = broker.background.forced(partition.log)
    assert forced is not None
    broker.settle()
    assert forced.result() is None
    assert partition.log.recovery_point == 2
    assert broker.background.forced(partition.log) is None


def test_flush_includes_pending_work_of_other_flushes(broker: DataBroker) -> None:
    """They run concurrently, and another one may still be syncing the directory of new segments."""
    partition = broker.topic(config=LogConfig(segment_bytes=400))
    append(broker, 3)
    first = next(iter(broker.logs.flush_tasks(0)))
    append(broker)
    second = broker.logs.flush_task(partition.log, 0)
    assert isinstance(first, FlushTask)
    assert second is not None

    assert partition.log.path in first._paths
    assert first._paths <= second._paths
    for task in (second, first):
        task.run()
        task.apply()
    assert (partition.log.flushes, partition.log.recovery_point) == ([], 4)


def test_log_has_one_flush_at_a_time(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """W3: the kernel reports a disk error to one sync of a file only, so the second flush fails after the first."""
    partition = broker.topic(config=LogConfig(segment_bytes=400))
    append(broker, 3)
    in_pool: list[object] = []
    monkeypatch.setattr(broker.background, "run_in_pool", lambda task: in_pool.append(task) or Deferred())
    broker.background.held = True
    broker.advance(TICK_MS)  # the rolled segment is being flushed by the thread
    flushed = broker.background.flush(partition.log)
    broker.loop.settle()
    [(first, _), (second, _)] = broker.background._waiting
    assert [each.end_offset for each in (*first, *second)] == [2, 3]
    assert not in_pool
    errors = iter([OSError(errno.EIO, "the first hears it")])

    def sync(_: int) -> None:
        for error in errors:
            raise error

    monkeypatch.setattr(partition.log.directory.fs, "sync", sync)
    broker.background.release()
    with pytest.raises(LogOffline, match="the first hears it"):
        flushed.result()


def test_awaited_flush_runs_alone(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes of rolled segments and by flush.ms wait until it is done."""
    partition = broker.topic(config=LogConfig(segment_bytes=400, flush_ms=1))
    append(broker)
    in_pool: list[FlushTask] = []
    monkeypatch.setattr(broker.background, "run_in_pool", lambda task: in_pool.append(task) or Deferred())
    broker.background.flush(partition.log)
    broker.loop.settle()
    append(broker, 3)
    broker.advance(3 * TICK_MS)
    assert len(partition.log.flushes) == len(in_pool) == 1
    assert partition.log.recovery_point == 0
    in_pool[0].run()
    in_pool[0].apply()
    broker.advance(TICK_MS)
    assert partition.log.recovery_point == 4


def test_slow_disk_gets_no_second_flush(broker: DataBroker) -> None:
    """Only some of many logs are flushed at a time, as each keeps files open."""
    broker.topic(partitions=40, config=LogConfig(flush_ms=1))
    now_ms = broker.clock.now_ms()
    for partition in broker.partitions:
        builder = BatchBuilder()
        builder.append(now_ms, None, b"v")
        partition.append(builder.build(), now_ms)
    broker.background.held = True
    broker.advance(5 * TICK_MS)
    flushed = 0
    while flushed < 40:
        [(tasks, _)] = broker.background._waiting
        assert len(tasks) <= 16
        flushed += len(tasks)
        broker.background.release()
    broker.background.held = False
    broker.background.release()
    assert all(partition.log.recovery_point == 1 for partition in broker.partitions)


def test_flush_of_a_failed_directory_fails(broker: DataBroker) -> None:
    partition = broker.topic()
    append(broker)
    broker.background.held = True
    flushed = broker.background.flush(partition.log)
    partition.log.directory.fail("fsync failed")
    broker.background.release()

    with pytest.raises(LogOffline, match="fsync failed"):
        flushed.result()


def test_thread_runs_tasks_in_order_and_loop_applies_them(tmp_path: Path) -> None:
    seen: list[str] = []

    class RecordingTask:
        """A task that records its calls."""

        def __init__(self, name: str) -> None:
            self.name = name

        def run(self) -> None:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            seen.append(f"run {self.name}")

        def apply(self) -> None:
            asyncio.get_running_loop()
            seen.append(f"apply {self.name}")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = DataBroker(tmp_path)
        background = Background(made.logs, made.config, loop, Timers(loop, Clock()), Clock())  # type: ignore[arg-type]
        background.start()
        done = asyncio.Event()
        background.run([RecordingTask("a"), RecordingTask("b")])
        background.run([RecordingTask("c")]).add_done_callback(lambda _: done.set())
        assert background.run([]).done
        await done.wait()
        background.stop()
        background.stop()

    asyncio.run(main())

    assert seen.index("apply a") > seen.index("run b")
    assert [each for each in seen if each.startswith("run")] == ["run a", "run b", "run c"]
    assert [each for each in seen if each.startswith("apply")] == ["apply a", "apply b", "apply c"]


def test_task_that_cannot_be_applied_blocks_no_other(caplog: pytest.LogCaptureFixture):
    """Others are applied, and waiters for all of them continue."""
    applied: list[str] = []

    class Broken:
        def run(self) -> None: ...

        def apply(self) -> None:
            raise ValueError("mine")

    class Sound(Broken):
        def apply(self) -> None:
            applied.append("sound")

    done: Deferred[None] = Deferred()
    Background._apply([Broken(), Sound()], done)

    assert (applied, done.done) == (["sound"], True)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["mine"]


def test_retention_skips_no_log_opened_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens none itself; unopened ones have their turn in a later round."""
    made = DataBroker(tmp_path)
    made.topic("t", 20)
    for partition in made.partitions:
        partition.append(bytearray(batch(b"a", timestamp=made.clock.now_ms())), made.clock.now_ms())
    made.close()
    broker = DataBroker(tmp_path, may_wait=True)
    for index in range(8):
        broker.logs.open("t", index)
    looked_at: list[int] = []
    monkeypatch.setattr(broker.logs, "retention_task", lambda log, now_ms: looked_at.append(log.partition))
    broker.background.retain()
    broker.logs.open("t", 15)
    broker.settle()
    assert sorted(looked_at) == [*range(8), 15]
    assert len(broker.logs.unopened) == 11
    broker.close()


@pytest.mark.parametrize(("readers", "expected"), [(False, [3, 150]), (True, list(range(200)))])
def test_retention_looks_at_empty_logs_for_readers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: bool, expected: list[int]
) -> None:
    """A large broker has many, and checks them often."""
    broker = DataBroker(tmp_path)
    broker.topic("t", 200)
    for index in (3, 150):
        partition = broker.partitions.get("t", index)
        assert partition is not None
        partition.append(bytearray(batch(b"a", timestamp=broker.clock.now_ms())), broker.clock.now_ms())
    looked_at: list[int] = []
    monkeypatch.setattr(broker.logs, "retention_task", lambda log, now_ms: looked_at.append(log.partition))
    monkeypatch.setattr(RetentionHolds, "has_readers", readers)
    done = broker.background.retain()
    broker.settle()
    assert done.done
    assert sorted(looked_at) == expected
    broker.close()


def test_retention_reports_the_removal_of_the_last_segment(tmp_path: Path) -> None:
    """Among many logs, some of which the thread is still busy with."""
    broker = DataBroker(tmp_path)
    broker.topic("t", 20, config=LogConfig(retention_ms=1))
    log = next(iter(broker.partitions)).log
    now_ms = broker.clock.now_ms()
    log.append(bytearray(batch(b"a", timestamp=now_ms)), leader_epoch=0, now_ms=now_ms)
    broker.clock.advance(10_000)
    broker.background.held = True
    done = broker.background.retain()
    broker.settle()
    assert not done.done
    broker.background.release()
    assert done.done
    assert log.log_start_offset == 1
    broker.close()
