"""Markers: the control records that end a transaction in each of its partitions.

This broker's own coordinator and WriteTxnMarkers request them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from coordinator.shard import Producer
from coordinator.transaction.transaction import NEWER
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.records.control import build_end_transaction_marker
from runtime.deferred import Deferred, after
from storage.append.header_validation import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.coordinators.shard_log import ShardLog
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.durability import Durability
    from broker.replicas.partitions import Partitions
    from coordinator.group.records import StoredRecord
    from coordinator.group.shard import GroupShard
    from runtime.clock import Clock

#: Errors of the group coordinator that mean that the partition has no ready leader.
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Marker(msgspec.Struct, frozen=True):
    """The end of a producer's transaction, decided by the coordinator of `coordinator_epoch`."""

    producer: Producer
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0


class MarkerWriter(Protocol):
    """Writes markers into partitions, whichever process or broker leads them."""

    def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        """Write a marker. Errors: as for `PartitionMarkers.write`."""


class PartitionMarkers:
    """Writes markers into the partitions of this process.

    Args:
        group_log: returns the shard and log of a partition of `__consumer_offsets`, or an error.
    """

    def __init__(
        self,
        partitions: Partitions,
        appends: AppendScheduler,
        durability: Durability,
        clock: Clock,
        group_log: Callable[[int], ShardLog[GroupShard, StoredRecord] | ErrorCode],
    ) -> None:
        self._partitions = partitions
        self._appends = appends
        self._durability = durability
        self._clock = clock
        self._group_log = group_log

    def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        """Write a marker into a partition, after the appends that wait there. Flush it if flush.messages asks for that.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
        NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER while a partition of `__consumer_offsets` is being loaded and where
        another broker leads the partition, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR for a producer id or an epoch
        below 0. The Deferred may fail with LogOffline instead.
        """
        partition = self._partitions.get(topic, index)
        if partition is None:
            return self._partitions.absence(topic, index)
        if min(marker.producer) < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which has no better code for it
        if topic == CONSUMER_OFFSETS:
            return self._once_safe(partition, self._append_to_groups(marker, partition))
        appended = self._appends.in_order(partition, lambda: self._append(marker, partition))
        if isinstance(appended, Deferred):
            return after(appended, lambda: self._once_safe(partition, appended.result()))
        return self._once_safe(partition, ErrorCode(appended))

    def _once_safe(self, partition: Partition, code: ErrorCode) -> ErrorCode | Deferred[ErrorCode]:
        """Return the code, once a marker that was written may be relied on."""
        safe = self._durability.relied_on(partition) if code is ErrorCode.NONE else None
        return code if safe is None else safe.then(lambda _: code)

    def _append(self, marker: Marker, partition: Partition) -> ErrorCode:
        if not partition.hosted:  # deleted during the flush, or led by another broker
            return partition.absence
        if partition.is_under_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        now_ms = self._clock.now_ms()
        try:
            if is_of_the_next(partition, marker):
                return ErrorCode.INVALID_PRODUCER_EPOCH
            partition.append(_batch(marker, now_ms), now_ms, AppendOrigin.COORDINATOR)
        except Exception as error:
            return error_code_of(error)
        return ErrorCode.NONE

    def _append_to_groups(self, marker: Marker, partition: Partition) -> ErrorCode:
        """Append the marker through the group shard, whose state follows its log."""
        found = self._group_log(partition.index)
        if isinstance(found, ErrorCode):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if found in _NOT_READY else found
        if is_of_the_next(partition, marker):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return found.end_transaction(marker.producer, marker.coordinator_epoch, marker.committed)


@lru_cache(maxsize=4)
def _batch(marker: Marker, now_ms: int) -> bytes:
    """Return the marker's bytes. They are usually the same in all partitions of a transaction."""
    return build_end_transaction_marker(
        *marker.producer,
        commit=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp_ms=now_ms,
    )


def is_of_the_next(partition: Partition, marker: Marker) -> bool:
    """Return whether the open transaction has the marker's own epoch: it is a later one where epochs are bumped."""
    if marker.transaction_version < NEWER:  # from then on a marker has a higher epoch than its records (KIP-1228)
        return False
    entry = partition.log.producer_state.producers.get(marker.producer.producer_id)
    return (
        entry is not None and entry.transaction_offset >= 0 and entry.producer_epoch == marker.producer.producer_epoch
    )
