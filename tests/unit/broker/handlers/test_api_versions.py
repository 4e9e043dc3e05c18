"""ApiVersions: the clients that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import api_versions as module
from broker.requests.broker_identity import BrokerIdentity
from broker.requests.served_api import discover
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Struct
from tests.support.wire_frames import Exchange, recorded_exchanges

CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
CLIENT = {"client_software_name": "test", "client_software_version": "1"}
RECORDED = [each for each in recorded_exchanges("sweep-4.4.tsv") if each.api is API_VERSIONS]


class Features:
    """The finalized features of a new cluster."""

    epoch = 0
    levels = {"metadata.version": 30}

    def features(self) -> Features:
        return self


class Connection:
    client_host = "127.0.0.1"
    client_software_name = client_software_version = ""


class Context:
    client_id = "c"

    def __init__(self, version: int) -> None:
        self.api_version = version
        self.connection = Connection()


@pytest.fixture
def identity() -> BrokerIdentity:
    return BrokerIdentity(CLUSTER, 1)


def ask(identity: BrokerIdentity, version: int, **fields: Any) -> Struct:
    """Return the answer after encoding and decoding it, as the request."""
    request, _ = API_VERSIONS.request.decode(
        version, API_VERSIONS.request.encode(version, API_VERSIONS.request(**fields))
    )
    context: Any = Context(version)
    answer: Any = module.api_versions(context, request, features=Features(), served_apis=discover(), identity=identity)
    return API_VERSIONS.response.decode(version, API_VERSIONS.response.encode(version, answer))[0]


@pytest.mark.parametrize("exchange", RECORDED, ids=lambda each: each.source)
def test_wanted_broker_is_checked_as_in_kafka(identity: BrokerIdentity, exchange: Exchange) -> None:
    """KIP-1242: the recorded requests name this broker, another one, another cluster, or only one of both ids."""
    request, recorded = exchange.decode_request(), exchange.decode_answer()
    assert request is not None
    answer = ask(identity, 5, **CLIENT, cluster_id=request.cluster_id, node_id=request.node_id)

    assert answer.error_code == recorded.error_code
    if recorded.error_code:
        assert answer == recorded
    assert identity.misrouted == (recorded.error_code == ErrorCode.REBOOTSTRAP_REQUIRED)


def test_recorded_cases_are_all_there() -> None:
    """No ids, the right ones, another node, another cluster, only a node, only a cluster."""
    codes = [each.decode_answer().error_code for each in RECORDED]
    assert codes == [0, 0, 129, 129, 42, 42]


def test_a_wrong_name_comes_before_a_wrong_broker(identity: BrokerIdentity) -> None:
    """A request is validated before its ids are looked at: it does not count as misrouted."""
    answer = ask(identity, 5, client_software_name="", client_software_version="1", cluster_id="x", node_id=1)
    assert (answer.error_code, identity.misrouted) == (ErrorCode.INVALID_REQUEST, 0)


def test_a_misrouted_client_is_logged(identity: BrokerIdentity, caplog: pytest.LogCaptureFixture) -> None:
    """The line names both brokers, at most once a second."""
    for _ in range(3):
        ask(identity, 5, **CLIENT, cluster_id="elsewhere", node_id=4)
    assert [record.getMessage() for record in caplog.records] == [
        f"A client at 127.0.0.1 connected to broker 1 of cluster {CLUSTER}, but wanted broker 4 of cluster "
        "'elsewhere'. Check advertised.listeners, proxies and port maps."
    ]
    assert identity.misrouted == 3


@pytest.mark.parametrize("version", range(5))
def test_older_versions_name_no_broker(identity: BrokerIdentity, version: int) -> None:
    """They are answered wherever they come from."""
    fields = CLIENT if version >= 3 else {}
    answer = ask(identity, version, **fields)
    assert (answer.error_code, bool(answer.api_keys)) == (ErrorCode.NONE, True)
