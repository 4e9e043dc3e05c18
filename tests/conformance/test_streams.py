"""A Kafka Streams program with processing.guarantee=exactly_once_v2 has exact output although it is killed.

With both protocols: as a classic group, and as a streams group (KIP-1071), whose tasks the broker assigns.
"""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.java import compile_java, java_command, streams_classpath, streams_jars
from tests.support.scale import COSTLY_BROKERS, scaled
from tests.support.settled import wait_for_topic
from tests.support.txn_client import TxnClient

SOURCE = Path(__file__).parent / "java_streams" / "WordCount.java"
PARTITIONS = 2
WORDS = ("one", "two", "three", "four", "five")
LINES = scaled(60)
KILLS = min(10, scaled(1))
#: members of a streams group have no session timeout of their own
SESSIONS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the compiled program, and Kafka Streams."""
    classes = tmp_path_factory.mktemp("streams")
    compile_java([SOURCE], streams_jars(), classes)
    return [classes, SOURCE.parent.parent / "java", streams_classpath()]


class Bootstrap(Protocol):
    """A broker, or several."""

    @property
    def bootstrap(self) -> str: ...


class WordCount:
    """The program, which is restarted after each kill with its remaining directory."""

    def __init__(
        self,
        broker: Bootstrap,
        name: str,
        classpath: list[Path],
        directory: Path,
        protocol: str = "classic",
        properties: Sequence[str] = (),
    ) -> None:
        arguments = [broker.bootstrap, name, f"{name}-counts", name, str(directory / "state")]
        options = ["commit.interval.ms=100", f"group.protocol={protocol}", *properties]
        self._command = java_command("WordCount", [*arguments, *options], classpath)
        self._output = (directory / "output.txt").open("ab")
        self.path = directory / "output.txt"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=self._output, stderr=self._output)

    def kill(self) -> None:
        assert self._process.poll() is None, self.path.read_text()[-3000:]
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module", params=COSTLY_BROKERS)
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """Run a broker whose streams groups soon notice a dead member."""
    return start_broker(request.param, SESSIONS)


@pytest.fixture(params=["classic", "streams"])
def program(
    request: pytest.FixtureRequest, broker: RunningBroker, name: str, classpath: list[Path], tmp_path: Path
) -> Iterator[tuple[WordCount, TxnClient]]:
    with TxnClient(HOST, broker.port) as client:
        for topic in (name, f"{name}-counts"):
            client.create_topic(topic, PARTITIONS)
            wait_for_topic(broker, topic, PARTITIONS)
        running = WordCount(broker, name, classpath, tmp_path, request.param)
        yield running, client
        running.kill()


def line(number: int) -> bytes:
    """Return a line of a few words, some of which are more frequent."""
    return " ".join(WORDS[: 1 + number % len(WORDS)]).encode()


def counts(client: TxnClient, topic: str) -> dict[str, list[int]]:
    """Return each word's counts, in order, as a reader of committed records sees them."""
    found: dict[str, list[int]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for key, value in client.committed_records(topic, partition):
            found[key.decode()].append(int(value))
    return found


class Work:
    """Lines for the program, and the words that it must count."""

    def __init__(self, running: WordCount, name: str) -> None:
        self._running = running
        self._name = name
        self._sent = 0
        self._expected: Counter[str] = Counter()

    def send(self, client: TxnClient) -> None:
        for _ in range(LINES):
            client.produce(self._name, batch(line(self._sent)), self._sent % PARTITIONS)
            self._expected.update(line(self._sent).decode().split())
            self._sent += 1

    def wait(self, client: TxnClient, share: float = 1) -> None:
        """Wait until this share of the output is there."""
        eventually(
            lambda: (
                sum(map(len, counts(client, f"{self._name}-counts").values())) >= int(self._expected.total() * share)
            ),
            lambda: self._running.path.read_text()[-3000:],
            timeout_s=120,
        )

    def check(self, client: TxnClient) -> None:
        """Check that each word counts 1, 2, 3 ... without a gap or a repetition."""
        expected = {word: list(range(1, count + 1)) for word, count in self._expected.items()}
        assert counts(client, f"{self._name}-counts") == expected


def test_output_is_exact_after_kills(name: str, program: tuple[WordCount, TxnClient]) -> None:
    """S24.2: the program is killed during its work, and restarted."""
    running, client = program
    work = Work(running, name)
    for _ in range(KILLS):
        work.send(client)
        work.wait(client, 0.5)
        running.kill()
        running.start()
    work.send(client)
    work.wait(client)
    work.check(client)


@pytest.mark.parametrize("kind", COSTLY_BROKERS)
def test_output_is_exact_after_the_broker_was_killed(
    kind: str, start_broker: StartBroker, name: str, classpath: list[Path], tmp_path: Path
) -> None:
    """S24.2: the broker loads the streams group from its log, and the program continues."""
    broker = start_broker(kind, SESSIONS)
    with TxnClient(HOST, broker.port) as client:
        for topic in (name, f"{name}-counts"):
            client.create_topic(topic, PARTITIONS)
            wait_for_topic(broker, topic, PARTITIONS)
        running = WordCount(broker, name, classpath, tmp_path, "streams")
        work = Work(running, name)
        work.send(client)
        work.wait(client, 0.5)
    try:
        for _ in range(KILLS):
            broker.kill()
            broker.start(port=broker.port)
            wait_for_topic(broker, name, PARTITIONS)
            with TxnClient(HOST, broker.port) as client:
                work.send(client)
                work.wait(client, 0.5)
        with TxnClient(HOST, broker.port) as client:
            work.wait(client)
            work.check(client)
    finally:
        running.kill()
