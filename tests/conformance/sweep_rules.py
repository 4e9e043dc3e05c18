"""The allowed differences of a replay of the recorded sweeps: ids, times, counters, sizes, and orders of hash maps.

Everything else must equal the recording.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.schema import Struct
from tests.support.answers import Rules
from tests.support.schema_facts import config_facts

# Ids that are chosen at run time. Each stands for one recorded id wherever that occurs
IDS = {
    "*.cluster_id": "cluster",
    "*.topic_id": "topic",
    "*.member_id": "member",
    "JoinGroup.leader": "member",
    "*.session_id": "session",
    "*producer_id": "producer",
    "*.port": "port",
    "*.log_dir": "path",
    "GetTelemetrySubscriptions.client_instance_id": "client instance",
}

# Lists from hash maps of Apache Kafka, in any order
UNORDERED = {
    "ApiVersions.finalized_features": "name",
    "CreatePartitions.results": "name",
    "DeleteGroups.results": "group_id",
    "DeleteRecords.topics[].partitions": "partition_index",
    "DeleteTopics.responses": "name",
    "DescribeLogDirs.results[].topics[].partitions": "partition_index",
    "DescribeTransactions.transaction_states[].topics": "topic",
    "ListConfigResources.config_resources": "resource_name",
    "ListGroups.groups": "group_id",
    "ListOffsets.topics[].partitions": "partition_index",
    "Metadata.topics": "name",
}

IGNORED = {
    "ApiVersions.finalized_features_epoch": "counter: the length of the metadata log",
    "DescribeLogDirs.results[].total_bytes": "size of the disk",
    "DescribeLogDirs.results[].usable_bytes": "size: what is free on the disk",
    "DescribeQuorum.topics[].partitions[].high_watermark": "counter: the length of the metadata log",
    "DescribeQuorum.topics[].partitions[].current_voters[].log_end_offset": "counter: the length of the metadata log",
    "DescribeQuorum.topics[].partitions[].current_voters[].last_fetch_timestamp": "time",
    "DescribeQuorum.topics[].partitions[].current_voters[].last_caught_up_timestamp": "time",
    # Our voters are in the log, with their directories' ids; the recorded broker had one in its configuration
    "DescribeQuorum.topics[].partitions[].current_voters[].replica_directory_id": "id",
    "DescribeQuorum.nodes[].listeners[].host": "name of the machine",
    "DescribeTransactions.transaction_states[].transaction_start_time_ms": "time",
    "GetTelemetrySubscriptions.subscription_id": "id: a checksum over the client's random instance id",
    "ApiVersions.api_keys[].max_version": "4.4 has newer versions than the recorded 4.3 (test_api_versions.py)",
    "Produce.responses[].partition_responses[].record_errors[].batch_index_error_message": "names the time of day",
}

#: Keys that the recorded 4.3 did not have.
NEW_CONFIGS = frozenset(config_facts("changed-configs-4.3.1-to-4.4.0"))

COMPARED = {
    # Our quorum has its voters in the log, the references have theirs in the configuration
    "ApiVersions.finalized_features": lambda feature: feature.name != "kraft.version",
    # 4.4 has newer levels than the recorded 4.3
    "ApiVersions.supported_features": lambda feature: feature.name not in ("metadata.version", "share.version"),
    "ApiVersions.api_keys": lambda api: api.api_key not in (93, 94),
    "CreateTopics.topics[].configs": lambda config: config.name not in NEW_CONFIGS,
    "DescribeConfigs.results[].configs": lambda config: config.name not in NEW_CONFIGS,
}

LEFT_OUT = {
    118: "Metadata right after the one that creates a topic by itself: whether it is there yet is chance",
}
"""Exchanges (by correlation id) that are sent, but whose answers are not compared, with the reason."""


def sweep_rules(served: Mapping[int, range]) -> Rules:
    """Return the rules for a broker that serves these APIs."""

    def is_served(api: Struct) -> bool:
        return api.api_key in served

    def is_of_the_sweeps(group: Struct) -> bool:
        return bool(group.group_id.startswith(("gs", "g848-")) and group.group_id != "gshare")

    def is_ended(transaction: Struct) -> bool:
        return bool(transaction.transactional_id != "tx-open")

    elsewhere = {
        "ApiVersions.api_keys": is_served,
        "ListGroups.groups": is_of_the_sweeps,  # the recorded broker had seen other clients before
        "ListTransactions.transaction_states": is_ended,  # and had an open transaction
    }
    return Rules(ids=IDS, unordered=UNORDERED, ignored=IGNORED, elsewhere=elsewhere, compared=COMPARED)
