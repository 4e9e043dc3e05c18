"""The rule of each API: what the client must be allowed to do, as in Apache Kafka 4.3.

A broker with an authorizer cannot serve an API without a rule. A test in tests/unit/broker/access/authorization checks
that each served API has one.
"""

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
    allow_all,
    cluster,
    each,
    kafka_text,
    one,
    to_named,
    to_topic,
    together,
    visible_items,
)
from protocol.api_keys import ApiKey
from security.acl import Operation, ResourceType

_ALTER = cluster(Operation.ALTER)
_DESCRIBE = cluster(Operation.DESCRIBE)
_DESCRIBE_CONFIGS = cluster(Operation.DESCRIBE_CONFIGS)
_ALTER_CONFIGS = cluster(Operation.ALTER_CONFIGS)
_CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
_MEMBER = one(Operation.READ, ResourceType.GROUP, "group_id")
_TRANSACTION = one(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")

RULES: Mapping[ApiKey, Rule] = MappingProxyType(
    {
        ApiKey.PRODUCE: topics.produce,
        ApiKey.FETCH: allow_all,  # the handler checks each partition of the session, at each attempt
        ApiKey.LIST_OFFSETS: each("topics", to_topic(Operation.DESCRIBE)),
        ApiKey.METADATA: topics.metadata,
        ApiKey.OFFSET_COMMIT: together(_MEMBER, each("topics", to_topic(Operation.READ))),
        ApiKey.OFFSET_FETCH: groups.offset_fetch,
        ApiKey.FIND_COORDINATOR: groups.find_coordinator,
        ApiKey.JOIN_GROUP: _MEMBER,
        ApiKey.HEARTBEAT: _MEMBER,
        ApiKey.LEAVE_GROUP: _MEMBER,
        ApiKey.SYNC_GROUP: groups.sync,
        ApiKey.DESCRIBE_GROUPS: each("groups", to_named(Operation.DESCRIBE, ResourceType.GROUP)),
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.SASL_HANDSHAKE: allow_all,
        ApiKey.API_VERSIONS: allow_all,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.DELETE_RECORDS: each("topics", to_topic(Operation.DELETE)),
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.offset_for_leader_epoch,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
        ApiKey.ADD_OFFSETS_TO_TXN: together(_TRANSACTION, _MEMBER),
        ApiKey.END_TXN: _TRANSACTION,
        ApiKey.WRITE_TXN_MARKERS: cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
        ApiKey.TXN_OFFSET_COMMIT: together(_TRANSACTION, _MEMBER, each("topics", to_topic(Operation.READ))),
        ApiKey.DESCRIBE_ACLS: _DESCRIBE,
        ApiKey.CREATE_ACLS: _ALTER,
        ApiKey.DELETE_ACLS: _ALTER,
        ApiKey.DESCRIBE_CONFIGS: each("resources", resources.to_configs_of(Operation.DESCRIBE_CONFIGS), kafka_text),
        ApiKey.ALTER_CONFIGS: each("resources", resources.to_configs_of(Operation.ALTER_CONFIGS), kafka_text),
        ApiKey.ALTER_REPLICA_LOG_DIRS: resources.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE,
        ApiKey.SASL_AUTHENTICATE: allow_all,
        ApiKey.CREATE_PARTITIONS: each("topics", to_topic(Operation.ALTER)),
        ApiKey.CREATE_DELEGATION_TOKEN: allow_all,  # the handler checks, if the token is for another owner
        ApiKey.RENEW_DELEGATION_TOKEN: allow_all,  # the client must have the HMAC, and be the owner or a renewer
        ApiKey.EXPIRE_DELEGATION_TOKEN: allow_all,  # the same
        ApiKey.DESCRIBE_DELEGATION_TOKEN: allow_all,  # the handler checks each token of another owner
        ApiKey.DELETE_GROUPS: each("groups_names", to_named(Operation.DELETE, ResourceType.GROUP)),
        ApiKey.ELECT_LEADERS: _ALTER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: each(
            "resources", resources.to_configs_of(Operation.ALTER_CONFIGS), kafka_text
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
        ApiKey.OFFSET_DELETE: groups.offset_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _DESCRIBE_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS: _ALTER_CONFIGS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: resources.alter_user_scram_credentials,
        ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
        ApiKey.VOTE: _CLUSTER_ACTION,
        ApiKey.BEGIN_QUORUM_EPOCH: _CLUSTER_ACTION,
        ApiKey.END_QUORUM_EPOCH: _CLUSTER_ACTION,
        ApiKey.ALTER_PARTITION: _CLUSTER_ACTION,
        ApiKey.ENVELOPE: _CLUSTER_ACTION,  # the request in it has a rule of its own
        ApiKey.FETCH_SNAPSHOT: _CLUSTER_ACTION,
        ApiKey.BROKER_REGISTRATION: _CLUSTER_ACTION,
        ApiKey.BROKER_HEARTBEAT: _CLUSTER_ACTION,
        ApiKey.ALLOCATE_PRODUCER_IDS: _CLUSTER_ACTION,
        ApiKey.CONTROLLER_REGISTRATION: _CLUSTER_ACTION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _CLUSTER_ACTION,
        ApiKey.UPDATE_RAFT_VOTER: _CLUSTER_ACTION,
        ApiKey.UPDATE_FEATURES: _ALTER,
        ApiKey.DESCRIBE_CLUSTER: allow_all,
        ApiKey.DESCRIBE_PRODUCERS: each("topics", to_topic(Operation.READ)),
        ApiKey.UNREGISTER_BROKER: _ALTER,
        ApiKey.UNREGISTER_CONTROLLER: _ALTER,
        ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: visible_items(
            "transaction_states", to_named(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
        ),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: groups.describe,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: allow_all,
        ApiKey.PUSH_TELEMETRY: allow_all,
        ApiKey.LIST_CONFIG_RESOURCES: _DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: allow_all,  # the handler leaves topics out, before it makes pages
        ApiKey.SHARE_GROUP_HEARTBEAT: groups.consumer_heartbeat,
        ApiKey.SHARE_GROUP_DESCRIBE: groups.describe,
        ApiKey.SHARE_FETCH: _MEMBER,  # the handler checks topics, as that of Fetch does
        ApiKey.SHARE_ACKNOWLEDGE: _MEMBER,  # the same
        ApiKey.ADD_RAFT_VOTER: _ALTER,
        ApiKey.REMOVE_RAFT_VOTER: _ALTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.READ_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.WRITE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.DELETE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _CLUSTER_ACTION,
        ApiKey.STREAMS_GROUP_HEARTBEAT: groups.streams_heartbeat,
        ApiKey.STREAMS_GROUP_DESCRIBE: groups.describe_streams,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _MEMBER,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: groups.describe_share_offsets,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: shares.alter_offsets,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: shares.delete_offsets,
    }
)
