"""kill -9 of the broker and of workers that move records in transactions: each record arrives exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.transfer_worker import FENCED, PARTITIONS
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.history import Ended, History, Outcome, Partition, Sent
from tests.support.history_clients import PythonReader, RdkafkaReader
from tests.support.history_load import HistoryLoad
from tests.support.java import QUICK, compile_java, java_command, kafka_classpath, kafka_jars
from tests.support.scale import scaled
from tests.support.txn_client import TxnClient

KILLS = min(20, scaled(2))
RECORDS = 150 * KILLS
DEADLINE_S = 60 + 15 * KILLS
#: how long an ended worker stays down: two with the same id would only fence each other
PAUSE_S = 1.5

JAVA = Path(__file__).parent / "java"
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "3",
}


class Workers:
    """Processes by transactional id. A process that was fenced or killed is started again."""

    def __init__(self, command: list[str], names: list[str], output: Path) -> None:
        self._command = command
        self._output = output.open("wb")
        self._ended: dict[int, float] = {}
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = [(name, self._start(name)) for name in names]

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command, name], stdout=self._output, stderr=self._output)

    def look_after(self) -> None:
        """Start ended workers again. None may have ended for another reason."""
        for index, (name, process) in enumerate(self._running):
            code = process.poll()
            if code is None:
                self._ended.pop(index, None)
                continue
            assert code in (FENCED, -9), f"{name} has ended with {code}"
            if time.monotonic() > self._ended.setdefault(index, time.monotonic()) + PAUSE_S:
                self._running[index] = (name, self._start(name))

    def kill(self, chance: random.Random) -> None:
        chance.choice(self._running)[1].kill()

    def stop(self) -> None:
        for _, process in self._running:
            process.kill()
            process.wait()
        self._output.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    running = OurBroker(tmp_path / "broker", PROPERTIES)
    yield running
    if running.is_running:
        running.kill()


def worker(kind: str, broker: OurBroker, folder: Path) -> list[str]:
    """Return the command of a worker, without its id."""
    arguments = [broker.bootstrap, "in", "out"]
    if kind != "java":
        return [sys.executable, "-m", "tests.fault.transfer_worker", kind, *arguments]
    compile_java([JAVA / "Transfer.java"], kafka_jars(), folder)
    logging = Path(__file__).parents[1] / "conformance" / "java"
    return java_command("Transfer", arguments, [folder, logging, kafka_classpath()], options=(*QUICK, "-Xmx128m"))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("confluent", ["first", "second"]),  # of one group
        ("java", ["first", "second"]),
        ("aiokafka", ["same", "same"]),  # each is the other's zombie, again and again
    ],
)
def test_each_record_arrives_exactly_once(
    broker: OurBroker, history: History, tmp_path: Path, kind: str, names: list[str]
) -> None:
    """S24.2, S20.6: with zombies, aborts, time-outs and kills; and no transaction hangs in the end.

    Readers of the moved records see one transaction of one producer: all of it, once, in order.
    """
    chance = random.Random(kind)
    with DataClient(HOST, broker.port) as client:
        for topic in ("in", "out"):
            client.create_topic(topic, PARTITIONS)
        for number in range(RECORDS):
            client.produce("in", batch(b"%d" % number), number % PARTITIONS)
            history.note(Sent("in", "out", number % PARTITIONS, str(number), transaction="all"))
    places: list[Partition] = [("out", index) for index in range(PARTITIONS)]
    readers = [
        RdkafkaReader("rd-reader", broker.bootstrap, places, history),
        PythonReader("py-reader", broker.bootstrap, places, history),
    ]
    load = HistoryLoad(history, [], readers)
    workers = Workers(worker(kind, broker, tmp_path / "classes"), names, tmp_path / "workers.txt")
    deadline = time.monotonic() + DEADLINE_S
    kills = 0
    next_kill = time.monotonic() + 3
    try:
        while (moved := min(reader.done for reader in readers)) < RECORDS or kills < KILLS:
            load.check()
            said = (tmp_path / "workers.txt").read_text()
            assert time.monotonic() < deadline, f"{moved} of {RECORDS} after {kills} kills\n{said[-3000:]}"
            workers.look_after()
            if kills < KILLS and time.monotonic() > next_kill:
                kills += 1
                broker.kill()
                broker.start()
                if chance.random() < 0.5:
                    workers.kill(chance)
                next_kill = time.monotonic() + chance.uniform(0.5, 3)
            time.sleep(0.1)
    finally:
        workers.stop()
    with TxnClient(HOST, broker.port) as client:
        assert sum(client.committed("in", "in", range(PARTITIONS))) == RECORDS
        eventually(
            client.transactions,
            until=lambda found: "Ongoing" not in found and "Prepare" not in found,
            timeout_s=deadline + 30 - time.monotonic(),
            interval_s=0.2,
        )
        for index in range(PARTITIONS):
            assert client.latest("out", index, committed=True) == client.latest("out", index, committed=False)
    history.note(Ended("all", Outcome.COMMITTED))
    load.end(broker.bootstrap)
