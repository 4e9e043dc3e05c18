"""Enums of messages and records, each with Kafka's enum of the same values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from broker.coordinators.share.runs import RecordState
from broker.process.state import BrokerState
from config.alter import Operation as AlterOperation
from config.describe import ConfigSource
from config.values import ConfigType
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer import member as consumer_member
from coordinator.group.consumer.group import ConsumerGroupState
from coordinator.group.share.group import ShareGroupState
from coordinator.group.streams import member as streams_member
from coordinator.group.streams.configured import Status
from coordinator.group.streams.group import StreamsGroupState
from coordinator.transaction.state import TransactionState
from metadata import partition_registration as partitions
from metadata.elections import ElectionType
from metadata.feature_updates import UpgradeType
from metadata.image import ResourceType as ConfigResourceType
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.records.compression import Codec
from protocol.records.control import ControlType
from security import acl
from security.sasl import scram_credential

NO_NAMES: Mapping[str, str] = {}


class Compared(NamedTuple):
    """An enum of ours. `other_names`: our names by Kafka's; `lacking`: Kafka's members that ours does not need."""

    ours: type[Enum]
    class_name: str
    part: str
    lacking: frozenset[str] = frozenset()
    other_names: Mapping[str, str] = NO_NAMES


def without(*names: str) -> frozenset[str]:
    return frozenset(names)


ENUMS = (
    Compared(AlterOperation, "clients.admin.AlterConfigOp$OpType", "id"),
    Compared(UpgradeType, "clients.admin.FeatureUpdate$UpgradeType", "code", without("UNKNOWN")),
    Compared(ElectionType, "common.ElectionType", "value"),
    Compared(acl.Operation, "common.acl.AclOperation", "code", without("UNKNOWN")),
    Compared(acl.Permission, "common.acl.AclPermissionType", "code", without("UNKNOWN")),
    Compared(acl.PatternType, "common.resource.PatternType", "code", without("UNKNOWN")),
    Compared(acl.ResourceType, "common.resource.ResourceType", "code", without("UNKNOWN")),
    Compared(ConfigResourceType, "common.config.ConfigResource$Type", "id", without("UNKNOWN")),
    Compared(Codec, "common.record.internal.CompressionType", "id"),
    Compared(ControlType, "common.record.internal.ControlRecordType", "type"),
    Compared(
        ConfigSource,
        "common.requests.DescribeConfigsResponse$ConfigSource",
        "id",
        without("UNKNOWN"),
        {
            "TOPIC_CONFIG": "DYNAMIC_TOPIC_CONFIG",
            "CLIENT_METRICS_CONFIG": "DYNAMIC_CLIENT_METRICS_CONFIG",
            "GROUP_CONFIG": "DYNAMIC_GROUP_CONFIG",
        },
    ),
    Compared(ConfigType, "common.requests.DescribeConfigsResponse$ConfigType", "id", without("UNKNOWN")),
    Compared(Status, "common.requests.StreamsGroupHeartbeatResponse$Status", "code"),
    Compared(scram_credential.ScramMechanism, "common.security.scram.internals.ScramMechanism", "type"),
    Compared(GroupState, "coordinator.group.classic.ClassicGroupState", "name"),
    Compared(consumer_member.MemberState, "coordinator.group.modern.MemberState", "value"),
    # a group without members or offsets is removed, and clients see Dead for a group that does not exist
    Compared(
        ConsumerGroupState,
        "coordinator.group.modern.consumer.ConsumerGroup$ConsumerGroupState",
        "name",
        without("DEAD"),
    ),
    Compared(
        ShareGroupState,
        "coordinator.group.modern.share.ShareGroup$ShareGroupState",
        "name",
        without("DEAD", "UNKNOWN"),
    ),
    Compared(streams_member.MemberState, "coordinator.group.streams.MemberState", "value"),
    Compared(StreamsGroupState, "coordinator.group.streams.StreamsGroup$StreamsGroupState", "name", without("DEAD")),
    Compared(TransactionState, "coordinator.transaction.TransactionState", "id"),
    Compared(
        BrokerState,
        "metadata.BrokerState",
        "value",
        without("RECOVERY", "PENDING_CONTROLLED_SHUTDOWN", "UNKNOWN"),
    ),
    Compared(partitions.LeaderRecoveryState, "metadata.LeaderRecoveryState", "value"),
    Compared(RecordState, "server.share.fetch.RecordState", "id"),
)

#: Enums that other tests compare with Kafka's.
OTHER_ENUMS = {
    ApiKey: "tests/unit/protocol/test_registry.py",
    ErrorCode: "tests/unit/protocol/test_error_codes.py",
}
