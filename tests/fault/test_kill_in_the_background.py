"""kill -9 with every append forced to the disk, while retention deletes segments and clients delete records.

Acknowledged records are there from the log start on, and no offset is used twice. Compaction: test_kill_compaction.py.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.scale import scaled

KILLS = min(12, scaled(3))
PROPERTIES = {
    "log.flush.interval.messages": "1",
    "log.retention.check.interval.ms": "20",
    "log.initial.task.delay.ms": "10",
    "log.flush.offset.checkpoint.interval.ms": "30",
    "log.flush.start.offset.checkpoint.interval.ms": "30",
}
CONFIGS = {
    "internal.segment.bytes": 4096,
    "segment.index.bytes": 1024,
    "retention.bytes": 16_384,
    "file.delete.delay.ms": 0,
}


pytestmark = pytest.mark.broker(OurBroker, PROPERTIES)


def settled_log(client: DataClient) -> tuple[int, int, dict[int, bytes]]:
    """Return where the log begins and ends, and its records, once retention, which runs after the start, is done."""
    deadline = time.monotonic() + 120
    while True:
        start, end = client.bounds("events")
        with suppress(Refused):  # the next records are deleted
            found = {record.offset: bytes(record.value or b"") for record in client.read_all("events")}
            if start > 0 and client.bounds("events") == (start, end):
                return start, end, found
        assert time.monotonic() < deadline, "retention finds no end"


def test_kill_during_retention_with_every_append_forced(broker: OurBroker) -> None:
    """W3, R1, D1 of storage/README.md, K4 of docs/reference/durability.md."""
    dice = random.Random(5)
    written: dict[int, bytes] = {}
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", 1, CONFIGS)
    for _ in range(KILLS):
        with DataClient(HOST, broker.port) as client:
            before = client.bounds("events")[0]
            until = time.monotonic() + dice.uniform(0.4, 1.0)
            while time.monotonic() < until or client.bounds("events")[0] == before:
                value = b"%d:" % len(written) + bytes(dice.randrange(400))
                offset = client.produce("events", batch(value))
                assert offset not in written, "no offset is given twice"
                written[offset] = value
                if dice.random() < 0.02:
                    client.delete_records("events", 0, max(0, offset - 3))
        broker.kill()
        broker.start()
        with DataClient(HOST, broker.port) as client:
            start, end, found = settled_log(client)
            assert end == max(written) + 1
            assert found == {offset: value for offset, value in written.items() if offset >= start}
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
    assert not list(broker.log_dir.glob("events-0/*.corrupt"))
