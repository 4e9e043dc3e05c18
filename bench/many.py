"""Measure many of everything: `python -m bench many [--only NAME ...] [--partitions N] [--connections N] [--polls N]`.

starts       the first start on an empty directory, later starts, and starts with 10,000 partitions after a clean stop
partitions   a Metadata of all partitions, a small Produce to any of them and to any of ten, memory
connections  10,000 connections that are opened at once, with one request each
idle         100 long polls (500 ms) on 1,000 empty partitions
polls        5,000 long polls (10 s): their cost, and the cost of a record for which one of them waits
groups       1,000 classic and 1,000 KIP-848 groups of five members, with heartbeats at the clients' interval

One broker runs alone, with its load beside it. Trust the times by the clock on a quiet machine only; the processor
time of the broker is reliable on any.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from bench.comparison.connections import burst
from bench.comparison.figures import quantile
from bench.comparison.plan import FETCH_VERSION, PRODUCE_VERSION, request
from bench.comparison.usage import cpu_seconds, memory_mb
from bench.groups import GROUP_SIZE, KINDS, entered
from bench.process import Broker, metadata_ms, running
from bench.start import TOPICS, make_partitions
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder

STARTS = 5
FEW = 10
PRODUCES = 20_000
#: The time in which all logs are opened after a start with many partitions.
OPENED_S = 60
WATCHED_S = 10
#: Position in a response, after size, correlation id, throttling, error code.
_SESSION_AT = 14
WAKES = 500
GROUPS_PROPERTIES = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 10}


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:64} {value:10,.2f} {unit}", flush=True)


def create(broker: Broker, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    broker.call(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))


def show_starts(name: str, folder: Path) -> None:
    brokers = []
    for _ in range(STARTS):
        with running(folder) as broker:
            brokers.append((broker.start_ms, cpu_seconds(broker.pid), memory_mb(broker.pid)))
    for unit, figures in zip(("ms", "s of processor time", "MB"), zip(*brokers, strict=True), strict=True):
        show(f"{name}, best", min(figures), unit)
        show(f"{name}, median", statistics.median(figures), unit)


def measure_starts(folder: Path, sizes: argparse.Namespace) -> None:
    for number in range(STARTS):
        (folder / f"empty-{number}").mkdir()
    firsts = []
    for number in range(STARTS):
        with running(folder / f"empty-{number}") as broker:
            firsts.append((broker.start_ms, cpu_seconds(broker.pid)))
    show("first start, empty directory, best", min(took for took, _ in firsts), "ms")
    show("first start, empty directory, best", min(used for _, used in firsts), "s of processor time")
    show_starts("start, nothing there", folder / "empty-0")
    show_starts(f"start, {sizes.partitions} partitions, clean", many(folder, sizes))


def many(folder: Path, sizes: argparse.Namespace) -> Path:
    """Make a directory with `partitions` partitions, stopped cleanly by this broker."""
    path = folder / "many"
    if not path.exists():
        path.mkdir()
        make_partitions(path, sizes.partitions)
        with running(path) as broker:
            wait_until_idle(broker)
    return path


def wait_until_idle(broker: Broker) -> None:
    """Wait until the broker is idle for two seconds."""
    quiet = 0
    until = time.monotonic() + OPENED_S
    while quiet < 2 and time.monotonic() < until:
        before = broker.cpu_ms()
        time.sleep(1)
        quiet = quiet + 1 if broker.cpu_ms() - before <= 10 else 0


class Exchanges:
    """A connection that sends prepared frames, one at a time."""

    def __init__(self, broker: Broker) -> None:
        self._connection = broker.connect()
        self._buffer = bytearray(1 << 20)

    def call(self, frame: bytes) -> float:
        """Return the milliseconds until the whole response has arrived."""
        began = time.perf_counter()
        self._connection.send_frame(frame)
        self._connection.receive_into(self._buffer)
        return (time.perf_counter() - began) * 1000


def produce_frame(topic: str, partition: int) -> bytes:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, bytes(100))
    data = PartitionProduceData(index=partition, records=builder.build())
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return request(PRODUCE, PRODUCE_VERSION, acks=1, timeout_ms=10_000, topic_data=topics)


def measure_partitions(folder: Path, sizes: argparse.Namespace) -> None:
    with running(many(folder, sizes)) as broker:
        show("memory, first answer", broker.memory_mb(), "MB")
        wait_until_idle(broker)
        show("memory, all logs open", broker.memory_mb(), "MB")
        print(f"{'Metadata of all, v12':64} {metadata_ms(broker)}")
        before = broker.cpu_ms()
        for _ in range(10):
            broker.call(METADATA, 12, METADATA.request(topics=None))
        show("the same, processor time of the broker", (broker.cpu_ms() - before) / 10, "ms")
        create(broker, "few", FEW)
        random = Random(1)
        each = sizes.partitions // TOPICS
        wide = [produce_frame(f"many-{random.randrange(TOPICS)}", random.randrange(each)) for _ in range(PRODUCES)]
        narrow = [produce_frame("few", random.randrange(FEW)) for _ in range(PRODUCES)]
        connection = Exchanges(broker)
        for name, frames in (("the first ones", wide[::2]), ("later ones", wide[::2])):
            waits: tuple[list[float], list[float]] = [], []
            for one, other in zip(frames, narrow, strict=False):  # in turn: what disturbs the one disturbs the other
                waits[0].append(connection.call(one))
                waits[1].append(connection.call(other))
            for count, took in zip((sizes.partitions, FEW), waits, strict=True):
                for share in (0.5, 0.99):
                    show(
                        f"Produce to any of {count} partitions, {name}, p{share * 100:.0f}", quantile(took, share), "ms"
                    )
        for count, frames in ((sizes.partitions, wide[::2]), (FEW, narrow[::2])):
            before = broker.cpu_ms()
            for frame in frames:
                connection.call(frame)
            show(f"Produce to any of {count} partitions", (broker.cpu_ms() - before) * 1000 / len(frames), "CPU us")
        show("memory then", broker.memory_mb(), "MB")


def measure_connections(folder: Path, sizes: argparse.Namespace) -> None:
    (folder / "connections").mkdir()
    with running(folder / "connections") as broker:
        for name in ("", "once more, "):
            found = burst(broker, sizes.connections)
            load = f"{sizes.connections} connections at once, {name}"
            show(f"{load}until all are answered", found.seconds, "s")
            show(f"{load}not answered", sizes.connections - found.answered, "")
            show(f"{load}the broker", found.cpu_s, "s of processor time")
            show(f"{load}memory of each", found.kb_each, "kB")


class Polls:
    """Connections that each wait for records of some partitions, and poll again when they are answered.

    With `sessions` they name the partitions once, as Java and Go clients do; else in each request, as librdkafka does.
    """

    def __init__(
        self, broker: Broker, topic: str, partitions: int, count: int, each: int, wait_ms: int, *, sessions: bool
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._wait_ms = wait_ms
        self._sessions = sessions
        self.answers = 0
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", broker.port))
            wanted = [
                FetchPartition(partition=(number * each + place) % partitions, partition_max_bytes=1 << 20)
                for place in range(each)
            ]
            frame = self._frame(0 if sessions else -1, topics=[FetchTopic(topic=topic, partitions=wanted)])
            connection.sendall(frame)
            self._selector.register(connection, selectors.EVENT_READ, (0, frame))

    def _frame(self, epoch: int, **fields: object) -> bytes:
        waiting = {"max_wait_ms": self._wait_ms, "min_bytes": 1, "max_bytes": 50 << 20}
        return request(FETCH, FETCH_VERSION, session_epoch=epoch, **waiting, **fields)

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(rest):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                answer = connection.recv(1 << 16)
                if not answer:
                    raise SystemExit("a poll lost its connection")
                self.answers += 1
                epoch, frame = key.data
                if self._sessions:
                    (session_id,) = struct.unpack_from(">i", answer, _SESSION_AT)
                    epoch += 1
                    frame = self._frame(epoch, session_id=session_id)
                    self._selector.modify(connection, selectors.EVENT_READ, (epoch, frame))
                connection.sendall(frame)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


def share_of_a_core(broker: Broker, run: Callable[[float], object]) -> float:
    """Return the broker's CPU in %, after a moment in which new connections settle."""
    run(2)
    before, began = cpu_seconds(broker.pid), time.monotonic()
    run(WATCHED_S)
    return 100 * (cpu_seconds(broker.pid) - before) / (time.monotonic() - began)


