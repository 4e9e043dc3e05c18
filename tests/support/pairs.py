"""A pybroker and an Apache Kafka that get the same requests, from a raw client each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.schema import Api, Struct
from tests.support.brokers import CLUSTER_ID, HOST, OurBroker, RunningBroker, StandaloneKafka
from tests.support.eventually import eventually
from tests.support.settled import wait_for_topic
from tests.support.wire import Closed, WireClient

#: two answers: ours, Kafka's
Answers = tuple[Any, Any]


class Pair:
    """Both brokers, each with two log directories; the first is the broker's `log_dir`. `close` stops them.

    Without Kafka, whose answers are then recorded (recorded_answers.py), both answers are those of pybroker.
    """

    def __init__(
        self,
        home: Path,
        properties: dict[str, str] | None = None,
        *,
        with_kafka: bool = True,
        kafka: type[RunningBroker] = StandaloneKafka,
    ) -> None:
        self.ours = OurBroker(home / "ours", {**_directories(home / "ours"), **(properties or {})} | _OWN)
        self.brokers: tuple[RunningBroker, ...] = (self.ours,)
        if with_kafka:
            try:
                self.kafka = kafka(home / "kafka", {**_directories(home / "kafka"), **(properties or {})})
            except BaseException:
                self.ours.stop()
                raise
            self.brokers = (self.ours, self.kafka)
        self._clients: dict[str, WireClient] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.ours.stop()
        for kafka in self.brokers[1:]:
            kafka.kill()  # a stop would wait long for a controller that no longer knows it

    def directories(self, broker: RunningBroker) -> tuple[Path, Path]:
        """Return the log directories of a broker."""
        return broker.log_dir, broker.log_dir.with_name("logs-2")

    def hang_up(self) -> None:
        """Close the connections; the next requests open new ones."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def client(self, broker: RunningBroker) -> WireClient:
        if broker.kind not in self._clients:
            self._clients[broker.kind] = WireClient(HOST, broker.port)
        return self._clients[broker.kind]

    def each(self, request: Callable[[RunningBroker], Any]) -> Answers:
        """Return the result of `request` for each broker."""
        answers = [request(broker) for broker in self.brokers]
        return answers[0], answers[-1]

    def ask(self, api: Api, version: int, **fields: Any) -> Answers:
        """Send the same request to both. A closed connection counts as an answer."""

        def request(broker: RunningBroker) -> Struct | str:
            try:
                return self.client(broker).call(api, version, **fields)
            except Closed:
                self._clients.pop(broker.kind).close()
                return "the connection is closed"

        return self.each(request)

    def same(self, api: Api, version: int, **fields: Any) -> Any:
        """Return the answer that both give; fail if the answers differ."""
        ours, kafka = self.ask(api, version, **fields)
        assert ours == kafka, f"\n  ours:  {ours}\n  kafka: {kafka}"
        return ours

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics with these partition counts at both brokers, and wait for them."""
        topics = [CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in partitions.items()]
        self.ask(CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        for broker in self.brokers:
            for name, count in partitions.items():
                wait_for_topic(broker, name, count)

    def until_same(self, check: Callable[[], Answers], timeout_s: float = 60) -> Any:
        """Ask again until both answers are equal: one broker may take a moment."""
        found = eventually(check, "equal answers", until=lambda both: both[0] == both[1], timeout_s=timeout_s)
        return found[0]

    def plain(self, broker: RunningBroker, text: str) -> str:
        """Return the output of a tool without the broker's address and paths."""
        for number, path in enumerate(self.directories(broker), 1):
            text = re.sub(rf"{re.escape(str(path))}(?![\w-])", f"<{number}>", text)
        return text.replace(broker.bootstrap, "<bootstrap>").replace(f"{HOST}:{broker.port}", "<bootstrap>")


_OWN = {"pybroker.cluster.id": CLUSTER_ID}


def _directories(home: Path) -> dict[str, str]:
    return {"log.dirs": f"{home}/logs,{home}/logs-2"}
