"""Embedded and on-disk structures that are neither requests, responses nor records of internal topics."""

from protocol.messages.data.aborted_txn import AbortedTxn
from protocol.messages.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.data.control_records import (
    ControlRecordTypeSchema,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.messages.data.principal import DefaultPrincipalData
from protocol.messages.data.producer_snapshot import ProducerSnapshot
from protocol.messages.data.quorum_state import QuorumStateData
from protocol.messages.data.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)

__all__ = [
    "AbortedTxn",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "ProducerSnapshot",
    "QuorumStateData",
    "RemoteLogSegmentMetadataRecord",
    "RemoteLogSegmentMetadataSnapshotRecord",
    "RemoteLogSegmentMetadataUpdateRecord",
    "RemotePartitionDeleteMetadataRecord",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
]
