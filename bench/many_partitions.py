"""Requests for one partition and for ten, over loopback: `python -m bench.many_partitions [SECONDS]`.

`alone`: one connection has one request in flight, so each request wakes a sleeping broker. `saturated`: each of eight
connections has one, and the client sends the next when it has received a response. The broker finds the next request
when it has served one, so its requests a second are 1 / (processor time of a request). With two cores or more, the
broker has one and the client another.

A client never repeats a request, so each request here has its own correlation id, session epoch and batches.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import count, cycle
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
CONNECTIONS = 8
#: Different Produce requests that take turns.
_BATCHES = 16
_PRODUCE_VERSION, _FETCH_VERSION = 13, 17
_CLIENT_ID = "bench"
#: Position of the correlation id in a frame, and of the session id in a Fetch response: size, correlation id, no tags,
#: throttle time, error code.
_CORRELATION_AT, _SESSION_AT = 8, 15
#: Position of the session's epoch in a Fetch frame: wait, least and most bytes, isolation level and session precede it.
_EPOCH_AT = 4 + len(encode_request_header(FETCH, _FETCH_VERSION, 7, _CLIENT_ID)) + 17

#: Returns the next request of a connection.
Request = Callable[[], "bytes | bytearray"]


def _batch(size: int, seed: int = 0) -> bytes:
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes([seed]) * size)
    return bytes(builder.build())


def _frame(api: Api, version: int, **fields: object) -> bytearray:
    header = encode_request_header(api, version, 7, _CLIENT_ID)
    return bytearray(frame(header, api.request.encode(version, api.request(**fields))))


def _produce(topic_id: bytes, partitions: int, records: bytes) -> bytearray:
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=data)]
    return _frame(PRODUCE, _PRODUCE_VERSION, acks=-1, timeout_ms=30_000, topic_data=topics)


def _fetch(topic_id: bytes, offsets: Iterable[int], most: int, session_id: int = 0, epoch: int = -1) -> bytearray:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=most)
        for index, offset in enumerate(offsets)
    ]
    topics = [FetchTopic(topic_id=topic_id, partitions=wanted)] if wanted else []
    of_session = {"session_id": session_id, "session_epoch": epoch}
    return _frame(FETCH, _FETCH_VERSION, min_bytes=1, max_bytes=50 << 20, max_wait_ms=0, topics=topics, **of_session)


def _numbered(frames: Iterable[bytearray]) -> Request:
    """Return a request that gives each frame of `frames` in turn, with the next correlation id."""
    frames, numbers = cycle(frames), count()

    def request() -> bytearray:
        data = next(frames)
        struct.pack_into(">i", data, _CORRELATION_AT, next(numbers) & 0x7FFFFFFF)
        return data

    return request


class Connection:
    """A connection that transfers whole frames."""

    def __init__(self, broker: Broker) -> None:
        self._connection = broker.connect()
        self._buffer = bytearray(1 << 20)

    def send(self, data: bytes | bytearray) -> None:
        self._connection.send_frame(data)

    def receive(self) -> memoryview:
        """Return the frame of the next response, in a buffer that the next call uses again."""
        return self._connection.receive_into(self._buffer)

    def exchange(self, data: bytes | bytearray) -> memoryview:
        """Send a request and return the frame of its response."""
        self.send(data)
        return self.receive()

    def in_session(self, topic_id: bytes, opening: bytes | bytearray, fetch: Callable[[int], bytearray]) -> Request:
        """Open a session by the request `opening`; `fetch` makes the next one from the session id."""
        data = fetch(int(struct.unpack_from(">i", self.exchange(opening), _SESSION_AT)[0]))
        numbered, epochs = _numbered([data]), count(1)

        def request() -> bytearray:
            struct.pack_into(">i", data, _EPOCH_AT, next(epochs))
            return numbered()  # type: ignore[return-value]

        return request


class Bench:
    """A broker, and the connections to it."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self.connections = [Connection(broker) for _ in range(CONNECTIONS)]

    def measure(self, name: str, request_of: Callable[[Connection], Request], share: float = 1.0) -> None:
        """Print requests a second and the broker's time for one, with one connection and with all of them."""
        pairs = [(each, request_of(each)) for each in self.connections]
        for kind, used in ("alone", pairs[:1]), ("saturated", pairs):
            self._exchange(used, 0.1)
            spent_ms, began = self._broker.cpu_ms(), time.perf_counter()
            served = self._exchange(used, self._seconds * share)
            passed = time.perf_counter() - began
            cpu_us = 1000 * (self._broker.cpu_ms() - spent_ms) / served
            print(f"{name:44} {kind:10} {served / passed:9,.0f} a second {cpu_us:7.1f} us of the broker", flush=True)

    @staticmethod
    def _exchange(pairs: list[tuple[Connection, Request]], seconds: float) -> int:
        served, end = 0, time.perf_counter() + seconds
        for connection, request in pairs:
            connection.send(request())
        while time.perf_counter() < end:
            for _ in range(20):
                for connection, request in pairs:
                    connection.receive()
                    connection.send(request())
            served += 20 * len(pairs)
        for connection, _ in pairs:
            connection.receive()
        return served


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/dev/shm") as folder:
        broker = Broker(Path(folder), log_segment_bytes=64 << 20)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            for thread in os.listdir(f"/proc/{broker.process.pid}/task"):
                os.sched_setaffinity(int(thread), cores[:1])
            os.sched_setaffinity(0, cores[1:])
        try:
            for size in SIZES:
                run(Bench(broker, seconds), broker, size)
        finally:
            broker.process.terminate()
            broker.process.wait()


def run(bench: Bench, broker: Broker, size: int) -> None:
    topic = CreatableTopic(name=f"of-{size}", num_partitions=PARTITIONS, replication_factor=1)
    broker.call(CREATE_TOPICS, 5, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))
    topics = broker.call(METADATA, 12, METADATA.request(topics=None)).topics
    topic_id: bytes = next(each.topic_id for each in topics if each.name == topic.name)
    batches = [_batch(size, seed) for seed in range(_BATCHES)]
    most = len(batches[0])
    bench.connections[0].exchange(_produce(topic_id, PARTITIONS, batches[0]))
    for partitions in (1, PARTITIONS):
        first, end = [0] * partitions, [1] * partitions

        def fetch(connection: Connection, first: list[int] = first) -> Request:
            return _numbered([_fetch(topic_id, first, most)])

        def session(connection: Connection, opened: list[int], named: list[int]) -> Request:
            opening = _fetch(topic_id, opened, most, epoch=0)
            return connection.in_session(topic_id, opening, lambda id: _fetch(topic_id, named, most, id, 1))

        what = f"of {partitions} x {size} B"
        bench.measure(f"Fetch {what}", fetch)
        bench.measure(f"Fetch {what}, in a session", lambda each: session(each, first, first))  # noqa: B023
        if partitions > 1:
            name = f"Fetch of {size} B, in a session of {partitions}"
            bench.measure(name, lambda each: session(each, end, first[:1]))  # noqa: B023
            bench.measure(f"Fetch of nothing, in a session of {partitions}", lambda each: session(each, end, []))  # noqa: B023
        bench.measure(
            f"Produce {what}",
            lambda each: _numbered([_produce(topic_id, partitions, batch) for batch in batches]),  # noqa: B023
            1 / (1 + size // 5000),
        )


if __name__ == "__main__":
    main()
