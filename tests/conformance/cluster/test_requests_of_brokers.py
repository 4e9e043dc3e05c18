"""Requests that only brokers and controllers send, from principals with and without CLUSTER_ACTION.

A member and a broker of Apache Kafka answer in the same way, in one cluster with StandardAuthorizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ReplicaState
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS, WritableTxnMarker, WritableTxnMarkerTopic
from protocol.registry import API_BY_KEY
from protocol.schema import Api
from tests.integration.membership.kafka_nodes import PLAIN, QUIET, SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain
from tests.support.wire import Closed, WireClient

pytestmark = pytest.mark.full_size

OURS, THEIRS = 1, 2
TOPICS = {OURS: "led-here", THEIRS: "led-over"}
USERS = ("nobody", "reader", "peer")
#: Of the inner life of a cluster, by their names: what a broker does not serve ends the connection.
INNER = {
    *("AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs", "BeginQuorumEpoch", "BrokerHeartbeat"),
    *("BrokerRegistration", "ControllerRegistration", "EndQuorumEpoch", "Envelope", "FetchSnapshot"),
    *("UpdateRaftVoter", "Vote"),
}
STATES = {f"{each}ShareGroupState" for each in ("Delete", "Initialize", "Read", "Write")} | {
    "ReadShareGroupStateSummary"
}


class Peers(NamedTuple):
    """Both brokers, the ports of their listeners with a login, and the ids of the topics that they lead."""

    brokers: Mapping[int, RunningBroker]
    logins: Mapping[int, int]
    topic_ids: Mapping[int, bytes]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    ports = {node: (free_port(), free_port()) for node in TOPICS}
    users = " ".join(f'user_{name}="p"' for name in USERS)

    def properties(node: int) -> dict[str, str]:
        clients, login = ports[node]
        return {
            **SECURED,
            "listeners": f"PLAINTEXT://{HOST}:{clients},LOGIN://{HOST}:{login}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} username="x" password="x" {users};',
        }

    with ExitStack() as stack:
        make = tmp_path_factory.mktemp
        controller = stack.enter_context(KafkaController(make("controller")))
        kinds = {OURS: MemberBroker, THEIRS: OtherBroker}
        brokers: dict[int, RunningBroker] = {
            node: stack.enter_context(
                kind(make("broker"), controller.port, properties(node), port=ports[node][0])  # type: ignore[abstract]
            )
            for node, kind in kinds.items()
        }
        admin = AdminClient({**QUIET, "bootstrap.servers": brokers[OURS].bootstrap})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers), equal_to=2)
        made = admin.create_topics(
            [NewTopic(TOPICS[node], 1, replica_assignment=[[node, OURS + THEIRS - node]]) for node in TOPICS]
        )
        rights = [
            _allowed("reader", ResourceType.TOPIC, "*", AclOperation.READ),
            _allowed("reader", ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
            _allowed("peer", ResourceType.BROKER, "kafka-cluster", AclOperation.CLUSTER_ACTION),
        ]
        for done in (*made.values(), *admin.create_acls(rights).values()):
            done.result(30)
        found = {}
        for node, broker in brokers.items():
            with WireClient(HOST, broker.port) as client:
                eventually(lambda: _is_led(client, TOPICS[THEIRS]) and _is_led(client, TOPICS[OURS]))
                answer = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=TOPICS[node])])
                found[node] = bytes(answer.topics[0].topic_id)
        made_peers = Peers(brokers, {node: ports[node][1] for node in TOPICS}, found)
        for user in ("reader", "peer"):
            fetched = fetches(made_peers, -1 if user == "reader" else None, -1, -1)
            eventually(lambda: "error_code=29" in str(answers(made_peers, user, FETCH, 17, fetched)), equal_to=False)  # noqa: B023
        yield made_peers


def _allowed(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def _is_led(client: WireClient, topic: str) -> bool:
    (found,) = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=topic)]).topics
    return found.error_code == 0 and len(found.partitions[0].isr_nodes) == 2


def answers(peers: Peers, user: str, api: Api, version: int, fields: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Return what either broker answers to a user, with one name for both topics."""
    found = []
    for node, port in peers.logins.items():
        with WireClient(HOST, port, timeout_s=30) as client:
            log_in_plain(client, user, "p")
            try:
                answer = str(client.call(api, version, **fields[node]))
            except Closed:
                answer = "closed"
        answer = answer.replace(TOPICS[node], "the topic").replace(str(peers.topic_ids[node]), "its id")
        answer = answer.replace(f"leader_id={node}", "leader_id=its")
        found.append(re.sub(r"(session_id|timestamp)=\d+|<memory at \w+>", r"\1=", answer))
    return found


