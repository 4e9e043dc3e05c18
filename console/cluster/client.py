"""A client of the broker that is reused for all pages of a session.

Each method blocks until the broker has answered, so pages call them in threads. They raise BrokerUnavailable if the
broker does not answer, and NotFound for topics and groups that do not exist.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
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
from console.errors import BrokerRejected, BrokerUnavailable, ConsoleError, NotFound, Refused
from metadata.topic_names import INTERNAL_TOPICS, name_problem
from pybroker.cli.client.connection import Connection
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.session import Session, failed

#: Timeout of one request to the broker.
TIMEOUT_S = 10.0
#: After a failure, pages get the last error for this time, before the client tries again.
_REST_S = 2.0
#: The broker's answer on what a user may read is cached for this time: a storage page asks for many topics.
_READABLE_S = 5.0
_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)
_UNKNOWN_USER = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
#: Error codes of the broker that are retriable.
_LATER = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class Client:
    """A client of the broker at `bootstrap`, "host:port". It connects at the first request, and again after a failure.

    Args:
    properties: librdkafka's properties for the login of the user.
    """

    def __init__(self, bootstrap: str, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        self._bootstrap = bootstrap
        self._properties = dict(properties)
        self._session: Session | None = None
        self._connecting = threading.Lock()
        self._failure = ""
        self._rests_until = -math.inf
        self._readable: frozenset[str] = frozenset()
        self._readable_until = -math.inf

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield the connection for some requests; map their exceptions to those of the console."""
        try:
            yield self._connected()
        except (CommandError, UsageError, KafkaException) as error:
            cause = failed(error) if isinstance(error, KafkaException) else error
            raise self._error(cause) from None

    def _error(self, cause: CommandError | UsageError) -> ConsoleError:
        code = cause.error_code if isinstance(cause, CommandError) else None
        if code in _NOT_THERE:
            return NotFound(str(cause))
        if code in _FORBIDDEN:
            return Refused(str(cause))
        if code is not None and code > 0 and code not in _LATER:
            return BrokerRejected(str(cause))
        self._session = None  # the next page reconnects
        return BrokerUnavailable(str(cause))

    def is_known(self) -> bool:
        """Return whether the broker accepts the user's credentials. Raises BrokerUnavailable."""
        try:
            self._session = self._connect()
        except CommandError as error:
            if error.error_code in _UNKNOWN_USER:
                return False
            raise BrokerUnavailable(str(error)) from None
        except UsageError as error:
            raise BrokerUnavailable(str(error)) from None
        return True

    def _connected(self) -> Session:
        with self._connecting:
            if self._session is None:
                if time.monotonic() < self._rests_until:  # those who have waited need not try again in turn
                    raise BrokerUnavailable(self._failure)
                try:
                    self._session = self._connect()
                except (CommandError, UsageError) as error:
                    self._failure, self._rests_until = str(error), time.monotonic() + _REST_S
                    raise BrokerUnavailable(self._failure) from None
            return self._session

    def _connect(self) -> Session:
        return Session(Connection(self._bootstrap, TIMEOUT_S, self._properties))

    def round_trip_s(self) -> float:
        """Return the time in seconds that the broker needs to answer a small request."""
        with self.session() as session:
            start = time.perf_counter()
            session.wait(session.admin.describe_cluster(request_timeout=TIMEOUT_S))
            return time.perf_counter() - start

    def readable_topics(self) -> frozenset[str]:
        """Return the topics that the user may read, from a short-lived cache."""
        if time.monotonic() >= self._readable_until:
            with self.session() as session:
                names = list(session.admin.list_topics(timeout=TIMEOUT_S).topics)
                found = frozenset(_readable(session, names)) if names else frozenset()
            self._readable, self._readable_until = found, time.monotonic() + _READABLE_S
        return self._readable

    def check_cluster(self, operation: AclOperation) -> None:
        """Raise Refused unless the user has the operation on the cluster."""
        with self.session() as session:
            if not session.may(operation):
                word = operation.name.lower().replace("_", " ")
                raise Refused(f"That needs the operation {word} on the cluster")

    def facts(self) -> ClusterFacts:
        """Return the cluster and its brokers."""
        with self.session() as session:
            found = session.wait(session.admin.describe_cluster(request_timeout=TIMEOUT_S))
            nodes = tuple(Node(each.id, each.host, each.port) for each in found.nodes)
            controller = found.controller.id if found.controller is not None else None
            return ClusterFacts(found.cluster_id or "", controller, nodes)

    def topics(self) -> list[TopicLine]:
        """Return all topics, sorted by name."""
        with self.session() as session:
            found = session.admin.list_topics(timeout=TIMEOUT_S).topics
            return [TopicLine(name, len(found[name].partitions), name in INTERNAL_TOPICS) for name in sorted(found)]

    def topic(self, name: str) -> Topic:
        """Return a topic with its offsets and settings. Raises NotFound."""
        if problem := name_problem(name):
            raise NotFound(problem)
        with self.session() as session:
            futures = session.admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)
            (future,) = futures.values()
            found = session.wait(future, name)
            places = [(name, each.id) for each in found.partitions]
            starts, ends = session.starts(places), session.ends(places)
            return Topic(
                name,
                str(found.topic_id),
                found.is_internal,
                tuple(_partitions(found, starts, ends)),
                _settings_if_allowed(session, name),
            )

    def groups(self) -> list[GroupLine]:
        """Return all consumer groups, sorted by name."""
        with self.session() as session:
            found = session.wait(session.admin.list_consumer_groups(request_timeout=TIMEOUT_S)).valid
            lines = [GroupLine(each.group_id, each.state.name.lower(), each.type.name.lower()) for each in found]
            return sorted(lines, key=lambda line: line.name)

    def group(self, name: str) -> Group:
        """Return a group with its members, offsets and lag. Raises NotFound."""
        if "\0" in name:
            raise NotFound("librdkafka has no names with a zero byte in them")
        with self.session() as session:
            futures = session.admin.describe_consumer_groups([name], request_timeout=TIMEOUT_S)
            (future,) = futures.values()
            found = session.wait(future, name)
            if found.state.name == "DEAD":  # Kafka answers for any name
                raise NotFound(f"there is no group {name}")
            return Group(
                name,
                found.state.name.lower(),
                found.type.name.lower(),
                found.partition_assignor or "",
                tuple(_member(each) for each in found.members),
                tuple(_lags(session, found)),
            )


