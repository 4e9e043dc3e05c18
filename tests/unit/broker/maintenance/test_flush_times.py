"""Flushes are timed on the thread that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.maintenance import flush_times
from broker.maintenance.flush_times import FlushTimes, Measured
from broker.observability.metrics.metric import quantiles
from storage.log.tasks import OffsetsTask
from tests.support.data_broker import DataBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    broker = DataBroker(tmp_path)
    broker.topic()
    yield broker
    broker.close()


def test_flushes_are_counted_and_timed(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 flushes of 1 to 100 ms."""
    times = FlushTimes()
    clock = iter(value for took in range(1, 101) for value in (0.0, took / 1000))
    monkeypatch.setattr(flush_times, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    for _ in range(100):
        partition.log.mark_unsynced(partition.log.path)
        task = broker.logs.flush_task(partition.log, 0)
        assert task is not None
        times.run(task)
        task.apply()

    measured = times.measured()
    assert measured.count == 100
    assert measured.total_ms == pytest.approx(5050)
    of_latest = dict(quantiles(measured.latest_ms))
    assert of_latest["0.50"] == pytest.approx(50)
    assert of_latest["0.99"] == pytest.approx(99)


def test_other_tasks_are_not_timed(broker: DataBroker) -> None:
    """A checkpoint's file is written, and nothing is counted."""
    times = FlushTimes()
    (directory,) = broker.logs.directories
    times.run(OffsetsTask(directory, "some-checkpoint", {}))

    assert Path(directory.path, "some-checkpoint").exists()
    assert times.measured() == Measured(0, 0.0, [])
