"""The console's requests to the broker, and broken responses; the connection is a fake."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from console.cluster import client as client_module
from console.cluster.client import Client
from console.cluster.values import Lag
from console.errors import BrokerRejected, BrokerUnavailable, ConsoleError, NotFound, Refused
from pybroker.cli.client.connection import Connection
from pybroker.cli.client.errors import CommandError


class GroupOfADeletedTopic:
    """A connection, and its `admin`: "gone" was deleted, "orders" has one partition. Responses come at once."""

    ENDS = {("orders", 0): 10}

    def __init__(self, _: Connection) -> None:
        self.admin = self
        self.places = [TopicPartition("gone", 0, 4), TopicPartition("orders", 0, 3), TopicPartition("orders", 1, 5)]

    def wait(self, answer: SimpleNamespace, _: str) -> SimpleNamespace:
        return answer

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, SimpleNamespace]:
        assert request_timeout > 0
        assignment = SimpleNamespace(topic_partitions=self.places[:2])
        member = SimpleNamespace(member_id="m", client_id="shop-1", host="/127.0.0.1", assignment=assignment)
        stable, classic = SimpleNamespace(name="STABLE"), SimpleNamespace(name="CLASSIC")
        group = SimpleNamespace(
            group_id=names[0], state=stable, type=classic, partition_assignor="range", members=[member]
        )
        return {names[0]: group}

    def list_consumer_group_offsets(self, groups: list[object], request_timeout: float) -> dict[str, SimpleNamespace]:
        assert (len(groups), request_timeout > 0) == (1, True)
        return {"shop": SimpleNamespace(topic_partitions=self.places)}

    def list_topics(self, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        return SimpleNamespace(topics={"orders": SimpleNamespace(partitions={0: object()})})

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        wanted = list(places)
        if not set(wanted) <= set(self.ENDS):
            raise CommandError("Unknown topic or partition", KafkaError.UNKNOWN_TOPIC_OR_PART)
        return {place: self.ENDS[place] for place in wanted}


def test_deleted_partitions_have_no_end_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have theirs."""
    monkeypatch.setattr(client_module, "Session", GroupOfADeletedTopic)

    group = Client("127.0.0.1:9092").group("shop")

    assert group.lags == (
        Lag("gone", 0, 4, None, "shop-1"),
        Lag("orders", 0, 3, 10, "shop-1"),
        Lag("orders", 1, 5, None, None),
    )
    assert group.lag == 7


def test_unresponsive_broker_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that follow soon get the same error at once. After a while, one tries again."""
    now = 0.5
    tries: list[float] = []

    def connect(_: Connection) -> None:
        nonlocal now
        tries.append(now)
        now += 10
        raise CommandError("127.0.0.1:9092: no broker answers")

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(client_module, "Session", connect)
    client = Client("127.0.0.1:9092")
    for _ in range(3):
        with pytest.raises(BrokerUnavailable, match="no broker answers"):
            client.topics()
    assert tries == [0.5]
    now += 2
    with pytest.raises(BrokerUnavailable):
        client.topics()
    assert tries == [0.5, 12.5]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, Refused),
        (KafkaError.INVALID_CONFIG, BrokerRejected),
        (KafkaError.TOPIC_ALREADY_EXISTS, BrokerRejected),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, BrokerUnavailable),
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnavailable),
        (None, BrokerUnavailable),
    ],
)
def test_errors_of_the_broker_have_an_http_status(
    monkeypatch: pytest.MonkeyPatch, code: int | None, kind: type[ConsoleError]
) -> None:
    """Missing objects, missing rights, invalid requests, and retriable errors."""
    made: list[object] = []
    monkeypatch.setattr(client_module, "Session", lambda _: made.append(object()) or made[-1])
    client = Client("127.0.0.1:9092")
    with pytest.raises(kind, match="told so"), client.session():
        raise CommandError("told so", code)
    with client.session():
        pass
    assert len(made) == (2 if kind is BrokerUnavailable else 1)


@pytest.mark.parametrize(
    ("code", "is_known"), [(KafkaError._AUTHENTICATION, False), (KafkaError.SASL_AUTHENTICATION_FAILED, False)]
)
def test_unknown_users_are_no_error(monkeypatch: pytest.MonkeyPatch, code: int, is_known: bool) -> None:
    """Other errors are."""

    def connect(_: Connection) -> None:
        raise CommandError("no", code)

    monkeypatch.setattr(client_module, "Session", connect)
    assert Client("127.0.0.1:9092").is_known() is is_known
    code = KafkaError._SSL
    with pytest.raises(BrokerUnavailable):
        Client("127.0.0.1:9092").is_known()


def test_connection_has_the_users_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """It also has the address of its broker."""
    made: list[Connection] = []
    monkeypatch.setattr(client_module, "Session", made.append)
    assert Client("127.0.0.1:9092", {"sasl.username": "ann"}).is_known()
    assert made == [Connection("127.0.0.1:9092", client_module.TIMEOUT_S, {"sasl.username": "ann"})]
