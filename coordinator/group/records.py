"""The records of `__consumer_offsets` as values, and their bytes.

A key is an int16 type and the key itself. A value is an int16 version and the value itself.

Records are written in the versions of Apache Kafka 4.3: group metadata v3, offset commits v4. An offset with a
retention time of its own is written as v1, because v4 has no field for it. All versions are read. Records of consumer
groups are in consumer/records.py, of share groups in share/records.py, of streams groups in streams/records.py. Unknown
types raise UnknownRecord.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import NamedTuple, TypeAlias

import msgspec

from coordinator.group.modern.record import ModernRecord
from coordinator.shard import UnknownRecord
from protocol.error_codes import ProtocolError
from protocol.messages.coordinator import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue
from protocol.messages.coordinator.classic_group import MemberMetadata as MemberMetadataStruct
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1

_PREFIX = Layout(">h")
_PARTITION = Layout(">i")
#: An offset commit v4 without metadata and with a topic id, as nearly all are: version, offset, leader epoch, an empty
#: string, commit time, one tagged field with its number and size, topic id. It is encoded by hand, because a
#: coordinator reads and writes more of these than of all other records.
_BARE_VALUE = Layout(">hqiBq3s16s")
BARE_VALUE_SIZE = _BARE_VALUE.size
_EMPTY = 1
_ID_FOLLOWS = bytes([1, 0, 16])
#: The number of pairs of group and topic whose bytes are cached, in both directions: a commit has many partitions of a
#: topic, and a log has many commits of a group.
_KNOWN_PAIRS = 1024
OFFSET_KEY_TYPE = _PREFIX.pack(OFFSET_COMMIT)
_GROUP_KEY_PREFIX = _PREFIX.pack(GROUP_METADATA)
_OFFSET_VALUE_PREFIX = {v: _PREFIX.pack(v) for v in (OFFSET_COMMIT_VERSION, OFFSET_COMMIT_VERSION_WITH_EXPIRY)}
_GROUP_VALUE_PREFIX = _PREFIX.pack(GROUP_METADATA_VERSION)

_new_tuple = tuple.__new__
new_offset_value = OffsetCommitValue.new


class CommittedOffset(NamedTuple):
    """The offset that a group committed for a partition. A tuple, because each commit makes one for each partition.

    - `offset`: the next offset to read.
    - `leader_epoch`: of the last record read; -1 if unknown.
    - `expire_timestamp_ms`: when the offset expires, whatever the retention (requests up to v4); -1: by the group's
      rules.
    - `topic_id`: zero in records of older brokers and in transactional commits.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = ZERO_UUID


class OffsetRecord(NamedTuple):
    """A committed offset of a partition; `committed` None deletes it."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None

    @property
    def key(self) -> bytes:
        return offset_key_start(self.group_id, self.topic) + _PARTITION.pack(self.partition)

    @property
    def value(self) -> bytes | None:
        committed = self.committed
        if committed is None:
            return None
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = committed
        if not metadata and expire_timestamp_ms == -1 and topic_id != ZERO_UUID:
            return _BARE_VALUE.pack(
                OFFSET_COMMIT_VERSION, offset, leader_epoch, _EMPTY, commit_timestamp_ms, _ID_FOLLOWS, topic_id
            )
        version = OFFSET_COMMIT_VERSION if expire_timestamp_ms == -1 else OFFSET_COMMIT_VERSION_WITH_EXPIRY
        value = new_offset_value(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            expire_timestamp=expire_timestamp_ms,
            topic_id=topic_id,
        )
        return _OFFSET_VALUE_PREFIX[version] + OffsetCommitValue.encode(version, value)


class MemberMetadata(msgspec.Struct, frozen=True):
    """A member as stored: its metadata for the protocol that the group chose, and its assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(msgspec.Struct, frozen=True):
    """A classic group as stored: a generation that became stable, or an empty group (`members` is ()).

    `protocol_type` is "" if no member has ever joined. `state_timestamp_ms` is -1 if unknown (records before v2).
    """

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: tuple[MemberMetadata, ...] = ()


class GroupRecord(msgspec.Struct, frozen=True):
    """The metadata of a classic group; None deletes the group."""

    group_id: str
    metadata: GroupMetadata | None

    @property
    def key(self) -> bytes:
        return _GROUP_KEY_PREFIX + GroupMetadataKey.encode(0, GroupMetadataKey(group=self.group_id))

    @property
    def value(self) -> bytes | None:
        if self.metadata is None:
            return None
        value = GroupMetadataValue(
            protocol_type=self.metadata.protocol_type,
            generation=self.metadata.generation,
            protocol=self.metadata.protocol_name,
            leader=self.metadata.leader_id,
            current_state_timestamp=self.metadata.state_timestamp_ms,
            members=[_member_struct(member) for member in self.metadata.members],
        )
        return _GROUP_VALUE_PREFIX + GroupMetadataValue.encode(GROUP_METADATA_VERSION, value)


