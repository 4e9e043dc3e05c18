"""The constants of messages, records and files, each compared with Kafka's own (tests/data/facts/constants.tsv)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

import pytest

from broker.access.authorization.operations import NOT_ASKED
from broker.coordinators.share import sessions as share_sessions
from broker.coordinators.share.acknowledgement import Acknowledge
from broker.coordinators.transaction.producer_ids import BLOCK_SIZE
from broker.handlers import delete_records, find_coordinator, list_offsets
from broker.replicas import fetch_attempt, fetch_session
from broker.replicas.fast_path import single_list_offsets
from controller import metadata_log, quorum_state
from controller.endpoints import SECURITY_PROTOCOLS
from coordinator.group import offset_commit, offset_fetch
from coordinator.group.consumer import checks as consumer_checks
from coordinator.group.modern import checks as modern_checks
from coordinator.share.state import UNINITIALIZED, UNKNOWN_COUNT
from coordinator.transaction.state import TransactionState
from metadata import client_quotas, create_topics, features, registration, releases, replay, topic_names
from metadata import partition_registration as partitions
from protocol import record_frame
from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.messages.coordinator import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from protocol.primitives import ZERO_UUID
from protocol.records import batch
from protocol.schema import Message
from security import acl
from security.sasl import scram_credential
from storage import checkpoints, directory_names
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.log.tasks import DELETED_SUFFIX
from storage.producers.state import BATCHES_KEPT
from storage.segment import files
from tests.support.kafka_constants import Value, kafka_constants, members
from tests.unit.facts.compared_enums import ENUMS, OTHER_ENUMS, Compared

ROOT = Path(__file__).parents[3]


def records(types: Mapping[int, tuple[Message, Message]]) -> dict[str, int]:
    """Return the numbers of record types by Kafka's names, such as SHARE_SNAPSHOT."""
    return {kafka_name(key.name.removesuffix("Key")): number for number, (key, _) in types.items()}


def kafka_name(name: str) -> str:
    """Return ShareSnapshot as SHARE_SNAPSHOT."""
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in name).removeprefix("_")


def suffix(name: str) -> str:
    """Return the last part of a directory's name, such as -delete."""
    return name[name.rindex("-") :]


