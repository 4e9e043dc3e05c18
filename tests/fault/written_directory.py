"""A log directory with every kind of file, written by a broker, and the records known to be acknowledged."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from protocol.error_codes import ErrorCode
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch

# Recent, or a start forgets the producer: producer.id.expiration.ms counts from its batches' timestamps.
T0 = int(time.time() * 1000) - 3_600_000
TOPIC, SHORTENED, GROUP = "events", "shortened", "readers"
TOPIC_CONFIGS = {"internal.segment.bytes": 8 * 1024, "segment.index.bytes": 1200, "index.interval.bytes": 512}
BATCHES = 50
LOG_START = 7


@dataclass
class Written:
    """`events` has the same batches in each of its partitions, from one idempotent producer and with all codecs."""

    log_dir: Path
    partitions: int
    topic_id: bytes
    producer_id: int
    records: list[tuple[int, bytes]] = field(default_factory=list)  # timestamp, value; by offset
    batches: list[tuple[int, bytes]] = field(default_factory=list)  # base offset, as it was sent
    topics: dict[str, int] = field(default_factory=dict)
    committed: int = 0

    def next_batch(self, size: int) -> bytes:
        """Return the next batch. Its timestamps sometimes go back a little."""
        begin = len(self.records)
        timestamp = T0 + begin * 10 - 500 * (begin % 3)
        values = [
            b"%d:" % number + random.Random(number).randbytes(number % 90) for number in range(begin, begin + size)
        ]
        records = batch(
            *values,
            codec=len(self.batches) % 5,
            timestamp=timestamp,
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=begin,
        )
        self.batches.append((begin, records))
        self.records += [(timestamp + number, value) for number, value in enumerate(values)]
        return records

    def extend(self, client: DataClient, count: int) -> None:
        """Produce that many more batches, and commit the end."""
        for number in range(count):
            base_offset = len(self.records)
            records = self.next_batch(1 + number % 30)
            for partition in range(self.partitions):
                assert client.produce(TOPIC, records, partition) == base_offset
        self.committed = len(self.records)
        client.commit(GROUP, {(TOPIC, partition): self.committed for partition in range(self.partitions)})

    def check(self, client: DataClient) -> None:
        """Check every record by every way of reading. A resent batch is recognised, and new ones are accepted."""
        assert client.topics() == self.topics
        assert client.topic_config(TOPIC, "index.interval.bytes") == "512"
        assert client.committed(GROUP, TOPIC, range(self.partitions)) == [self.committed] * self.partitions
        start, end = client.bounds(SHORTENED)
        assert start in (0, LOG_START)
        assert end == LOG_START + 3
        for partition in range(self.partitions):
            self.check_partition(client, partition)
        self.extend(client, 3)

    def check_partition(self, client: DataClient, partition: int) -> None:
        found = client.read_all(TOPIC, partition)
        assert [record.offset for record in found] == list(range(len(self.records)))
        assert [(record.timestamp, record.value) for record in found] == self.records
        largest = 0
        for offset, (timestamp, _) in enumerate(self.records):
            if timestamp > largest and offset % 20 == 0:
                assert client.offset_for_timestamp(TOPIC, timestamp, partition) == offset
            largest = max(largest, timestamp)
        for base_offset, records in (*self.batches[-5:-1:2], self.batches[-1]):
            assert client.produce(TOPIC, records, partition) == base_offset
        ahead = batch(b"", producer_id=self.producer_id, producer_epoch=0, base_sequence=len(self.records) + 1)
        try:
            client.produce(TOPIC, ahead, partition)
        except Refused as refused:
            assert refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # noqa: PT017
        else:
            raise AssertionError("a gap in the sequences was taken")


def write(directory: Path, partitions: int, *, clean: bool) -> Written:
    """Write a directory in two lives, the first of which is killed, and the second stopped or (not `clean`) killed."""
    broker = OurBroker(directory)
    with DataClient(HOST, broker.port) as client:
        topic_id = client.create_topic(TOPIC, partitions, TOPIC_CONFIGS)
        client.create_topic(SHORTENED)
        client.find_coordinator(GROUP)
        written = Written(broker.log_dir, partitions, topic_id, client.new_producer_id())
        written.extend(client, BATCHES // 2)
        client.produce(SHORTENED, batch(*(b"%d" % number for number in range(LOG_START + 3))))
        assert client.delete_records(SHORTENED, 0, LOG_START) == LOG_START
    broker.kill()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        written.extend(client, BATCHES // 2)
        written.topics = client.topics()
    if clean:
        assert broker.stop() == 0
    else:
        broker.kill()
    return written
