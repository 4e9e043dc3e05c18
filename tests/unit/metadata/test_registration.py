"""The records of a node's life, compared with those of a real node."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from metadata.create_topics import NewTopic
from metadata.decision import Refused
from metadata.framing import encode_record
from metadata.image import Endpoint, MetadataImage
from metadata.loading import MetadataLoader
from metadata.partition_registration import LeaderRecoveryState
from metadata.registration import (
    NodeIdentity,
    abort_transaction,
    assign_directories,
    bootstrap_records,
    cordon_directories,
    feature_records,
    leave,
    register_broker,
    register_controller,
    unfence_broker,
    unregister_controller,
)
from metadata.replay import replay_all
from metadata.snapshot import image_records
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ConfigRecord
from tests.support.images import DIRECTORY, cluster, with_topics
from tests.support.metadata_log import CLEAN_SHUTDOWN, as_dumped, dumped_records, each_record, stored_values

DUMPED = dumped_records(CLEAN_SHUTDOWN / "__cluster_metadata-0.decoded.txt")


def uuid_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def test_bootstrap_equals_kafkas():
    """Features and min.insync.replicas as one transaction, record for record."""
    records = bootstrap_records(feature_records())

    assert [as_dumped(record) for record in records] == [DUMPED[offset] for offset in range(1, 10)]


def test_bootstrap_has_the_controllers_min_insync_replicas():
    (setting,) = (each.value for each in bootstrap_records(feature_records(), 2) if each.message is ConfigRecord)
    assert (setting.resource_name, setting.name, setting.value) == ("", "min.insync.replicas", "2")


def test_formatted_features_equal_kafkas():
    """The content of bootstrap.checkpoint, byte for byte."""
    stored = [value for _, value in stored_values(CLEAN_SHUTDOWN / "bootstrap.checkpoint")]

    assert [encode_record(record) for record in feature_records()] == stored


def with_levels_of_4_4(dumped: dict[str, Any]) -> dict[str, Any]:
    """Return a registration that 4.3.1 wrote, as 4.4.0 writes it."""
    raised = {"metadata.version": (30, 33), "share.version": (1, 2)}
    features = [dict(each) for each in dumped["data"]["features"]]
    for each in features:
        if each["name"] in raised:
            before, each["maxSupportedVersion"] = each["maxSupportedVersion"], raised[each["name"]][1]
            assert before == raised[each["name"]][0]
    return {**dumped, "data": {**dumped["data"], "features": features}}


def test_registrations_equal_kafkas():
    """Except for the order of the features, which in Kafka is that of a hash map. 4.4 has newer levels than 4.3."""
    image = cluster(brokers=0)
    controller = with_levels_of_4_4(DUMPED[11])
    node = NodeIdentity(1, uuid_bytes(controller["data"]["incarnationId"]))
    (record,) = register_controller(image, node, [Endpoint("CONTROLLER", "127.0.0.1", 29193, 0)])
    assert as_dumped(record) == controller

    broker = with_levels_of_4_4(DUMPED[12])
    node = NodeIdentity(1, uuid_bytes(broker["data"]["incarnationId"]))
    directories = [uuid_bytes(text) for text in broker["data"]["logDirs"]]
    (record,) = register_broker(image, node, 12, [Endpoint("PLAINTEXT", "127.0.0.1", 29192, 0)], None, directories)
    ours = as_dumped(record)
    for each in (ours, broker):
        each["data"]["features"].sort(key=lambda feature: feature["name"])
    assert ours == broker


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(), NewTopic("orders", 2, 1))


def test_controlled_shutdown_equals_kafkas(image: MetadataImage):
    """Controlled shutdown, leaderless partitions with an eligible leader, fenced."""
    records = [as_dumped(record) for record in each_record(leave(image, 1))]
    recorded = [DUMPED[offset] for offset in (271, 272, 296)]

    assert [(r["type"], r["version"]) for r in records] == [
        (r["type"], r["version"]) for r in [recorded[0], recorded[1], recorded[1], recorded[2]]
    ]
    without_topic = {key: value for key, value in records[1]["data"].items() if key != "topicId"}
    assert without_topic.items() <= recorded[1]["data"].items()


def test_start_after_a_clean_stop(image: MetadataImage):
    """It leads again, two leader epochs later, and eligible leaders are cleared."""
    replay_all(image, leave(image, 1))
    assert image.brokers[1].fenced
    replay_all(image, register_broker(image, NodeIdentity(1, bytes(16)), 50, [], None, [DIRECTORY]))
    records = list(each_record(unfence_broker(image, 1)))
    replay_all(image, records)
    partition = image.topics_by_name["orders"].partitions[1]

    assert (
        as_dumped(records[1])["data"].items()
        >= {
            "isr": [1],
            "leader": 1,
            "eligibleLeaderReplicas": [],
            "lastKnownElr": [],
        }.items()
    )
    assert image.brokers[1].is_active
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


def test_start_after_a_crash(image: MetadataImage):
    """It still leads in the metadata: a new leader epoch shows that records may be lost."""
    replay_all(image, register_broker(image, NodeIdentity(1, bytes(16)), 50, [], None, [DIRECTORY]))
    replay_all(image, unfence_broker(image, 1))
    partition = image.topics_by_name["orders"].partitions[0]

    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1,))


def test_last_known_leader_is_elected(image: MetadataImage):
    """The state after an unclean stop of Kafka: no replica in sync or eligible, but a last leader."""
    partition = image.topics_by_name["orders"].partitions[0]
    image.topics_by_name["orders"].partitions[0] = type(partition)((1,), (), -1, 3, 4, last_known_elr=(1,))
    replay_all(image, unfence_broker(image, 1))

    assert image.topics_by_name["orders"].partitions[0].leader == 1


def test_replica_out_of_sync_does_not_lead():
    """Another broker has newer records."""
    image = with_topics(cluster(brokers=2), NewTopic("t", 1, 2))
    replay_all(image, leave(image, 2))
    partition = image.topics_by_name["t"].partitions[0]
    image.topics_by_name["t"].partitions[0] = type(partition)((1, 2), (2,), -1, 3, 4)
    replay_all(image, unfence_broker(image, 1))

    assert image.topics_by_name["t"].partitions[0].leader == -1


def test_last_known_leader_recovers(image: MetadataImage):
    """It may lack committed records, and the metadata show it (KIP-704)."""
    partition = image.topics_by_name["orders"].partitions[0]
    image.topics_by_name["orders"].partitions[0] = type(partition)((1,), (), -1, 3, 4, last_known_elr=(1,))
    replay_all(image, unfence_broker(image, 1))

    assert image.topics_by_name["orders"].partitions[0].leader_recovery_state is LeaderRecoveryState.RECOVERING


@pytest.mark.parametrize(("min_isr", "eligible"), [("1", ()), ("2", (1,))])
def test_replica_that_leaves_stays_eligible_below_min_isr(min_isr: str, eligible: tuple[int, ...]):
    """The topic's min.insync.replicas decides whether it may lead later (KIP-966)."""
    image = with_topics(cluster(brokers=2), NewTopic("t", 1, 2, configs={"min.insync.replicas": min_isr}))
    replay_all(image, leave(image, 1))
    partition = image.topics_by_name["t"].partitions[0]

    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2,), eligible)