StoredRecord: TypeAlias = OffsetRecord | GroupRecord | ModernRecord[object]


def parse_record(
    record_class_of: Callable[[int], type[ModernRecord[object]] | None], key: bytes | None, value: bytes | None
) -> StoredRecord:
    """Parse a record of `__consumer_offsets`. `record_class_of`: the class for a type of records of newer groups.

    Raises UnknownRecord. The log keeps such a record, and the coordinator ignores it.
    """
    if key is None:
        raise UnknownRecord("a record without a key")
    try:
        if key[:2] == OFFSET_KEY_TYPE:  # the type of nearly all records
            return _parse_offset(key, value)
        (record_type,) = _PREFIX.unpack_from(key)
        if record_type == LEGACY_OFFSET_COMMIT:
            return _parse_offset(key, value)
        if record_type == GROUP_METADATA:
            return _parse_group(key, value)
        record_class = record_class_of(record_type)
        if record_class is not None:
            return record_class.parse(record_type, key, value)
    except (ProtocolError, LayoutError, UnicodeDecodeError) as error:
        raise UnknownRecord(f"key {key[:64]!r}: {error}") from error
    raise UnknownRecord(f"record type {record_type}")


@lru_cache(_KNOWN_PAIRS)
def offset_key_start(group_id: str, topic: str) -> bytes:
    """Return the key of an offset commit without the partition."""
    group, name = group_id.encode(), topic.encode()
    return b"".join((OFFSET_KEY_TYPE, _PREFIX.pack(len(group)), group, _PREFIX.pack(len(name)), name))


@lru_cache(_KNOWN_PAIRS)
def _parse_key_start(start: bytes) -> tuple[str, str, int]:
    """Return the group id, the topic and the position of the partition in an offset commit's key.

    `start` is the key without its last four bytes.
    """
    (length,) = _PREFIX.unpack_from(start, 2)
    end = 4 + length
    (length,) = _PREFIX.unpack_from(start, end)
    stop = end + 2 + length
    if end < 4 or stop < end + 2:
        raise ProtocolError("the length of a name is negative")
    return str(start[4:end], "utf-8", "replace"), str(start[end + 2 : stop], "utf-8", "replace"), stop


def _parse_offset(key: bytes, value: bytes | None) -> OffsetRecord:
    group_id, topic, stop = _parse_key_start(key[:-4])
    (partition,) = _PARTITION.unpack_from(key, stop)
    return _new_tuple(OffsetRecord, (group_id, topic, partition, None if value is None else _parse_committed(value)))


def _parse_committed(value: bytes) -> CommittedOffset:
    if len(value) == BARE_VALUE_SIZE:
        version, offset, leader_epoch, metadata_size, commit_timestamp_ms, fields, topic_id = _BARE_VALUE.unpack(value)
        if version == OFFSET_COMMIT_VERSION and metadata_size == _EMPTY and fields == _ID_FOLLOWS:
            return _new_tuple(CommittedOffset, (offset, leader_epoch, "", commit_timestamp_ms, -1, topic_id))
    stored, _ = OffsetCommitValue.decode(_PREFIX.unpack_from(value)[0], value, 2)
    return CommittedOffset(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.expire_timestamp,
        stored.topic_id,
    )


def _parse_group(key: bytes, value: bytes | None) -> GroupRecord:
    group_id: str = GroupMetadataKey.decode(0, key, 2)[0].group
    if value is None:
        return GroupRecord(group_id, None)
    stored, _ = GroupMetadataValue.decode(_PREFIX.unpack_from(value)[0], value, 2)
    metadata = GroupMetadata(
        stored.protocol_type,
        stored.generation,
        stored.protocol,
        stored.leader,
        stored.current_state_timestamp,
        tuple(_member(member) for member in stored.members),
    )
    return GroupRecord(group_id, metadata)


def _member(stored: Struct) -> MemberMetadata:
    rebalance_timeout_ms = stored.rebalance_timeout
    return MemberMetadata(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        # Records before v1 have no rebalance timeout; the session timeout served as both.
        stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        stored.session_timeout,
        stored.subscription,
        stored.assignment,
    )


def _member_struct(member: MemberMetadata) -> Struct:
    return MemberMetadataStruct(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )
