"""num.workers=2, and processes are killed under load: nothing that was acknowledged is lost.

A worker comes back, and the others go on meanwhile; with the owner all ends. The producers go on through all of it as
real ones do: what was not acknowledged is sent again, with the same sequences.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.support.data_client import batch
from tests.support.several_workers import WorkersBroker, until

PARTITIONS = 4
KILLS = 3
TRANSACTION = 8
# Segments roll every few dozen batches: kills fall into rolls, too.
TOPIC_CONFIGS = {"internal.segment.bytes": 64 * 1024, "segment.index.bytes": 4096, "index.interval.bytes": 1024}
PATIENCE_S = 120
_IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20, "log_level": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WorkersBroker]:
    running = WorkersBroker(tmp_path)
    yield running
    running.kill()


class Numbers:
    """An idempotent producer of numbers to each partition, and what of them was acknowledged."""

    def __init__(self, broker: WorkersBroker, topic: str) -> None:
        self.topic = topic
        self.sent = [0] * PARTITIONS
        self.delivered: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]  # offset -> value
        self.failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": PATIENCE_S * 1000,
                **_IMPATIENT,
            }
        )

    def produce_some(self) -> None:
        """To each partition one, as long as not too many are on their way."""
        for partition in range(PARTITIONS):
            if self.sent[partition] - len(self.delivered[partition]) < 5_000:
                value = b"%d" % self.sent[partition]
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
                self.sent[partition] += 1
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self.delivered[message.partition()][message.offset()] = message.value()

    def run_until_each_has_more(self, partitions: list[int], count: int) -> None:
        """Produce until so many more are acknowledged in each of these partitions."""
        wanted = {each: len(self.delivered[each]) + count for each in partitions}
        deadline = time.monotonic() + PATIENCE_S
        while any(len(self.delivered[each]) < goal for each, goal in wanted.items()):
            assert time.monotonic() < deadline, "the load does not get on"
            self.produce_some()
            time.sleep(0.001)

    def end(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self.failures


def wait_for_another(broker: WorkersBroker, killed: int) -> None:
    """Wait until the worker has another process."""
    deadline = time.monotonic() + PATIENCE_S
    while broker.worker_ids() in ([], [killed]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_all_is_there(broker: WorkersBroker, numbers: Numbers) -> list[list[bytes]]:
    """End the load; what was sent is there once and in order, as it was acknowledged. What was sent, by partition."""
    numbers.end()
    sent = [[b"%d" % number for number in range(count)] for count in numbers.sent]
    for partition in range(PARTITIONS):
        assert [value for _, value in sorted(numbers.delivered[partition].items())] == sent[partition]
        assert broker.at("t", partition).values("t", partition) == sent[partition]
    return sent


def test_what_was_acknowledged_survives_a_workers_death(broker: WorkersBroker) -> None:
    """Once and in order; readers see all of it. Partitions of the owner are written to while the worker is away."""
    dice = random.Random(7)
    broker.client().create_topic("t", PARTITIONS, TOPIC_CONFIGS)
    owned = [index for index, leader in enumerate(broker.leaders("t")) if leader == 1]
    assert 0 < len(owned) < PARTITIONS
    numbers = Numbers(broker, "t")
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            **_IMPATIENT,
        }
    )
    reader.subscribe(["t"])
    read: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def read_some(timeout_s: float) -> None:
        for record in reader.consume(1000, timeout=timeout_s):
            if record.error() is None:
                read[record.partition()].append(record.value())

    for _ in range(KILLS):
        numbers.run_until_each_has_more(list(range(PARTITIONS)), dice.randint(50, 500))
        read_some(0.1)
        [worker] = broker.worker_ids()
        os.kill(worker, signal.SIGKILL)
        numbers.run_until_each_has_more(owned, 100)
        wait_for_another(broker, worker)
    numbers.run_until_each_has_more(list(range(PARTITIONS)), 100)
    sent = check_all_is_there(broker, numbers)
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, read)) < sum(numbers.sent):
        assert time.monotonic() < deadline
        read_some(1)
    assert read == sent
    reader.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_what_was_acknowledged_survives_the_owners_death(broker: WorkersBroker) -> None:
    """All ends with it, and no orphan is left; a stop in good order under the same load comes last."""
    dice = random.Random(8)
    everywhere = list(range(PARTITIONS))
    broker.client().create_topic("t", PARTITIONS, TOPIC_CONFIGS)
    numbers = Numbers(broker, "t")
    for _ in range(KILLS):
        numbers.run_until_each_has_more(everywhere, dice.randint(50, 500))
        [worker] = broker.worker_ids()
        broker.kill()
        deadline = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{worker}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        broker.start()
    numbers.run_until_each_has_more(everywhere, 100)
    assert broker.stop() == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    numbers.run_until_each_has_more(everywhere, 100)
    check_all_is_there(broker, numbers)
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


def test_transactions_go_through_a_workers_death(broker: WorkersBroker) -> None:
    """A transaction over both is whole or not there, also where a marker has to wait for the worker to be back."""
    broker.client().create_topic("t", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", **_IMPATIENT})
    producer.init_transactions(PATIENCE_S)
    committed: list[int] = []
    for number in range(12):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for _ in range(TRANSACTION):
                producer.produce("t", b"%d" % number, partition=partition)
        if number % 4 == 1:
            os.kill(broker.worker_ids()[0], signal.SIGKILL)  # with records on their way
        try:
            assert producer.flush(PATIENCE_S) == 0
            if number % 4 == 3:
                [worker] = broker.worker_ids()
                os.kill(worker, signal.SIGKILL)  # with markers on their way
            producer.commit_transaction(PATIENCE_S)
            committed.append(number)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
        while not broker.worker_ids():
            time.sleep(0.01)
    assert broker.client().settled("x").startswith("Complete")
    wanted = [b"%d" % number for number in committed for _ in range(TRANSACTION)]
    broker.forget_clients()
    for partition in range(PARTITIONS):
        client = broker.at("t", partition)
        assert client.committed_values("t", partition) == wanted
        assert client.latest("t", partition, committed=True) == client.latest("t", partition, committed=False)
    assert len(committed) >= 6
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


class ImpatientBroker(WorkersBroker):
    """Its owner thinks of a worker that is silent for three seconds that it hangs."""

    _PROGRAM = """
import sys
from broker.cores import pulse
from broker.main import main

pulse.BEAT_S, pulse.BEATS_WITHOUT_ANSWER = 0.2, 15
sys.exit(main())
"""

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-c", self._PROGRAM, str(config)]


def test_a_worker_that_hangs_is_ended_and_another_comes(tmp_path: Path) -> None:
    """Its connections end, too, so that clients do not wait for it."""
    broker = ImpatientBroker(tmp_path)
    broker.client().create_topic("t", PARTITIONS)
    theirs = broker.leaders("t").index(2)
    broker.at("t", theirs).produce("t", batch(b"before"), theirs)
    [worker] = broker.worker_ids()
    os.kill(worker, signal.SIGSTOP)
    wait_for_another(broker, worker)
    broker.forget_clients()
    until(lambda: broker.at("t", theirs).produce("t", batch(b"after"), theirs))
    assert broker.at("t", theirs).values("t", theirs) == [b"before", b"after"]
    assert broker.stop() == 0
    assert "has not answered for" in broker.output
    assert "was killed by SIGKILL" in broker.output