PLAIN: Mapping[str, Mapping[str, Value]] = {
    "clients.consumer.internals.Acknowledgements": {"ACKNOWLEDGE_TYPE_GAP": Acknowledge.GAP},
    "common.DirectoryId": {
        "MIGRATING": partitions.MIGRATING_DIRECTORY,
        "UNASSIGNED": partitions.UNASSIGNED_DIRECTORY,
        "LOST": partitions.LOST_DIRECTORY,
    },
    "common.Uuid": {"METADATA_TOPIC_ID": metadata_log.TOPIC_ID, "ZERO_UUID": ZERO_UUID},
    "common.internals.Topic": {
        "CLUSTER_METADATA_TOPIC_NAME": metadata_log.TOPIC,
        "GROUP_METADATA_TOPIC_NAME": topic_names.CONSUMER_OFFSETS,
        "MAX_NAME_LENGTH": topic_names.MAX_NAME_LENGTH,
        "SHARE_GROUP_STATE_TOPIC_NAME": topic_names.SHARE_GROUP_STATE,
        "TRANSACTION_STATE_TOPIC_NAME": topic_names.TRANSACTION_STATE,
    },
    "common.quota.ClientQuotaEntity": {
        "CLIENT_ID": client_quotas.CLIENT_ID,
        "IP": client_quotas.IP,
        "USER": client_quotas.USER,
    },
    "common.record.internal.DefaultRecordBatch": {
        "ATTRIBUTES_OFFSET": batch.CRC_START,
        "COMPRESSION_CODEC_MASK": batch.CODEC_MASK,
        "CONTROL_FLAG_MASK": batch.CONTROL_BIT,
        "DELETE_HORIZON_FLAG_MASK": batch.DELETE_HORIZON_BIT,
        "MAGIC_OFFSET": batch.MAGIC_OFFSET,
        "RECORD_BATCH_OVERHEAD": batch.HEADER_SIZE,
        "TIMESTAMP_TYPE_MASK": batch.TIMESTAMP_TYPE_BIT,
        "TRANSACTIONAL_FLAG_MASK": batch.TRANSACTIONAL_BIT,
    },
    "common.record.internal.RecordBatch": {
        "NO_PARTITION_LEADER_EPOCH": batch.NO_LEADER_EPOCH,
        "NO_PRODUCER_EPOCH": batch.NO_PRODUCER_EPOCH,
        "NO_PRODUCER_ID": batch.NO_PRODUCER_ID,
        "NO_SEQUENCE": batch.NO_SEQUENCE,
        "NO_TIMESTAMP": batch.NO_TIMESTAMP,
    },
    "common.requests.ConsumerGroupHeartbeatRequest": {
        "CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION": consumer_checks.FIRST_VERSION_WITH_CLIENT_IDS,
        "JOIN_GROUP_MEMBER_EPOCH": modern_checks.JOINING_EPOCH,
        "LEAVE_GROUP_MEMBER_EPOCH": modern_checks.LEAVING_EPOCH,
        "LEAVE_GROUP_STATIC_MEMBER_EPOCH": modern_checks.STATIC_LEAVE_EPOCH,
    },
    "common.requests.CreateTopicsRequest": {
        "NO_NUM_PARTITIONS": create_topics.USE_DEFAULT,
        "NO_REPLICATION_FACTOR": create_topics.USE_DEFAULT,
    },
    "common.requests.DeleteRecordsRequest": {"HIGH_WATERMARK": delete_records.HIGH_WATERMARK},
    "common.requests.DescribeClientQuotasRequest": {
        "MATCH_TYPE_DEFAULT": client_quotas.DEFAULT,
        "MATCH_TYPE_EXACT": client_quotas.EXACT,
        "MATCH_TYPE_SPECIFIED": client_quotas.SPECIFIED,
    },
    "common.requests.FetchMetadata": {
        "FINAL_EPOCH": fetch_session.FINAL_EPOCH,
        "INITIAL_EPOCH": fetch_session.INITIAL_EPOCH,
        "INVALID_SESSION_ID": fetch_session.NO_SESSION,
    },
    "common.requests.ListOffsetsRequest": {
        "EARLIEST_LOCAL_TIMESTAMP": list_offsets.EARLIEST_LOCAL,
        "EARLIEST_PENDING_UPLOAD_TIMESTAMP": list_offsets.EARLIEST_PENDING_UPLOAD,
        "EARLIEST_TIMESTAMP": single_list_offsets.EARLIEST,
        "LATEST_TIERED_TIMESTAMP": list_offsets.LATEST_TIERED,
        "LATEST_TIMESTAMP": single_list_offsets.LATEST,
        "MAX_TIMESTAMP": list_offsets.MAX_TIMESTAMP,
    },
    "common.requests.MetadataResponse": {
        "AUTHORIZED_OPERATIONS_OMITTED": NOT_ASKED,
        "NO_LEADER_ID": partitions.NO_LEADER,
    },
    "common.requests.OffsetCommitRequest": {
        "DEFAULT_RETENTION_TIME": offset_commit.NO_RETENTION_TIME,
        "DEFAULT_TIMESTAMP": offset_commit.NO_TIMESTAMP,
    },
    "common.requests.OffsetFetchResponse": {"INVALID_OFFSET": offset_fetch.NO_OFFSET},
    "common.requests.ShareGroupHeartbeatRequest": {
        "JOIN_GROUP_MEMBER_EPOCH": modern_checks.JOINING_EPOCH,
        "LEAVE_GROUP_MEMBER_EPOCH": modern_checks.LEAVING_EPOCH,
    },
    "common.requests.ShareRequestMetadata": {
        "FINAL_EPOCH": share_sessions.FINAL_EPOCH,
        "INITIAL_EPOCH": share_sessions.INITIAL_EPOCH,
    },
    "common.requests.StreamsGroupHeartbeatRequest": {
        "JOIN_GROUP_MEMBER_EPOCH": modern_checks.JOINING_EPOCH,
        "LEAVE_GROUP_MEMBER_EPOCH": modern_checks.LEAVING_EPOCH,
        "LEAVE_GROUP_STATIC_MEMBER_EPOCH": modern_checks.STATIC_LEAVE_EPOCH,
    },
    "common.resource.Resource": {"CLUSTER_NAME": acl.CLUSTER_NAME},
    "common.resource.ResourcePattern": {"WILDCARD_RESOURCE": acl.WILDCARD},
    "metadata.LeaderConstants": {
        "NO_LEADER": partitions.NO_LEADER,
        "NO_LEADER_CHANGE": replay.NO_LEADER_CHANGE,
    },
    "metadata.authorizer.StandardAuthorizerData": {
        "WILDCARD": acl.WILDCARD,
        "WILDCARD_PRINCIPAL": acl.ANY_PRINCIPAL,
    },
    "metadata.properties.MetaPropertiesEnsemble": {"META_PROPERTIES_NAME": checkpoints.META_PROPERTIES},
    "raft.FileQuorumStateStore": {"DEFAULT_FILE_NAME": quorum_state.FILE_NAME},
    "server.common.ProducerIdsBlock": {"PRODUCER_ID_BLOCK_SIZE": BLOCK_SIZE},
    "server.common.serialization.AbstractApiMessageSerde": {"DEFAULT_FRAME_VERSION": record_frame.FRAME_VERSION},
    "server.share.persister.PartitionFactory": {
        "UNINITIALIZED_DELIVERY_COMPLETE_COUNT": UNKNOWN_COUNT,
        "UNINITIALIZED_START_OFFSET": UNINITIALIZED,
    },
    "storage.internals.checkpoint.CleanShutdownFileHandler": {"CLEAN_SHUTDOWN_FILE_NAME": checkpoints.CLEAN_SHUTDOWN},
    "storage.internals.checkpoint.LeaderEpochCheckpointFile": {"LEADER_EPOCH_CHECKPOINT_FILENAME": LEADER_EPOCHS},
    "storage.internals.checkpoint.PartitionMetadataFile": {
        "PARTITION_METADATA_FILE_NAME": checkpoints.PARTITION_METADATA
    },
    "storage.internals.log.LogCleanerManager": {"OFFSET_CHECKPOINT_FILE": checkpoints.CLEANER_OFFSETS},
    "storage.internals.log.LogFileUtils": {
        "CLEANED_FILE_SUFFIX": files.CLEANED_SUFFIX,
        "DELETED_FILE_SUFFIX": DELETED_SUFFIX,
        "DELETE_DIR_SUFFIX": suffix(directory_names.delete_name("t", 0, "0")),
        "FUTURE_DIR_SUFFIX": suffix(directory_names.future_name("t", 0, "0")),
        "INDEX_FILE_SUFFIX": files.INDEX_SUFFIX,
        "LOG_FILE_SUFFIX": files.LOG_SUFFIX,
        "PRODUCER_SNAPSHOT_FILE_SUFFIX": files.SNAPSHOT_SUFFIX,
        "STRAY_DIR_SUFFIX": suffix(directory_names.stray_name("t", 0, "0")),
        "SWAP_FILE_SUFFIX": files.SWAP_SUFFIX,
        "TIME_INDEX_FILE_SUFFIX": files.TIME_INDEX_SUFFIX,
        "TXN_INDEX_FILE_SUFFIX": files.TXN_INDEX_SUFFIX,
    },
    "storage.internals.log.LogManager": {
        "LOCK_FILE_NAME": checkpoints.LOCK,
        "LOG_START_OFFSET_CHECKPOINT_FILE": checkpoints.LOG_START_OFFSETS,
        "RECOVERY_POINT_CHECKPOINT_FILE": checkpoints.RECOVERY_POINTS,
    },
    "storage.internals.log.ProducerStateEntry": {"NUM_BATCHES_TO_RETAIN": BATCHES_KEPT},
}
"""Our values by Kafka's class and name."""

