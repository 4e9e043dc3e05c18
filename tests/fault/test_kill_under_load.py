"""kill -9 under load, repeatedly: acknowledged records are there, once, in order, and no offset goes back.

Producers continue throughout like real ones: they resend unacknowledged records with the same sequences, and ask for
the end of a transaction if they do not know it. The clients' history (tests/support/history.py) is checked by
tests/support/checker.py, which knows nothing of the broker.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.history import Ended, History, Outcome, read_history
from tests.support.history_clients import HistoryClient, PythonProducer
from tests.support.history_load import stock_load
from tests.support.scale import scaled
from tests.support.wire import Closed

PARTITIONS = 3
#: By default each of three kinds of kill twice.
KILLS = min(100, scaled(6))
#: Between two steps of a raw client: a run of many kills must not leave more than a start can read in time.
PAUSE_S = 0.005
# Segments roll every few dozen batches, so that kills hit rolls too.
TOPIC_CONFIGS = {"internal.segment.bytes": 64 * 1024, "segment.index.bytes": 4096, "index.interval.bytes": 1024}
IN_FLIGHT = 5
PROPERTIES = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
#: The modes of docs/reference/durability.md: responses that do not wait for the disk, and responses that do.
MODES = {"page-cache": {}, "group-commit": {"log.flush.interval.messages": "1"}}


class Load(threading.Thread):
    """Works against a broker that dies and returns. `failure` is an error that it must not see."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.done = 0

    def run(self) -> None:
        try:
            while not self.finished():
                try:
                    with DataClient(HOST, self.port) as client:
                        self.work(client)
                except (Closed, OSError):
                    time.sleep(0.01)
        except BaseException as error:
            self.failure = error

    def finished(self) -> bool:
        return self.stopping.is_set()

    def work(self, client: DataClient) -> None:
        """Work as long as the connection lasts."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let it finish. Raises its failure."""
        self.stopping.set()
        self.join(120)
        assert not self.is_alive()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


class IdempotentProducer(Load):
    """Sends batches of numbers to each partition in turn, five in flight.

    After a disconnect it resends the open ones. So it does if a log is not open yet, soon after a clean stop: then the
    broker asks clients to retry.
    """

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port)
        self.topic = topic
        self.producer_id: int | None = None
        self.sequences = [0] * PARTITIONS
        self.open: deque[tuple[int, int, int, bytes]] = deque()  # partition, first number, count, batch
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]  # first number -> offset
        self.sizes = random.Random(4)

    def finished(self) -> bool:
        return self.stopping.is_set() and not self.open

    def work(self, client: DataClient) -> None:
        if self.producer_id is None:
            self.producer_id = client.new_producer_id()
        for partition, _, _, records in self.open:
            client.send(PRODUCE, 9, client.produce_request(self.topic, partition, records))
        while not self.finished():
            while len(self.open) < IN_FLIGHT and not self.stopping.is_set():
                self.open.append(self.next_batch())
                partition, _, _, records = self.open[-1]
                client.send(PRODUCE, 9, client.produce_request(self.topic, partition, records))
            answer = client.receive().responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise Closed
            if answer.error_code:
                raise Refused(answer.error_code, answer.error_message)
            partition, first, _, _ = self.open.popleft()
            assert answer.index == partition
            self.acknowledged[partition][first] = answer.base_offset
            self.done += 1

    def next_batch(self) -> tuple[int, int, int, bytes]:
        time.sleep(PAUSE_S)
        partition = min(range(PARTITIONS), key=self.sequences.__getitem__)
        first, count = self.sequences[partition], self.sizes.randint(1, 20)
        self.sequences[partition] += count
        assert self.producer_id is not None
        values = [b"%d:%s" % (number, bytes(number % 50)) for number in range(first, first + count)]
        records = batch(*values, producer_id=self.producer_id, producer_epoch=0, base_sequence=first)
        return partition, first, count, records


class Committer(Load):
    """Commits ever higher offsets. After each restart it must find the last acknowledged offset or a later one."""

    group = "workers"

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port)
        self.topic = topic
        self.sent = 0

    def work(self, client: DataClient) -> None:
        if not self.sent:
            client.find_coordinator(self.group)
        while self.sent:
            try:
                found = client.committed(self.group, self.topic, range(PARTITIONS))
            except Refused as refused:
                if refused.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                continue
            assert all((self.done or -1) <= offset <= self.sent for offset in found), (self.done, found, self.sent)
            self.done = max(self.done, min(found))  # an offset that was seen once may not go back either
            break
        while not self.finished():
            self.sent += 1
            client.commit(self.group, {(self.topic, partition): self.sent for partition in range(PARTITIONS)})
            self.done = self.sent
            time.sleep(PAUSE_S)


