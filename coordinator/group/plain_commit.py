"""An offset commit without metadata and without times of its own, as nearly all commits are.

It is a sequence of OffsetRecords, as decisions write them. The fields that the records share are stored once, so that
encoding and replaying the commit need no object for each record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import NamedTuple, overload

from coordinator.group.records import (
    BARE_VALUE_SIZE,
    OFFSET_COMMIT_VERSION,
    CommittedOffset,
    OffsetRecord,
    offset_key_start,
)
from protocol.records.varint import encode_varint

#: The most records whose offset deltas have one byte.
MOST_RECORDS = 64
#: The number of lists of partitions whose record prefixes are cached: a member commits for the same partitions
#: repeatedly.
_KNOWN_LISTS = 1024

#: The value of a record is an offset commit v4. After its size and its version it has the offset and the leader epoch,
#: in which commits differ. Then follow an empty string, the commit time, one tagged field with its number and size, and
#: the topic id. There are no headers.
_VALUE_START = encode_varint(BARE_VALUE_SIZE) + OFFSET_COMMIT_VERSION.to_bytes(2, "big")
_OFFSET = "qi"
_VALUE_END = Layout(">Bq3s16sx")
#: The size of a record without its size field, its key and the size of its key: attributes, time delta, offset delta,
#: value, headers.
_OTHERS_SIZE = 3 + 1 + BARE_VALUE_SIZE + 1
_EMPTY = 1
_ID_FOLLOWS = bytes([1, 0, 16])
_PARTITION = Layout(">i")
_DELTAS = tuple(encode_varint(delta) for delta in range(MOST_RECORDS))

_new_tuple = tuple.__new__


class TopicCommit(NamedTuple):
    """The committed offsets of a topic, as columns of equal length."""

    name: str
    topic_id: bytes
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]

    def committed(self, commit_timestamp_ms: int) -> dict[int, CommittedOffset]:
        """Return the committed offset of each partition."""
        _, topic_id, partitions, offsets, leader_epochs = self
        return {
            partition: _new_tuple(CommittedOffset, (offset, leader_epoch, "", commit_timestamp_ms, -1, topic_id))
            for partition, offset, leader_epoch in zip(partitions, offsets, leader_epochs, strict=True)
        }


class PlainCommit(Sequence[OffsetRecord]):
    """The records of a commit. Each topic has an id."""

    __slots__ = ("_count", "commit_timestamp_ms", "group_id", "topics")

    def __init__(self, group_id: str, commit_timestamp_ms: int, topics: Sequence[TopicCommit]) -> None:
        self.group_id = group_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.topics = topics
        self._count = sum([len(topic.partitions) for topic in topics])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OffsetRecord]:
        for topic in self.topics:
            for partition, offset, leader_epoch in zip(*topic[2:], strict=True):
                committed = CommittedOffset(offset, leader_epoch, "", self.commit_timestamp_ms, topic_id=topic.topic_id)
                yield OffsetRecord(self.group_id, topic.name, partition, committed)

    @overload
    def __getitem__(self, index: int) -> OffsetRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OffsetRecord]: ...
    def __getitem__(self, index: int | slice) -> OffsetRecord | Sequence[OffsetRecord]:
        return list(self)[index]

    def pack(self) -> bytes | None:
        """Return the records' bytes in a batch with the commit's timestamp; None for more than MOST_RECORDS records."""
        if self._count > MOST_RECORDS:
            return None
        pieces = []
        first = 0
        for name, topic_id, partitions, offsets, leader_epochs in self.topics:
            starts, layout = _starts(self.group_id, name, partitions, first)
            end = _VALUE_END.pack(_EMPTY, self.commit_timestamp_ms, _ID_FOLLOWS, topic_id)
            fields: list[bytes | int] = [end] * (4 * len(partitions))
            fields[::4], fields[1::4], fields[2::4] = starts, offsets, leader_epochs
            pieces.append(layout.pack(*fields))
            first += len(partitions)
        return b"".join(pieces)


@lru_cache(_KNOWN_LISTS)
def _starts(group_id: str, topic: str, partitions: tuple[int, ...], first: int) -> tuple[list[bytes], Layout]:
    """Return the bytes of the records up to the offset field, and a layout with a field for each of them.

    `first`: the offset delta of the first record.
    """
    key_start = offset_key_start(group_id, topic)
    key_size = len(key_start) + _PARTITION.size
    key_front = encode_varint(key_size) + key_start
    front = encode_varint(_OTHERS_SIZE + len(key_front) + _PARTITION.size) + b"\0\0"
    starts = [
        b"".join((front, delta, key_front, _PARTITION.pack(partition), _VALUE_START))
        for partition, delta in zip(partitions, _DELTAS[first:], strict=False)
    ]
    return starts, _layout(len(front) + 1 + len(key_front) + _PARTITION.size + len(_VALUE_START), len(starts))


@lru_cache(_KNOWN_LISTS)
def _layout(start_size: int, count: int) -> Layout:
    return Layout(">" + f"{start_size}s{_OFFSET}{_VALUE_END.size}s" * count)