NUMBERS: Mapping[tuple[str, str], Mapping[str, Value]] = {
    ("clients.consumer.AcknowledgeType", "id"): {
        each.name: each for each in Acknowledge if each is not Acknowledge.GAP
    },
    ("common.IsolationLevel", "id"): {
        "READ_COMMITTED": fetch_attempt.READ_COMMITTED,
        "READ_UNCOMMITTED": single_list_offsets.READ_UNCOMMITTED,
    },
    ("common.requests.FindCoordinatorRequest$CoordinatorType", "id"): {
        "GROUP": find_coordinator.GROUP,
        "TRANSACTION": find_coordinator.TRANSACTION,
        "SHARE": find_coordinator.SHARE,
    },
    ("common.security.auth.SecurityProtocol", "id"): SECURITY_PROTOCOLS,
    ("coordinator.group.generated.CoordinatorRecordType", "id"): records(GROUP_RECORDS),
    ("coordinator.share.generated.CoordinatorRecordType", "id"): records(SHARE_STATE_RECORDS),
    ("coordinator.transaction.generated.CoordinatorRecordType", "id"): records(TRANSACTION_RECORDS),
    ("common.metadata.MetadataRecordType", "id"): {
        kafka_name(each.name): number for number, each in METADATA_RECORDS.items()
    },
    ("coordinator.transaction.TransactionState", "stateName"): {each.name: each.text for each in TransactionState},
    ("common.record.TimestampType", "id"): {
        "NO_TIMESTAMP_TYPE": batch.NO_TIMESTAMP,
        "CREATE_TIME": batch.CREATE_TIME,
        "LOG_APPEND_TIME": batch.LOG_APPEND_TIME,
    },
    ("metadata.BrokerRegistrationFencingChange", "value"): {
        "NONE": 0,
        "FENCE": registration.FENCE,
        "UNFENCE": registration.UNFENCE,
    },
}
"""Our values of all members of an enum of Kafka for which we have none. NONE stands for an absent field."""

