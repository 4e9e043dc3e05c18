"""The limits of a share group for its share-partitions."""

from __future__ import annotations

import msgspec

from broker.coordinators.share.runs import RecordState


class Limits(msgspec.Struct, frozen=True):
    """A share group's own settings. Names and defaults are Kafka's."""

    lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
    delivery_count: int = 5  # share.delivery.count.limit
    record_locks: int = 2_000  # share.partition.max.record.locks
    #: Rejected and exhausted records go to a dead-letter queue (KIP-1191).
    has_dead_letters: bool = False

    @property
    def exhausted(self) -> RecordState:
        """The state of a record after its last delivery."""
        return RecordState.ARCHIVING if self.has_dead_letters else RecordState.ARCHIVED
