"""Retention of a running broker while archives lag behind, with an advanced clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.testing import Broker
from tests.support.archives import put_manifest
from tests.support.brokers import HOST
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually

SEGMENTS = {"internal.segment.bytes": 2000, "retention.ms": 36_000_000}
CAP = 4_000
COUNT = 20


class Stage:
    """A broker with topics of COUNT records; for the archive `lake` they hold all, a part, or nothing."""

    def __init__(self, directory: Path) -> None:
        self.lake = directory / "lake"
        archives = f"{self.lake},{directory / 'none'}"
        self.broker = Broker({"pybroker.archives": archives}, directory=directory / "broker")

    def fill(self) -> None:
        """Create the topics; each record is a batch with the broker's time."""
        for topic, limit in (("held", 1 << 20), ("capped", CAP), ("let-go", 0)):
            self.broker.create_topic(topic, config={**SEGMENTS, "retention.hold.max.bytes": limit})
        now_ms = round(self.broker.move_time_on(seconds=1).timestamp() * 1000)
        with self._client() as client:
            for topic in ("held", "capped", "let-go"):
                for _ in range(COUNT):
                    client.produce(topic, batch(b"v" * 400, timestamp=now_ms))

    def start_of(self, topic: str) -> int:
        """Run retention; return the topic's start offset."""
        self.broker.run_retention()
        with self._client() as client:
            return client.bounds(topic)[0]

    def wait_for_start(self, topic: str, start: range) -> None:
        """Run retention until the topic starts in the range, once the broker has read the manifest."""
        eventually(lambda: self.start_of(topic), until=start.__contains__)

    def log_lines(self, text: str) -> list[str]:
        """Return the log's lines that contain the text."""
        return [line for line in self.broker.log.splitlines() if text in line]

    def _client(self) -> DataClient:
        return DataClient(HOST, int(self.broker.bootstrap_servers.rpartition(":")[2]))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A broker that is not started yet."""
    running = Stage(tmp_path)
    yield running
    running.broker.stop()


def test_retention_waits_for_the_archive(stage: Stage) -> None:
    """Up to the topic's limit, with warnings. Archived records are deleted."""
    topics = [("held", 0), ("capped", 0), ("let-go", 0)]
    put_manifest(stage.lake, dict.fromkeys(topics, 0))
    stage.broker.start()
    stage.fill()
    stage.broker.move_time_on(days=8)

    assert stage.start_of("held") == 0
    assert 0 < stage.start_of("capped") < COUNT
    assert stage.start_of("let-go") == COUNT
    assert stage.log_lines("Retention of held-0 is on hold: the archive lake has read it up to offset 0; ")
    for topic in ("capped", "let-go"):
        assert stage.log_lines(f"Retention of {topic}-0 has removed unread records: the archive lake has read it")

    put_manifest(stage.lake, dict.fromkeys(topics, COUNT // 2))
    stage.wait_for_start("held", range(1, COUNT // 2 + 1))
    put_manifest(stage.lake, dict.fromkeys(topics, COUNT))
    stage.wait_for_start("held", range(COUNT, COUNT + 1))
    assert stage.start_of("capped") == COUNT
    assert len(stage.log_lines(f"The archive {stage.lake.parent / 'none'} cannot be read")) == 1


@pytest.mark.parametrize(
    ("ends", "log_lines"),
    [(None, "is not JSON, or is incomplete"), ({("held", 0): COUNT + 1}, "belongs to another topic held")],
)
def test_unusable_manifest_holds_nothing(stage: Stage, ends: dict[tuple[str, int], int] | None, log_lines: str) -> None:
    """A truncated manifest, or one of another topic, is logged once, and retention continues."""
    path = put_manifest(stage.lake, ends or {("held", 0): 0})
    if ends is None:
        path.write_bytes(path.read_bytes()[:-10])
    stage.broker.start()
    stage.fill()
    stage.broker.move_time_on(days=8)

    stage.wait_for_start("held", range(COUNT, COUNT + 1))
    assert len(stage.log_lines(log_lines)) == 1
    assert not stage.log_lines("Traceback")
