"""The machine loses its power: what was forced to the disk is there again, and the log is whole (rules W3, W4, R4)."""

from pathlib import Path
from random import Random

import pytest

from storage.checkpoints import RECOVERY_POINTS, read_offsets
from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.tasks import Task
from tests.support.failing_fs import ForgetfulFileSystem
from tests.support.logs import T0, append, batch, idempotent, read_all
from tests.support.scale import scaled

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=512, retention_ms=-1)


def do(tasks: list[Task]) -> None:
    for task in tasks:
        task.run()
        task.apply()


@pytest.mark.parametrize("seed", range(scaled(20)))
def test_what_lies_below_the_recovery_point_survives(seed: int, tmp_path: Path) -> None:
    """Appends, rolls, flushes, checkpoints, retention in any order, then the cut."""
    random = Random(seed)
    fs = ForgetfulFileSystem()
    manager = LogManager([str(tmp_path)], fs=fs)
    manager.lock()
    log = manager.create("orders", 0, bytes(range(16)), CONFIG, T0)
    written: dict[int, bytes] = {}
    sequence = 0
    for step in range(random.randrange(5, 60)):
        choice = random.randrange(12)
        if choice < 5:
            value = b"plain-%d" % step
            written[append(log, batch(value, timestamp=T0 + step))] = value
        elif choice < 8:
            written[append(log, idempotent(sequence))] = b"%d" % sequence
            sequence += 1
        elif choice == 8:
            do(manager.flush_tasks(T0))
        elif choice == 9:
            task = manager.flush_task(log, T0)
            do([] if task is None else [task])
        elif choice == 10:
            do(manager.checkpoint_tasks())
        else:
            log.delete_records(random.randrange(log.log_start_offset, log.log_end_offset + 1))
            do(list(manager.retention_tasks(T0)))
    for each in manager.logs.values():
        each.close_files()
    manager.unlock()
    fs.lose_power(tmp_path)

    safe = read_offsets(LOCAL, str(tmp_path / RECOVERY_POINTS)).get(("orders", 0), 0)
    manager = LogManager([str(tmp_path)])
    manager.lock()
    manager.load(lambda topic: CONFIG, T0)
    again = manager.get("orders", 0)
    assert again is not None
    assert again.log_end_offset >= safe
    records = read_all(again)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    # Above it a segment may have lost its end while the next one's name was kept.
    assert set(range(again.log_start_offset, safe)) <= set(offsets)
    for record in records:
        assert record.value == written[record.offset]
    sequences = [record.sequence for record in records if record.sequence >= 0]
    if sequences:
        assert again.producer_state.producers[7].last_sequence == sequences[-1]
    assert append(again, batch(b"next")) == again.log_end_offset - 1
    if safe:
        assert again.topic_id == bytes(range(16))
    manager.close(T0)
