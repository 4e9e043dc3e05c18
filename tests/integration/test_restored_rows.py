"""Rows that are restored into a broker's topic by a process of its own: killed, repeated, each there once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from pybroker.isolated.topic_restorer import RESTORED_COLUMNS
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import SourceError, UnknownPartition
from pybroker.source.reader import Reader
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.scale import scaled

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
COUNT = scaled(2000)
KILLS = 4
BATCH = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    running = OurBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.kill()


def rows(start: int, count: int, partition: int = 0) -> pa.RecordBatch:
    """Numbered rows, a second apart."""
    made = [
        {
            "partition": partition,
            "timestamp": EPOCH + timedelta(seconds=number),
            "key": [None, b"", b"key"][number % 3],
            "value": b"%d" % number if number % 5 else None,
            "headers": [{"key": "null", "value": None}] if number % 2 else None,
        }
        for number in range(start, start + count)
    ]
    return pa.RecordBatch.from_pylist(made, arrow_schema(RESTORED_COLUMNS))


class Restore:
    """A restore of one partition, again and again, as the same producer."""

    def __init__(self, broker: OurBroker, topic: str) -> None:
        self._properties = {"bootstrap.servers": broker.bootstrap}
        self._topic = topic
        with Reader() as reader:
            self._producer = reader.ask("new_producer", properties=self._properties)

    def run(self, reader: Reader) -> list[list[int]]:
        """All rows; (partition, written, found)."""
        batches = (rows(start, BATCH) for start in range(0, COUNT, BATCH))
        places = {"0": {"base": 0, "index": 0}}
        wanted = {"properties": self._properties, "topic": self._topic, "producer": self._producer}
        told: dict[str, Any] = reader.tell("restore_topic", batches, partitions=places, **wanted)
        done: list[list[int]] = told["partitions"]
        return done


def test_process_that_is_killed_doubles_nothing(broker: OurBroker) -> None:
    """At random moments; the broker may still have its last requests before it, unread."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("killed")
        restore, dice = Restore(broker, "killed"), random.Random(7)
        for _ in range(KILLS):
            reader = Reader()
            behind = client.bounds("killed")[1] + dice.randrange(COUNT // KILLS)
            attempt = threading.Thread(target=lambda reader=reader: _until_it_dies(restore, reader))
            attempt.start()
            while client.bounds("killed")[1] <= behind and attempt.is_alive():
                pass
            if (process := reader._process) is not None:
                process.kill()
            attempt.join()
        with Reader() as reader:
            [[_, written, found]] = restore.run(reader)
            assert written + found == COUNT
            assert restore.run(reader) == [[0, 0, COUNT]]

        records = client.read_all("killed")
    expected = rows(0, COUNT).to_pylist()
    assert [record.offset for record in records] == list(range(COUNT))
    assert [(record.key, record.value) for record in records] == [(each["key"], each["value"]) for each in expected]
    assert [record.timestamp for record in records] == [each["timestamp"].timestamp() * 1000 for each in expected]


def _until_it_dies(restore: Restore, reader: Reader) -> None:
    try:
        restore.run(reader)
    except SourceError:
        return
    finally:
        reader.close()


def test_target_is_described(broker: OurBroker) -> None:
    """Its cluster, its partitions and the settings that a restore looks at; an error where there is none."""
    properties = {"bootstrap.servers": broker.bootstrap}
    with DataClient(HOST, broker.port) as client, Reader() as reader:
        client.create_topic("described", 2, {"retention.ms": 5000})
        asked = {"properties": properties, "pattern": None, "assigned": None}
        told = reader.ask("describe_target", topics=["described"], **asked)
        assert told["partitions"] == [[0, 0, 0], [1, 0, 0]]
        assert told["settings"] == {
            "message.timestamp.type": "CreateTime",
            "retention.ms": "5000",
            "cleanup.policy": "delete",
        }
        assert told["cluster"]
        with pytest.raises(UnknownPartition, match="there is no topic nowhere"):
            reader.ask("describe_target", topics=["nowhere"], **asked)
