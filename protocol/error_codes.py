"""Errors for invalid bytes (exceptions), and the error codes of responses."""

from __future__ import annotations

from enum import IntEnum


class ProtocolError(Exception):
    """The bytes from the peer violate the protocol: truncated, a negative length, invalid UTF-8, an unknown version.

    The connection must be closed, because nothing after the error can be read.
    """


class UnsupportedVersion(ProtocolError):
    """The message has no such version."""


class EncodeError(Exception):
    """A value does not fit its schema: a wrong type, a number out of range, an unexpected None.

    As in Kafka, also raised if the version lacks a field that has a value and must not be dropped silently.
    """


class ErrorCode(IntEnum):
    """Error codes of responses, each with a text, and whether a client should retry."""

    retriable: bool
    text: str

    def __new__(cls, code: int, text: str = "", retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.retriable = retriable
        return member

    @classmethod
    def of_peer(cls, code: int) -> ErrorCode:
        """Return the code of an answer, UNKNOWN_SERVER_ERROR for those of newer releases, as Kafka's Errors.forCode."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "The server ran into an error that it did not expect."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset is not within those that the server holds for the partition."
    CORRUPT_MESSAGE = 2, "The records fail their checksum, are malformed, or lack a key in a compacted topic.", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not have the topic or partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment: an election may be under way.", True
    NOT_LEADER_OR_FOLLOWER = 6, "This broker is not the leader, or not a replica, of the partition.", True
    REQUEST_TIMED_OUT = 7, "The request was not finished within its time.", True
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available for the partition.", True
    MESSAGE_TOO_LARGE = 10, "The records are larger than the server accepts."
    STALE_CONTROLLER_EPOCH = 11, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of the offset commit is too large."
    NETWORK_EXCEPTION = 13, "The connection broke before a response arrived.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "This broker is not the coordinator.", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic may not be used in this way: its name is not valid, or it is internal."
    RECORD_LIST_TOO_LARGE = 18, "The batch is larger than the largest segment allowed."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than the topic requires: nothing was written.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but to fewer in-sync replicas than required.",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "acks has to be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member's protocol type or protocols do not fit those of the group."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = (
        26,
        "The session timeout is not within the broker's group.min and group.max.session.timeout.ms.",
    )
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing: the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offset commit is larger than the largest message allowed."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "A record's timestamp is not valid or not within the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, "The server does not offer the SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the present state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The server does not serve this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is below 1 or may not be changed so."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of brokers available."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is not valid."
    INVALID_CONFIG = 40, "A configuration value is not valid."
    NOT_CONTROLLER = 41, "This node is not the controller.", True
    INVALID_REQUEST = 42, "The request contradicts itself or asks for something that cannot be."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The message format on disk does not support the request."
    POLICY_VIOLATION = 44, "The request breaks the server's policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number does not follow the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number has been written already."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one assigned to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the broker's transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, "Another operation on the same transaction is still in progress.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "The marker comes from a transaction coordinator that has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "Not attempted, because another operation of the same request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk failed while the log was read or written.", True
    LOG_DIR_NOT_FOUND = 57, "The log directory is not among those of the configuration."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "Nothing is known of the producer id: all its records may have been removed."
    REASSIGNMENT_IN_PROGRESS = 60, "A reassignment of the partition is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The server does not know the delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is neither owner nor renewer of the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation token requests are not allowed over this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation Token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "No group has this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "No fetch session has this id.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is not the expected one.", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name on which the request came in.", True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, "The leader epoch of the request is older than the broker's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch of the request is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client does not support the compression type of the partition."
    STALE_BROKER_EPOCH = 77, "The broker epoch is not the current one."
    OFFSET_NOT_AVAILABLE = (
        78,
        "The leader's high watermark has not caught up since its election: the offset is not known yet.",
        True,
    )
    MEMBER_ID_REQUIRED = 79, "The member has to join again with the member id given to it."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has registered with the same group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No eligible leader is available.", True
    ELECTION_NOT_NEEDED = 84, "The partition needs no leader election.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment of the partition is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        "A member of the group is subscribed to the topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = 87, "The broker refused a record: it fails validation."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction still has offsets to commit.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota of mutations is used up.", True
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has fenced this one."
    RESOURCE_NOT_FOUND = 91, "The request refers to something that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the criteria for one."
    INCONSISTENT_VOTER_SET = 94, "The sender or the receiver is not among the expected voters."
    INVALID_UPDATE_VERSION = 95, "The update version is not valid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal in a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position is not within the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server does not know the topic id.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker is registered under this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, "The topic id in the log is not the one of the request.", True
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id of the request is not this cluster's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id is not known."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes requests with and without topic ids.", True
    INELIGIBLE_REPLICA = 107, "The replica may not join the in-sync replicas."
    NEW_LEADER_ELECTED = 108, "The change of the partition made another replica leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        "The coordinator fenced the member epoch: the member must release its partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = 111, "Another member still uses the instance id: it has to leave first."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support the assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is stale: try again with the one that the next heartbeat brings."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request came to an endpoint of the wrong kind."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription id is out of date or was never given."
    TELEMETRY_TOO_LARGE = 118, "The pushed telemetry is larger than the server accepts."
    INVALID_REGISTRATION = 119, "The controller refuses the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction has to be aborted: it cannot continue."
    INVALID_RECORD_STATE = 121, "The record's delivery state does not allow the acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The share session does not exist.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is not the expected one.", True
    FENCED_STATE_EPOCH = 124, "The share coordinator refuses the state epoch: it is older than the current one."
    INVALID_VOTER_KEY = 125, "The voter key is not the receiving replica's."
    DUPLICATE_VOTER = 126, "The voter is one of the voters already."
    VOTER_NOT_FOUND = 127, "The voter is not one of the voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The client's metadata is stale: it has to bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The epoch of the streams topology is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has as many share sessions as it may have.", True
    GROUP_DELETION_FAILED = 134, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "The description of the streams topology could not be stored."
    CONTROLLER_ID_NOT_REGISTERED = 136, "No controller is registered under this id."