class Administrator(Load):
    """Creates topics, deletes old ones, alters a configuration.

    After each restart every acknowledged change must hold.
    """

    key = "retention.ms"
    kept = 5

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port)
        self.topic = topic
        self.sent = 0

    def work(self, client: DataClient) -> None:
        self.compare(client)
        while not self.finished():
            self.sent = self.done + 1
            client.set_topic_config(self.topic, self.key, str(1_000_000_000 + self.sent))
            with accepting(ErrorCode.TOPIC_ALREADY_EXISTS):
                client.create_topic(f"made-{self.sent}", 1 + self.sent % 3, {self.key: self.sent})
            with accepting(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                client.delete_topic(f"made-{self.sent - self.kept}")
            self.done = self.sent
            time.sleep(PAUSE_S)

    def compare(self, client: DataClient) -> None:
        topics = client.topics()
        there = {int(name.removeprefix("made-")): count for name, count in topics.items() if name.startswith("made-")}
        uncertain = {self.sent, self.sent - self.kept} if self.sent > self.done else set()
        expected = {number: 1 + number % 3 for number in range(max(1, self.done - self.kept + 1), self.done + 1)}
        assert {number: count for number, count in there.items() if number not in uncertain} == {
            number: count for number, count in expected.items() if number not in uncertain
        }
        if self.done:
            assert client.topic_config(f"made-{self.done}", self.key) == str(self.done)
            value = int(client.topic_config(self.topic, self.key)) - 1_000_000_000
            assert self.done <= value <= self.sent


@contextmanager
def accepting(code: ErrorCode) -> Iterator[None]:
    """Accept this error: an earlier attempt succeeded, but its response was lost."""
    try:
        yield
    except Refused as refused:
        if refused.code is not code:
            raise


@pytest.fixture
def loads() -> Iterator[list[Load]]:
    """The loads of a test. After a failure none goes on: other tests of the process would suffer."""
    own: list[Load] = []
    yield own
    for load in own:
        load.stopping.set()


@pytest.fixture(params=["page-cache", pytest.param("group-commit", marks=pytest.mark.full_size)])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OurBroker]:
    with OurBroker(tmp_path, PROPERTIES | MODES[request.param]) as running:
        yield running


def test_everything_acknowledged_survives_kills(broker: OurBroker, history: History, loads: list[Load]) -> None:
    """S16.6, S16.9: records once and in order, whole transactions, group offsets, topics and their configurations.

    Starts and stops are killed too. The full size is a hundred kills.
    """
    dice = random.Random(9)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("raw", PARTITIONS, TOPIC_CONFIGS)
    raw = IdempotentProducer(broker.port, "raw")
    loads += [raw, Committer(broker.port, "raw"), Administrator(broker.port, "raw")]
    for load in loads:
        load.start()
    stock = stock_load(broker, history, configs=TOPIC_CONFIGS, least_s=0.02)
    clients: list[Load | HistoryClient] = [*loads, *stock.clients]

    def run(seconds: float, waited_for: Sequence[Load | HistoryClient]) -> None:
        """Wait until each of these has made progress, and then some time longer."""
        before = [load.done for load in waited_for]
        deadline, until = time.monotonic() + 120, None
        while until is None or time.monotonic() < until:
            for load in clients:
                load.check()
            if until is None and all(load.done > count for load, count in zip(waited_for, before, strict=True)):
                until = time.monotonic() + seconds
            assert time.monotonic() < deadline, "the load does not get on"
            time.sleep(0.002)

    # Transactions of kafka-python pause for some seconds now and then (PythonProducer): kills continue meanwhile.
    steady = [load for load in clients if not (isinstance(load, PythonProducer) and load.transactional)]
    for kill in range(KILLS):
        run(dice.uniform(0.1, 1.0), steady)
        if kill % 3 == 2:
            os.kill(broker.pid, signal.SIGTERM)
            time.sleep(dice.uniform(0, 0.2))
        broker.kill()
        if kill % 3 == 1:
            broker.spawn()
            time.sleep(dice.uniform(0.05, 0.4))
            broker.kill()
        broker.start()
    run(0.3, clients)
    for load in loads:
        load.finish()
    stock.end(broker.bootstrap)
    assert [producer.lives for producer in stock.producers if not producer.transactional] == [1, 1]
    ends = {event.outcome for event in read_history(history.path) if isinstance(event, Ended)}
    assert ends >= {Outcome.COMMITTED, Outcome.ABORTED}

    with DataClient(HOST, broker.port) as client:
        for partition in range(PARTITIONS):
            found = client.values("raw", partition)
            assert [int(value.partition(b":")[0]) for value in found] == list(range(raw.sequences[partition]))
            assert all(first == offset for first, offset in raw.acknowledged[partition].items())
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
    assert not list(broker.log_dir.glob("*-stray"))
