"""Brokers that are killed during an archive and a restore; topics with gaps make the round trip."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from pybroker.archive.errors import ArchiveError
from pybroker.archive.verifying import SAME
from pybroker.source.errors import SourceError
from pybroker.spark import register
from pybroker.testing import Broker
from tests.support.compacted import CLEANED, SEGMENTS, UNTOUCHED, begin, fill_compacted
from tests.support.eventually import eventually
from tests.support.lake import Lake, archived, archived_count, stored
from tests.support.scale import scaled
from tests.support.spark_sources import EPOCH_MS, fill_topic

PARTITIONS = 2
COUNT = min(scaled(6_000), 200_000)
KILLS = min(scaled(1), 10)
TURNS = min(scaled(10), 200)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Callable[[], SparkSession]:
    """Return Spark with both formats, as jobs use it."""
    register(spark)
    return lambda: spark


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Run a broker that deletes and cleans nothing by itself."""
    with Broker(UNTOUCHED) as broker:
        yield broker


def lake_of(broker: Broker, tmp_path: Path, session: Callable[[], SparkSession], topic: str) -> Lake:
    """Return an archive whose commands give up when the broken connection lasts some seconds."""
    client = {"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": "5000"}
    return Lake(tmp_path / "lake", session, client, topic)


class Commands:
    """A command that is repeated until it completes, and the broker that is killed under it."""

    def __init__(self, broker: Broker, command: Callable[[], object], done: Callable[[], int]) -> None:
        self._broker = broker
        self._command = command
        self._done = done
        self._dice = random.Random(17)

    def run(self, slow: str) -> None:
        """Kill the broker in each attempt but the last, while it serves one API slowly.

        In the last such attempt it restarts at once, else only after the attempt has given up.
        """
        with ThreadPoolExecutor(1) as pool:
            for number in range(KILLS):
                stays_away = number < KILLS - 1
                self._broker.delay(slow, 0.2, 100_000)
                ended = Event()
                killed = pool.submit(self._kill, self._done(), ended, stays_away=stays_away)
                try:
                    self._command()
                    has_failed = False
                except (ArchiveError, SourceError):
                    has_failed = True
                finally:
                    ended.set()
                killed.result(240)
                assert has_failed or not stays_away
        self._command()

    def _kill(self, before: int, ended: Event, *, stays_away: bool) -> None:
        """Kill the broker once more than `before` is done."""
        eventually(lambda: self._done() > before or ended.is_set(), timeout_s=240)
        time.sleep(self._dice.uniform(0, 0.2))
        assert not ended.is_set(), "it ended before the broker was killed"
        self._broker.kill()
        if stays_away:
            ended.wait(240)
        self._broker.start()


def fill(broker: Broker, topic: str) -> None:
    """Write records that take several batches of a restore."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for number in range(COUNT):
        value = b"%d " % number * 200 if number % 7 else None
        headers = [("null", None), ("n", b"%d" % number)] if number % 3 else None
        place = {"partition": number % PARTITIONS, "timestamp": EPOCH_MS + number}
        producer.produce(topic, value, b"%d" % number if number % 5 else None, headers=headers, **place)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.full_size
def test_a_killed_broker_loses_and_repeats_no_record(
    broker: Broker, session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """During an archive, and during a restore, each repeated: each record is there once, at each moment."""
    topic = "killed"
    for each in (topic, f"{topic}-back"):
        broker.create_topic(each, PARTITIONS)
    fill(broker, topic)
    lake = lake_of(broker, tmp_path, session, topic)
    data = broker.data_directory

    def archive() -> None:
        lake.archive(step=COUNT // (2 * KILLS + 2))
        assert archived(lake.root) == stored(data, topic)

    def restored() -> int:
        return sum(file.stat().st_size for file in data.glob(f"{topic}-back-*/*.log"))

    Commands(broker, archive, lambda: archived_count(lake.root)).run(slow="Fetch")
    assert lake.verify() == (True, [SAME] * len(lake.ranges()))
    Commands(broker, lambda: lake.restore(f"{topic}-back", exact_offsets=True), restored).run(slow="Produce")

    assert archived(lake.root) == stored(data, topic) == stored(data, f"{topic}-back")
    assert [each.written for each in lake.restore(f"{topic}-back")] == [0] * PARTITIONS


def without_offsets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "offset"} for row in rows]


@pytest.mark.parametrize("topic", ["compacted", pytest.param("whole", marks=pytest.mark.full_size)])
def test_topic_with_gaps_makes_the_round_trip(
    broker: Broker, session: Callable[[], SparkSession], tmp_path: Path, topic: str
) -> None:
    """All but offsets after a gap: cleaned logs and committed records; never aborted or open ones."""
    settings = CLEANED if topic == "compacted" else {}
    broker.create_topic(topic, PARTITIONS, {**SEGMENTS, **settings})
    broker.create_topic(f"{topic}-back", PARTITIONS, settings)
    if topic == "compacted":
        fill_compacted(broker, topic, PARTITIONS, TURNS, random.Random(5))
    else:
        fill_topic(broker.bootstrap_servers, topic, PARTITIONS, 5 * TURNS)
    under_way = begin(broker, topic, PARTITIONS)
    data, lake = broker.data_directory, lake_of(broker, tmp_path, session, topic)
    expected = stored(data, topic, committed=True)
    assert len(expected) < len(stored(data, topic))

    lake.archive(step=15 * TURNS)
    assert archived(lake.root) == expected
    lake.compact()
    assert archived(lake.root) == expected
    assert lake.verify() == (True, [SAME] * len(lake.ranges()))
    lake.restore(f"{topic}-back")

    back = stored(data, f"{topic}-back")
    assert without_offsets(back) == without_offsets(expected)
    for partition in range(PARTITIONS):
        offsets = [row["offset"] for row in back if row["partition"] == partition]
        assert offsets == list(range(len(offsets)))
    under_way.abort_transaction(30)
    lake.archive()
    assert [row["value"] for row in archived(lake.root) if row not in expected] == [b"behind"] * PARTITIONS
    assert [each.written for each in lake.restore(f"{topic}-back")] == [1] * PARTITIONS