def fetches(peers: Peers, replica: int | None, epoch: int, leader_epoch: int) -> dict[int, dict[str, Any]]:
    """Return the fields of a follower's Fetch; None: of the follower that the topic has."""
    return {
        node: {
            "replica_state": ReplicaState(
                replica_id=OURS + THEIRS - node if replica is None else replica, replica_epoch=epoch
            ),
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "topics": [
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=0, fetch_offset=0, current_leader_epoch=leader_epoch, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        }
        for node, topic_id in peers.topic_ids.items()
    }


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(("replica", "epoch"), [(None, -1), (None, 1 << 40), (None, 0), (77, -1), (-2, -1)])
@pytest.mark.parametrize("leader_epoch", [-1, 0, 7])
def test_fetch_of_a_follower(peers: Peers, user: str, replica: int | None, epoch: int, leader_epoch: int) -> None:
    """Also of one that has no replica, or is none; with a broker epoch that is not its own."""
    ours, theirs = answers(peers, user, FETCH, 17, fetches(peers, replica, epoch, leader_epoch))
    assert ours == theirs


@pytest.mark.parametrize("user", USERS)
def test_offsets_for_a_follower(peers: Peers, user: str) -> None:
    offsets = {
        node: {
            "replica_id": OURS + THEIRS - node,
            "topics": [
                ListOffsetsTopic(
                    name=TOPICS[node],
                    partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=0, timestamp=-1)],
                )
            ],
        }
        for node in TOPICS
    }
    epochs = {
        node: {
            "replica_id": OURS + THEIRS - node,
            "topics": [
                OffsetForLeaderTopic(
                    topic=TOPICS[node],
                    partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)],
                )
            ],
        }
        for node in TOPICS
    }
    for api, version, fields in ((LIST_OFFSETS, 9, offsets), (OFFSET_FOR_LEADER_EPOCH, 4, epochs)):
        ours, theirs = answers(peers, user, api, version, fields)
        assert ours == theirs


@pytest.mark.parametrize("user", USERS)
def test_requests_of_transaction_coordinators(peers: Peers, user: str) -> None:
    markers = {
        node: {
            "markers": [
                WritableTxnMarker(
                    producer_id=1 << 40,
                    producer_epoch=0,
                    transaction_result=False,
                    coordinator_epoch=0,
                    topics=[
                        WritableTxnMarkerTopic(name=name, partition_indexes=[0, 9]) for name in (TOPICS[node], "no")
                    ],
                )
            ]
        }
        for node in TOPICS
    }
    verified = {
        node: {
            "transactions": [
                AddPartitionsToTxnTransaction(
                    transactional_id="none",
                    producer_id=1 << 40,
                    producer_epoch=0,
                    verify_only=True,
                    topics=[AddPartitionsToTxnTopic(name=TOPICS[node], partitions=[0])],
                )
            ]
        }
        for node in TOPICS
    }
    for api, version, fields in ((WRITE_TXN_MARKERS, 1, markers), (ADD_PARTITIONS_TO_TXN, 5, verified)):
        ours, theirs = answers(peers, user, api, version, fields)
        assert ours == theirs, api.name


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", sorted(STATES | INNER))
def test_inner_requests(peers: Peers, user: str, name: str) -> None:
    """Those of share coordinators are served; envelopes, and what is for controllers, end the connection."""
    api = next(each for each in API_BY_KEY.values() if each.name == name)
    for version in {api.current.min, api.current.max}:
        ours, theirs = answers(peers, user, api, version, {node: {} for node in TOPICS})
        assert ours == theirs
        assert (ours == "closed") is (name in INNER)