def test_without_eligible_leaders_the_last_replica_stays_in_sync(image: MetadataImage):
    """Before KIP-966 the in-sync set never becomes empty."""
    del image.features["eligible.leader.replicas.version"]
    replay_all(image, leave(image, 1))
    partition = image.topics_by_name["orders"].partitions[0]

    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, (1,), ())


def test_directories_are_assigned_once():
    """Only changes are written, and nothing for deleted partitions."""
    image = with_topics(cluster(log_directories=(DIRECTORY, b"another-one-16-b")), NewTopic("t", 2, 1))
    topic = image.topics_by_name["t"]
    placed = [(topic.topic_id, 0, DIRECTORY), (topic.topic_id, 9, DIRECTORY), (b"gone" * 4, 0, DIRECTORY)]
    records = assign_directories(image, 1, placed)
    replay_all(image, records)

    assert len(records) == 1
    assert topic.partitions[0].directories == (DIRECTORY,)
    assert topic.partitions[0].leader_epoch == 0
    assert assign_directories(image, 1, placed) == []


def test_old_metadata_versions_have_no_controller_registration():
    """Versions before 3.6-IV1 have no transactions either."""
    image = MetadataImage(features={"metadata.version": 11})

    assert register_controller(image, NodeIdentity(1, bytes(16)), []) == []
    assert bootstrap_records(feature_records({"metadata.version": 11})) == feature_records({"metadata.version": 11})


def test_another_controller_is_unregistered():
    """KIP-1312: afterwards it is not in the image, and so not in its snapshot. The active controller stays."""
    image = cluster()
    image.features["metadata.version"] = 33
    for node_id in (1, 7):
        replay_all(image, register_controller(image, NodeIdentity(node_id, bytes(16)), []))
    (record,) = unregister_controller(image, 7, active_id=1)
    assert encode_record(record) == b"\x01\x1d\x00\x00\x00\x00\x07\x00"
    replay_all(image, [record])
    assert list(image.controllers) == [1]
    replay_all(image, [record])
    loader = MetadataLoader()
    for each in image_records(image):
        loader.feed(each)
    assert loader.image == image


@pytest.mark.parametrize(
    ("level", "controller_id", "code", "message"),
    [
        (33, 1, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (30, 1, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (33, 7, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 7 is not currently registered."),
        (
            32,
            7,
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        ),
    ],
)
def test_controllers_that_cannot_be_unregistered(level: int, controller_id: int, code: ErrorCode, message: str):
    """In Apache Kafka's order and words."""
    image = cluster()
    image.features["metadata.version"] = level
    with pytest.raises(Refused) as refused:
        unregister_controller(image, controller_id, active_id=1)
    assert (refused.value.error_code, refused.value.message) == (code, message)


def test_transaction_left_open_is_aborted():
    """The next leader aborts it, and the log can be loaded."""
    loader = MetadataLoader()
    for record in bootstrap_records(feature_records())[:-1]:
        loader.feed(record)
    assert loader.in_transaction
    for record in abort_transaction(loader.image):
        loader.feed(record)

    assert not loader.in_transaction


def test_cordoned_directories_are_recorded_when_they_change():
    """The record and its version are those of a real node; before metadata.version 4.3 there is none."""
    image = cluster(log_directories=(DIRECTORY, b"another directory"[:16]))
    (record,) = cordon_directories(image, 1, [DIRECTORY])
    assert (record.version, record.value.cordoned_log_dirs) == (3, [DIRECTORY])
    encode_record(record)
    replay_all(image, [record])
    assert image.brokers[1].cordoned_log_directories == (DIRECTORY,)
    assert not image.brokers[1].is_cordoned
    assert cordon_directories(image, 1, [DIRECTORY]) == []
    (record,) = cordon_directories(image, 1, [])
    assert record.value.cordoned_log_dirs == []
    assert cordon_directories(image, 7, [DIRECTORY]) == []
    other = cluster(log_directories=(DIRECTORY,))
    (first,) = cordon_directories(other, 1, [])  # a first report is recorded
    replay_all(other, [first])
    assert cordon_directories(other, 1, []) == []
    image.features["metadata.version"] = 29
    assert cordon_directories(image, 1, []) == []