def measure_idle(folder: Path, sizes: argparse.Namespace) -> None:
    (folder / "idle").mkdir()
    with running(folder / "idle") as broker:
        create(broker, "waited-for", 1000)
        wait_until_idle(broker)
        show("nothing to do, 1,000 partitions", share_of_a_core(broker, time.sleep), "% of a core")
        for sessions, how in ((True, "in sessions"), (False, "without sessions")):
            polls = Polls(broker, "waited-for", 1000, 100, 10, 500, sessions=sessions)
            show(
                f"100 long polls of 500 ms on 1,000 partitions, {how}",
                share_of_a_core(broker, polls.run),
                "% of a core",
            )
            polls.close()


def measure_polls(folder: Path, sizes: argparse.Namespace) -> None:
    (folder / "polls").mkdir()
    with running(folder / "polls") as broker:
        create(broker, "waited-for", 1000)
        wait_until_idle(broker)
        before_mb = broker.memory_mb()
        polls = Polls(broker, "waited-for", 1000, sizes.polls, 1, 10_000, sessions=False)
        name = f"{sizes.polls} long polls of 10 s"
        show(name, share_of_a_core(broker, polls.run), "% of a core")
        show(f"{name}, memory of each", (broker.memory_mb() - before_mb) * 1024 / sizes.polls, "kB")
        connection = Exchanges(broker)
        create(broker, "nobody-waits", 1)
        for topic, who in (
            ("nobody-waits", "that nobody waits for"),
            ("waited-for", f"of {sizes.polls // 1000} polls"),
        ):
            before = broker.cpu_ms()
            frames = [produce_frame(topic, number if topic == "waited-for" else 0) for number in range(WAKES)]
            took = [connection.call(frame) for frame in frames]
            used = (broker.cpu_ms() - before) * 1000 / WAKES
            show(f"{name}: a Produce {who}", used, "CPU us")
            show(f"{name}: a Produce {who}, p50", quantile(took, 0.5), "ms")
        polls.close()


