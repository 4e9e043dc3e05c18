"""Rows restored into a topic by a separate process, killed and repeated: each row is there once."""

from __future__ import annotations

import random
import threading
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


pytestmark = pytest.mark.broker.with_args(OurBroker)


def rows(start: int, count: int, partition: int = 0) -> pa.RecordBatch:
    """Return numbered rows, a second apart."""
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
    """Restores one partition repeatedly, with the same producer id."""

    def __init__(self, broker: OurBroker, topic: str) -> None:
        self._properties = {"bootstrap.servers": broker.bootstrap}
        self._topic = topic
        with Reader() as reader:
            self._producer = reader.ask("new_producer", properties=self._properties)

    def run(self, reader: Reader) -> list[list[int]]:
        """Restore all rows; return partition, number of rows written, and number found already."""
        batches = (rows(start, BATCH) for start in range(0, COUNT, BATCH))
        partitions = {"0": {"base": 0, "index": 0}}
        wanted = {"properties": self._properties, "topic": self._topic, "producer": self._producer}
        answer: dict[str, Any] = reader.send_batches("restore_topic", batches, partitions=partitions, **wanted)
        done: list[list[int]] = answer["partitions"]
        return done


def test_killed_process_duplicates_no_row(broker: OurBroker) -> None:
    """It is killed at random moments. The broker may still have to read its last requests."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("killed")
        restore, dice = Restore(broker, "killed"), random.Random(7)
        for _ in range(KILLS):
            reader = Reader()
            behind = client.bounds("killed")[1] + dice.randrange(COUNT // KILLS)
            attempt = threading.Thread(target=lambda reader=reader: _run_until_killed(restore, reader))
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


def _run_until_killed(restore: Restore, reader: Reader) -> None:
    try:
        restore.run(reader)
    except SourceError:
        return
    finally:
        reader.close()


def test_target_topic_is_described(broker: OurBroker) -> None:
    """With its cluster, partitions and the configs that matter to a restore. A missing topic is an error."""
    properties = {"bootstrap.servers": broker.bootstrap}
    with DataClient(HOST, broker.port) as client, Reader() as reader:
        client.create_topic("described", 2, {"retention.ms": 5000})
        asked = {"properties": properties, "pattern": None, "assigned": None}
        answer = reader.ask("describe_target", topics=["described"], **asked)
        assert answer["partitions"] == [[0, 0, 0], [1, 0, 0]]
        assert answer["settings"] == {
            "message.timestamp.type": "CreateTime",
            "retention.ms": "5000",
            "cleanup.policy": "delete",
        }
        assert answer["cluster"]
        with pytest.raises(UnknownPartition, match="there is no topic nowhere"):
            reader.ask("describe_target", topics=["nowhere"], **asked)
