"""One consumer group whose members are of different client libraries: they come, go and die; nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.conftest import StartBroker
from tests.support.brokers import RunningBroker
from tests.support.settled import wait_for_topic

ROOT = Path(__file__).resolve().parents[2]
TOPIC = GROUP = "mixed"
PARTITIONS = 6


class Member:
    """A member in a process of its own, and what it has told so far."""

    def __init__(self, library: str, bootstrap: str, directory: Path) -> None:
        self.library = library
        self._told = directory / f"{library}-{time.monotonic_ns()}.jsonl"
        command = [sys.executable, "-m", "tests.conformance.group_member", library, bootstrap, TOPIC, GROUP]
        with self._told.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output)

    @property
    def events(self) -> list[dict[str, object]]:
        """Its whole lines: a killed process may leave half of one."""
        return [json.loads(line) for line in self._told.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def batches(self) -> dict[int, list[str]]:
        """The values that it read, by batch."""
        return {int(str(event["batch"])): list(map(str, event["read"])) for event in self.events if "read" in event}  # type: ignore[call-overload]

    @property
    def committed(self) -> set[int]:
        """The batches whose commit was confirmed."""
        return {int(str(event["committed"])) for event in self.events if "committed" in event}

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        self._process.send_signal(how)
        self._process.wait(30)


class Load:
    """Numbered records, sent all the time until `stop`; `sent` is what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.sent: set[str] = set()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(0.02):
            for _ in range(5):
                self._producer.produce(TOPIC, str(number), str(number), on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def _delivered(self, error: object, message: object) -> None:
        assert error is None
        self.sent.add(message.value().decode())  # type: ignore[attr-defined]

    def stop(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        self._ending.set()
        self._thread.join()


@pytest.fixture(params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """A broker that allows short sessions."""
    broker = start_broker(request.param, {"group.min.session.timeout.ms": "1000"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    wait_for_topic(broker, TOPIC, PARTITIONS)
    return broker


@pytest.fixture
def load(broker: RunningBroker) -> Iterator[Load]:
    """A producer that runs through the whole test."""
    load = Load(broker.bootstrap)
    yield load
    load.stop()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 45) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_members_come_go_and_die(broker: RunningBroker, load: Load, tmp_path: Path) -> None:
    """S18.1: each record is read, and none a second time once the batch that it was in is committed."""
    members: list[Member] = []

    def joined(library: str) -> Member:
        member = Member(library, broker.bootstrap, tmp_path)
        members.append(member)
        wait_until(lambda: bool(member.committed), f"{library} gets nothing: {member.events}")
        return member

    try:
        joined("kafka-python")
        going = joined("aiokafka")
        dying = joined("confluent")
        going.end(signal.SIGTERM)
        joined("aiokafka")
        dying.end(signal.SIGKILL)
        joined("confluent")
        load.stop()
        read = lambda: Counter(value for member in members for batch in member.batches.values() for value in batch)  # noqa: E731
        wait_until(lambda: set(read()) >= load.sent, "records are missing")
    finally:
        for member in members:
            member.end(signal.SIGKILL)

    uncommitted = {
        value
        for member in members
        for number, batch in member.batches.items()
        if number not in member.committed
        for value in batch
    }
    assert set(read()) == load.sent
    assert {value for value, times in read().items() if times > 1} <= uncommitted
