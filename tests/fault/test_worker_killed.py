"""num.workers=2, and processes are killed under load: no acknowledged record is lost.

A worker is started again, and the others continue. If the owner dies, all end. The producers continue like real ones:
they resend unacknowledged records with the same sequences.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.history import History, Partition
from tests.support.history_clients import RdkafkaProducer, RdkafkaReader
from tests.support.history_load import HistoryLoad
from tests.support.several_workers import WorkersBroker, until

PARTITIONS = 4
PLACES: list[Partition] = [("t", index) for index in range(PARTITIONS)]
KILLS = 3
TRANSACTION = 8
# Segments roll every few dozen batches, so that kills hit rolls too.
TOPIC_CONFIGS = {"internal.segment.bytes": 64 * 1024, "segment.index.bytes": 4096, "index.interval.bytes": 1024}
PATIENCE_S = 120
_IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20, "log_level": 0}


class PatchedBroker(WorkersBroker):
    """`patch` runs in the owner's process."""

    patch: str

    def _command(self, config: Path) -> list[str]:
        imports = "import sys; from pybroker.engine_process import enter; enter(); from broker.main import main"
        imports += "; from broker.workers import handle, liveness"
        return [sys.executable, "-c", f"{imports}; {self.patch}; sys.exit(main())", str(config)]


class ImpatientBroker(PatchedBroker):
    """The owner considers a worker hung that is silent for three seconds."""

    patch = "liveness.BEAT_S, liveness.BEATS_WITHOUT_ANSWER = 0.2, 15"


class PromptBroker(PatchedBroker):
    """A worker that dies repeatedly is started again in a second. Otherwise it takes 16 s after the sixth time."""

    patch = "handle.LONGEST_PAUSE_S = 1.0"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WorkersBroker]:
    with WorkersBroker(tmp_path) as running:
        yield running


def wait_for_another(broker: WorkersBroker, killed: int) -> None:
    """Wait until the worker has another process."""
    eventually(lambda: broker.worker_ids() not in ([], [killed]), timeout_s=PATIENCE_S)


def load_of(broker: WorkersBroker, history: History) -> HistoryLoad:
    """A producer for the owner's partitions, one for the other worker's, and a consumer of all."""
    broker.client().create_topic("t", PARTITIONS, TOPIC_CONFIGS)
    leaders = broker.leaders("t")
    producers = [
        RdkafkaProducer(name, broker.bootstrap, [place for place in PLACES if leaders[place[1]] == leader], history)
        for leader, name in ((1, "to the owner"), (2, "to the other"))
    ]
    return HistoryLoad(history, producers, [RdkafkaReader("reader", broker.bootstrap, PLACES, history)])


def test_what_was_acknowledged_survives_a_workers_death(broker: WorkersBroker, history: History) -> None:
    """Once and in order, and consumers see all records. The owner's partitions are written while the worker is away."""
    dice = random.Random(7)
    load = load_of(broker, history)
    for _ in range(KILLS):
        load.get_on(dice.randint(50, 500))
        [worker] = broker.worker_ids()
        os.kill(worker, signal.SIGKILL)
        load.get_on(100, load.producers[:1])
        wait_for_another(broker, worker)
    load.get_on(100)
    load.end(broker.bootstrap)
    assert [producer.lives for producer in load.producers] == [1, 1]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_what_was_acknowledged_survives_the_owners_death(broker: WorkersBroker, history: History) -> None:
    """All processes end with it, and no orphan is left. At last comes a clean stop under the same load."""
    dice = random.Random(8)
    load = load_of(broker, history)
    for _ in range(KILLS):
        load.get_on(dice.randint(50, 500))
        [worker] = broker.worker_ids()
        broker.kill()
        eventually(Path(f"/proc/{worker}").exists, equal_to=False, timeout_s=PATIENCE_S)
        broker.start()
    load.get_on(100)
    assert broker.stop() == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    load.get_on(100)
    load.end(broker.bootstrap)
    assert [producer.lives for producer in load.producers] == [1, 1]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


@pytest.fixture
def prompt_broker(tmp_path: Path) -> Iterator[WorkersBroker]:
    with PromptBroker(tmp_path) as running:
        yield running


def test_transactions_go_through_a_workers_death(prompt_broker: WorkersBroker) -> None:
    """A transaction over both is whole or absent, also if a marker waits for the worker to return."""
    broker = prompt_broker
    broker.client().create_topic("t", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", **_IMPATIENT})
    producer.init_transactions(PATIENCE_S)
    committed: list[int] = []
    killed = 0
    for number in range(12):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for _ in range(TRANSACTION):
                producer.produce("t", b"%d" % number, partition=partition)
        if number % 4 == 1:
            [killed] = broker.worker_ids()
            os.kill(killed, signal.SIGKILL)  # with records on their way
        try:
            assert producer.flush(PATIENCE_S) == 0
            if number % 4 == 3:
                [killed] = broker.worker_ids()
                os.kill(killed, signal.SIGKILL)  # with markers on their way
            producer.commit_transaction(PATIENCE_S)
            committed.append(number)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
        wait_for_another(broker, killed)
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


def test_a_worker_that_hangs_is_ended_and_another_comes(tmp_path: Path) -> None:
    """Its connections close too, so that clients do not wait for it."""
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