#: Kafka's classes with the levels of a feature: the beginning of their names, and the feature's name.
LEVELS = {
    "server.common.EligibleLeaderReplicasVersion": features.ELIGIBLE_LEADER_REPLICAS,
    "server.common.GroupVersion": features.GROUP_VERSION,
    "server.common.KRaftVersion": features.KRAFT_VERSION,
    "server.common.ShareVersion": features.SHARE_VERSION,
    "server.common.StreamsVersion": features.STREAMS_VERSION,
    "server.common.TransactionVersion": features.TRANSACTION_VERSION,
}
METADATA_VERSIONS = "server.common.MetadataVersion"
#: The first metadata.version that Kafka 4.4 has not released.
UNRELEASED_LEVEL = 34


@pytest.mark.parametrize("compared", ENUMS, ids=lambda each: each.class_name)
def test_enums_have_the_values_of_kafka(compared: Compared) -> None:
    """Each member has Kafka's number or name, and only the members named here are missing."""
    theirs = members(compared.class_name, compared.part)
    expected = {compared.other_names.get(name, name): value for name, value in theirs.items()}

    assert {each.name: each.value for each in compared.ours} == {
        name: value for name, value in expected.items() if name not in compared.lacking
    }
    assert compared.lacking <= theirs.keys()


@pytest.mark.parametrize("class_name", PLAIN)
def test_constants_have_the_values_of_kafka(class_name: str) -> None:
    """Each by the name of Kafka's constant."""
    for name, value in PLAIN[class_name].items():
        assert kafka_constants()[class_name, name].value() == value, name


@pytest.mark.parametrize(("class_name", "part"), NUMBERS)
def test_numbers_of_whole_enums_are_those_of_kafka(class_name: str, part: str) -> None:
    assert NUMBERS[class_name, part] == members(class_name, part)


@pytest.mark.parametrize("class_name", LEVELS)
def test_feature_levels_are_those_of_kafka(class_name: str) -> None:
    """The name of the feature, its lowest and its highest level."""
    name = LEVELS[class_name]
    levels = members(class_name, "featureLevel").values()

    assert kafka_constants()[class_name, "FEATURE_NAME"].value() == name
    assert (min(levels), max(levels)) == features.SUPPORTED_FEATURES[name]


def test_features_are_those_of_kafka() -> None:
    """Without those of Kafka's own tests."""
    theirs = {str(name) for name in members("server.common.Feature", "name").values() if "test" not in str(name)}

    assert {*theirs, features.METADATA_VERSION} == features.SUPPORTED_FEATURES.keys()
    assert kafka_constants()[METADATA_VERSIONS, "FEATURE_NAME"].value() == features.METADATA_VERSION


def test_releases_have_the_levels_of_kafka() -> None:
    """Each metadata.version by its release, and those that changed the records."""
    levels = members(METADATA_VERSIONS, "featureLevel")
    names = members(METADATA_VERSIONS, "ibpVersion")
    changed = members(METADATA_VERSIONS, "didMetadataChange")
    released = {name: level for name, level in levels.items() if level != UNRELEASED_LEVEL}

    assert {str(names[name]): level for name, level in released.items()} == {
        release: releases.level_of(release) for release in releases.RELEASES
    }
    # the lowest level has none before it
    assert {level for name, level in released.items() if changed[name] == "true"} - {
        features.MIN_METADATA_VERSION
    } == set(features.CHANGED_METADATA_LEVELS)
    assert (min(released.values()), max(released.values())) == features.SUPPORTED_FEATURES[features.METADATA_VERSION]


def test_scram_has_the_iterations_of_kafka() -> None:
    class_name = "common.security.scram.internals.ScramMechanism"

    assert set(members(class_name, "minIterations").values()) == {scram_credential.MIN_ITERATIONS}
    assert set(members(class_name, "maxIterations").values()) == {scram_credential.MAX_ITERATIONS}
    assert members(class_name, "mechanismName") == {
        each.name: each.sasl_name for each in scram_credential.ScramMechanism
    }


def test_every_class_of_the_table_is_compared() -> None:
    compared = {each.class_name for each in ENUMS} | {*PLAIN, *LEVELS, METADATA_VERSIONS, "server.common.Feature"}

    assert {class_name for class_name, _ in kafka_constants()} == compared | {class_name for class_name, _ in NUMBERS}


@pytest.mark.parametrize("room", ["config", "coordinator", "metadata", "protocol", "replication", "security"])
def test_every_enum_of_numbers_is_compared(room: str) -> None:
    """A new enum must join the table, or the list of those that other tests compare."""
    compared = {*(each.ours for each in ENUMS), *OTHER_ENUMS}
    for path in (ROOT / room).rglob("*.py"):
        if "IntEnum" in path.read_text(encoding="utf-8"):
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            named = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, IntEnum)]

            assert {each for each in named if each.__module__ == module.__name__} <= compared
