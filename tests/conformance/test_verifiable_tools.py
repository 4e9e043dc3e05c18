"""kafka-verifiable-producer and kafka-verifiable-consumer, with which Apache Kafka tests itself.

The consumer finds each acknowledged record once, in either group protocol.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.scale import scaled
from tests.support.settled import wait_for_topic
from tests.support.tools import MAIN_CLASSES

#: the exit code of a JVM that SIGTERM ended, after its shutdown hooks
ENDED_BY_SIGTERM = 128 + signal.SIGTERM


class VerifiableTool:
    """A running tool, with its output in `directory`; killed if a test leaves it running."""

    def __init__(self, tool: str, directory: Path, *arguments: str) -> None:
        directory.mkdir()
        self._told, self._errors = directory / "stdout.jsonl", directory / "stderr.txt"
        command = java_command(MAIN_CLASSES[tool], arguments, [kafka_classpath()], options=(*QUICK, "-Xmx256m"))
        with self._told.open("wb") as told, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def story(self) -> str:
        """Return its whole output, for people."""
        return self._told.read_text() + self._errors.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return its events of this name so far."""
        lines = self._told.read_text().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in told if event["name"] == name]

    def wait(self, timeout_s: float = 180) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """Stop it as its users do; return the exit code."""
        self._process.terminate()
        return self.wait()


PARTITIONS = 3
PATIENCE_S = 120


@pytest.fixture
def client(reference: RunningBroker, name: str) -> DataClient:
    """Return a client of a broker with a topic of that name: the producer does not retry rejected records."""
    with DataClient(HOST, reference.port) as made:
        made.create_topic(name, PARTITIONS)
        wait_for_topic(reference, name, PARTITIONS)
        yield made


def at(broker: RunningBroker, topic: str, **options: object) -> list[str]:
    """Return a command line: max_messages for --max-messages."""
    given = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return ["--bootstrap-server", broker.bootstrap, "--topic", topic, *given]


def places(events: list[dict[str, object]]) -> dict[tuple[object, object], object]:
    """Return the value at each partition and offset."""
    return {(event["partition"], event["offset"]): event["value"] for event in events}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_find_all_acknowledged_records(
    reference: RunningBroker, client: DataClient, name: str, tmp_path: Path, protocol: str
) -> None:
    """The second consumer continues at the first one's commits."""
    count = scaled(200)
    arguments = at(reference, name, max_messages=count, value_prefix=7, repeating_keys=5)
    with VerifiableTool("kafka-verifiable-producer", tmp_path / "producer", *arguments) as producer:
        assert producer.wait() == 0, producer.story
    sent = producer.events("producer_send_success")
    assert Counter(event["value"] for event in sent) == Counter(f"7.{number}" for number in range(count))
    assert {event["key"] for event in sent} == {str(number) for number in range(5)}
    [summary] = producer.events("tool_data")
    assert (summary["sent"], summary["acked"]) == (count, count)

    read: dict[tuple[object, object], object] = {}
    for number, most in enumerate((count // 2, count - count // 2)):
        arguments = [
            *at(reference, name, group_id=name, group_protocol=protocol, max_messages=most, reset_policy="earliest"),
            "--verbose",
        ]
        with VerifiableTool("kafka-verifiable-consumer", tmp_path / str(number), *arguments) as consumer:
            assert consumer.wait() == 0, consumer.story
        found = consumer.events("record_data")
        assert len(found) == most
        assert not read.keys() & places(found).keys()
        assert all(event["success"] for event in consumer.events("offsets_committed")), consumer.story
        read.update(places(found))
    assert read == places(sent)
    ends = Counter(event["partition"] for event in sent)
    assert client.committed(name, name, range(PARTITIONS)) == [ends[index] or -1 for index in range(PARTITIONS)]


def test_stopped_tools_report_what_they_did(
    reference: RunningBroker, client: DataClient, name: str, tmp_path: Path
) -> None:
    """The producer's records are acknowledged, except one that it still tries to send after its close; the consumer has
    committed, and its partitions are revoked.
    """
    with VerifiableTool("kafka-verifiable-producer", tmp_path / "a", *at(reference, name, throughput=200)) as producer:
        until(lambda: len(producer.events("producer_send_success")) > 100, producer)
        assert producer.stop() == ENDED_BY_SIGTERM
    sent = producer.events("producer_send_success")
    refused = producer.events("producer_send_error")
    assert all("closed" in str(event["message"]) for event in refused), refused
    [summary] = producer.events("tool_data")
    assert (summary["sent"], summary["acked"]) == (len(sent) + len(refused), len(sent))
    ends = [client.bounds(name, index)[1] for index in range(PARTITIONS)]
    assert sum(ends) == len(sent)

    with VerifiableTool("kafka-verifiable-consumer", tmp_path / "b", *at(reference, name, group_id=name)) as consumer:
        until(lambda: sum(event["count"] for event in consumer.events("records_consumed")) >= len(sent), consumer)
        until(lambda: client.committed(name, name, range(PARTITIONS)) == [end or -1 for end in ends], consumer)
        assert consumer.stop() == ENDED_BY_SIGTERM
    assert consumer.events("shutdown_complete"), consumer.story
    [given] = consumer.events("partitions_assigned")
    [taken] = consumer.events("partitions_revoked")
    assert len(given["partitions"]) == len(taken["partitions"]) == PARTITIONS


def until(condition, tool: VerifiableTool) -> None:
    """Wait for a condition while the tool runs."""
    eventually(lambda: condition() or not tool.is_running, lambda: tool.story, timeout_s=PATIENCE_S)
    assert tool.is_running, tool.story
