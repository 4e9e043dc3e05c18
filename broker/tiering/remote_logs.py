"""The remote part of each partition, by the records of `__remote_log_metadata` that were replayed so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tiered.lineage import NOTHING_COPIED
from tiered.metadata_records import Event, PartitionDeletion, TopicIdPartition
from tiered.segment import RemoteSegment
from tiered.segments import RemoteSegments

if TYPE_CHECKING:
    from broker.tiering.reading.aborted import IndexedSegments


class RemoteLog:
    """The remote part of one partition. `segments` are all copies of its segments."""

    __slots__ = (
        "_is_loaded",
        "copied_offset",
        "copying",
        "delete_lag_bytes",
        "delete_lag_segments",
        "indexed",
        "known_epoch",
        "partition",
        "quota_until_ms",
        "segments",
        "size_took_ms",
    )

    def __init__(self, partition: TopicIdPartition, is_loaded: Callable[[TopicIdPartition], bool]) -> None:
        self.partition = partition
        self.segments = RemoteSegments()
        #: The last offset of the local log that remote storage has (inclusive); -1: none, or it is not known yet.
        self.copied_offset = NOTHING_COPIED
        #: The ids of the copies that this broker makes at the moment.
        self.copying: set[bytes] = set()
        #: When the quota allows the next copy, in ms since 1970.
        self.quota_until_ms = 0
        #: The expired copies that are not deleted yet, and how long the last look for them took.
        self.delete_lag_bytes = 0
        self.delete_lag_segments = 0
        self.size_took_ms = 0
        #: The segments with aborted transactions, once a consumer has needed them.
        self.indexed: IndexedSegments | None = None
        #: The leader epoch in which this broker has replayed what the leaders before it wrote; -1: none.
        self.known_epoch = -1
        self._is_loaded = is_loaded

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def is_loaded(self) -> bool:
        """Whether all records of the partition that were there at the start have been replayed."""
        return self._is_loaded(self.partition)


class RemoteLogs:
    """The remote logs by topic id and index.

    Args:
        name_of: returns the name of a topic by its id; None if it is unknown.
        is_loaded: returns whether the records of a partition are replayed.
    """

    def __init__(self, name_of: Callable[[bytes], str | None], is_loaded: Callable[[TopicIdPartition], bool]) -> None:
        self._name_of = name_of
        self._is_loaded = is_loaded
        self._logs: dict[tuple[bytes, int], RemoteLog] = {}
        #: Called with a remote log after a record of it was replayed.
        self.on_change: Callable[[RemoteLog], None] = lambda remote_log: None

    def __iter__(self) -> Iterator[RemoteLog]:
        return iter(self._logs.values())

    def find(self, topic_id: bytes, index: int) -> RemoteLog | None:
        """Return the remote log of a partition; None if nothing is known of it."""
        return self._logs.get((topic_id, index))

    def get(self, topic_id: bytes, index: int) -> RemoteLog:
        """Return the remote log of a partition, which is empty if nothing is known of it."""
        found = self._logs.get((topic_id, index))
        if found is None:
            found = RemoteLog(TopicIdPartition(topic_id, self._name_of(topic_id) or "", index), self._is_loaded)
            self._logs[topic_id, index] = found
        return found

    def replay(self, partition: TopicIdPartition, event: Event) -> None:
        """Apply a record. Records that contradict earlier ones change nothing."""
        if isinstance(event, PartitionDeletion):
            return
        found = self.get(partition.topic_id, partition.partition)
        if not found.partition.topic:
            found.partition = partition
        if isinstance(event, RemoteSegment):
            found.segments.add(event)
        else:
            found.segments.update(event)
        self.on_change(found)

    def forget(self, remote_log: RemoteLog) -> None:
        """Drop the remote log of a deleted partition, of which nothing is left."""
        self._logs.pop((remote_log.partition.topic_id, remote_log.partition.partition), None)