def _readable(session: Session, names: list[str]) -> Iterator[str]:
    described = session.admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    for name, future in described.items():
        try:
            found = session.wait(future, name)
        except CommandError as error:
            if error.error_code in (*_NOT_THERE, *_FORBIDDEN):
                continue  # removed since, or hidden
            raise
        if AclOperation.READ in (found.authorized_operations or ()):
            yield name


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


def _settings_if_allowed(session: Session, topic: str) -> tuple[Setting, ...]:
    """Return the settings of a topic; none if the user may not describe them."""
    try:
        return tuple(_settings(session, topic))
    except CommandError as error:
        if error.error_code in _FORBIDDEN:
            return ()
        raise


def _settings(session: Session, topic: str) -> Iterator[Setting]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = session.admin.describe_configs([resource], request_timeout=TIMEOUT_S).values()
    for each in sorted(session.wait(future, topic).values(), key=lambda entry: str(entry.name)):
        source = ConfigSource(each.source)
        value = "" if each.value is None else str(each.value)
        yield Setting(
            str(each.name),
            value,
            source.name.lower().replace("_", " "),
            source is ConfigSource.DYNAMIC_TOPIC_CONFIG,
            bool(each.is_read_only),
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
    futures = session.admin.list_consumer_group_offsets(request, request_timeout=TIMEOUT_S)
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
    topics = session.admin.list_topics(timeout=TIMEOUT_S).topics
    there = {(name, number) for name, topic in topics.items() for number in topic.partitions}
    # a member may have partitions of a topic that is gone: the question for its end would fail, and all others with it
    ends = session.ends(place for place in places if place in there)
    for place in places:
        yield Lag(*place, committed.get(place), ends.get(place), owners.get(place))
