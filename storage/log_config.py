"""The configuration of a topic as its logs use it; keys, defaults and units are those of Apache Kafka 4.3.

The broker resolves the values (topic override, dynamic broker value, file, default). With the `compression_type`
`producer` a batch keeps the codec of its producer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
#: The default of max.decompressed.message.bytes, the size of Java's largest array. No record is larger.
LARGEST_RECORD_BYTES = INT_MAX - 8
#: local.retention.ms and local.retention.bytes: the same as retention.ms and retention.bytes.
LIKE_RETENTION = -2


def _magic_of(release: str) -> int:
    if release.startswith(("0.8.", "0.9.")):
        return 0
    return 1 if release.startswith("0.10.") else 2


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's values by key, with underscores for dots.

    Times are in ms and sizes in bytes; -1 means no limit where Kafka uses it so.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    local_retention_bytes: int = LIKE_RETENTION
    local_retention_ms: int = LIKE_RETENTION
    max_compaction_lag_ms: int = LONG_MAX
    max_decompressed_message_bytes: int = LARGEST_RECORD_BYTES
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_copy_lag_bytes: int = -1
    remote_copy_lag_ms: int = 0
    remote_log_copy_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    #: retention.hold.max.bytes, a key of this broker: at most this many bytes are kept for readers that lag behind.
    retention_hold_max_bytes: int = 0
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    #: pybroker.record.validation: `header` trusts the batch header, `full` inspects every record.
    record_validation: str = "header"
    #: remote.log.storage.system.enable of the broker; without it `remote_storage_enable` has no effect.
    remote_storage_system: bool = False

    # Derived values, which every append or fetch uses:
    compacted: bool = field(init=False, repr=False)
    #: Whether retention by time and size removes records.
    deletes: bool = field(init=False, repr=False)
    log_append_time: bool = field(init=False, repr=False)
    #: Whether compressed batches must be opened to check the size of their records.
    limits_records: bool = field(init=False, repr=False)
    #: The record format that message.format.version asks for: 0 before 0.10.0, 1 before 0.11.0, else 2.
    message_magic: int = field(init=False, repr=False)
    #: Whether closed segments are also in remote storage (KIP-405). Then the local disk may lack the oldest ones.
    tiered: bool = field(init=False, repr=False)
    #: Whether closed segments are still copied there, so that local limits count.
    copied: bool = field(init=False, repr=False)
    #: Whether retention by time and size removes segments from this disk.
    expires_locally: bool = field(init=False, repr=False)
    #: The limits of the records on this disk, in bytes and ms: those of the topic, or the local ones of a tiered topic.
    local_bytes: int = field(init=False, repr=False)
    local_ms: int = field(init=False, repr=False)
    #: segment.ms; for compacted topics at most max.compaction.lag.ms, because the cleaner skips the active segment.
    max_segment_ms: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        derive = object.__setattr__
        derive(self, "compacted", "compact" in self.cleanup_policy)
        derive(self, "deletes", "delete" in self.cleanup_policy)
        derive(self, "log_append_time", self.message_timestamp_type == "LogAppendTime")
        derive(self, "limits_records", self.max_decompressed_message_bytes < LARGEST_RECORD_BYTES)
        derive(self, "message_magic", _magic_of(self.message_format_version))
        derive(self, "tiered", self.remote_storage_system and self.remote_storage_enable and not self.compacted)
        copied = self.tiered and not self.remote_log_copy_disable
        derive(self, "copied", copied)
        derive(self, "expires_locally", self.deletes or copied)
        local_bytes = self.local_retention_bytes if copied else LIKE_RETENTION
        derive(self, "local_bytes", self.retention_bytes if local_bytes == LIKE_RETENTION else local_bytes)
        local_ms = self.local_retention_ms if copied else LIKE_RETENTION
        derive(self, "local_ms", self.retention_ms if local_ms == LIKE_RETENTION else local_ms)
        bounded = self.compacted and self.max_compaction_lag_ms > 0
        derive(self, "max_segment_ms", min(self.segment_ms, self.max_compaction_lag_ms) if bounded else self.segment_ms)
