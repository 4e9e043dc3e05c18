"""Clients can make a broker hold only a bounded amount: its memory stays small, and other clients are served meanwhile.

The clients use several loopback addresses, as one address has not enough ports for the full size.
"""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.good_client import GoodClient
from tests.support.processes import resident_bytes
from tests.support.scale import SCALE, scaled
from tests.support.wire import WireClient

HALF_SENT = min(8_000, scaled(160))
SLOW_READERS = min(2_000, scaled(40))
LARGE_FRAMES = min(500, scaled(20))
HALVES = min(500, scaled(50))
BUDGET = 64 << 20
HALF_BYTES = 8 << 20
GIGABYTE = 1 << 30
ANSWER_BYTES = 1 << 20
SOURCES = [f"127.0.0.{number}" for number in range(2, 10)]
#: the memory of each connection, and of all together besides
_EACH_BYTES, _AIR_BYTES = 8 << 10, 24 << 20
#: on a busy machine only an answer is required; else the documented latency
WORST_MS = 50 if SCALE > 1 else 2_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the broker's too, which inherits it
    running = OurBroker(tmp_path, {"socket.request.max.bytes": str(GIGABYTE)})
    yield running
    running.kill()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connections(broker: OurBroker, count: int) -> Iterator[socket.socket]:
    """Connections from all the addresses in turn, with the smallest receive buffers that the system allows."""
    for number in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((SOURCES[number % len(SOURCES)], 0))
        connection.connect((HOST, broker.port))
        yield connection


def test_memory_is_bounded_and_others_are_served(broker: OurBroker) -> None:
    """Half-sent requests, announced gigabytes, and consumers that request a megabyte and read nothing of it.

    The full size is 8,000, 500 and 2,000 of them.
    """
    good = GoodClient(broker.port)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("large")
        for _ in range(4):
            client.produce("large", batch(bytes(ANSWER_BYTES // 3)))
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=ANSWER_BYTES)
        topics = [FetchTopic(topic="large", partitions=[wanted])]
        fetch = client.request_frame(FETCH, 12, max_wait_ms=0, min_bytes=1, max_bytes=ANSWER_BYTES, topics=topics)
        half = client.request_frame(FETCH, 12, topics=topics)[:-3]
    good.work(50)
    broker.catch_up()
    before = resident_bytes(broker.pid)
    held: list[socket.socket] = []
    for count, data in ((HALF_SENT, half), (LARGE_FRAMES, struct.pack(">i", GIGABYTE) + half), (SLOW_READERS, fetch)):
        for number, connection in enumerate(connections(broker, count)):
            connection.sendall(data)
            held.append(connection)
            if not number % 10:
                good.work(1)
        good.work(20)
    broker.catch_up()
    growth = resident_bytes(broker.pid) - before
    print(f"{len(held)} connections: {growth >> 20} MiB more; ", end="")
    print(f"good client: p99 {good.p99_ms():.1f} ms, worst {good.worst_ms():.1f} ms")
    assert growth < _AIR_BYTES + _EACH_BYTES * len(held), f"{growth >> 20} MiB more"
    assert good.p99_ms() < WORST_MS
    for connection in held:
        connection.close()
    good.work(20)
    good.check()
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


def test_frames_beyond_the_limit_end_their_connection(tmp_path: Path) -> None:
    """By default a request has 100 MiB at most. A client that announces a gigabyte is disconnected."""
    with OurBroker(tmp_path) as broker:
        good = GoodClient(broker.port)
        for _ in range(10):
            with WireClient(HOST, broker.port) as client:
                client.socket.sendall(struct.pack(">i", GIGABYTE))
                assert client.is_closed()
            good.work(1)
        assert broker.stop() == 0


def budgeted(directory: Path, budget_bytes: int) -> OurBroker:
    """A broker with that budget for requests, which serves requests of that size."""
    keys = ("socket.request.max.bytes", "queued.max.request.bytes")
    return OurBroker(directory, dict.fromkeys(keys, str(budget_bytes)))


def test_halves_of_large_requests_stay_within_the_budget(tmp_path: Path) -> None:
    """Requests of 64 MiB begin and are never completed: 400 MiB of them, of which the broker receives only the budget.

    Small requests are served all the while. A large one is served once the clients of the incomplete ones disconnect.
    """
    broker = budgeted(tmp_path, BUDGET)
    try:
        good = GoodClient(broker.port)
        good.work(50)
        before = highest = resident_bytes(broker.pid)
        beginning = struct.pack(">i", BUDGET) + bytes(HALF_BYTES)
        unsent = {connection: memoryview(beginning) for connection in connections(broker, HALVES)}

        def send_on() -> int:
            """Return how much of the requests the broker receives now, and its memory then."""
            for connection, data in unsent.items():
                with suppress(OSError):  # the broker reads no more, or has closed the connection
                    unsent[connection] = data[connection.send(data) :]
            return resident_bytes(broker.pid)

        for connection in unsent:
            connection.setblocking(False)
        with ThreadPoolExecutor(1) as pool, DataClient(HOST, broker.port) as large:
            large.create_topic("beside")
            for _ in range(100):
                highest = max(highest, send_on())
                good.work(1)
            began = time.monotonic()
            answer = pool.submit(large.produce, "beside", batch(bytes(900_000)))
            while not answer.done():
                highest = max(highest, send_on())
                good.work(1)
            answer.result()
        assert time.monotonic() - began < 30
        growth = highest - before
        # The budget, one request, and two reads of each connection.
        assert growth < 2 * BUDGET + HALVES * 256 * 1024 + _AIR_BYTES, f"{growth >> 20} MiB more"
        assert good.p99_ms() < WORST_MS
        assert "other requests wait for memory (queued.max.request.bytes)" in broker.output
        for connection in unsent:
            connection.close()
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.kill()


def test_large_requests_at_once_are_served_in_turn(tmp_path: Path) -> None:
    """Four times the budget, from clients that send all at once: no client is rejected."""
    budget = 32 << 20
    broker = budgeted(tmp_path, budget)
    try:
        good = GoodClient(broker.port)
        with DataClient(HOST, broker.port) as client:
            client.create_topic("giant", configs={"max.message.bytes": budget})
        value = bytes(budget - 10_000)

        def produce() -> int:
            with DataClient(HOST, broker.port) as client:
                return [client.produce("giant", batch(value)) for _ in range(2)][-1]

        with ThreadPoolExecutor(4) as pool:
            last = [pool.submit(produce) for _ in range(4)]
            while not all(each.done() for each in last):
                good.work(1)
            assert max(each.result() for each in last) == 7
        assert "is closed" not in broker.output
        assert broker.stop() == 0
    finally:
        broker.kill()
