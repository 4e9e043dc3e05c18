"""The controller of a cluster: changes of in-sync sets, directories, elections, and when it answers."""

from __future__ import annotations

from typing import Any

import pytest

from metadata.create_topics import NewTopic
from metadata.decision import Refused
from metadata.elections import ElectionType
from metadata.feature_updates import FeatureUpdate, update_features
from metadata.image import ResourceType
from metadata.partition_registration import NO_LEADER, UNASSIGNED_DIRECTORY, LeaderRecoveryState
from protocol.error_codes import ErrorCode
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.alter_partition import BrokerState as ReplicaEpoch
from protocol.messages.alter_partition import RequestTopicData as AlterTopic
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.broker_registration import Feature
from protocol.messages.controller_registration import CONTROLLER_REGISTRATION
from protocol.schema import Struct
from storage.errors import LogOffline
from tests.unit.controller.small_cluster import SESSION_MS, TOPIC, SmallCluster, directory

UNCLEAN = "unclean.leader.election.enable"
LOG_DIRS = [directory(1), directory(1, 2)]


def three(**fields: Any) -> SmallCluster:
    """Return a cluster with a partition on three brokers."""
    return SmallCluster(**fields).with_brokers(1, 2, 3).with_topic((1, 2, 3))


def lose(cluster: SmallCluster, *broker_ids: int) -> None:
    """End the sessions of brokers, one after the other."""
    for broker_id in broker_ids:
        cluster.heartbeat(broker_id, want_fence=True)


def altered(response: Struct) -> Struct:
    return response.topics[0].partitions[0]


# ---- AlterPartition


def test_in_sync_set_shrinks_and_grows():
    cluster = three()
    found = altered(cluster.alter(1, cluster.proposal(0, [1, 2])))
    assert (found.error_code, found.isr, found.leader_id, found.leader_epoch) == (0, [1, 2], 1, 0)
    assert found.partition_epoch == cluster.partition().partition_epoch == 1
    assert altered(cluster.alter(1, cluster.proposal(0, [1, 2, 3]))).isr == [1, 2, 3]
    assert cluster.partition().isr == (1, 2, 3)


def test_same_in_sync_set_needs_no_record():
    cluster = three()
    offset = cluster.log.end_offset
    assert altered(cluster.alter(1, cluster.proposal(0, [1, 2, 3]))).partition_epoch == 0
    assert cluster.log.end_offset == offset


