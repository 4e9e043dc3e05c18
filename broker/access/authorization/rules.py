"""What has to be allowed for each API: the table by which all requests are checked, as Apache Kafka 4.3 checks them.

An API without a row cannot be served by a broker with an authorizer; `tests/unit/broker/access/authorization` walks
them all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.access.authorization import (
    groups,
    resources,
    shares,
    topics,
    transactions,
)
from broker.access.authorization.rule import (
    Rule,
    cluster,
    each,
    free,
    kafka_text,
    one,
    to_named,
    to_topic,
    together,
    told,
)
from security.acl import Operation, ResourceType

_ALTER = cluster(Operation.ALTER)
_DESCRIBE = cluster(Operation.DESCRIBE)
_DESCRIBE_CONFIGS = cluster(Operation.DESCRIBE_CONFIGS)
_ALTER_CONFIGS = cluster(Operation.ALTER_CONFIGS)
_CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
_MEMBER = one(Operation.READ, ResourceType.GROUP, "group_id")
_TRANSACTION = one(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")

RULES: Mapping[int, Rule] = MappingProxyType(
    {
        0: topics.produce,
        1: free,  # Fetch: its handler asks for each partition of the session, each time; and of replicas, who they are
        2: each("topics", to_topic(Operation.DESCRIBE)),  # ListOffsets
        3: topics.metadata,
        8: together(_MEMBER, each("topics", to_topic(Operation.READ))),  # OffsetCommit
        9: groups.offset_fetch,
        10: groups.find_coordinator,
        11: _MEMBER,  # JoinGroup
        12: _MEMBER,  # Heartbeat
        13: _MEMBER,  # LeaveGroup
        14: groups.sync,
        15: each("groups", to_named(Operation.DESCRIBE, ResourceType.GROUP)),  # DescribeGroups
        16: groups.list_groups,
        17: free,  # SaslHandshake
        18: free,  # ApiVersions
        19: topics.create_topics,
        20: topics.delete_topics,
        21: each("topics", to_topic(Operation.DELETE)),  # DeleteRecords
        22: transactions.init_producer_id,
        23: topics.offset_for_leader_epoch,
        24: transactions.add_partitions,
        25: together(_TRANSACTION, _MEMBER),  # AddOffsetsToTxn
        26: _TRANSACTION,  # EndTxn
        27: cluster(Operation.ALTER, Operation.CLUSTER_ACTION),  # WriteTxnMarkers
        28: together(_TRANSACTION, _MEMBER, each("topics", to_topic(Operation.READ))),  # TxnOffsetCommit
        29: _DESCRIBE,  # DescribeAcls
        30: _ALTER,  # CreateAcls
        31: _ALTER,  # DeleteAcls
        32: each("resources", resources.to_configs_of(Operation.DESCRIBE_CONFIGS), kafka_text),  # DescribeConfigs
        33: each("resources", resources.to_configs_of(Operation.ALTER_CONFIGS), kafka_text),  # AlterConfigs
        34: resources.alter_replica_log_dirs,
        35: _DESCRIBE,  # DescribeLogDirs
        36: free,  # SaslAuthenticate
        37: each("topics", to_topic(Operation.ALTER)),  # CreatePartitions
        38: free,  # CreateDelegationToken: its handler asks, where it is for somebody else
        39: free,  # RenewDelegationToken: who has its HMAC, and is one of those that it concerns
        40: free,  # ExpireDelegationToken: the same
        41: free,  # DescribeDelegationToken: its handler asks for each token that is another's
        42: each("groups_names", to_named(Operation.DELETE, ResourceType.GROUP)),  # DeleteGroups
        43: _ALTER,  # ElectLeaders
        44: each("resources", resources.to_configs_of(Operation.ALTER_CONFIGS), kafka_text),  # IncrementalAlterConfigs
        45: _ALTER,  # AlterPartitionReassignments
        46: _DESCRIBE,  # ListPartitionReassignments
        47: groups.offset_delete,
        48: _DESCRIBE_CONFIGS,  # DescribeClientQuotas
        49: _ALTER_CONFIGS,  # AlterClientQuotas
        50: _DESCRIBE,  # DescribeUserScramCredentials
        51: resources.alter_user_scram_credentials,
        55: _DESCRIBE,  # DescribeQuorum
        57: _ALTER,  # UpdateFeatures
        60: free,  # DescribeCluster
        61: each("topics", to_topic(Operation.READ)),  # DescribeProducers
        64: _ALTER,  # UnregisterBroker
        65: transactions.describe_transactions,
        66: told(  # ListTransactions
            "transaction_states", to_named(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
        ),
        68: groups.consumer_heartbeat,
        69: groups.describe,  # ConsumerGroupDescribe
        71: free,  # GetTelemetrySubscriptions
        72: free,  # PushTelemetry
        74: _DESCRIBE_CONFIGS,  # ListConfigResources
        75: free,  # DescribeTopicPartitions: its handler leaves out what may not be described, before it makes pages
        76: groups.consumer_heartbeat,  # ShareGroupHeartbeat
        77: groups.describe,  # ShareGroupDescribe
        78: _MEMBER,  # ShareFetch: of topics its handler asks, as Fetch's does
        79: _MEMBER,  # ShareAcknowledge: the same
        80: _ALTER,  # AddRaftVoter
        81: _ALTER,  # RemoveRaftVoter
        83: _CLUSTER_ACTION,  # InitializeShareGroupState
        84: _CLUSTER_ACTION,  # ReadShareGroupState
        85: _CLUSTER_ACTION,  # WriteShareGroupState
        86: _CLUSTER_ACTION,  # DeleteShareGroupState
        87: _CLUSTER_ACTION,  # ReadShareGroupStateSummary
        88: groups.streams_heartbeat,
        89: groups.describe_streams,
        90: groups.describe_share_offsets,
        91: shares.alter_offsets,
        92: shares.delete_offsets,
    }
)
