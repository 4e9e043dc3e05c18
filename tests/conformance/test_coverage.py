"""Every advertised version of every API is requested, from our broker and from Apache Kafka.

The requests have default values; the sweeps and clients send others. The raw client decodes each answer to its last
byte, and encodes it to the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from tests.conformance.sweep_rules import COMPARED, IDS, IGNORED, UNORDERED
from tests.support.answers import Names, Rules
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import KAFKA_LINE
from tests.support.settled import await_coordinator
from tests.support.txn_client import TxnClient
from tests.support.wire import Closed, WireClient, served_versions

# Fields that other tests or the machine determine; and APIs that one broker does not serve
STATE = {
    "ApiVersions.api_keys": "the sweeps compare the versions of what is served here",
    "AddRaftVoter.error_message": "names the cluster",
    "DescribeLogDirs.results": "partitions and sizes",
    "DescribeCluster.brokers[].port": "address",
    "DescribeTopicPartitions.topics": "topics",
    "FindCoordinator.port": "address",
    "ListConfigResources.config_resources": "topics",
    "ListGroups.groups": "groups",
    "ListTransactions.transaction_states": "transactions",
    "Metadata.topics": "topics",
    "Metadata.brokers[].port": "address",
    "RemoveRaftVoter.error_message": "names the cluster",
}

# As Kafka does: for clients that need "Produce from 0 on"; and defaults ask about ACLs of an unknown kind
ADVERTISED_BUT_CLOSED = [
    "Produce v0",
    "Produce v1",
    "Produce v2",
    "DescribeAcls v1",
    "DescribeAcls v2",
    "DescribeAcls v3",
]

# Apache Kafka never answers these without a transaction: it waits for the answers of no partition
NEVER_ANSWERED_BY_KAFKA = [(ADD_PARTITIONS_TO_TXN, 4), (ADD_PARTITIONS_TO_TXN, 5)]


def test_every_advertised_version_is_answered_as_by_kafka(shared_broker: Callable[[str], RunningBroker]) -> None:
    """Field by field, except state and addresses."""
    ours, kafka = shared_broker("ours"), shared_broker("kafka")
    rules = Rules(ids=IDS, unordered=UNORDERED, ignored={**IGNORED, **STATE}, compared=COMPARED)
    with WireClient(HOST, ours.port) as client, WireClient(HOST, kafka.port) as other:
        served, by_kafka = served_versions(client), served_versions(other)
    if KAFKA_LINE < (4, 4):  # which lacks some APIs and versions
        served = {
            key: range(versions.start, min(versions.stop, by_kafka[key].stop))
            for key, versions in served.items()
            if key in by_kafka
        }
    for broker in (ours, kafka):
        _wait_for_coordinator(broker)
        with TxnClient(HOST, broker.port) as transactional:
            transactional.wait_for_coordinator("")
    found, closed = [], []
    for key, versions in served.items():
        api = API_BY_KEY[key]
        for version in versions:
            if (api, version) in NEVER_ANSWERED_BY_KAFKA:
                assert _answer(ours, api, version) is not None
                continue
            expected, given = _answer(kafka, api, version), _answer(ours, api, version)
            if expected is given is None:
                closed.append(f"{api.name} v{version}")
            found += [f"v{version} {each}" for each in rules.differences(api.name, expected, given, Names())]
    assert found == []
    assert closed == ADVERTISED_BUT_CLOSED


def _answer(broker: RunningBroker, api: Api, version: int) -> Struct | None:
    """Return the answer to a request of defaults, on a connection of its own; None if the broker closes that."""
    request = api.request()
    if api is PRODUCE:
        request.acks = -1  # acks=0 would have no answer
    with WireClient(HOST, broker.port) as client:
        try:
            return client.call(api, version, request)
        except Closed:
            return None


def _wait_for_coordinator(broker: RunningBroker) -> None:
    with WireClient(HOST, broker.port) as client:
        await_coordinator(client, "")
        eventually(lambda: not client.call(OFFSET_FETCH, 7, group_id="").error_code)