@pytest.mark.parametrize(
    ("broker_id", "isr", "fields", "expected"),
    [
        (1, [1, 2], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (2, [1, 2], {}, ErrorCode.INVALID_REQUEST),
        (2, [1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (1, [9], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (1, [1, 9], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 1], {}, ErrorCode.INVALID_REQUEST),
        (1, [2, 3], {}, ErrorCode.INVALID_REQUEST),
        (1, [], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (
            1,
            [],
            {"new_isr_with_epochs": [ReplicaEpoch(broker_id=1, broker_epoch=99)]},
            ErrorCode.INELIGIBLE_REPLICA,
        ),
        (1, [], {"new_isr_with_epochs": [ReplicaEpoch(broker_id=1, broker_epoch=-1)]}, ErrorCode.NONE),
        (1, [], {"new_isr_with_epochs": [], "new_isr": [1, 3]}, ErrorCode.NONE),
    ],
)
def test_checks_of_a_proposal_in_their_order(
    broker_id: int, isr: list[int], fields: dict[str, Any], expected: ErrorCode
):
    cluster = three()
    offset = cluster.log.end_offset
    assert altered(cluster.alter(broker_id, cluster.proposal(0, isr, **fields))).error_code == expected
    assert cluster.log.end_offset == offset + (expected is ErrorCode.NONE)


def test_fenced_and_leaving_replicas_are_ineligible():
    cluster = three()
    lose(cluster, 3)
    found = altered(cluster.alter(1, cluster.proposal(0, [1, 2, 3])))
    assert found.error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.with_topic((2, 1), name="led", topic_id=bytes(15) + b"\x0a")
    cluster.heartbeat(2, want_shut_down=True)
    found = altered(cluster.alter(1, cluster.proposal(0, [1, 2])))
    assert found.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_unknown_partitions_and_former_processes_are_refused():
    cluster = three()
    assert altered(cluster.alter(1, cluster.proposal(5, [1]))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = cluster.alter(1, cluster.proposal(0, [1]), topic_id=bytes(16))
    assert altered(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.alter(1, broker_epoch=99).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_completed_reassignment_may_elect_another_leader():
    """The old leader gets an error, although its proposal has an effect."""
    cluster = three()
    cluster.with_brokers(4)
    cluster.controller.alter_reassignments([("t", 0, (4, 3))])
    found = altered(cluster.alter(1, cluster.proposal(0, [1, 2, 3, 4])))
    assert found.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (cluster.partition().replicas, cluster.partition().leader) == ((4, 3), 4)


def test_shrinking_below_min_isr_keeps_replicas_eligible():
    """KIP-966: those that were in sync last may lead without loss."""
    cluster = three()
    cluster.configure(ResourceType.TOPIC, "t", "min.insync.replicas", "2")
    cluster.alter(1, cluster.proposal(0, [1, 2]))
    assert cluster.partition().eligible_leader_replicas == ()
    cluster.alter(1, cluster.proposal(0, [1]))
    assert cluster.partition().eligible_leader_replicas == (2,)
    lose(cluster, 1)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


# ---- reassignments


def only_the_added_is_in_sync(cluster: SmallCluster) -> None:
    cluster.with_brokers(4)
    cluster.controller.alter_reassignments([("t", 0, (4, 5))])
    assert cluster.partition().adding_replicas == (4, 5)
    cluster.alter(1, cluster.proposal(0, [1, 4]))
    lose(cluster, 1)
    assert cluster.partition().isr == (4,)


@pytest.mark.parametrize("allowed", [False, True])
def test_cancellation_that_loses_records_has_to_be_allowed(allowed: bool):
    cluster = three()
    cluster.register(5)
    only_the_added_is_in_sync(cluster)
    cluster.configure(ResourceType.TOPIC, "t", UNCLEAN, str(allowed).lower())
    (result,) = cluster.controller.alter_reassignments([("t", 0, None)]).result()
    if allowed:
        assert result.error_code is ErrorCode.NONE
        assert (cluster.partition().replicas, cluster.partition().isr) == ((1, 2, 3), (2,))
        assert cluster.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING
    else:
        assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cluster.partition().is_reassigning


@pytest.mark.parametrize(("elr", "leader"), [(True, 2), (False, 1)])
def test_cancellation_keeps_eligible_replicas(elr: bool, leader: int):
    """Apache Kafka puts the first replica into the in-sync set also then. It leads, and may lack records."""
    cluster = three(elr=elr).with_brokers(4)
    cluster.configure(ResourceType.BROKER, "", "min.insync.replicas", "2")
    cluster.register(5)
    cluster.controller.alter_reassignments([("t", 0, (4, 5))])
    cluster.alter(1, cluster.proposal(0, [1, 2, 4]))
    lose(cluster, 1, 2, 3)
    assert (cluster.partition().isr, cluster.partition().eligible_leader_replicas) == ((4,), (2,) if elr else ())
    cluster.configure(ResourceType.TOPIC, "t", UNCLEAN, "true")
    cluster.controller.alter_reassignments([("t", 0, None)])
    cluster.configure(ResourceType.TOPIC, "t", UNCLEAN, "false")
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id)
    after = cluster.partition()
    assert (after.replicas, after.leader, after.isr) == ((1, 2, 3), leader, (leader,))
    assert after.leader_recovery_state is LeaderRecoveryState.RECOVERED


# ---- elections


def test_leaders_of_all_brokers_are_elected():
    cluster = three()
    lose(cluster, 1)
    cluster.heartbeat(1)
    cluster.alter(2, cluster.proposal(0, [1, 2, 3]))
    assert cluster.partition().leader == 2
    (result,) = cluster.controller.elect_leaders(ElectionType.PREFERRED, None).result()
    assert (result.error_code, cluster.partition().leader) == (ErrorCode.NONE, 1)


def without_leader(**fields: Any) -> SmallCluster:
    """Return a cluster whose last replica in sync is gone while another one, which is not in sync, lives."""
    cluster = three(elr=False, **fields)
    cluster.alter(1, cluster.proposal(0, [1]))
    lose(cluster, 1)
    assert cluster.partition().leader == NO_LEADER
    return cluster


def test_unclean_elections_are_off_by_default():
    cluster = without_leader()
    cluster.now_ms = 300_000
    cluster.heartbeat(2)
    cluster.controller.tick()
    assert cluster.partition().leader == NO_LEADER


def test_topic_that_allows_unclean_elections_gets_a_leader_at_once():
    cluster = without_leader()
    cluster.configure(ResourceType.TOPIC, "t", UNCLEAN, "true")
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


@pytest.mark.parametrize("name", ["", "100"])
def test_brokers_setting_allows_unclean_elections(name: str):
    cluster = without_leader()
    cluster.configure(ResourceType.BROKER, name, UNCLEAN, "true")
    assert cluster.partition().leader == 2


def test_unclean_elections_at_a_fence():
    cluster = three(elr=False, settings={UNCLEAN: "true"})
    cluster.alter(1, cluster.proposal(0, [1]))
    lose(cluster, 1)
    assert cluster.partition().leader == 2


def test_elections_are_counted_by_their_risk():
    """An election from the in-sync set is none of both."""
    cluster = three(settings={UNCLEAN: "true"})
    cluster.configure(ResourceType.TOPIC, "t", "min.insync.replicas", "3")
    lose(cluster, 1)
    controller = cluster.controller
    assert (cluster.partition().leader, controller.eligible_elections, controller.unclean_elections) == (2, 0, 0)
    lose(cluster, 2)
    lose(cluster, 3)
    cluster.heartbeat(1)
    assert (cluster.partition().leader, controller.eligible_elections, controller.unclean_elections) == (1, 1, 0)

    cluster = without_leader()
    cluster.configure(ResourceType.TOPIC, "t", UNCLEAN, "true")
    assert (cluster.controller.eligible_elections, cluster.controller.unclean_elections) == (0, 1)


def test_preferred_leaders_come_back_at_intervals():
    cluster = three(settings={"leader.imbalance.check.interval.seconds": "5"})
    lose(cluster, 1)
    cluster.heartbeat(1)
    cluster.alter(2, cluster.proposal(0, [1, 2, 3]))
    cluster.now_ms = 4999
    assert cluster.controller.tick() == 1
    assert cluster.partition().leader == 2
    cluster.now_ms = 5000
    cluster.controller.tick()
    assert cluster.partition().leader == 1


def test_balancing_may_be_off():
    off = {"auto.leader.rebalance.enable": "false", "leader.imbalance.check.interval.seconds": "5"}
    cluster = three(settings=off)
    lose(cluster, 1)
    cluster.heartbeat(1)
    cluster.alter(2, cluster.proposal(0, [1, 2, 3]))
    cluster.now_ms = 5000
    cluster.controller.tick()
    assert cluster.partition().leader == 2


def test_many_preferred_leaders_are_elected_in_several_runs():
    """Other requests are served between two runs of 1,000 elections."""
    cluster = SmallCluster(settings={"leader.imbalance.check.interval.seconds": "5"}).with_brokers(1, 2)
    cluster.with_topic(*[(1, 2)] * 1500)
    lose(cluster, 1)
    cluster.heartbeat(1)
    cluster.alter(2, *(cluster.proposal(index, [1, 2]) for index in range(1500)))
    cluster.now_ms = 5000
    assert cluster.controller.tick() == 1
    leaders = [each.leader for each in cluster.image.topics_by_id[TOPIC].partitions.values()]
    assert leaders == [1] * 1000 + [2] * 500
    cluster.now_ms += 1
    cluster.controller.tick()
    assert all(each.leader == 1 for each in cluster.image.topics_by_id[TOPIC].partitions.values())


def test_failed_log_ends_the_answers_and_not_the_timer():
    cluster = three()
    cluster.log.failure = LogOffline("/logs", "the disk is gone")
    found = cluster.controller.alter_partition(proposed(cluster, [1, 2]))
    with pytest.raises(LogOffline):
        found.result()
    cluster.now_ms = SESSION_MS
    assert cluster.controller.tick() > 0


# ---- placement


def test_new_partitions_avoid_leaving_and_cordoned_brokers():
    cluster = three().with_brokers(4)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(2, cordoned_log_dirs=[directory(2)])
    (created,) = cluster.controller.create_topics([NewTopic("new", 4, 2)]).result()
    assert created.error_code is ErrorCode.NONE
    partitions = cluster.image.topics_by_name["new"].partitions.values()
    assert {broker for each in partitions for broker in each.replicas} == {3, 4}
    (refused,) = cluster.controller.create_topics([NewTopic("more", 1, 3)]).result()
    assert refused.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


# ---- directories, producer ids, controllers


def assign(cluster: SmallCluster, directory_id: bytes, index: int = 0, **fields: Any) -> Struct:
    partitions = [RequestPartitionData(partition_index=index)]
    topics = [RequestTopicData(topic_id=fields.pop("topic_id", TOPIC), partitions=partitions)]
    values = {"broker_id": 1, "broker_epoch": cluster.image.brokers[1].broker_epoch} | fields
    directories = [RequestDirectoryData(id=directory_id, topics=topics)]
    request = ASSIGN_REPLICAS_TO_DIRS.request(directories=directories, **values)
    return cluster.controller.assign_replicas_to_dirs(request).result()


def assigned(response: Struct) -> int:
    error: int = response.directories[0].topics[0].partitions[0].error_code
    return error


def test_directory_of_a_replica_is_assigned():
    cluster = SmallCluster().with_brokers(1, log_dirs=LOG_DIRS).with_brokers(2).with_topic((1, 2), (2,))
    assert assigned(assign(cluster, directory(1, 2))) == ErrorCode.NONE
    assert cluster.partition().directories == (directory(1, 2), directory(2))
    assert cluster.partition().partition_epoch == 1
    assert cluster.partition().leader_epoch == 0
    assign(cluster, directory(1, 2))
    assert cluster.partition().partition_epoch == 1
    assert assigned(assign(cluster, directory(1), 7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assigned(assign(cluster, directory(1), topic_id=bytes(16))) == ErrorCode.UNKNOWN_TOPIC_ID
    assert assigned(assign(cluster, directory(1), 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert assign(cluster, directory(1), broker_epoch=9).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_leader_leaves_a_replica_in_an_offline_directory():
    cluster = SmallCluster().with_brokers(1, log_dirs=LOG_DIRS).with_brokers(2).with_topic((1, 2))
    assign(cluster, directory(1, 7))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_replica_in_an_offline_directory_is_not_elected():
    """A move to another directory was reported after the old one had failed, then that the replica stays there."""
    cluster = SmallCluster().with_brokers(1, log_dirs=LOG_DIRS).with_brokers(2).with_topic((1, 2))
    cluster.configure(ResourceType.BROKER, "", "min.insync.replicas", "2")
    lose(cluster, 2)
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assign(cluster, directory(1, 2))
    assert (cluster.partition().leader, cluster.partition().eligible_leader_replicas) == (NO_LEADER, (1, 2))
    assign(cluster, directory(1))
    assert (cluster.partition().leader, cluster.partition().eligible_leader_replicas) == (NO_LEADER, (1, 2))


def test_new_replicas_of_brokers_with_directories_are_unassigned():
    cluster = SmallCluster().with_brokers(1, log_dirs=LOG_DIRS).with_brokers(2)
    cluster.controller.create_topics([NewTopic("new", assignments=((0, (1, 2)),))])
    assert cluster.image.topics_by_name["new"].partitions[0].directories == (UNASSIGNED_DIRECTORY, directory(2))


def test_producer_ids_come_in_blocks():
    cluster = SmallCluster().with_brokers(1)
    epoch = cluster.image.brokers[1].broker_epoch
    for first in (0, 1000):
        request = ALLOCATE_PRODUCER_IDS.request(broker_id=1, broker_epoch=epoch)
        found = cluster.controller.allocate_producer_ids_for(request).result()
        assert (found.producer_id_start, found.producer_id_len) == (first, 1000)
    request = ALLOCATE_PRODUCER_IDS.request(broker_id=1, broker_epoch=epoch + 1)
    refused = cluster.controller.allocate_producer_ids_for(request).result()
    assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_controllers_register():
    cluster = SmallCluster()
    request = CONTROLLER_REGISTRATION.request(controller_id=100, incarnation_id=bytes(16))
    assert cluster.controller.register_controller(request).result().error_code == ErrorCode.NONE
    assert 100 in cluster.image.controllers
    old = SmallCluster(elr=False, level=14)
    assert old.controller.register_controller(request).result().error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("highest", "message"),
    [(1, "Broker 2 only supports versions 0-1"), (0, "Broker 2 does not support this feature.")],
)
def test_feature_levels_have_to_suit_every_broker(highest: int, message: str):
    cluster = SmallCluster().with_brokers(1)
    features = [each for each in cluster.registration(2).features if each.name != "share.version"]
    features.append(Feature(name="share.version", min_supported_version=0, max_supported_version=highest))
    cluster.with_brokers(2, features=features)
    update = FeatureUpdate("share.version", 2)
    others = cluster.controller.features_of_others()
    with pytest.raises(Refused, match=message) as refused:
        update_features(cluster.image, [update], node_id=100, kraft_version=1, min_insync_replicas=1, others=others)
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert update_features(cluster.image, [update], node_id=100, kraft_version=1, min_insync_replicas=1).records


# ---- answers


def proposed(cluster: SmallCluster, isr: list[int]) -> Struct:
    topics = [AlterTopic(topic_id=TOPIC, partitions=[cluster.proposal(0, isr)])]
    epoch = cluster.image.brokers[1].broker_epoch
    return ALTER_PARTITION.request(broker_id=1, broker_epoch=epoch, topics=topics)


def test_answers_wait_for_the_disk():
    """Also one without records of its own: it may depend on those before it."""
    cluster = three()
    cluster.syncs = []
    first = cluster.controller.alter_partition(proposed(cluster, [1, 2]))
    refused = cluster.controller.alter_partition(proposed(cluster, [2, 3]))
    assert not first.done
    assert not refused.done
    cluster.syncs.pop().resolve(None)
    cluster.syncs.pop().resolve(None)
    assert altered(first.result()).error_code == ErrorCode.NONE
    assert altered(refused.result()).error_code == ErrorCode.INVALID_REQUEST
    assert cluster.controller.durable_offset == cluster.log.end_offset


def test_one_sync_serves_all_decisions_of_a_turn():
    """Each of them appends, and waits for the disk: two syncs would double the time of every answer."""
    cluster, turn = three(), []
    cluster.controller, cluster.syncs = cluster.start(soon=turn.append), []
    created = cluster.controller.create_topics([NewTopic("new", 1, 1)])
    registered = cluster.controller.register_broker(cluster.registration(4))
    assert cluster.syncs == []
    turn.pop()()
    assert turn == []
    (sync,) = cluster.syncs
    sync.resolve(None)
    assert (created.done, registered.done, len(cluster.syncs)) == (True, True, 1)


def test_heartbeats_without_change_need_no_sync():
    cluster = three()
    cluster.controller.when_durable()
    cluster.syncs = []
    cluster.heartbeat(1)
    assert not cluster.syncs


def test_many_changes_are_several_batches():
    """A batch has at most 10,000 records, as in Kafka."""
    cluster = SmallCluster().with_brokers(1, 2)
    cluster.with_topic(*[(1, 2)] * 12_000)
    cluster.log.batches.clear()
    cluster.now_ms = SESSION_MS - 1
    cluster.heartbeat(2)
    cluster.now_ms = SESSION_MS
    cluster.log.batches.clear()
    cluster.controller.tick()
    assert cluster.log.batches == [10_000, 2_001]
    assert all(each.leader == 2 for each in cluster.image.topics_by_id[TOPIC].partitions.values())
