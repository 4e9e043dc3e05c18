"""When the records of an append may be acknowledged, and when work may rely on them.

Most appends may be acknowledged at once. The others have `AppendResult.must_wait`: their records have to reach the
disk (flush.messages), or other replicas.
"""

from __future__ import annotations

from typing import Protocol

from broker.replicas.partition import Partition
from runtime.deferred import Deferred
from storage.append.result import AppendResult

#: `acks` of a request whose records all in-sync replicas must have.
ACKS_ALL = -1


class Durability(Protocol):
    """Waits for the records of partitions."""

    def acknowledged(self, partition: Partition, result: AppendResult, acks: int, timeout_ms: int) -> Deferred[None]:
        """Resolve once the records of an append with `must_wait` are as safe as `acks` asks for.

        Fails with LogOffline, or with the reason why other replicas do not have them.
        """

    def relied_on(self, partition: Partition, end_offset: int | None = None) -> Deferred[None] | None:
        """Return a Deferred of the time when all records appended so far may be relied on; None if they are already.

        With `end_offset` those below it are enough.

        Fails as `acknowledged`. Raises LogOffline.
        """

    def may_wait(self, partition: Partition) -> bool:
        """Return whether records of a partition may have to wait at all."""
