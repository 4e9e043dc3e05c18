"""Measure requests for one partition and for ten, over loopback: `python -m bench.many_partitions [SECONDS]`.

One connection sends one request at a time. Each line has the requests a second by the clock, and the broker's processor
time for one request, which other work on the machine disturbs less.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

from bench.process import Broker
from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Api

SECONDS = 3.0
PARTITIONS = 10
SIZES = 100, 10_000
_PRODUCE_VERSION, _FETCH_VERSION = 13, 17
#: Position of the session epoch in a Fetch request, after max wait, min and max bytes, isolation level, session id.
_EPOCH_BEHIND_HEADER = 17
_SESSION_AT = 15  # position in a response: after size, correlation id, no tags, throttle time, error code


def _batch(size: int) -> bytes:
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(size))
    return bytes(builder.build())


def _frame(api: Api, version: int, **fields: object) -> bytes:
    header = encode_request_header(api, version, 7, "bench")
    return bytes(frame(header, api.request.encode(version, api.request(**fields))))


def _produce(topic_id: bytes, partitions: int, size: int) -> bytes:
    data = [PartitionProduceData(index=index, records=_batch(size)) for index in range(partitions)]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=data)]
    return _frame(PRODUCE, _PRODUCE_VERSION, acks=-1, timeout_ms=30_000, topic_data=topics)


def _fetch(topic_id: bytes, partitions: int, session_id: int, epoch: int) -> bytearray:
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(partitions)]
    topics = [FetchTopic(topic_id=topic_id, partitions=wanted)]
    return bytearray(
        _frame(
            FETCH,
            _FETCH_VERSION,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
        )
    )


class Client:
    """One connection that sends prepared frames."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._connection = broker._connect(broker.port)
        self._buffer = bytearray(1 << 20)

    def exchange(self, data: bytes | bytearray) -> memoryview:
        """Send a frame; return the frame of the response."""
        self._connection.sendall(data)
        view, received, size = memoryview(self._buffer), 0, 4
        while received < size:
            received += self._connection.recv_into(view[received:])
            if received >= 4:
                size = 4 + int(struct.unpack_from(">i", self._buffer)[0])
        return view[:size]

    def measure(self, name: str, request: Callable[[], bytes | bytearray], seconds: float) -> None:
        for _ in range(200):
            self.exchange(request())
        count, spent_ms, began = 0, self.broker.cpu_ms(), time.perf_counter()
        while time.perf_counter() - began < seconds:
            for _ in range(50):
                self.exchange(request())
            count += 50
        passed = time.perf_counter() - began
        cpu_us = 1000 * (self.broker.cpu_ms() - spent_ms) / count
        print(f"{name:40} {count / passed:10,.0f} a second {cpu_us:8.1f} us of the broker's", flush=True)


def _in_session(client: Client, topic_id: bytes, partitions: int) -> Callable[[], bytearray]:
    answer = client.exchange(_fetch(topic_id, partitions, 0, 0))
    session_id = int(struct.unpack_from(">i", answer, _SESSION_AT)[0])
    data = _fetch(topic_id, partitions, session_id, 1)
    at = 4 + len(encode_request_header(FETCH, _FETCH_VERSION, 7, "bench")) + _EPOCH_BEHIND_HEADER
    epoch = 0

    def request() -> bytearray:
        nonlocal epoch
        epoch += 1
        struct.pack_into(">i", data, at, epoch)
        return data

    return request


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/dev/shm") as folder:
        broker = Broker(Path(folder), log_segment_bytes=64 << 20)
        try:
            run(broker, seconds)
        finally:
            broker.process.terminate()
            broker.process.wait()


def run(broker: Broker, seconds: float) -> None:
    client = Client(broker)
    for size in SIZES:
        topic = CreatableTopic(name=f"of-{size}", num_partitions=PARTITIONS, replication_factor=1)
        broker.call(CREATE_TOPICS, 5, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))
        topics = broker.call(METADATA, 12, METADATA.request(topics=None)).topics
        topic_id: bytes = next(each.topic_id for each in topics if each.name == topic.name)
        client.exchange(_produce(topic_id, PARTITIONS, size))
        for partitions in (1, PARTITIONS):
            fetch, session = _fetch(topic_id, partitions, 0, -1), _in_session(client, topic_id, partitions)
            produce = _produce(topic_id, partitions, size)
            client.measure(f"Fetch of {partitions} x {size} B", repeat(fetch).__next__, seconds)
            client.measure(f"Fetch of {partitions} x {size} B, in a session", session, seconds)
            client.measure(
                f"Produce of {partitions} x {size} B", repeat(produce).__next__, seconds / (1 + size // 5000)
            )


if __name__ == "__main__":
    main()
