"""kill -9 while compacted topics are written and cleaned: no key goes back, and an interrupted round is completed."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from protocol.records.builder import BatchBuilder
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.scale import scaled

KEYS = 40
KILLS = min(12, scaled(3))
# Many small segments, cleaned as soon as there is one: kills hit rounds and swaps.
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 4096,
    "segment.index.bytes": 1024,
    "index.interval.bytes": 256,
    "min.cleanable.dirty.ratio": 0.01,
    "file.delete.delay.ms": 0,
}


pytestmark = pytest.mark.broker(OurBroker, {"log.cleaner.backoff.ms": "1", "log.cleaner.threads": "2"})


class Writer:
    """Numbers that only grow, under keys, and the acknowledged ones of each topic."""

    def __init__(self, topics: list[str]) -> None:
        self.acknowledged: dict[str, dict[bytes, int]] = {topic: {} for topic in topics}
        self.number = 0
        self.dice = random.Random(3)

    def write(self, client: DataClient, seconds: float) -> None:
        """Send batches to the topics in turn, for that time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for topic, known in self.acknowledged.items():
                builder = BatchBuilder()
                sent = {}
                for _ in range(self.dice.randint(1, 12)):
                    self.number += 1
                    key = b"key-%d" % self.dice.randrange(KEYS)
                    builder.append(1_700_000_000_000, key, b"%d:%s" % (self.number, b"x" * self.dice.randrange(80)))
                    sent[key] = self.number
                client.produce(topic, builder.build())
                known.update(sent)

    def check(self, client: DataClient) -> None:
        """Each key has the last acknowledged number or a later one, and no offset occurs twice."""
        for topic, known in self.acknowledged.items():
            records = client.read_all(topic)
            offsets = [record.offset for record in records]
            assert offsets == sorted(set(offsets))
            found: dict[bytes, int] = {}
            for record in records:
                assert record.key is not None
                assert record.value is not None
                number = int(record.value.partition(b":")[0])
                assert number > found.get(record.key, 0)
                found[record.key] = number
            assert all(found[key] >= number for key, number in known.items())


def cleaned_up_to(broker: OurBroker, topic: str) -> int:
    """Return the offset in the cleaner's checkpoint."""
    path = broker.log_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(topic + " ")), 0)


def is_clean(broker: OurBroker, topic: str) -> bool:
    """Report whether all but the active segment is cleaned, and no file of the cleaner is left."""
    directory = broker.log_dir / f"{topic}-0"
    active = max(int(path.stem) for path in directory.glob("*.log"))
    return cleaned_up_to(broker, topic) >= active and not list(directory.glob("*.cleaned"))


def test_kills_while_logs_are_cleaned(broker: OurBroker) -> None:
    """The full size is twelve kills. An interrupted round leaves no file behind."""
    dice = random.Random(8)
    topics = ["one", "two"]
    with DataClient(HOST, broker.port) as client:
        for topic in topics:
            client.create_topic(topic, 1, CONFIGS)
    writer = Writer(topics)
    for _ in range(KILLS):
        with DataClient(HOST, broker.port) as client:
            writer.write(client, dice.uniform(0.3, 0.9))
        broker.kill()
        broker.start()
        with DataClient(HOST, broker.port) as client:
            writer.check(client)
    with DataClient(HOST, broker.port) as client:
        writer.write(client, 0.3)
        for topic in topics:
            eventually(partial(is_clean, broker, topic), lambda: broker.output[-2000:], timeout_s=120)
        writer.check(client)
        for topic in topics:
            assert len(client.read_all(topic)) < 4 * KEYS
            assert not list((broker.log_dir / f"{topic}-0").glob("*.swap"))
    assert "cannot be cleaned" not in broker.output
    assert broker.output.count(" Cleaned ") >= len(topics)
