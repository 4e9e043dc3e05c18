"""Worker processes die, and brokers die with them: no batch is lost, partial, or duplicated."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.produce import PRODUCE
from protocol.records.builder import BatchBuilder
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused
from tests.support.eventually import eventually
from tests.support.processes import children, is_alive
from tests.support.scale import scaled
from tests.support.wire import Closed

RECORDS = 300
"""The records of a batch: enough for a worker."""
PRODUCERS = 3
BATCHES = 15


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    running = OurBroker(tmp_path)
    yield running
    if running.stop() != 0:
        pytest.fail(running.output)
    assert "Traceback" not in running.output


def batch(producer_id: int, number: int) -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=number * RECORDS)
    for each in range(RECORDS):
        builder.append(time.time_ns() // 1_000_000, b"%d" % producer_id, b"%d" % (number * RECORDS + each))
    return builder.build()


class Producer(threading.Thread):
    """Sends its batches in order and retries each until it is accepted. Ends when the broker is gone."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__()
        self._port = port
        self._topic = topic
        self.taken = 0
        self.error: BaseException | None = None
        with DataClient(HOST, port) as client:
            self.producer_id = client.new_producer_id()

    def run(self) -> None:
        try:
            with DataClient(HOST, self._port, timeout_s=60) as client:
                while self.taken < BATCHES:
                    try:
                        client.produce(self._topic, batch(self.producer_id, self.taken))
                    # by a worker that was killed twice in a row: the batch was not stored, and is sent again
                    except Refused:
                        continue
                    self.taken += 1
        except (Closed, ConnectionError, OSError) as error:
            self.error = error


def check(client: DataClient, topic: str, producers: list[Producer], *, complete: bool) -> None:
    """The records of each producer are there in order, at least the acknowledged ones, in whole batches only."""
    found: dict[bytes, list[int]] = {b"%d" % each.producer_id: [] for each in producers}
    for offset, record in enumerate(client.read_all(topic)):
        assert record.offset == offset
        assert record.key is not None
        assert record.value is not None
        found[record.key].append(int(record.value))
    for each in producers:
        numbers = found[b"%d" % each.producer_id]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) % RECORDS == 0
        assert len(numbers) >= each.taken * RECORDS
        assert not complete or each.taken == BATCHES


def test_killed_workers_cost_no_batch(broker: OurBroker) -> None:
    """Kill one worker after the other while producers write. Another partition is not affected."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("zipped", configs={"compression.type": "gzip"})
        client.create_topic("plain")
        producers = [Producer(broker.port, "zipped") for _ in range(PRODUCERS)]
        for each in producers:
            each.start()
        killed: set[int] = set()
        while any(each.is_alive() for each in producers):
            fresh = [pid for pid in children(broker.pid) if pid not in killed]
            if fresh and len(killed) < scaled(3):
                os.kill(fresh[0], signal.SIGKILL)
                killed.add(fresh[0])
            client.produce("plain", _plain())
            time.sleep(0.05)
        for each in producers:
            each.join()
        check(client, "zipped", producers, complete=True)
    assert killed


def _plain() -> bytes:
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"v")
    return builder.build()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_ends_takes_its_workers_along(broker: OurBroker, number: signal.Signals) -> None:
    """In the middle of the load. After the next start acknowledged records are there, and no partial batch is."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("zipped", configs={"compression.type": "zstd", "compression.zstd.level": 19})
    producers = [Producer(broker.port, "zipped") for _ in range(PRODUCERS)]
    for each in producers:
        each.start()
    eventually(lambda: any(each.taken >= 2 for each in producers))
    workers = children(broker.pid)
    assert workers
    os.kill(broker.pid, number)
    assert broker.wait() == (0 if number == signal.SIGTERM else -number)
    for each in producers:
        each.join()
    eventually(lambda: not any(is_alive(pid) for pid in workers), "a worker outlives its broker")
    broker.start()
    with DataClient(HOST, broker.port) as client:
        check(client, "zipped", producers, complete=False)


def test_a_worker_does_not_hold_up_others(broker: OurBroker) -> None:
    """While a worker rewrites a large batch for seconds, another partition answers at once."""
    with DataClient(HOST, broker.port, timeout_s=120) as slow, DataClient(HOST, broker.port) as quick:
        slow.create_topic("zipped", configs={"compression.type": "zstd", "compression.zstd.level": 19})
        slow.create_topic("plain")
        builder = BatchBuilder()
        for _ in range(1000):
            builder.append(time.time_ns() // 1_000_000, None, os.urandom(450).hex().encode())
        slow.send(PRODUCE, 9, slow.produce_request("zipped", 0, builder.build()))
        slow.socket.setblocking(False)
        answered = 0
        while True:
            quick.produce("plain", _plain())
            answered += 1
            try:
                first = slow.socket.recv(1)
                break
            except BlockingIOError:
                continue
        assert first
        assert answered > 20
