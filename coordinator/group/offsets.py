"""The committed offsets of a shard's groups, and the pending offsets of open transactions.

Nothing is decided here. Only the three `replay*` methods change offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from coordinator.group.plain_commit import PlainCommit, TopicCommit
from coordinator.group.records import CommittedOffset, OffsetRecord

T = TypeVar("T")

#: Topic -> partition -> offset.
TopicOffsets: TypeAlias = dict[str, dict[int, CommittedOffset]]


class TopicPartition(NamedTuple):
    """A partition for which a group has an offset."""

    topic: str
    partition: int


class PendingOffset(NamedTuple):
    """An offset in an open transaction; `record_offset`: the offset of its record in the log."""

    committed: CommittedOffset
    record_offset: int


class LatestCommit(NamedTuple):
    """The last commit for a topic, and its time."""

    topic: TopicCommit
    commit_timestamp_ms: int


class Offsets:
    """Offsets by group, topic and partition.

    A group commits for the same partitions many times before a client fetches its offsets. So the last plain commit of
    a topic is kept as it is. It is split by partition when a client fetches, or when a commit for other partitions
    arrives.
    """

    __slots__ = ("_committed", "_last_applied_offsets", "_latest", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        # by group, topic: commits that `_committed` does not have yet
        self._latest: dict[str, dict[str, LatestCommit]] = {}
        self._pending: dict[int, dict[str, dict[str, dict[int, PendingOffset]]]] = {}  # by producer id, then group
        self._open: dict[str, dict[str, dict[int, set[int]]]] = {}  # producer ids by group, topic, partition
        # For groups with open transactions: the offsets of records that took effect since the transactions began.
        self._last_applied_offsets: dict[str, dict[TopicPartition, int]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition, or None."""
        return self.of_group(group_id).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return all committed offsets of a group. The caller must neither change nor keep them."""
        self._split_latest(group_id)
        return self._committed.get(group_id, {})

    def group_ids(self) -> set[str]:
        """Return the groups that have committed offsets."""
        return self._committed.keys() | self._latest.keys()

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset for the partition."""
        return partition in self._open.get(group_id, {}).get(topic, {})

    def has_open_transactions(self, group_id: str) -> bool:
        """Return whether an open transaction has any offset of the group."""
        return group_id in self._open

    def topic_partitions(self, group_id: str) -> Iterator[TopicPartition]:
        """Yield each partition with a committed or pending offset once."""
        self._split_latest(group_id)
        seen: set[TopicPartition] = set()
        stores: list[Mapping[str, Mapping[str, Mapping[int, object]]]] = [self._committed, self._open]
        for store in stores:
            for topic, partitions in store.get(group_id, {}).items():
                for partition in partitions:
                    topic_partition = TopicPartition(topic, partition)
                    if topic_partition not in seen:
                        seen.add(topic_partition)
                        yield topic_partition

    def groups_with(self, topic: str) -> set[str]:
        """Return the groups that have a committed or pending offset for any partition of a topic."""
        stores: list[Mapping[str, Mapping[str, object]]] = [self._committed, self._latest, self._open]
        return {group_id for store in stores for group_id, topics in store.items() if topic in topics}

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: OffsetRecord, offset: int, producer_id: int = -1) -> None:
        """Apply an offset commit or its tombstone. With a producer id it stays pending until the transaction ends."""
        group_id, topic, partition, committed = record
        if group_id in self._latest:
            self._split_latest(group_id)
        if committed is None:
            self._drop(group_id, topic, partition)
        elif producer_id < 0:
            if group_id in self._open:
                self._commit(group_id, topic, partition, committed, offset)
                return
            try:
                self._committed[group_id][topic][partition] = committed
            except KeyError:
                self._commit(group_id, topic, partition, committed, offset)
        else:
            opened = self._open.setdefault(group_id, {}).setdefault(topic, {})
            opened.setdefault(partition, set()).add(producer_id)
            topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
            topics.setdefault(topic, {})[partition] = PendingOffset(committed, offset)

    def replay_plain(self, commit: PlainCommit) -> None:
        """Apply a commit to a group without open transactions."""
        group_id, time_ms = commit.group_id, commit.commit_timestamp_ms
        for topic in commit.topics:
            before = self._latest.get(group_id, {}).get(topic.name)
            if before is not None and before.topic.partitions != topic.partitions:
                self._split_latest(group_id)
            if topic.partitions:
                self._latest.setdefault(group_id, {})[topic.name] = LatestCommit(topic, time_ms)

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._split_latest(group_id)
            # The latest record wins, not the latest marker: after compaction only the records show the order.
            last_applied = self._last_applied_offsets.get(group_id, {})
            for topic, partitions in topics.items():
                for partition in partitions:
                    self._close(group_id, topic, partition, producer_id)
            if committed:
                for topic, partitions in topics.items():
                    for partition, pending in partitions.items():
                        if pending.record_offset > last_applied.get(TopicPartition(topic, partition), -1):
                            self._commit(group_id, topic, partition, *pending)

    def _split_latest(self, group_id: str) -> None:
        """Move all that the group has committed into `_committed`."""
        for name, latest in self._latest.pop(group_id, {}).items():
            offsets = self._committed.setdefault(group_id, {}).setdefault(name, {})
            offsets.update(latest.topic.committed(latest.commit_timestamp_ms))

    def _commit(self, group_id: str, topic: str, partition: int, committed: CommittedOffset, offset: int) -> None:
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
        if group_id in self._open:
            self._last_applied_offsets.setdefault(group_id, {})[TopicPartition(topic, partition)] = offset

    def _drop(self, group_id: str, topic: str, partition: int) -> None:
        _remove(self._committed, group_id, topic, partition)
        for producer_id in tuple(self._open.get(group_id, {}).get(topic, {}).get(partition, ())):
            _remove(self._pending[producer_id], group_id, topic, partition)
            self._close(group_id, topic, partition, producer_id)

    def _close(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        """Remove a producer's pending offset of a partition."""
        producers = self._open[group_id][topic][partition]
        producers.discard(producer_id)
        if not producers:
            _remove(self._open, group_id, topic, partition)
            if group_id not in self._open:
                self._last_applied_offsets.pop(group_id, None)


def _remove(store: dict[str, dict[str, dict[int, T]]], group_id: str, topic: str, partition: int) -> None:
    topics = store.get(group_id, {})
    partitions = topics.get(topic, {})
    partitions.pop(partition, None)
    if not partitions:
        topics.pop(topic, None)
    if not topics:
        store.pop(group_id, None)
