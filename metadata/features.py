"""Feature levels: the features, those of a new cluster, and the record versions that a metadata.version allows.

FeatureLevelRecords in the metadata log set the levels. metadata.version determines the record versions that may be
written, so that a broker of that release can read them. Levels are those of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.messages.cluster_metadata import PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
#: The level of share.version from which on share groups may have dead-letter queues (KIP-1191).
DEAD_LETTER_QUEUES = 2
STREAMS_VERSION = "streams.version"

MIN_METADATA_VERSION = 7  # 3.3-IV3: the lowest level that Apache Kafka 4 reads
MAX_METADATA_VERSION = 33  # 4.4-IV2
#: The level of new directories, 4.3-IV0: Apache Kafka 4.3 opens them until an operator raises the level.
DEFAULT_METADATA_VERSION = 30

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        GROUP_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (MIN_METADATA_VERSION, MAX_METADATA_VERSION),
        SHARE_VERSION: (0, 2),
        STREAMS_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
        ELIGIBLE_LEADER_REPLICAS: (0, 1),
    }
)

# The levels with which a directory is formatted by default, in the order in which Kafka's storage tool writes them.
BOOTSTRAP_FEATURES: Mapping[str, int] = MappingProxyType(
    {
        METADATA_VERSION: DEFAULT_METADATA_VERSION,
        ELIGIBLE_LEADER_REPLICAS: 1,
        GROUP_VERSION: 1,
        SHARE_VERSION: 1,
        STREAMS_VERSION: 1,
        TRANSACTION_VERSION: 2,
    }
)

SCRAM_LEVEL = 11
EPOCH_KEPT_LEVEL = 12  # an in-sync set that shrinks begins no leader epoch
TRANSACTIONS_LEVEL = 13  # transactions: several batches that count only together
DELEGATION_TOKENS_LEVEL = 14
CONTROLLER_REGISTRATION_LEVEL = 15
DIRECTORIES_LEVEL = 17  # partitions have the log directories of their replicas
ELR_LEVEL = 23
CORDONED_DIRECTORIES_LEVEL = 30
ZERO_CHECKPOINT_LEVEL = 31  # formatting writes the first records into the first snapshot of the log (KIP-1170)
ADDRESS_RANGES_LEVEL = 32  # hosts of access control entries may be ranges such as 10.0.0.0/8 (KIP-1276)
CONTROLLER_UNREGISTRATION_LEVEL = 33
# The levels of metadata.version with new records or fields, which lower levels cannot represent.
CHANGED_METADATA_LEVELS = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)

# Record type -> (lowest metadata.version, record version), newest first. Other types have version 0 only.
_RECORD_VERSIONS: Mapping[int | None, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        RegisterBrokerRecord.key: ((30, 4), (17, 3), (8, 2), (0, 1)),
        PartitionRecord.key: ((23, 2), (17, 1), (0, 0)),
        PartitionChangeRecord.key: ((23, 2), (17, 1), (0, 0)),
    }
)


def unsupported_level(levels: Mapping[str, int]) -> str | None:
    """Return which of these levels this broker does not support, and what it does; None if it supports all."""
    for name, level in levels.items():
        lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
        if not lowest <= level <= highest:
            return f"{name} {level}, and this broker knows {lowest} to {highest}"
    return None


def record_version(record_type: int, metadata_version: int) -> int:
    """Return the newest version of a record type that a cluster at this metadata.version may write."""
    for level, version in _RECORD_VERSIONS.get(record_type, ()):
        if metadata_version >= level:
            return version
    return 0
