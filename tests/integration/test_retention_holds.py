"""Retention of a running broker while Spark's checkpoints lag behind, with an advanced clock."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.testing import Broker
from tests.support.brokers import HOST
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.ports import free_port

SEGMENTS = {"internal.segment.bytes": 2000, "retention.ms": 36_000_000}


class Stage:
    """A broker that follows the checkpoints in `state`, which the test writes."""

    def __init__(self, broker: Broker, state: Path, url: str) -> None:
        self.broker = broker
        self._state = state
        self._url = url
        host, _, port = broker.bootstrap_servers.rpartition(":")
        self.client = DataClient(host, int(port))

    def produce(self, topic: str, count: int) -> None:
        """Append records in batches of one, with the broker's time."""
        now_ms = round(self.broker.move_time_on(seconds=1).timestamp() * 1000)
        for _ in range(count):
            self.client.produce(topic, batch(b"v" * 400, timestamp=now_ms))

    def commit(self, topic: str, number: int, offset: int) -> None:
        """Complete a batch of the query named like the topic, and wait until the broker has read it."""
        checkpoint = self._state / topic
        for name, text in (("offsets", "v1\n{}\n" + json.dumps({topic: {"0": offset}})), ("commits", "v1\n{}")):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            (checkpoint / name / str(number)).write_text(text)

        def queries() -> list[tuple[str, int]]:
            with urllib.request.urlopen(self._url, timeout=60) as answer:
                return [(each["query"], each["batch"]) for each in json.loads(answer.read())["queries"]]

        eventually(queries, until=lambda found: (topic, number) in found)

    def starts(self) -> tuple[int, int]:
        """Run retention; return the start offsets of the two topics."""
        self.broker.run_retention()
        return self.client.bounds("held")[0], self.client.bounds("let-go")[0]

    def last_retention_line(self, topic: str) -> str:
        """Return the last log line about the topic's retention."""
        return [line for line in self.broker.log.splitlines() if f"Retention of {topic}-0" in line][-1]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    port = free_port()
    (tmp_path / "state").mkdir()
    config = {
        "metrics.listeners": f"http://{HOST}:{port}",
        "pybroker.spark.checkpoints": tmp_path / "state",
        "pybroker.spark.checkpoints.interval.ms": 100,
    }
    with Broker(config, directory=tmp_path / "broker") as broker:
        broker.create_topic("held", config={**SEGMENTS, "retention.hold.max.bytes": 1 << 20})
        broker.create_topic("let-go", config=SEGMENTS)
        running = Stage(broker, tmp_path / "state", f"http://{HOST}:{port}/queries")
        with running.client:
            yield running


def test_retention_waits_for_queries_if_configured(stage: Stage) -> None:
    """It logs warnings before and after. Records that were read are deleted."""
    for topic in ("held", "let-go"):
        stage.produce(topic, 20)
        stage.commit(topic, 0, 10)

    stage.broker.move_time_on(hours=9, minutes=30)
    assert stage.starts() == (0, 0)
    assert "will soon remove unread records: the query let-go has read it up to offset 10" in stage.last_retention_line(
        "let-go"
    )

    stage.broker.move_time_on(days=8)
    held, unheld = stage.starts()
    assert 0 < held <= 10
    assert unheld == 20
    assert "is on hold: the query held has read it up to offset 10; " in stage.last_retention_line("held")
    assert "the query let-go has read it up to offset 10; the log begins at 20" in stage.last_retention_line("let-go")

    stage.commit("held", 1, 20)
    assert stage.starts() == (20, 20)


def test_restart_holds_until_checkpoints_are_read(stage: Stage, tmp_path: Path) -> None:
    """An unreadable checkpoint holds as much as the topic allows, until it is repaired."""
    stage.produce("held", 20)
    stage.commit("held", 0, 20)
    (tmp_path / "state" / "held" / "offsets" / "0").write_text("v1\nbroken\nbroken")
    stage.client.close()
    stage.broker.restart()
    stage.client = DataClient(HOST, int(stage.broker.bootstrap_servers.rpartition(":")[2]))
    stage.broker.move_time_on(days=8)
    assert stage.starts()[0] == 0

    stage.commit("held", 0, 20)
    assert stage.starts()[0] == 20
