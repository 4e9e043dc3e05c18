"""All API keys with their versions, for code that does not need the message schemas."""

from __future__ import annotations

from enum import IntEnum

from protocol.versions import VersionRange, parse_versions


class ApiKey(IntEnum):
    """The API key, which is the first number of every request.

    `versions` are all versions that the schemas describe; `current` are those that Apache Kafka 4.4 supports. Both
    equal the values of the Api in `protocol.messages`.
    """

    versions: VersionRange
    current: VersionRange

    def __new__(cls, key: int, versions: str = "none", current: str | None = None) -> ApiKey:
        """Create a member from its key, its versions, and the current versions if they differ."""
        member = int.__new__(cls, key)
        member._value_ = key
        member.versions = parse_versions(versions)
        member.current = member.versions if current is None else parse_versions(current)
        return member

    PRODUCE = 0, "0-13", "3-13"
    FETCH = 1, "0-18", "4-18"
    LIST_OFFSETS = 2, "0-11", "1-11"
    METADATA = 3, "0-13"
    LEADER_AND_ISR = 4, "0-7", "none"
    STOP_REPLICA = 5, "0-4", "none"
    UPDATE_METADATA = 6, "0-8", "none"
    CONTROLLED_SHUTDOWN = 7, "0-3", "none"
    OFFSET_COMMIT = 8, "0-10", "2-10"
    OFFSET_FETCH = 9, "0-10", "1-10"
    FIND_COORDINATOR = 10, "0-6"
    JOIN_GROUP = 11, "0-9"
    HEARTBEAT = 12, "0-4"
    LEAVE_GROUP = 13, "0-5"
    SYNC_GROUP = 14, "0-5"
    DESCRIBE_GROUPS = 15, "0-6"
    LIST_GROUPS = 16, "0-5"
    SASL_HANDSHAKE = 17, "0-1"
    API_VERSIONS = 18, "0-5"
    CREATE_TOPICS = 19, "0-7", "2-7"
    DELETE_TOPICS = 20, "0-6", "1-6"
    DELETE_RECORDS = 21, "0-2"
    INIT_PRODUCER_ID = 22, "0-6", "0-5"
    OFFSET_FOR_LEADER_EPOCH = 23, "0-4", "2-4"
    ADD_PARTITIONS_TO_TXN = 24, "0-5"
    ADD_OFFSETS_TO_TXN = 25, "0-4"
    END_TXN = 26, "0-5"
    WRITE_TXN_MARKERS = 27, "0-2", "1-2"
    TXN_OFFSET_COMMIT = 28, "0-6"
    DESCRIBE_ACLS = 29, "0-3", "1-3"
    CREATE_ACLS = 30, "0-3", "1-3"
    DELETE_ACLS = 31, "0-3", "1-3"
    DESCRIBE_CONFIGS = 32, "0-4", "1-4"
    ALTER_CONFIGS = 33, "0-2"
    ALTER_REPLICA_LOG_DIRS = 34, "0-2", "1-2"
    DESCRIBE_LOG_DIRS = 35, "0-5", "1-5"
    SASL_AUTHENTICATE = 36, "0-2"
    CREATE_PARTITIONS = 37, "0-3"
    CREATE_DELEGATION_TOKEN = 38, "0-3", "1-3"
    RENEW_DELEGATION_TOKEN = 39, "0-2", "1-2"
    EXPIRE_DELEGATION_TOKEN = 40, "0-2", "1-2"
    DESCRIBE_DELEGATION_TOKEN = 41, "0-3", "1-3"
    DELETE_GROUPS = 42, "0-3"
    ELECT_LEADERS = 43, "0-2"
    INCREMENTAL_ALTER_CONFIGS = 44, "0-1"
    ALTER_PARTITION_REASSIGNMENTS = 45, "0-1"
    LIST_PARTITION_REASSIGNMENTS = 46, "0"
    OFFSET_DELETE = 47, "0"
    DESCRIBE_CLIENT_QUOTAS = 48, "0-1"
    ALTER_CLIENT_QUOTAS = 49, "0-1"
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "0"
    ALTER_USER_SCRAM_CREDENTIALS = 51, "0"
    VOTE = 52, "0-2"
    BEGIN_QUORUM_EPOCH = 53, "0-1"
    END_QUORUM_EPOCH = 54, "0-1"
    DESCRIBE_QUORUM = 55, "0-2"
    ALTER_PARTITION = 56, "0-3", "2-3"
    UPDATE_FEATURES = 57, "0-2"
    ENVELOPE = 58, "0"
    FETCH_SNAPSHOT = 59, "0-1"
    DESCRIBE_CLUSTER = 60, "0-2"
    DESCRIBE_PRODUCERS = 61, "0"
    BROKER_REGISTRATION = 62, "0-4"
    BROKER_HEARTBEAT = 63, "0-2"
    UNREGISTER_BROKER = 64, "0"
    DESCRIBE_TRANSACTIONS = 65, "0"
    LIST_TRANSACTIONS = 66, "0-2"
    ALLOCATE_PRODUCER_IDS = 67, "0"
    CONSUMER_GROUP_HEARTBEAT = 68, "0-1"
    CONSUMER_GROUP_DESCRIBE = 69, "0-1"
    CONTROLLER_REGISTRATION = 70, "0"
    GET_TELEMETRY_SUBSCRIPTIONS = 71, "0"
    PUSH_TELEMETRY = 72, "0"
    ASSIGN_REPLICAS_TO_DIRS = 73, "0"
    LIST_CONFIG_RESOURCES = 74, "0-1"
    DESCRIBE_TOPIC_PARTITIONS = 75, "0"
    SHARE_GROUP_HEARTBEAT = 76, "1"
    SHARE_GROUP_DESCRIBE = 77, "1"
    SHARE_FETCH = 78, "1-2"
    SHARE_ACKNOWLEDGE = 79, "1-2"
    ADD_RAFT_VOTER = 80, "0-1"
    REMOVE_RAFT_VOTER = 81, "0"
    UPDATE_RAFT_VOTER = 82, "0"
    INITIALIZE_SHARE_GROUP_STATE = 83, "0"
    READ_SHARE_GROUP_STATE = 84, "0"
    WRITE_SHARE_GROUP_STATE = 85, "0-1"
    DELETE_SHARE_GROUP_STATE = 86, "0"
    READ_SHARE_GROUP_STATE_SUMMARY = 87, "0-1"
    STREAMS_GROUP_HEARTBEAT = 88, "0-1"
    STREAMS_GROUP_DESCRIBE = 89, "0-1"
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "0-1"
    ALTER_SHARE_GROUP_OFFSETS = 91, "0"
    DELETE_SHARE_GROUP_OFFSETS = 92, "0"
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93, "0"
    UNREGISTER_CONTROLLER = 94, "0"
