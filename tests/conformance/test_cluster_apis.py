"""A single node describes the cluster, its quorum and its features as Apache Kafka does, request by request."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.add_raft_voter import ADD_RAFT_VOTER, Listener
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.list_config_resources import LIST_CONFIG_RESOURCES
from protocol.messages.metadata import METADATA
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.messages.remove_raft_voter import REMOVE_RAFT_VOTER
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.messages.update_features import UPDATE_FEATURES, FeatureUpdateKey
from protocol.messages.update_raft_voter import UPDATE_RAFT_VOTER
from protocol.primitives import ZERO_UUID
from tests.support.java import KAFKA_LINE
from tests.support.pairs import Pair

METADATA_TOPIC = "__cluster_metadata"
OTHER_ID = b"a" * 16
UPGRADE, SAFE, UNSAFE = 1, 2, 3
SET, DELETE, APPEND = 0, 1, 2
CLIENT_METRICS = 16


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


# -- features ----------------------------------------------------------------------------------------------------------

# (feature, level, upgrade type)
#: Features of which Apache Kafka 4.4 has further levels.
_RAISED = ("metadata.version", "share.version")
REFUSED_OR_NOTHING_NEW: list[list[tuple[str, int, int]]] = [
    [],
    [("group.version", 1, UPGRADE)],
    [("group.version", 1, SAFE)],
    [("group.version", 1, UPGRADE), ("group.version", 1, UPGRADE)],
    [("group.version", 1, 0)],
    [("group.version", 1, 7)],
    [("group.version", 2, UPGRADE)],
    [("group.version", -1, UPGRADE)],
    [("group.version", 0, UPGRADE)],
    [("unheard.of", 1, UPGRADE)],
    [("", 1, UPGRADE)],
    [("group.version", 0, SAFE), ("unheard.of", 1, UPGRADE)],
    # the message names the highest level that the release has
    *(
        [
            [("metadata.version", level, kind)]
            for level, kind in ((99, UPGRADE), (3, SAFE), (0, SAFE))
            if KAFKA_LINE >= (4, 4)
        ]
    ),
    [("metadata.version", 20, UPGRADE)],
    [("metadata.version", 29, SAFE)],
    [("metadata.version", 29, UNSAFE)],
    [("metadata.version", 30, SAFE)],
    [("metadata.version", 24, SAFE), ("group.version", 0, SAFE)],
    [("kraft.version", 1, UPGRADE)],
    [("kraft.version", 1, SAFE)],
    [("kraft.version", 2, UPGRADE)],
    [("kraft.version", -1, SAFE)],
    [("kraft.version", 0, UPGRADE)],
    [("kraft.version", 0, SAFE)],
    [("kraft.version", 0, UNSAFE)],
    [("transaction.version", 1, UNSAFE)],
    [("transaction.version", 0, SAFE)],
    [("eligible.leader.replicas.version", 0, SAFE)],
    [("share.version", 0, SAFE)],
    [("streams.version", 0, SAFE)],
]


def _updates(version: int, updates: list[tuple[str, int, int]]) -> dict[str, Any]:
    if version == 0:
        made = [
            FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE)
            for name, level, kind in updates
        ]
        return {"feature_updates": made}
    made = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    return {"feature_updates": made}


@pytest.mark.parametrize(
    "updates", REFUSED_OR_NOTHING_NEW, ids=lambda each: "+".join(f"{n}={v}:{k}" for n, v, k in each)
)
@pytest.mark.parametrize("version", [1, 2])
def test_feature_levels_are_checked(pair: Pair, version: int, updates: list[tuple[str, int, int]]) -> None:
    """KIP-584, KIP-778: all kinds of upgrades, validate only."""
    pair.same(UPDATE_FEATURES, version, validate_only=True, **_updates(version, updates))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_feature_levels_go_down_and_up(pair: Pair, version: int) -> None:
    """A rejected update changes nothing; ApiVersions reports an accepted one."""
    for updates in (
        [("group.version", 0, UPGRADE)],
        [("group.version", 0, SAFE), ("metadata.version", 29, SAFE)],
        [("group.version", 0, SAFE)],
        [("transaction.version", 1, SAFE)],
        [("share.version", 0, UNSAFE)],
        [("eligible.leader.replicas.version", 0, SAFE)],
        [("eligible.leader.replicas.version", 1, UPGRADE)],
        [("transaction.version", 2, UPGRADE), ("group.version", 1, UPGRADE), ("share.version", 1, UPGRADE)],
    ):
        pair.same(UPDATE_FEATURES, version, **_updates(version, updates))
        pair.until_same(lambda: (_levels(pair, pair.ours), _levels(pair, pair.kafka)))


def _levels(pair: Pair, broker: Any) -> set[tuple[str, int, int]]:
    answer = pair.client(broker).call(API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    assert answer.finalized_features_epoch > 0
    return {(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features}


@pytest.mark.parametrize("version", [3, 4])
def test_supported_features_are_returned(pair: Pair, version: int) -> None:
    """KIP-1022: in v3 those whose lowest level is 0 are left out."""

    def supported(broker: Any) -> set[tuple[str, int, int]]:
        answer = pair.client(broker).call(
            API_VERSIONS, version, client_software_name="test", client_software_version="1"
        )
        return {(each.name, each.min_version, each.max_version) for each in answer.supported_features}

    ours, kafka = pair.each(supported)
    if KAFKA_LINE < (4, 4):  # which has lower levels of these two
        ours, kafka = ({each for each in found if each[0] not in _RAISED} for found in (ours, kafka))
    assert ours == kafka


# -- the quorum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "topics",
    [
        [],
        [(METADATA_TOPIC, [])],
        [(METADATA_TOPIC, [0])],
        [(METADATA_TOPIC, [1])],
        [(METADATA_TOPIC, [0, 1])],
        [(METADATA_TOPIC, [0]), ("other", [0])],
        [("other", [0])],
    ],
    ids=str,
)
def test_the_quorum_is_described(pair: Pair, version: int, topics: list[tuple[str, list[int]]]) -> None:
    """KIP-595, KIP-836, KIP-853; offsets, times and the directory's id differ between brokers."""
    asked = [
        RequestTopicData(topic_name=name, partitions=[RequestPartitionData(partition_index=index) for index in indexes])
        for name, indexes in topics
    ]
    ours, kafka = (_without_figures(answer) for answer in pair.ask(DESCRIBE_QUORUM, version, topics=asked))
    assert ours == kafka


