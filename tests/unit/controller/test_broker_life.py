"""Registrations, heartbeats and sessions at the controller of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from metadata.features import ELIGIBLE_LEADER_REPLICAS
from metadata.image import ResourceType
from metadata.partition_registration import NO_LEADER, UNASSIGNED_DIRECTORY
from protocol.error_codes import ErrorCode
from protocol.messages.broker_registration import Feature
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from tests.unit.controller.small_cluster import SESSION_MS, SmallCluster, directory


def unregister(cluster: SmallCluster, broker_id: int) -> ErrorCode:
    response = cluster.controller.unregister_broker(UNREGISTER_BROKER.request(broker_id=broker_id)).result()
    return ErrorCode(response.error_code)


# ---- registration


def test_broker_epoch_is_the_offset_of_the_registration():
    cluster = SmallCluster().with_brokers(1)
    offset = cluster.log.end_offset
    assert cluster.register(2).broker_epoch == offset
    ((name, fields),) = cluster.since(offset)
    assert (name, fields["broker_id"], fields["broker_epoch"]) == ("RegisterBrokerRecord", 2, offset)
    assert cluster.log.records[-1].version == 4
    assert cluster.image.brokers[2].fenced


def test_other_process_waits_for_the_end_of_the_session():
    cluster = SmallCluster().with_brokers(1)
    cluster.now_ms = SESSION_MS - 1
    assert cluster.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, incarnation=2).error_code == ErrorCode.NONE


def test_repeated_registration_keeps_the_epoch():
    """The response to the first one was lost."""
    cluster = SmallCluster().with_brokers(1)
    epoch = cluster.image.brokers[1].broker_epoch
    assert cluster.register(1, rack="r").broker_epoch == epoch
    assert not cluster.image.brokers[1].fenced
    assert cluster.image.brokers[1].rack == "r"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UNASSIGNED_DIRECTORY]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2), directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2), directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_bad_registration_is_refused(fields: dict[str, Any], expected: ErrorCode):
    cluster = SmallCluster().with_brokers(1)
    offset = cluster.log.end_offset
    assert cluster.register(2, **fields).error_code == expected
    assert cluster.log.end_offset == offset


@pytest.mark.parametrize(
    ("feature", "lowest", "highest", "expected"),
    [
        ("metadata.version", 7, 29, ErrorCode.UNSUPPORTED_VERSION),
        ("metadata.version", 31, 33, ErrorCode.UNSUPPORTED_VERSION),
        ("metadata.version", 7, 30, ErrorCode.NONE),
        (ELIGIBLE_LEADER_REPLICAS, 0, 0, ErrorCode.UNSUPPORTED_VERSION),
        ("kraft.version", 0, 0, ErrorCode.UNSUPPORTED_VERSION),
        ("group.version", 1, 1, ErrorCode.UNSUPPORTED_VERSION),
        ("unknown.version", 0, 9, ErrorCode.NONE),
    ],
)
def test_features_have_to_match_the_cluster(feature: str, lowest: int, highest: int, expected: ErrorCode):
    """Also those that are off: the broker has to know level 0."""
    cluster = SmallCluster()
    features = [each for each in cluster.registration(1).features if each.name != feature]
    features.append(Feature(name=feature, min_supported_version=lowest, max_supported_version=highest))
    assert cluster.register(1, features=features).error_code == expected


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (17, 3), (29, 3), (30, 4)])
def test_version_of_the_record_follows_metadata_version(level: int, version: int):
    cluster = SmallCluster(elr=False, level=level)
    cluster.register(1)
    assert cluster.log.records[-1].version == max(version, 1 if level < 8 else 2)
    assert cluster.image.brokers[1].log_directories == ((directory(1),) if level >= 17 else ())


def test_unclean_stop_makes_a_replica_ineligible():
    """With KIP-966 a broker that does not know its former epoch may have lost records."""
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.configure(ResourceType.BROKER, "", "min.insync.replicas", "2")
    cluster.with_topic((1, 2))
    cluster.now_ms = SESSION_MS
    cluster.heartbeat(2)
    cluster.controller.tick()
    assert cluster.partition().eligible_leader_replicas == (1,)

    cluster.register(1, incarnation=2)
    assert cluster.partition().eligible_leader_replicas == ()
    assert cluster.partition().isr == (2,)


def test_clean_stop_keeps_a_replica_eligible():
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.configure(ResourceType.BROKER, "", "min.insync.replicas", "2")
    cluster.with_topic((1, 2))
    epoch = cluster.image.brokers[1].broker_epoch
    cluster.now_ms = SESSION_MS
    cluster.heartbeat(2)
    cluster.controller.tick()
    cluster.register(1, incarnation=2, previous_broker_epoch=epoch)
    assert cluster.partition().eligible_leader_replicas == (1,)


def test_unregistered_broker_leaves_its_partitions():
    cluster = SmallCluster().with_brokers(1, 2).with_topic((1, 2), (2, 1))
    assert unregister(cluster, 1) == ErrorCode.NONE
    assert [cluster.partition(each).isr for each in (0, 1)] == [(2,), (2,)]
    assert cluster.partition(0).replicas == (1, 2)
    assert unregister(cluster, 1) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert cluster.heartbeat(1).error_code == ErrorCode.STALE_BROKER_EPOCH


# ---- heartbeats


def test_broker_is_unfenced_when_it_knows_its_registration():
    cluster = SmallCluster()
    epoch = cluster.register(1).broker_epoch
    late = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (late.is_caught_up, late.is_fenced) == (False, True)
    waiting = cluster.heartbeat(1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    ready = cluster.heartbeat(1)
    assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
    assert not cluster.image.brokers[1].fenced


def test_heartbeat_of_a_former_process_is_refused():
    cluster = SmallCluster().with_brokers(1)
    assert cluster.heartbeat(1, broker_epoch=99).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.heartbeat(2).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_unfenced_broker_leads_partitions_without_leader():
    cluster = SmallCluster().with_brokers(1).with_topic((1,))
    cluster.heartbeat(1, want_fence=True)
    assert cluster.partition().leader == NO_LEADER
    cluster.heartbeat(1)
    assert cluster.partition().leader == 1


def test_controlled_shutdown_waits_until_others_know():
    """The broker goes on until every active broker has applied the moves of its leaders."""
    cluster = SmallCluster().with_brokers(1, 2).with_topic((1, 2))
    offset = cluster.log.end_offset
    asked = cluster.heartbeat(1, want_shut_down=True)
    assert (asked.is_fenced, asked.should_shut_down) == (False, False)
    assert [name for name, _ in cluster.since(offset)] == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    assert cluster.partition().leader == 2
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down

    cluster.heartbeat(2, current_metadata_offset=cluster.log.end_offset - 2)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(2)
    granted = cluster.heartbeat(1, want_shut_down=True)
    assert (granted.is_fenced, granted.should_shut_down) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_broker_that_leads_nothing_may_stop_at_once():
    cluster = SmallCluster().with_brokers(1, 2).with_topic((1, 2))
    assert cluster.heartbeat(2, want_shut_down=True).should_shut_down
    assert cluster.partition().isr == (1,)


def test_offline_directory_moves_its_leaders():
    both = [directory(1), directory(1, 2)]
    cluster = SmallCluster().with_brokers(1, log_dirs=both).with_brokers(2).with_topic((1, 2), (1, 2))
    cluster.image.topics_by_id[bytes(15) + b"\x09"].partitions[1] = cluster.partition(1)._replace(
        directories=(directory(1, 2), directory(2))
    )
    cluster.heartbeat(1, offline_log_dirs=[directory(1, 2)])
    assert [cluster.partition(each).leader for each in (0, 1)] == [1, 2]
    assert cluster.image.brokers[1].log_directories == (directory(1),)
    offset = cluster.log.end_offset
    cluster.heartbeat(1, offline_log_dirs=[directory(1, 2)])
    assert cluster.log.end_offset == offset


def test_cordoned_directories_are_recorded():
    cluster = SmallCluster().with_brokers(1)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].is_cordoned
    cluster.heartbeat(1)
    assert cluster.image.brokers[1].is_cordoned
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert not cluster.image.brokers[1].is_cordoned


# ---- sessions


def test_silent_broker_is_fenced_when_its_session_ends():
    cluster = SmallCluster().with_brokers(1)
    cluster.now_ms = 1000
    cluster.with_brokers(2).with_topic((1, 2))
    cluster.now_ms = SESSION_MS - 1
    assert cluster.controller.tick() == 1
    assert not cluster.image.brokers[1].fenced
    cluster.now_ms = SESSION_MS
    assert cluster.controller.tick() == 1000
    assert cluster.image.brokers[1].fenced
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_fenced_broker_comes_back_with_its_epoch():
    """It was frozen for longer than its session."""
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.now_ms = SESSION_MS
    cluster.controller.tick()
    assert cluster.image.brokers[1].fenced
    assert not cluster.heartbeat(1).is_fenced
    assert not cluster.image.brokers[1].fenced


def test_restarted_controller_gives_each_broker_a_session():
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.now_ms = 100_000
    cluster.controller = cluster.start()
    assert cluster.controller.tick() == SESSION_MS
    assert cluster.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += SESSION_MS
    cluster.controller.tick()
    assert cluster.image.brokers[2].fenced


def test_broker_whose_process_ended_registers_at_once():
    """Its controller knows that, if both were one process. A live one of another machine keeps its id for a session."""
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.start()
    assert cluster.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.controller.former_process_ended(1)
    cluster.controller.former_process_ended(9)  # not registered yet
    assert cluster.register(1, incarnation=2).error_code == ErrorCode.NONE
    assert cluster.register(2, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
