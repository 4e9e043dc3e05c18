"""pybroker beside Apache Kafka: `python -m bench compare [--loads NAME ...]`.

    --rounds 3 --seconds 4 --warm 20     how often and how long is measured, after how many seconds of the same load

Both run at the same time, on the first core there is; the load runs on the second, against one and the other in turn.
Both are warmed up with each load, since a JVM reaches its full speed only after a while. The figures to trust on a
noisy machine are those of processor time: the broker's own, from /proc, whatever the load could have asked for besides.
Apache Kafka comes from its jars, which are fetched once, and runs on the Java that there is with the options of its own
start script. A ratio above 1 says that pybroker is better. What is read lies in the page cache.
"""

from __future__ import annotations

import argparse
import math
import os
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.schema import Api
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.jars import kafka_classpath
from tests.support.java import java_command
from tests.support.wire import WireClient

#: Both delete what is older than 384 MiB a partition, so that a run stays in the page cache.
PROPERTIES = {
    "log.segment.bytes": "134217728",
    "log.retention.bytes": "402653184",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
KAFKA_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
SOURCE_BYTES = 400_000_000
PRODUCE_VERSION, FETCH_VERSION = 9, 11


class Kafka(KafkaBroker):
    """As its start script runs it; the brokers of the tests are made for a quick start instead."""

    def _command(self, config: Path) -> list[str]:
        super()._command(config)  # formats the directory
        return java_command("kafka.Kafka", [str(config)], [kafka_classpath()], options=KAFKA_OPTIONS)


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` clients, each with `in_flight` requests under way. `max_bytes` of a fetch; 0: they produce.

    A fetch waits up to `max_wait_ms`; one that does not begins at the front again when it has come to the end.
    """

    topic: str
    partitions: int
    connections: int
    in_flight: int
    records: int
    record_bytes: int
    codec: Codec = Codec.NONE
    max_bytes: int = 0
    max_wait_ms: int = 0


MEDIUM, LARGE = (100, 100), (1000, 1000)
LOADS = {
    "small": Load("small", 10, 100, 1, 1, 100),
    "medium": Load("medium", 4, 4, 2, *MEDIUM),
    "medium-lz4": Load("medium-lz4", 4, 4, 2, *MEDIUM, Codec.LZ4),
    "medium-zstd": Load("medium-zstd", 4, 4, 2, *MEDIUM, Codec.ZSTD),
    "large": Load("large", 4, 4, 2, *LARGE),
    "fetch-medium": Load("source-medium", 4, 4, 1, *MEDIUM, max_bytes=1 << 20),
    "fetch-small": Load("source-medium", 4, 20, 1, *MEDIUM, max_bytes=12_000),
    "fetch-large": Load("source-large", 4, 4, 1, *LARGE, max_bytes=1 << 20),
}
#: Told by the bytes that are moved, not by the request.
BY_BYTES = ("large", "fetch-medium", "fetch-large")
TAIL = Load("tail", 1, 1, 1, 1, 200)
TAIL_RATE = 500


def batch(load: Load) -> bytes:
    """A batch of records that differ from each other."""
    builder = BatchBuilder(codec=load.codec)
    now_ms = time.time_ns() // 1_000_000
    for number in range(load.records):
        text = b"%d user=%d page=/item/%d " % (number, number * 7919 % 1000, number * 104729 % 5000)
        builder.append(now_ms, None, (text * (load.record_bytes // len(text) + 1))[: load.record_bytes])
    return builder.build()


def request(api: Api, version: int, **fields: object) -> bytes:
    return frame(encode_request_header(api, version, 7, "bench"), api.request.encode(version, api.request(**fields)))


class Connection:
    """One client: sends requests, and takes answers as they come."""

    def __init__(self, port: int, load: Load, number: int = 0) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.taken_bytes = 0
        self._load = load
        self._partition = number % load.partitions
        self._records = batch(load)
        self._offset = 0
        self._buffer = memoryview(bytearray(4 << 20))
        self._filled = 0
        data = PartitionProduceData(index=self._partition, records=self._records)
        topics = [TopicProduceData(name=load.topic, partition_data=[data])]
        self._produce = request(PRODUCE, PRODUCE_VERSION, acks=1, timeout_ms=30_000, topic_data=topics)

    def send(self) -> None:
        """The next request."""
        self.socket.sendall(self._fetch() if self._load.max_bytes else self._produce)

    def _fetch(self) -> bytes:
        load = self._load
        wanted = FetchPartition(
            partition=self._partition, fetch_offset=self._offset, partition_max_bytes=load.max_bytes
        )
        return request(
            FETCH,
            FETCH_VERSION,
            max_wait_ms=load.max_wait_ms,
            min_bytes=1,
            max_bytes=load.max_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=load.topic, partitions=[wanted])],
        )

    def receive(self) -> int:
        """Take what is there, or wait for it; how many answers are whole with it."""
        got = self.socket.recv_into(self._buffer[self._filled :])
        if not got:
            sys.exit("the broker closed a connection")
        self._filled += got
        answers = 0
        while self._filled >= 4 and self._filled >= (size := 4 + int.from_bytes(self._buffer[:4], "big")):
            self._take(self._buffer[:size])
            self._buffer[: self._filled - size] = bytes(self._buffer[size : self._filled])
            self._filled -= size
            answers += 1
        return answers

    def _take(self, answer: memoryview) -> None:
        load = self._load
        if load.max_bytes:
            response, _ = FETCH.response.decode(FETCH_VERSION, answer, 8)
            (partition,) = response.responses[0].partitions
            # All batches are of one size; the last one may be cut, and is asked for again.
            batches = len(partition.records or b"") // len(self._records)
            self.taken_bytes += len(partition.records or b"")
            if batches or not load.max_wait_ms:
                self._offset = self._offset + batches * load.records if batches else 0
        else:
            response, _ = PRODUCE.response.decode(PRODUCE_VERSION, answer, 9)
            (partition,) = response.responses[0].partition_responses
            self.taken_bytes += len(self._records)
        if partition.error_code:
            sys.exit(f"the broker answered with error {partition.error_code}")


def cpu_seconds(pid: int) -> float:
    """Of a process and those that it has started."""
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


def memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def drive(broker: RunningBroker, load: Load, seconds: float, limit_bytes: float = math.inf) -> tuple[float, int, int]:
    """(processor time, requests, bytes) of a load that ends when it is that late, or so much is moved."""
    selector = selectors.DefaultSelector()
    connections = [Connection(broker.port, load, number) for number in range(load.connections)]
    for each in connections:
        selector.register(each.socket, selectors.EVENT_READ, each)
    before, until = cpu_seconds(broker.pid), time.perf_counter() + seconds
    for each in connections * load.in_flight:
        each.send()
    requests, under_way, moved = 0, load.connections * load.in_flight, 0
    while under_way:
        for key, _ in selector.select():
            taken = key.data.taken_bytes
            answers = key.data.receive()
            moved += key.data.taken_bytes - taken
            requests += answers
            under_way -= answers
            if time.perf_counter() < until and moved < limit_bytes:
                for _ in range(answers):
                    key.data.send()
                under_way += answers
    used = cpu_seconds(broker.pid) - before
    for each in connections:
        each.socket.close()
    return used, requests, moved


def tail(broker: RunningBroker, topic: str, seconds: float) -> tuple[float, float]:
    """How many ms a record takes from a producer to a consumer that waits for it: median and 99 of a hundred."""
    create(broker, topic, 1)
    load = replace(TAIL, topic=topic)
    producer = Connection(broker.port, load)
    consumer = Connection(broker.port, replace(load, max_bytes=1 << 20, max_wait_ms=500))
    waits = []
    due = time.perf_counter()
    until = due + seconds
    while due < until:
        consumer.send()
        due += 1 / TAIL_RATE
        time.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        producer.send()
        while not consumer.receive():
            pass
        waits.append((time.perf_counter() - sent) * 1000)
        while not producer.receive():
            pass
    for each in (producer, consumer):
        each.socket.close()
    waits.sort()
    return statistics.median(waits), waits[len(waits) * 99 // 100]


def create(broker: RunningBroker, topic: str, partitions: int) -> None:
    with WireClient(HOST, broker.port) as client:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        client.call(CREATE_TOPICS, 5, topics=[wanted], timeout_ms=30_000)
    time.sleep(0.5)  # until Kafka's broker knows what its controller has made


@contextmanager
def started(folder: Path, properties: Mapping[str, str] = PROPERTIES) -> Iterator[list[RunningBroker]]:
    """Both brokers, ours first, on a core of their own; what is shown first is how long their second starts took."""
    have = sorted(os.sched_getaffinity(0))
    brokers: list[RunningBroker] = []
    os.sched_setaffinity(0, have[:1])  # those that are started here inherit it
    try:
        took = []
        for kind in (OurBroker, Kafka):
            broker: RunningBroker = kind(folder / kind.__name__, properties)  # formats its directory
            brokers.append(broker)
            broker.stop()
            began = time.perf_counter()
            broker.start()
            took.append(time.perf_counter() - began)
        show("start", "s", took)
        os.sched_setaffinity(0, have[1:2] or have)
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()
        os.sched_setaffinity(0, have)


def show(name: str, figure: str, values: Sequence[float], *, more_is_better: bool = False) -> None:
    ours, kafka = values
    ratio = ours / kafka if more_is_better else kafka / ours
    print(f"{name:14} {figure:20} ours {ours:9.2f}   kafka {kafka:9.2f}   ratio {ratio:6.2f}", flush=True)


def measure(brokers: list[RunningBroker], name: str, load: Load, times: argparse.Namespace) -> None:
    """One load: warm both up, then in turn."""
    for broker in brokers:
        drive(broker, load, times.warm)
    used: list[list[float]] = [[], []]
    for _ in range(times.rounds):
        for broker, costs in zip(brokers, used, strict=True):
            cpu, requests, moved = drive(broker, load, times.seconds)
            costs.append(cpu * 1e9 / moved if name in BY_BYTES else cpu * 1e6 / requests)
    show(name, "CPU s/GB" if name in BY_BYTES else "CPU us/request", [statistics.median(costs) for costs in used])


def main(argv: Sequence[str]) -> None:
    names = [*LOADS, "tail"]
    parser = argparse.ArgumentParser(description="pybroker beside Apache Kafka")
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=20)
    times = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch, started(Path(scratch)) as brokers:
        time.sleep(3)
        show("idle", "MB", [memory_mb(broker.pid) for broker in brokers])
        made: set[str] = set()
        for name in times.loads:
            load = LOADS.get(name, TAIL)
            if name in LOADS and load.topic not in made:
                made.add(load.topic)
                for broker in brokers:
                    create(broker, load.topic, load.partitions)
                    if load.max_bytes:
                        drive(broker, replace(load, max_bytes=0, in_flight=2), 60, SOURCE_BYTES)
            if name in LOADS:
                measure(brokers, name, load, times)
                continue
            tails: list[list[tuple[float, float]]] = [[], []]
            for turn in range(times.rounds + 1):
                for broker, found in zip(brokers, tails, strict=True):
                    found.append(tail(broker, f"tail-{turn}", times.warm if not turn else times.seconds))
            for number, figure in enumerate(("p50 ms", "p99 ms")):
                show(name, figure, [statistics.median(each[number] for each in found[1:]) for found in tails])
        show("after", "MB", [memory_mb(broker.pid) for broker in brokers])


if __name__ == "__main__":
    main(sys.argv[1:])
