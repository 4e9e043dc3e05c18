"""Positions of archives for retention, and the log lines, as manifests change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.external_readers.archives.archives import INTERVAL_MS, Archives
from runtime.timers import Timers
from tests.support.archives import put_manifest
from tests.support.fake_loop import FakeLoop

Place = tuple[str, int]


class Stage:
    """Archives in `lake` and `other`, checks that run when a test triggers them, and logs that all end at 100."""

    def __init__(self, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.lake, self.other = directory / "lake", directory / "other"
        self.log_ends: dict[Place, int] = {(topic, index): 100 for topic in ("orders", "clicks") for index in range(3)}
        self._loop = FakeLoop()
        self._calls: list[Callable[[], None] | None] = []
        self._caplog = caplog
        caplog.set_level(logging.INFO)
        self.archives = Archives(
            [str(self.lake), str(self.other)],
            self.log_ends.get,
            self._loop,  # type: ignore[arg-type]
            Timers(self._loop, self._loop.clock),
            in_thread=self._calls.append,
        )
        self.archives.start()

    def look(self) -> list[str]:
        """Run the check that is due; return its log lines."""
        self._caplog.clear()
        (call,) = self._calls
        self._calls.clear()
        assert call is not None
        call()
        self._loop.settle()
        self._loop.advance(INTERVAL_MS)
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def stage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Stage:
    return Stage(tmp_path, caplog)


def test_position_of_the_slowest_archive_counts(stage: Stage) -> None:
    """In each partition. Before the first check, positions are unknown."""
    put_manifest(stage.lake, {("orders", 0): 10, ("orders", 1): 10})
    put_manifest(stage.other, {("orders", 0): 20, ("orders", 1): 5, ("clicks", 0): 0})
    assert (stage.archives.is_complete, stage.archives.positions()) == (False, {})
    assert stage.archives.readers_from_beginning(("orders", 2)) == []

    assert stage.look() == ["Archives that retention waits for: lake, other"]
    assert stage.archives.is_complete
    assert stage.archives.positions() == {("orders", 0): 10, ("orders", 1): 5, ("clicks", 0): 0}
    assert stage.archives.name_of(("orders", 0)) == "the archive lake"
    assert stage.archives.name_of(("orders", 1)) == "the archive other"

    put_manifest(stage.lake, {("orders", 0): 30, ("orders", 1): 30})
    assert stage.look() == []
    assert stage.archives.positions()[("orders", 0)] == 20
    assert stage.archives.name_of(("orders", 0)) == "the archive other"


def test_new_partition_of_an_archived_topic_is_held(stage: Stage) -> None:
    """From its start, by archives with other partitions of the topic."""
    put_manifest(stage.lake, {("orders", 0): 10})
    put_manifest(stage.other, {("orders", 0): 10, ("orders", 1): 10})
    stage.look()

    assert stage.archives.readers_from_beginning(("orders", 0)) == []
    assert stage.archives.readers_from_beginning(("orders", 1)) == [("the archive lake", 0)]
    assert stage.archives.readers_from_beginning(("orders", 2)) == [("the archive lake", 0), ("the archive other", 0)]
    assert stage.archives.readers_from_beginning(("clicks", 0)) == []


def test_unreadable_archive_is_logged_once(stage: Stage) -> None:
    """It holds nothing if it was never read, else its last position counts. It is logged again after a recovery."""
    missing = stage.lake / "_pybroker" / "manifest.json"
    broken = put_manifest(stage.other, {})
    broken.write_text("{")
    held = "until then retention does not wait for it"
    assert stage.look() == [
        f"The archive {stage.lake} cannot be read: {missing}: No such file or directory; {held}",
        f"The archive {stage.other} cannot be read: {broken} is not JSON, or is incomplete; {held}",
    ]
    assert (stage.archives.is_complete, stage.archives.positions()) == (True, {})
    assert stage.look() == stage.look() == []

    path = put_manifest(stage.lake, {("orders", 0): 10})
    assert stage.look() == ["Archives that retention waits for: lake"]
    path.unlink()
    (told_again,) = stage.look()
    assert told_again.endswith("its last known offsets apply")
    assert stage.look() == []
    assert stage.archives.positions() == {("orders", 0): 10}


def test_archive_of_a_deleted_topic_holds_nothing(stage: Stage) -> None:
    """If it ends behind the log, it is of another topic of that name. This is logged once."""
    put_manifest(stage.other, {})
    put_manifest(stage.lake, {("orders", 0): 101, ("orders", 1): 10, ("clicks", 0): 100})
    lines = stage.look()
    assert lines[0] == (
        "The archive lake belongs to another topic orders, so retention does not wait for it: "
        "orders-0 ends at offset 100, but is archived up to 101"
    )
    assert len(lines) == 2
    assert stage.archives.positions() == {("clicks", 0): 100}
    assert stage.archives.readers_from_beginning(("orders", 2)) == []
    assert stage.look() == []

    stage.log_ends[("orders", 0)] = 101
    stage.look()
    assert stage.archives.positions()[("orders", 1)] == 10
    del stage.log_ends[("orders", 0)]  # at another broker, or not open yet, so its end is unknown
    put_manifest(stage.lake, {("orders", 0): 1_000})
    assert stage.look() == []
    assert stage.archives.positions() == {("orders", 0): 1_000}
