"""An offset commit as nearly all are, without metadata and times of its own: records that never are one by one.

It is a sequence of OffsetRecords like any other that a decision wants to be written. But what they have in common is in
it once, so their bytes, and what they replay to, are made without a value for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import NamedTuple, overload

from coordinator.group.records import OFFSET_COMMIT_VERSION, CommittedOffset, OffsetRecord, offset_key_start
from protocol.records.varint import encode_varint

#: So many have offset deltas of one byte.
MOST_RECORDS = 64

#: A record from the partition on: the end of its key, the value's size, and the value, which is an offset commit v4:
#: version, offset, leader epoch, an empty string, commit time, and the same for all of a topic: one tagged field with
#: its number and size, topic id; no headers.
_REST = Layout(">iBhqiBq20s")
_VALUE_SIZE = encode_varint(_REST.size - 6)[0]
_EMPTY = 1
_ID_FOLLOWS = bytes([1, 0, 16])
_DELTAS = tuple(encode_varint(delta) for delta in range(MOST_RECORDS))

_new_tuple = tuple.__new__


class TopicCommit(NamedTuple):
    """What is committed of a topic: (partition, offset, leader epoch) each."""

    name: str
    topic_id: bytes
    offsets: Sequence[tuple[int, int, int]]

    def committed(self, commit_timestamp_ms: int) -> dict[int, CommittedOffset]:
        """What each partition has then."""
        topic_id = self.topic_id
        return {
            partition: _new_tuple(CommittedOffset, (offset, leader_epoch, "", commit_timestamp_ms, -1, topic_id))
            for partition, offset, leader_epoch in self.offsets
        }


class PlainCommit(Sequence[OffsetRecord]):
    """The records of a commit. Each topic has an id."""

    __slots__ = ("_count", "commit_timestamp_ms", "group_id", "topics")

    def __init__(self, group_id: str, commit_timestamp_ms: int, topics: Sequence[TopicCommit]) -> None:
        self.group_id = group_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.topics = topics
        self._count = sum(len(topic.offsets) for topic in topics)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OffsetRecord]:
        for name, topic_id, offsets in self.topics:
            for partition, offset, leader_epoch in offsets:
                committed = CommittedOffset(offset, leader_epoch, "", self.commit_timestamp_ms, topic_id=topic_id)
                yield OffsetRecord(self.group_id, name, partition, committed)

    @overload
    def __getitem__(self, index: int) -> OffsetRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OffsetRecord]: ...
    def __getitem__(self, index: int | slice) -> OffsetRecord | Sequence[OffsetRecord]:
        return list(self)[index]

    def pack(self) -> bytes | None:
        """The bytes of the records in a batch of which all have the time; None for more than have a short delta."""
        if self._count > MOST_RECORDS:
            return None
        pieces: list[bytes] = []
        deltas = iter(_DELTAS)
        time_ms, pack = self.commit_timestamp_ms, _REST.pack
        for name, topic_id, offsets in self.topics:
            front, key_start = _front(self.group_id, name)
            end = b"%b%b\0" % (_ID_FOLLOWS, topic_id)
            for (partition, offset, leader_epoch), delta in zip(offsets, deltas, strict=False):
                rest = pack(partition, _VALUE_SIZE, OFFSET_COMMIT_VERSION, offset, leader_epoch, _EMPTY, time_ms, end)
                pieces += (front, delta, key_start, rest)
        return b"".join(pieces)


@lru_cache(1024)
def _front(group_id: str, topic: str) -> tuple[bytes, bytes]:
    """What stands before a record's offset delta (its size, attributes, no time delta), and between that and the
    partition (the key's size, and the key as far as that).
    """
    start = offset_key_start(group_id, topic)
    key_start = encode_varint(len(start) + 4) + start
    return encode_varint(3 + len(key_start) + _REST.size) + b"\0\0", key_start
