"""Requests that a controller refuses: Kafka's error, one line in the log, and no record."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.broker_registration import Feature
from tests.unit.controller.small_cluster import SmallCluster

STALE = ErrorCode.STALE_BROKER_EPOCH
OLD = {"broker_id": 1, "broker_epoch": 99}


def low_features(cluster: SmallCluster) -> int:
    """Register a broker that knows only an older metadata.version."""
    features = [each for each in cluster.registration(9).features if each.name != "metadata.version"]
    low = Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)
    return int(cluster.register(9, features=[*features, low]).error_code)


def many_replicas(cluster: SmallCluster) -> int:
    (result,) = cluster.controller.create_topics([NewTopic("new", 1, 4)]).result()
    return int(result.error_code)


CASES: dict[str, tuple[Callable[[SmallCluster], int], ErrorCode, str]] = {
    "the id of another broker": (
        lambda cluster: cluster.register(1, incarnation=2).error_code,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        "Broker 1 is not registered: Another broker is registered with that broker id. If the broker was recently"
        " restarted this should self-resolve once the heartbeat manager expires the broker's session.",
    ),
    "features outside the cluster's levels": (
        low_features,
        ErrorCode.UNSUPPORTED_VERSION,
        "Broker 9 is not registered: Unable to register because the broker does not support finalized version 30 of"
        " metadata.version. The broker wants a version between 7 and 29, inclusive.",
    ),
    "a heartbeat of another epoch": (
        lambda cluster: cluster.heartbeat(1, broker_epoch=99).error_code,
        STALE,
        "BrokerHeartbeat of broker 1 is refused: Expected broker epoch 0, but got broker epoch 99",
    ),
    "a heartbeat of no broker": (
        lambda cluster: cluster.heartbeat(9).error_code,
        STALE,
        "BrokerHeartbeat of broker 9 is refused: No broker registration found for broker id 9",
    ),
    "an in-sync set of another epoch": (
        lambda cluster: cluster.alter(1, cluster.proposal(0, [1]), broker_epoch=99).error_code,
        STALE,
        "AlterPartition of broker 1 is refused: Expected broker epoch 0, but got broker epoch 99",
    ),
    "producer ids for another epoch": (
        lambda cluster: (
            cluster.controller.allocate_producer_ids_for(ALLOCATE_PRODUCER_IDS.request(**OLD)).result().error_code
        ),
        STALE,
        "AllocateProducerIds of broker 1 is refused: Expected broker epoch 0, but got broker epoch 99",
    ),
    "directories of another epoch": (
        lambda cluster: (
            cluster.controller.assign_replicas_to_dirs(ASSIGN_REPLICAS_TO_DIRS.request(**OLD)).result().error_code
        ),
        STALE,
        "AssignReplicasToDirs of broker 1 is refused: Expected broker epoch 0, but got broker epoch 99",
    ),
    "more replicas than brokers": (
        many_replicas,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Topic new is not created: Unable to replicate the partition 4 time(s): The target replication factor of 4"
        " cannot be reached because only 3 broker(s) are registered or some brokers have all their log directories"
        " cordoned.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_request_is_logged_and_changes_nothing(case: str, caplog: pytest.LogCaptureFixture):
    cluster = SmallCluster().with_brokers(1, 2, 3).with_topic((1, 2, 3))
    offset, partition = cluster.log.end_offset, cluster.partition()
    request, expected, line = CASES[case]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert request(cluster) == expected
    assert caplog.messages == [line]
    assert (cluster.log.end_offset, cluster.partition()) == (offset, partition)


def test_a_registration_that_is_repeated_is_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that restarts is refused twice a second, until the session of its former process has ended."""
    cluster = SmallCluster().with_brokers(1)
    caplog.clear()  # another test of this process may have set a lower level
    for _ in range(18):
        assert cluster.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert [each for each in caplog.messages if "is not registered" in each] == caplog.messages
    assert len(caplog.messages) == 3
