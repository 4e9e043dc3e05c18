"""Leaders that move, and brokers that are down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA
from pybroker.isolated.cluster import Cluster, check, kept_cluster
from pybroker.isolated.connection import Connection, ConnectionFailed
from pybroker.source.errors import BrokerFailed, UnknownPartition, UnusableOption
from tests.support.broker_double import PROPERTIES, TOPIC, BrokerDouble

PLACE = TOPIC, 0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerDouble]:
    with BrokerDouble(2).installed(monkeypatch) as broker:
        yield broker


@pytest.fixture
def cluster(broker: BrokerDouble) -> Cluster:
    return Cluster(PROPERTIES, lambda: broker.now_s)


def end_of_log(connection: Connection) -> int:
    """A request to a leader."""
    wanted = [ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
    answer, _ = connection.call(LIST_OFFSETS, 6, replica_id=-1, isolation_level=0, topics=wanted)
    found = answer.topics[0].partitions[0]
    check(found.error_code, TOPIC)
    offset: int = found.offset
    return offset


def hosts(broker: BrokerDouble) -> list[str]:
    """Return the hosts that got ListOffsets."""
    return [host for api, host, _ in broker.calls if api is LIST_OFFSETS]


def test_partitions_by_name_and_by_pattern(cluster: Cluster) -> None:
    """A pattern has to match the whole name. It matches no internal topics."""
    assert cluster.partitions([TOPIC]) == [(TOPIC, 0), (TOPIC, 1)]
    assert cluster.partitions(None, "o.*s") == [(TOPIC, 0), (TOPIC, 1)]
    assert cluster.partitions(None, "order") == []
    assert cluster.partitions(None, ".*") == [(TOPIC, 0), (TOPIC, 1)]


def test_missing_topic_or_partition_fails_at_once(cluster: Cluster, broker: BrokerDouble) -> None:
    with pytest.raises(UnknownPartition, match="missing"):
        cluster.partitions(["missing"])
    with pytest.raises(UnknownPartition, match="orders-7"):
        cluster.at_leader((TOPIC, 7), end_of_log)
    assert broker.now_s == 0


def test_request_follows_the_leader(cluster: Cluster, broker: BrokerDouble) -> None:
    cluster.at_leader(PLACE, end_of_log)
    broker.partitions[0].leader = 2
    broker.fail(LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.at_leader(PLACE, end_of_log)

    assert hosts(broker) == ["one", "one", "two"]


def test_broken_connection_is_replaced(cluster: Cluster, broker: BrokerDouble) -> None:
    broker.fail(LIST_OFFSETS, ConnectionFailed, ConnectionFailed)

    assert cluster.at_leader(PLACE, end_of_log) == 0
    assert hosts(broker) == ["one"] * 3


def test_partition_without_a_leader_is_waited_for(cluster: Cluster, broker: BrokerDouble) -> None:
    broker.fail(METADATA, ErrorCode.LEADER_NOT_AVAILABLE)

    assert cluster.at_leader(PLACE, end_of_log) == 0
    assert broker.now_s > 0


def test_partition_without_a_leader_delays_no_other(cluster: Cluster, broker: BrokerDouble) -> None:
    broker.partitions[1].leader = -1

    assert cluster.partitions([TOPIC]) == [(TOPIC, 0), (TOPIC, 1)]
    assert cluster.at_leader(PLACE, end_of_log) == 0
    assert broker.now_s == 0
    with pytest.raises(BrokerFailed, match=r"orders-1: .*leader"):
        cluster.at_leader((TOPIC, 1), end_of_log)
    assert broker.now_s >= 1


def test_retries_end_after_the_timeout(cluster: Cluster, broker: BrokerDouble) -> None:
    broker.fail(LIST_OFFSETS, *[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100)

    with pytest.raises(BrokerFailed, match="not the leader"):
        cluster.at_leader(PLACE, end_of_log)
    assert 1 <= broker.now_s < 1.5


def test_permanent_error_is_raised_at_once(cluster: Cluster, broker: BrokerDouble) -> None:
    broker.fail(LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerFailed, match="orders"):
        cluster.at_leader(PLACE, end_of_log)
    assert broker.now_s == 0


def test_unknown_error_code_is_shown_as_a_number() -> None:
    with pytest.raises(BrokerFailed, match="error 9999"):
        check(9999, TOPIC)


def test_any_bootstrap_server_suffices(broker: BrokerDouble) -> None:
    several = Cluster({**PROPERTIES, "bootstrap.servers": "one:9092, two:9092"}, lambda: broker.now_s)
    broker.down = {"one"}
    assert several.partitions([TOPIC]) == [(TOPIC, 0), (TOPIC, 1)]

    broker.down = {"one", "two"}
    with pytest.raises(BrokerFailed, match="one:9092: refused; two:9092: refused"):
        Cluster({**PROPERTIES, "bootstrap.servers": "one:9092,two:9092"}, lambda: broker.now_s).partitions([TOPIC])


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"bootstrap.servers": ""}, "not set"),
        ({"bootstrap.servers": "one"}, "'one' is not host:port"),
        ({"bootstrap.servers": "one:x"}, "not host:port"),
        ({"bootstrap.servers": "one:70000"}, "not host:port"),
        ({"bootstrap.servers": "one..two:9092"}, "'one..two:9092'"),
        ({"security.protocol": "SASL"}, "SASL is none of"),
        ({"request.timeout.ms": "soon"}, "'soon'"),
    ],
)
def test_invalid_properties_are_named(properties: dict[str, str], expected: str) -> None:
    with pytest.raises(UnusableOption, match=expected):
        Cluster({**PROPERTIES, **properties})


def test_cluster_is_cached_until_a_failure(broker: BrokerDouble) -> None:
    with kept_cluster(PROPERTIES) as first:
        pass
    with pytest.raises(UnknownPartition), kept_cluster(PROPERTIES) as second:
        second.partitions(["missing"])
    with kept_cluster(PROPERTIES) as third:
        pass

    assert first is second
    assert third is not first