def measure_groups(folder: Path, sizes: argparse.Namespace) -> None:
    for name in ("classic", "consumer"):
        (folder / name).mkdir()
        with running(folder / name, **GROUPS_PROPERTIES) as broker:
            create(broker, "t", FEW)
            while broker.call(FIND_COORDINATOR, 3, FIND_COORDINATOR.request(key="any")).error_code:
                time.sleep(0.1)
            before_mb = broker.memory_mb()
            kind = KINDS[name]._replace(partitions=FEW)
            crowd = entered(broker, kind, [f"g{number}" for number in range(sizes.groups)], kind.interval_s)
            share = share_of_a_core(broker, lambda seconds, crowd=crowd: crowd.run(time.monotonic() + seconds))  # type: ignore[misc]
            what = f"{sizes.groups} {name} groups of {GROUP_SIZE}, heard from every {kind.interval_s:.0f} s"
            show(what, share, "% of a core")
            show(
                f"{what}, memory of each member",
                (broker.memory_mb() - before_mb) * 1024 / sizes.groups / GROUP_SIZE,
                "kB",
            )
            crowd.close()


MEASURES: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "starts": measure_starts,
    "partitions": measure_partitions,
    "connections": measure_connections,
    "idle": measure_idle,
    "polls": measure_polls,
    "groups": measure_groups,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench many", description="many of everything")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=5_000)
    parser.add_argument("--groups", type=int, default=1_000)
    sizes = parser.parse_args(argv)
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for name in sizes.only:
            MEASURES[name](Path(scratch), sizes)


if __name__ == "__main__":
    main(sys.argv[1:])
