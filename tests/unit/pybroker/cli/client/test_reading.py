"""Topics and partitions that `consume` reads, with a fake session and consumer."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import TopicDescription

from pybroker.cli.client import reading
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.reading import GrouplessReader, Member, Reading, Topics
from pybroker.cli.client.session import Session
from pybroker.cli.consume import Printer, command_line

WRITTEN = 10
GONE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class FakeSession:
    """Every partition has WRITTEN records."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.offline: set[tuple[str, int]] = set()
        self.admin = SimpleNamespace(poll=lambda timeout: 0)

    def starts(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, 0)

    def ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, WRITTEN)

    def check(self) -> None:
        pass


class FakeConsumer:
    """Records what it is assigned."""

    def __init__(self, *messages: Message) -> None:
        self.reads: set[tuple[str, int, int]] = set()
        self.subscribed: list[list[str]] = []
        self.messages = list(messages)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.reads = {(each.topic, each.partition, each.offset) for each in partitions}

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.reads |= {(each.topic, each.partition, each.offset) for each in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self.reads = {each for each in self.reads if each[:2] not in gone}

    def subscribe(self, names: list[str], **_: object) -> None:
        self.subscribed.append(names)

    def commit(self, **_: object) -> None:
        raise KafkaException(GONE)

    def consume(self, most: int, timeout: float) -> list[Message]:
        messages, self.messages = self.messages[:most], self.messages[most:]
        return messages


class Cluster:
    """A command that reads topics whose numbers of partitions may change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: str, *messages: Message, **topics: int) -> None:
        monkeypatch.setattr(reading, "LOOK_EVERY_S", 0)
        monkeypatch.setattr(Topics, "there", lambda _, session: described(session))
        monkeypatch.setattr(reading, "describe", lambda session, names, if_there: described(session))
        self.session = FakeSession(**topics)
        self.consumer = FakeConsumer(*messages)
        self.options = command_line().parse(line.split())
        made = GrouplessReader if self.options.group is None else Member
        session, consumer = cast(Session, self.session), cast(Consumer, self.consumer)
        wanted = Topics(tuple(self.options.names), self.options.include)
        self.reading: Reading = made(session, consumer, self.options, wanted)
        self.printer = Printer(session, consumer, self.options, self.reading, None)


def described(session: FakeSession) -> list[TopicDescription]:
    found = [
        SimpleNamespace(
            name=name,
            partitions=[
                SimpleNamespace(id=each, leader=None if (name, each) in session.offline else 1) for each in range(count)
            ],
        )
        for name, count in session.topics.items()
    ]
    return cast("list[TopicDescription]", found)


def test_matching_topics_are_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones are read from the beginning. Deleted ones are dropped, or librdkafka would ask for them for ever."""
    cluster = Cluster(monkeypatch, "--include a.*", a=1, ab=1)
    cluster.reading.begin()
    assert cluster.consumer.reads == {("a", 0, WRITTEN), ("ab", 0, WRITTEN)}
    cluster.session.topics = {"a": 2, "ac": 1}
    cluster.reading.look_again()
    assert cluster.consumer.reads == {("a", 0, WRITTEN), ("a", 1, OFFSET_BEGINNING), ("ac", 0, OFFSET_BEGINNING)}


def test_group_resubscribes_if_topics_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then, as it causes a rebalance."""
    cluster = Cluster(monkeypatch, "--include a.* --group g", a=1)
    cluster.reading.begin()
    cluster.reading.look_again()
    cluster.session.topics["ab"] = 1
    cluster.reading.look_again()
    assert cluster.consumer.subscribed == [["a"], ["a", "ab"]]


@pytest.mark.parametrize("line", ["a", "a --group g", "--include a --until-end"])
def test_fixed_topics_are_not_refreshed(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Topics given by name, and those of a command that reads to an end."""
    cluster = Cluster(monkeypatch, line, a=1)
    cluster.reading.begin()
    before = (set(cluster.consumer.reads), list(cluster.consumer.subscribed))
    cluster.session.topics["ab"] = 1
    cluster.reading.look_again()
    assert (cluster.consumer.reads, cluster.consumer.subscribed) == before


def test_deleted_topic_is_reported_if_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka reports no partition then. A topic that only matched is dropped silently, with its offset."""
    error = Message("a", -1, error=GONE)
    with pytest.raises(CommandError, match=r"^a: Broker: Unknown topic or partition$"):
        Cluster(monkeypatch, "a --group g", error).printer.run()
    cluster = Cluster(monkeypatch, "--include a --group g --idle 0.001", error, Message("a", 0, 7, b"", b"value"))
    cluster.printer.run()
    assert cluster.consumer.messages == []


def test_failed_commit_of_a_named_topic_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaException, match="Unknown topic"):
        Cluster(monkeypatch, "a --group g", Message("a", 0, 7, b"", b"value")).printer.run()


def test_regex_matches_whole_names() -> None:
    """As in Java's consumer. Internal topics have to be named."""
    topics = ["shop", "shop-1", "shop-12", "my-shop", "__shop"]
    listed = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))
    session = cast(Session, SimpleNamespace(admin=listed, timeout_s=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "describe", lambda _, names, if_there: described_with_internal(names))
        found = Topics((), re.compile("(__)?shop(-1)?")).there(session)
    assert [each.name for each in found] == ["shop", "shop-1"]


def described_with_internal(names: list[str]) -> list[SimpleNamespace]:
    return [SimpleNamespace(name=name, is_internal=name.startswith("__")) for name in names]


def last_records(*partitions: int) -> list[Message]:
    """The last record of each of these partitions of the topic `a`."""
    return [Message("a", each, WRITTEN - 1, b"", b"%d" % each) for each in partitions]


def test_offline_partition_is_reported_after_the_others(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cluster = Cluster(monkeypatch, "a --from-beginning --until-end", *last_records(0, 2), a=4)
    cluster.session.offline = {("a", 1), ("a", 3)}
    cluster.reading.begin()
    assert cluster.consumer.reads == {("a", 0, 0), ("a", 2, 0)}
    with pytest.raises(CommandError, match=r"^partitions without a leader were not read to their end: a-1, a-3$"):
        cluster.printer.run()
    assert capsysbinary.readouterr().out == b"0\n2\n"


def test_offline_partition_does_not_matter_to_a_full_count(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cluster = Cluster(monkeypatch, "a --from-beginning --until-end --max-messages 1", *last_records(0), a=2)
    cluster.session.offline = {("a", 1)}
    cluster.reading.begin()
    cluster.printer.run()
    assert capsysbinary.readouterr().out == b"0\n"


def test_partition_that_stays_without_a_leader_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An election leaves a partition without a leader, too, but not for two looks."""
    cluster = Cluster(monkeypatch, "a --from-beginning --until-end", a=2)
    cluster.reading.begin()
    looks: list[set[tuple[str, int]]] = [{("a", 0)}, {("a", 1)}, {("a", 1)}]
    for offline in looks:
        assert cluster.reading.offline == []
        cluster.session.offline = offline
        cluster.reading.look_again()
    assert cluster.reading.offline == [("a", 1)]
    assert cluster.reading.ends == {("a", 0): WRITTEN}
