"""A Kafka Streams program has exact output although each broker of a cluster of both kinds goes away in turn.

With exactly_once_v2, its groups, its transactions and its internal topics move between the brokers.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.test_coordinators_of_both_kinds import Outage, in_sync, leaders
from tests.conformance.test_moving_coordinators import value_of
from tests.conformance.test_replicas import OURS, THEIRS
from tests.conformance.test_streams import PARTITIONS, SESSIONS, SOURCE, WordCount, line
from tests.integration.membership.kafka_nodes import Pair, brokers_of_both_kinds
from tests.support.eventually import eventually
from tests.support.java import compile_java, streams_classpath, streams_jars

_INTERNAL = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "true",
}
LINES = 60


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    settings = {**_INTERNAL, **SESSIONS}
    with brokers_of_both_kinds(tmp_path_factory.mktemp, settings, settings) as pair:
        yield pair


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    classes = tmp_path_factory.mktemp("streams")
    compile_java([SOURCE], streams_jars(), classes)
    return [classes, SOURCE.parent.parent / "java", streams_classpath()]


def counts(brokers: str, topic: str) -> dict[str, list[int]]:
    """Return each word's counts, in order, as a reader of committed records sees them."""
    settings = {"bootstrap.servers": brokers, "group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    found: dict[str, list[int]] = defaultdict(list)
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            each = consumer.poll(30)
            assert each is not None
            if each.error():
                ended += 1
                continue
            key = each.key()
            assert key is not None
            found[key.decode()].append(int(value_of(each)))
    finally:
        consumer.close()
    return found


class Lines:
    """Lines for the program, and the words that it must count."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers = brokers
        self._topic = topic
        settings = {"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer({**settings, "socket.timeout.ms": 5000})  # a frozen broker does not answer
        self._sent = 0
        self.expected: Counter[str] = Counter()

    def send(self) -> None:
        for _ in range(LINES):
            self._producer.produce(self._topic, line(self._sent), partition=self._sent % PARTITIONS)
            self.expected.update(line(self._sent).decode().split())
            self._sent += 1
        assert self._producer.flush(120) == 0

    def wait(self, running: WordCount, at: str) -> None:
        """Wait until all words are counted."""
        eventually(
            lambda: sum(map(len, counts(at, f"{self._topic}-counts").values())),
            lambda: running.path.read_text()[-3000:],
            until=lambda count: count >= self.expected.total(),
            timeout_s=180,
            interval_s=0.5,
        )


@pytest.mark.full_size
@pytest.mark.parametrize("how", ["killed", "stopped", "frozen"])
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_output_is_exact_while_brokers_go_away(
    pair: Pair, classpath: list[Path], tmp_path: Path, protocol: str, how: str
) -> None:
    admin = AdminClient({"bootstrap.servers": pair.bootstrap})
    name = uuid.uuid4().hex
    for topic in (name, f"{name}-counts"):
        replicas = [[OURS, THEIRS], [THEIRS, OURS]]
        made = NewTopic(topic, PARTITIONS, replica_assignment=replicas, config={"min.insync.replicas": "1"})
        admin.create_topics([made])[topic].result(30)
    # a client learns only by that timeout, 30 s without the property, that a frozen broker does not answer
    options = ["replication.factor=2", "request.timeout.ms=5000"]
    running = WordCount(pair, name, classpath, tmp_path, protocol, options)
    lines = Lines(pair.bootstrap, name)
    try:
        lines.send()
        lines.wait(running, pair.bootstrap)
        for lost, left, left_id in ((pair.member, pair.other, THEIRS), (pair.other, pair.member, OURS)):
            topics = [each for each in admin.list_topics(timeout=30).topics if each.startswith(("__", name))]
            lines.send()
            outage = Outage(how, lost)
            outage.begin()
            try:
                eventually(partial(leaders, left, topics), equal_to={left_id}, timeout_s=90)
                lines.send()
                lines.wait(running, left.bootstrap)
            finally:
                outage.end()
            eventually(partial(in_sync, left, topics), equal_to={(OURS, THEIRS)}, timeout_s=150)
            admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
            lines.send()
            lines.wait(running, pair.bootstrap)
    finally:
        running.kill()
    expected = {word: list(range(1, count + 1)) for word, count in lines.expected.items()}
    assert counts(pair.bootstrap, f"{name}-counts") == expected
