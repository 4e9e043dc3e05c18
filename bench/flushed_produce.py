"""Measure Produce with flush.messages=1, where responses wait for the disk: `bench.flushed_produce [ours] [kafka]`.

The named brokers (default: ours) run one after the other, each with a directory below TMPDIR, which should be on a
disk. Figures are requests a second and the latency of one. Batches have one record of 100 bytes, in the last two loads
of 10,000. Those two compare no flush with flush.ms=1000: they show how a background flush slows down producers that do
not wait for it.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from client.connection import Connection
from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Api, Struct
from tests.support.brokers import BROKERS, RunningBroker

SECONDS = 4.0
WARM_UP_SECONDS = {"ours": 0.5, "kafka": 8.0}
#: connections, partitions, requests in flight on each connection, topic's configuration, bytes a record
LOADS = [
    (1, 1, 1, {"flush.messages": "1"}, 100),
    (1, 1, 5, {"flush.messages": "1"}, 100),
    (20, 1, 1, {"flush.messages": "1"}, 100),
    (20, 20, 1, {"flush.messages": "1"}, 100),
    (100, 10, 1, {"flush.messages": "1"}, 100),
    (4, 4, 1, {}, 10_000),
    (4, 4, 1, {"flush.ms": "1000"}, 10_000),
]


def request(api: Api, version: int, body: Struct) -> bytes:
    return frame(encode_request_header(api, version, 1, "bench"), api.request.encode(version, body))


async def answered(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def create(port: int, topic: str, partitions: int, configs: dict[str, str]) -> None:
    wanted = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    with Connection("127.0.0.1", port, timeout_s=60, client_id="bench") as connection:
        connection.call(CREATE_TOPICS, 5, topics=[wanted], timeout_ms=30_000)
    time.sleep(0.5)  # Kafka's broker needs a moment to learn of its partitions


async def connection(port: int, data: bytes, in_flight: int, until: float, waits: list[float]) -> None:
    """Produce on one connection with `in_flight` outstanding requests, until the time `until`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent: list[float] = []
    while sent or time.perf_counter() < until:
        while len(sent) < in_flight and time.perf_counter() < until:
            writer.write(data)
            sent.append(time.perf_counter())
        if sent:
            await answered(reader)
            waits.append(time.perf_counter() - sent.pop(0))
    writer.close()


async def load(broker: RunningBroker, number: int, seconds: float) -> list[float]:
    """Return the latencies of all requests."""
    connections, partitions, in_flight, _, size = LOADS[number]
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(size))
    waits: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(
        *(
            connection(
                broker.port,
                request(
                    PRODUCE,
                    9,
                    PRODUCE.request(
                        acks=-1,
                        timeout_ms=30_000,
                        topic_data=[
                            TopicProduceData(
                                name=f"load{number}",
                                partition_data=[PartitionProduceData(index=each % partitions, records=builder.build())],
                            )
                        ],
                    ),
                ),
                in_flight,
                until,
                waits,
            )
            for each in range(connections)
        )
    )
    return waits


async def measure(broker: RunningBroker) -> None:
    for number, (connections, partitions, in_flight, configs, size) in enumerate(LOADS):
        create(broker.port, f"load{number}", partitions, configs)
        await load(broker, number, WARM_UP_SECONDS[broker.kind])
        waits = sorted(await load(broker, number, SECONDS))
        config = " ".join(f"{name}={value}" for name, value in configs.items()) or "no flush"
        print(
            f"{broker.kind:6} {config:16} {connections:3} connections x {in_flight} in flight, {partitions:2} parts, "
            f"{size:5} B: {len(waits) / SECONDS:7.0f} requests/s, p50 {statistics.median(waits) * 1e3:6.2f} ms, "
            f"p99 {waits[len(waits) * 99 // 100] * 1e3:6.2f} ms, longest {waits[-1] * 1e3:4.0f} ms",
            flush=True,
        )


def main() -> None:
    for kind in sys.argv[1:] or ["ours"]:
        with tempfile.TemporaryDirectory() as folder:
            broker = BROKERS[kind](Path(folder))
            try:
                asyncio.run(measure(broker))
            finally:
                broker.stop()


if __name__ == "__main__":
    main()
