"""Stock clients at the older levels of transaction.version, where requests add partitions and epochs stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.update_features import UPDATE_FEATURES, FeatureUpdateKey
from tests.conformance import test_transactions as clients
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.settled import wait_for_topic
from tests.support.txn_client import TxnClient

_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def level(client: TxnClient) -> int:
    """Return the finalized level; 0 without one."""
    answer = client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="0")
    return next((each.max_version_level for each in answer.finalized_features if each.name == "transaction.version"), 0)


@pytest.fixture(scope="module")
def at_level(start_broker: StartBroker) -> Callable[[str, int], RunningBroker]:
    """Return a broker of that kind, at that level; one of each kind."""
    running: dict[str, RunningBroker] = {}

    def get(kind: str, wanted: int) -> RunningBroker:
        if kind not in running:
            running[kind] = start_broker(kind)
        with TxnClient(HOST, running[kind].port) as client:
            move_to(client, wanted)
        return running[kind]

    return get


def move_to(client: TxnClient, wanted: int) -> None:
    """Raise or lower the level."""
    present = level(client)
    if present == wanted:
        return
    kind = _UPGRADE if wanted > present else _SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=wanted, upgrade_type=kind)
    assert client.call(UPDATE_FEATURES, 1, feature_updates=[update]).error_code == 0
    eventually(lambda: level(client), equal_to=wanted)


@pytest.fixture(params=[1, 0])
def wanted(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, at_level: Callable[[str, int], RunningBroker], wanted: int) -> RunningBroker:
    return at_level(request.param, wanted)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[TxnClient]:
    with TxnClient(HOST, broker.port) as made:
        yield made


@pytest.fixture
def topic(broker: RunningBroker, client: TxnClient, name: str) -> str:
    client.create_topic(name, 2)
    wait_for_topic(broker, name, 2)
    client.wait_for_coordinator(name)
    return name


def epoch(client: TxnClient, transactional_id: str) -> str:
    return client.settled(transactional_id).split()[2]


def test_confluent_kafka(broker: RunningBroker, client: TxnClient, topic: str):
    """S20.12; its epoch is that of its start: no transaction raised it."""
    clients.test_confluent_kafka_commits_and_aborts(broker, client, topic)
    assert epoch(client, topic) == "0"


@pytest.mark.parametrize(("end", "visible"), [("commit", 3), ("abort", 0), ("fenced", 0)])
def test_java(java: JavaRunner, broker: RunningBroker, client: TxnClient, topic: str, end: str, visible: int):
    """S20.16."""
    clients.test_java_producer_ends_its_transaction(java, broker, client, topic, end, visible)
    if end != "fenced":
        assert epoch(client, topic) == "0"


def test_confluent_kafka_moves_offsets(broker: RunningBroker, client: TxnClient, topic: str):
    """S20.13."""
    clients.test_confluent_kafka_moves_records_and_their_offsets_as_one(broker, client, topic, "classic")
