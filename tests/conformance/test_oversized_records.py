"""Compressed records above max.decompressed.message.bytes that a log has already: look-ups by time, and compaction."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from tests.support.brokers import HOST, RunningBroker
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.data_client import DataClient
from tests.support.eventually import eventually

pytestmark = needs_4_4

MAX_TIMESTAMP = -3
LIMIT = "max.decompressed.message.bytes"
PROPERTIES = {"log.cleaner.backoff.ms": "100"}
NOW = int(time.time() * 1000)
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture(scope="module", params=BROKERS_OF_4_4)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    started = BROKERS_OF_4_4[request.param](tmp_path_factory.mktemp("broker"), PROPERTIES)
    yield started
    started.kill()


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[DataClient]:
    with DataClient(HOST, broker.port) as client:
        yield client


def records(codec: Codec, first_ms: int, *sizes: int, keys: bytes = b"abc") -> bytes:
    builder = BatchBuilder(codec=codec)
    for number, size in enumerate(sizes):
        builder.append(first_ms + number, keys[number : number + 1], b"v" * size)
    return builder.build()


def found(client: DataClient, topic: str, timestamp: int) -> tuple[str, int]:
    """Return the error and the offset that the broker finds for a timestamp."""
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
    [answer] = client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics).topics[0].partitions
    return ErrorCode(answer.error_code).name, answer.offset


@pytest.mark.parametrize(
    ("codec", "expected"),
    [(Codec.NONE, ("NONE", 1, "NONE", 2)), (Codec.GZIP, ("INVALID_RECORD", -1, "INVALID_RECORD", -1))],
)
def test_look_up_by_time_reads_no_oversized_record(
    client: DataClient, codec: Codec, expected: tuple[str, int, str, int]
) -> None:
    """A record before it is found, one in another batch, too."""
    topic = f"times-{codec.name}"
    client.create_topic(topic, 1, {"retention.ms": "-1"})
    client.produce(topic, records(codec, 1000, 10, 5000, 1))
    assert found(client, topic, 1002) == found(client, topic, MAX_TIMESTAMP) == ("NONE", 2)
    client.set_topic_config(topic, LIMIT, "1000")
    eventually(lambda: found(client, topic, 1001), equal_to=expected[:2])
    assert found(client, topic, 1000) == ("NONE", 0)
    assert found(client, topic, MAX_TIMESTAMP) == expected[2:]
    assert found(client, topic, 1003) == ("NONE", -1)
    client.produce(topic, records(codec, 2000, 10, 1))
    assert found(client, topic, 1500) == ("NONE", 3)


@pytest.mark.parametrize("is_clean", [False, True])
def test_oversized_record_stops_compaction_and_nothing_is_lost(
    client: DataClient, broker: RunningBroker, is_clean: bool
) -> None:
    """It is among new records, or was cleaned with another limit; other logs are cleaned meanwhile."""
    topic, other = f"compacted-{is_clean}".lower(), f"other-{is_clean}".lower()
    client.create_topic(topic, 1, COMPACTED if is_clean else {**COMPACTED, "min.cleanable.dirty.ratio": "1"})
    client.create_topic(other, 1, {**COMPACTED, LIMIT: "1000"})
    for sizes in ((10, 5000), (1,)):
        client.produce(topic, records(Codec.GZIP, NOW, *sizes))
    client.produce(topic, records(Codec.NONE, NOW + 1000, 1, keys=b"z"))
    if is_clean:
        eventually(lambda: len(client.read_all(topic)), equal_to=3)
    before = client.read_all(topic)
    client.set_topic_config(topic, LIMIT, "1000")
    assert client.topic_config(topic, LIMIT) == "1000"
    client.set_topic_config(topic, "min.cleanable.dirty.ratio", "0")
    for attempt in range(2):  # by the second time, the cleaner has tried both logs
        for name in (topic, other):
            for number in range(3):
                client.produce(name, records(Codec.GZIP, NOW + 2000 + 10 * attempt + 2 * number, 1, keys=b"d"))
        eventually(lambda: len(client.read_all(other)) == 2)
    assert client.read_all(topic)[: len(before)] == before
    assert len(client.read_all(topic)) == len(before) + 6
