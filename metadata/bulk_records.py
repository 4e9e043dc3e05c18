"""Records of many partitions that differ little. A snapshot, a start and a clean stop have thousands of them.

    PartitionChanges     one change of many partitions: their PartitionChangeRecords are decided, encoded and replayed
                         together
    PartitionReader      decodes PartitionRecords; one that is like an earlier one costs a comparison
    ChangeReader         the same for PartitionChangeRecords

All produce the same bytes and values as the records' schemas (`tests/unit/metadata/test_bulk_records.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct as Layout
from typing import Any, TypeAlias

import msgspec

from metadata.features import record_version
from metadata.framing import AnyRecord, MetadataRecord, decode_record, encode_record
from metadata.partition_registration import PartitionRegistration, registration_of
from protocol.messages.cluster_metadata import PartitionChangeRecord, PartitionRecord
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

#: Frame version, record type and record version, each a varint of one byte. Partition and topic id follow in both
#: records.
_HEAD = 3
_BEHIND_PARTITION = _HEAD + 4
_BEHIND_TOPIC = _BEHIND_PARTITION + 16
_MANY = 127
#: Kinds of changes that are remembered: those of one election in a large cluster.
_MOST_CHANGES = 1000
_PARTITION = Layout(">i")
_EPOCHS = Layout(">ii")

_NEW_TUPLE = tuple.__new__


class PartitionChanges(msgspec.Struct, frozen=True):
    """The same change of several partitions, in the order of their records.

    `fields` are the fields of PartitionChangeRecord that are set; `partitions` are pairs (topic id, partition).
    """

    version: int
    fields: dict[str, Any]
    partitions: list[tuple[bytes, int]]

    def record(self, topic_id: bytes, partition: int) -> MetadataRecord:
        """Return the record of one partition."""
        value = PartitionChangeRecord.new(topic_id=topic_id, partition_id=partition, **self.fields)
        return MetadataRecord(PartitionChangeRecord, self.version, value)

    def encode(self) -> Iterator[bytes]:
        """Yield the bytes of each record."""
        one = encode_record(self.record(ZERO_UUID, 0))
        head, rest = one[:_HEAD], one[_BEHIND_TOPIC:]
        number = _PARTITION.pack
        for topic_id, partition in self.partitions:
            yield b"%b%b%b%b" % (head, number(partition), topic_id, rest)


#: A part of what is written into the log as one batch.
Changes: TypeAlias = MetadataRecord | PartitionChanges


def encode_records(records: Iterable[AnyRecord | PartitionChanges]) -> Iterator[bytes]:
    """Yield the bytes of each record. Raises EncodeError."""
    for record in records:
        if isinstance(record, PartitionChanges):
            yield from record.encode()
        else:
            yield encode_record(record)


def single_records(changes: Iterable[Changes]) -> list[MetadataRecord]:
    """Return each record of its own."""
    records: list[MetadataRecord] = []
    for each in changes:
        if isinstance(each, PartitionChanges):
            records += [each.record(topic_id, partition) for topic_id, partition in each.partitions]
        else:
            records.append(each)
    return records


def batches_of(changes: Sequence[Changes], limit: int) -> Iterator[list[Changes]]:
    """Yield the changes in lists of at most `limit` records each, in their order."""
    batch: list[Changes] = []
    size = 0
    for each in changes:
        rest: Changes | None = each
        while rest is not None:
            if size == limit:
                yield batch
                batch, size = [], 0
            taken, rest = _split(rest, limit - size)
            batch.append(taken)
            size += len(taken.partitions) if isinstance(taken, PartitionChanges) else 1
    if batch:
        yield batch


def _split(change: Changes, count: int) -> tuple[Changes, Changes | None]:
    """Return the first `count` records of a change, and the others, if there are any."""
    if not isinstance(change, PartitionChanges) or len(change.partitions) <= count:
        return change, None
    first, others = change.partitions[:count], change.partitions[count:]
    return msgspec.structs.replace(change, partitions=first), msgspec.structs.replace(change, partitions=others)


class ChangesBuilder:
    """Collects changes of partitions, and joins consecutive ones that are the same."""

    def __init__(self, metadata_version: int) -> None:
        assert PartitionChangeRecord.key is not None
        self._version = record_version(PartitionChangeRecord.key, metadata_version)
        self.changes: list[Changes] = []
        self._fields: dict[str, Any] | None = None
        self._partitions: list[tuple[bytes, int]] = []

    def add(self, topic_id: bytes, partition: int, fields: dict[str, Any]) -> None:
        """Add a change of a partition; without fields there is none."""
        if not fields:
            return
        if fields is not self._fields and fields != self._fields:
            self._fields, self._partitions = fields, []
            self.changes.append(PartitionChanges(self._version, fields, self._partitions))
        self._partitions.append((topic_id, partition))


class PartitionReader:
    """Decodes PartitionRecords by comparison with earlier ones: most have the same replicas and directories."""

    def __init__(self) -> None:
        #: Record size -> the position of the epochs, which follow four arrays of brokers and the leader.
        self._epochs_at: dict[int, int] = {}
        #: The bytes of a record without partition, topic and epochs -> the decoded registration.
        self._known: dict[tuple[bytes, bytes, bytes], PartitionRegistration] = {}

    def read(self, data: bytes) -> tuple[bytes, int, PartitionRegistration] | None:
        """Return topic id, partition and registration; None if it is another record. Raises ProtocolError."""
        at = self._epochs_at.get(len(data))
        if at is not None:
            like = self._known.get((data[:_HEAD], data[_BEHIND_TOPIC:at], data[at + _EPOCHS.size :]))
            if like is not None:
                topic_id, (partition,) = data[_BEHIND_PARTITION:_BEHIND_TOPIC], _PARTITION.unpack_from(data, _HEAD)
                fields = (*like[:3], *_EPOCHS.unpack_from(data, at), *like[5:])
                return topic_id, partition, _NEW_TUPLE(PartitionRegistration, fields)
        return self._learn(data)

    def _learn(self, data: bytes) -> tuple[bytes, int, PartitionRegistration] | None:
        if len(data) < _HEAD or data[1] != PartitionRecord.key:
            return None
        record = decode_record(data)
        assert isinstance(record, MetadataRecord)
        value = record.value
        registration = registration_of(value)
        brokers = (value.replicas, value.isr, value.removing_replicas, value.adding_replicas)
        # With more brokers a length needs more than one byte. Clusters have neither so many brokers nor so many kinds
        # of partitions. A record that is encoded differently may have its fields at other positions.
        if max(map(len, brokers)) < _MANY and len(self._known) < _MANY and encode_record(record) == data:
            at = _BEHIND_TOPIC + sum(1 + 4 * len(each) for each in brokers) + 4
            self._epochs_at[len(data)] = at
            self._known[data[:_HEAD], data[_BEHIND_TOPIC:at], data[at + _EPOCHS.size :]] = registration
        return value.topic_id, value.partition_id, registration


class ChangeReader:
    """Decodes PartitionChangeRecords by comparison with earlier ones: an election changes many partitions alike."""

    def __init__(self) -> None:
        #: The bytes of a record without partition and topic id -> the decoded record.
        self._known: dict[tuple[bytes, bytes], Struct] = {}

    def read(self, data: bytes) -> tuple[bytes, int, Struct] | None:
        """Return topic id, partition, and a record with the fields of the change; None if it is another record.

        The returned record may be that of another partition. Raises ProtocolError.
        """
        if len(data) < _BEHIND_TOPIC or data[1] != PartitionChangeRecord.key:
            return None
        kind = data[:_HEAD], data[_BEHIND_TOPIC:]
        value = self._known.get(kind)
        if value is None:
            record = decode_record(data)
            assert isinstance(record, MetadataRecord)
            if len(self._known) >= _MOST_CHANGES:
                self._known.clear()
            value = self._known[kind] = record.value
        return data[_BEHIND_PARTITION:_BEHIND_TOPIC], _PARTITION.unpack_from(data, _HEAD)[0], value