def _without_figures(answer: Any) -> str:
    text = re.sub(r"(offset|watermark|timestamp|epoch)=[1-9]\d*", r"\1=<n>", repr(answer))
    text = re.sub(
        r"replica_directory_id=b(?!'(\\x00){16}')('(?:\\.|[^'\\])*'|\"[^\"]*\")", "replica_directory_id=<id>", text
    )
    return re.sub(r"Listener\(name='CONTROLLER', host='[\w.]+', port=\d+\)", "Listener(<address>)", text)


CONTROLLER = Listener(name="CONTROLLER", host="localhost", port=1)
VOTERS: list[dict[str, Any]] = [
    {"voter_id": 2, "voter_directory_id": OTHER_ID, "listeners": [CONTROLLER], "cluster_id": "another"},
    {"voter_id": 2, "voter_directory_id": OTHER_ID, "listeners": [], "cluster_id": None},
    {"voter_id": 2, "voter_directory_id": ZERO_UUID, "listeners": [CONTROLLER], "cluster_id": None},
    {"voter_id": -1, "voter_directory_id": OTHER_ID, "listeners": [CONTROLLER], "cluster_id": None},
    {"voter_id": 1, "voter_directory_id": OTHER_ID, "listeners": [CONTROLLER], "cluster_id": None},
    {"voter_id": 2, "voter_directory_id": OTHER_ID, "listeners": [CONTROLLER], "cluster_id": None},
]


@pytest.mark.parametrize("voter", VOTERS, ids=lambda each: f"{each['voter_id']}-{each['cluster_id']}")
@pytest.mark.parametrize("version", [0, 1])
def test_no_voter_is_added(pair: Pair, version: int, voter: dict[str, Any]) -> None:
    """KIP-853: another voter is unreachable, and this one exists already. Kafka words the first error in two ways."""
    answers = pair.ask(ADD_RAFT_VOTER, version, timeout_ms=1000, **voter)
    ours, kafka = ((each.error_code, _without_ids(each.error_message)) for each in answers)
    if kafka[0] == ErrorCode.REQUEST_TIMED_OUT:
        assert ours[0] == kafka[0]
    else:
        assert ours == kafka


@pytest.mark.parametrize("voter", VOTERS, ids=lambda each: f"{each['voter_id']}-{each['cluster_id']}")
def test_no_voter_is_removed(pair: Pair, voter: dict[str, Any]) -> None:
    fields = {key: value for key, value in voter.items() if key != "listeners"}
    ours, kafka = pair.ask(REMOVE_RAFT_VOTER, 0, **fields)
    assert (ours.error_code, _without_ids(ours.error_message)) == (kafka.error_code, _without_ids(kafka.error_message))


def _without_ids(message: str) -> str:
    return re.sub(r"directoryId=[\w-]{22}(?=\))", "directoryId=<id>", message)


def test_the_last_voter_stays(pair: Pair) -> None:
    """A request with the correct name of the voter is rejected too."""

    def remove(broker: Any) -> tuple[int, str]:
        partitions = [RequestPartitionData(partition_index=0)]
        asked = [RequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
        described = pair.client(broker).call(DESCRIBE_QUORUM, 2, topics=asked)
        directory_id = described.topics[0].partitions[0].current_voters[0].replica_directory_id
        answer = pair.client(broker).call(
            REMOVE_RAFT_VOTER, 0, cluster_id=None, voter_id=1, voter_directory_id=directory_id
        )
        return answer.error_code, _without_ids(answer.error_message)

    ours, kafka = pair.each(remove)
    assert ours == kafka


@pytest.mark.parametrize("api", [ASSIGN_REPLICAS_TO_DIRS, UPDATE_RAFT_VOTER], ids=lambda each: each.name)
def test_requests_between_nodes_close_the_connection(pair: Pair, api: Any) -> None:
    """They belong on a controller's listener."""
    assert pair.same(api, 0) == "the connection is closed"


# -- client metrics ----------------------------------------------------------------------------------------------------


def _alter(pair: Pair, name: str, operation: int = SET, **settings: str | None) -> None:
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=operation, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    pair.same(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bad", {"interval_ms": "99"}),
        ("bad", {"interval_ms": "3600001"}),
        ("bad", {"interval_ms": "x"}),
        ("bad", {"match": "colour=red"}),
        ("bad", {"match": "client_id"}),
        ("bad", {"match": "client_id=["}),
        ("bad", {"unknown": "x"}),
        ("", {"metrics": "x"}),
    ],
)
def test_bad_subscriptions_are_refused(pair: Pair, name: str, settings: dict[str, str]) -> None:
    _alter(pair, name, **settings)


def _listed(pair: Pair) -> list[str]:
    def names(broker: Any) -> list[str]:
        answer = pair.client(broker).call(LIST_CONFIG_RESOURCES, 1, resource_types=[CLIENT_METRICS])
        return sorted(each.resource_name for each in answer.config_resources)

    return pair.until_same(lambda: pair.each(names))  # type: ignore[no-any-return]


def test_client_metrics_subscriptions(pair: Pair) -> None:
    """KIP-714: which metrics of which clients, how often they may push, the effect of a change."""
    first, second, third = (bytes([number]) * 16 for number in (1, 3, 4))

    def ask(client: bytes) -> Any:
        return pair.same(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=client)

    def push(client: bytes, subscription: int, **fields: Any) -> ErrorCode:
        fields = {"terminating": False, "compression_type": 0, "metrics": b"", **fields}
        answer = pair.same(PUSH_TELEMETRY, 0, client_instance_id=client, subscription_id=subscription, **fields)
        return ErrorCode(answer.error_code)

    assert ask(first).requested_metrics == []
    assert ask(first).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(ZERO_UUID, 1) is ErrorCode.INVALID_REQUEST
    assert push(second, 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID

    _alter(pair, "s1", metrics="org.apache.kafka.producer.", interval_ms="2000")
    _alter(pair, "s1", match="client_id=te.t,client_source_address=127.*")
    _alter(pair, "s2", metrics="*", interval_ms="100", match="client_software_name=nosuch")
    _alter(pair, "s1", APPEND, metrics="org.x.")
    assert _listed(pair) == ["s1", "s2"]
    asked = [DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name) for name in ("s1", "nope", "")]
    pair.same(DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True)

    pair.hang_up()
    wanted = ask(second)
    assert (wanted.push_interval_ms, wanted.requested_metrics) == (2000, ["org.apache.kafka.producer."])
    subscription = wanted.subscription_id
    assert push(second, subscription) is ErrorCode.NONE
    assert push(second, subscription) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    for fields, error in (
        ({"compression_type": 9, "metrics": b"zz"}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": b"zz"}, ErrorCode.NONE),
        ({"metrics": b"z" * 1_048_577}, ErrorCode.TELEMETRY_TOO_LARGE),
    ):
        time.sleep(2.1)
        assert push(second, subscription, **fields) is error
    assert push(second, subscription, terminating=True) is ErrorCode.NONE
    assert push(second, subscription) is ErrorCode.INVALID_REQUEST

    assert ask(third).error_code == ErrorCode.NONE
    _alter(pair, "s1", DELETE, match=None)
    _alter(pair, "s1", interval_ms="2500")
    _alter(pair, "s3", metrics="org.x.")
    assert _listed(pair) == ["s1", "s2", "s3"]
    assert push(third, subscription) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(third).push_interval_ms == 2500  # at once: the client must get the new interval
    assert ask(third).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    _alter(pair, "s3", metrics="*")
    time.sleep(2.6)
    assert ask(third).requested_metrics == ["*"]

    for name in ("s1", "s2", "s3"):
        _alter(pair, name, DELETE, metrics=None, interval_ms=None, match=None)
    assert _listed(pair) == []
    assert ask(third).requested_metrics == []


# -- registrations, last: the brokers are not registered any more then -------------------------------------------------


@pytest.mark.parametrize("broker_id", [0, 2, -1, 99])
def test_brokers_that_are_not_registered_are_not_unregistered(pair: Pair, broker_id: int) -> None:
    pair.same(UNREGISTER_BROKER, 0, broker_id=broker_id)


def test_a_broker_unregisters_itself(pair: Pair) -> None:
    """No client is directed to it any more; after a restart it is registered again."""
    assert pair.same(UNREGISTER_BROKER, 0, broker_id=1).error_code == ErrorCode.NONE
    for _ in range(2):
        pair.until_same(lambda: pair.ask(METADATA, 12, topics=None))
    assert pair.same(METADATA, 12, topics=None).brokers == []
    assert pair.same(DESCRIBE_CLUSTER, 2, include_fenced_brokers=True).brokers == []
    assert pair.same(UNREGISTER_BROKER, 0, broker_id=1).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    pair.hang_up()
    assert pair.ours.stop() == 0
    pair.ours.start()
    described = pair.client(pair.ours).call(DESCRIBE_CLUSTER, 2)
    assert [(each.broker_id, each.port) for each in described.brokers] == [(1, pair.ours.port)]
