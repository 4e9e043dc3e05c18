"""A client of the broker, kept from page to page.

Each of its functions blocks until the broker has answered: pages call them in threads. Raises Unanswered where nobody
answers, NotThere for topics and groups that do not exist.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    ConfigResource,
    ConfigSource,
    ConsumerGroupDescription,
    MemberDescription,
    ResourceType,
    TopicDescription,
)

from console.cluster.values import (
    ClusterFacts,
    Group,
    GroupLine,
    Lag,
    Member,
    Node,
    Partition,
    Setting,
    Topic,
    TopicLine,
)
from console.errors import NotThere, Unanswered
from metadata.topic_names import INTERNAL_TOPICS, name_problem
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.session import Session, failed

#: Of one request to the broker.
_TIMEOUT_S = 10.0
#: So long pages are told what went wrong the last time, before it is tried again.
_REST_S = 2.0
_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)


class Client:
    """Of the broker at `bootstrap`, "host:port". It connects when it is first asked, and again after a failure."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._session: Session | None = None
        self._connecting = threading.Lock()
        self._failure = ""
        self._rests_until = -math.inf

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The connection, for some requests. Whatever fails in them becomes an error of the console."""
        try:
            yield self._connected()
        except (CommandError, UsageError, KafkaException) as error:
            told = failed(error) if isinstance(error, KafkaException) else error
            if isinstance(told, CommandError) and told.error_code in _NOT_THERE:
                raise NotThere(str(told)) from None
            self._session = None  # the next page begins anew
            raise Unanswered(str(told)) from None

    def _connected(self) -> Session:
        with self._connecting:
            if self._session is None:
                if time.monotonic() < self._rests_until:  # those who have waited need not try again in turn
                    raise Unanswered(self._failure)
                try:
                    self._session = self._connect()
                except (CommandError, UsageError) as error:
                    self._failure, self._rests_until = str(error), time.monotonic() + _REST_S
                    raise Unanswered(self._failure) from None
            return self._session

    def _connect(self) -> Session:
        return Session(
            argparse.Namespace(bootstrap_server=self._bootstrap, timeout=_TIMEOUT_S, command_config=None, property=[])
        )

    def facts(self) -> ClusterFacts:
        """The cluster and its brokers."""
        with self.session() as session:
            found = session.wait(session.admin.describe_cluster(request_timeout=_TIMEOUT_S))
            nodes = tuple(Node(each.id, each.host, each.port) for each in found.nodes)
            controller = found.controller.id if found.controller is not None else None
            return ClusterFacts(found.cluster_id or "", controller, nodes)

    def topics(self) -> list[TopicLine]:
        """All topics, by name."""
        with self.session() as session:
            found = session.admin.list_topics(timeout=_TIMEOUT_S).topics
            return [TopicLine(name, len(found[name].partitions), name in INTERNAL_TOPICS) for name in sorted(found)]

    def topic(self, name: str) -> Topic:
        """A topic with its offsets and settings."""
        if problem := name_problem(name):
            raise NotThere(problem)
        with self.session() as session:
            futures = session.admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT_S)
            (future,) = futures.values()
            found = session.wait(future, name)
            places = [(name, each.id) for each in found.partitions]
            starts, ends = session.starts(places), session.ends(places)
            return Topic(
                name,
                str(found.topic_id),
                found.is_internal,
                tuple(_partitions(found, starts, ends)),
                tuple(_settings(session, name)),
            )

    def groups(self) -> list[GroupLine]:
        """All groups that consume, by name."""
        with self.session() as session:
            found = session.wait(session.admin.list_consumer_groups(request_timeout=_TIMEOUT_S)).valid
            lines = [GroupLine(each.group_id, each.state.name.lower(), each.type.name.lower()) for each in found]
            return sorted(lines, key=lambda line: line.name)

    def group(self, name: str) -> Group:
        """A group with its members, and how far it is."""
        if "\0" in name:
            raise NotThere("librdkafka has no names with a zero byte in them")
        with self.session() as session:
            futures = session.admin.describe_consumer_groups([name], request_timeout=_TIMEOUT_S)
            (future,) = futures.values()
            found = session.wait(future, name)
            if found.state.name == "DEAD":  # Kafka answers for any name
                raise NotThere(f"there is no group {name}")
            return Group(
                name,
                found.state.name.lower(),
                found.type.name.lower(),
                found.partition_assignor or "",
                tuple(_member(each) for each in found.members),
                tuple(_lags(session, found)),
            )


def _partitions(
    topic: TopicDescription, starts: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
) -> Iterator[Partition]:
    for each in topic.partitions:
        place = (topic.name, each.id)
        yield Partition(
            each.id,
            each.leader.id if each.leader is not None else None,
            tuple(node.id for node in each.replicas),
            tuple(node.id for node in each.isr),
            starts[place],
            ends[place],
        )


def _settings(session: Session, topic: str) -> Iterator[Setting]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = session.admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
    for each in sorted(session.wait(future, topic).values(), key=lambda entry: str(entry.name)):
        source = ConfigSource(each.source)
        value = "" if each.value is None else str(each.value)
        yield Setting(
            str(each.name),
            value,
            source.name.lower().replace("_", " "),
            source is ConfigSource.DYNAMIC_TOPIC_CONFIG,
        )


def _member(member: MemberDescription) -> Member:
    places = member.assignment.topic_partitions if member.assignment is not None else ()
    return Member(
        str(member.member_id),
        str(member.client_id),
        str(member.host),
        tuple(sorted(f"{each.topic}-{each.partition}" for each in places)),
    )


def _lags(session: Session, group: ConsumerGroupDescription) -> Iterator[Lag]:
    request = [ConsumerGroupTopicPartitions(group.group_id)]
    futures = session.admin.list_consumer_group_offsets(request, request_timeout=_TIMEOUT_S)
    (future,) = futures.values()
    answer = session.wait(future, group.group_id)
    committed = {(each.topic, each.partition): each.offset for each in answer.topic_partitions if each.offset >= 0}
    owners = {
        (place.topic, place.partition): member.client_id
        for member in group.members
        if member.assignment is not None
        for place in member.assignment.topic_partitions
    }
    places = sorted({*committed, *owners})
    topics = session.admin.list_topics(timeout=_TIMEOUT_S).topics
    there = {(name, number) for name, topic in topics.items() for number in topic.partitions}
    # a member may have partitions of a topic that is gone: the question for its end would fail, and all others with it
    ends = session.ends(place for place in places if place in there)
    for place in places:
        yield Lag(*place, committed.get(place), ends.get(place), owners.get(place))
