"""The reads of tiered storage that requests use: records below the local log start offset (KIP-405).

`broker/tiering/reading/` has the implementation. A process without tiered storage has none.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from storage.log.timestamps import find_timestamp

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from runtime.deferred import Deferred
    from storage.fetch_slice import FetchSlice
    from storage.index.transaction import AbortedTransaction
    from storage.log.timestamps import Allowance, TimestampAndOffset


class RemoteRecords(NamedTuple):
    """Batches from the requested offset on, and an offset above all of them. `aborted` only if it was asked for."""

    records: FetchSlice | bytes
    end_offset: int
    aborted: list[AbortedTransaction] | None = None


class RemoteReads(Protocol):
    """Reads of one process. All of it belongs to the event loop's thread."""

    @property
    def max_wait_ms(self) -> int:
        """How long a fetch may wait for remote storage (remote.fetch.max.wait.ms)."""

    @property
    def look_up_ms(self) -> int:
        """How long ListOffsets may wait (remote.list.offsets.request.timeout.ms)."""

    def read(
        self,
        partition: Partition,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        with_aborted: bool = False,
    ) -> RemoteRecords | Deferred[None]:
        """Return records of an offset between log start offset and local log start offset, or what to wait for.

        The Deferred is shared: it must not be cancelled. When it resolves, the caller reads again; it fails with the
        error of remote storage. Raises OffsetOutOfRange if remote storage does not have the offset, and LogOffline.
        """

    def find_timestamp(
        self, partition: Partition, timestamp: int, allowance: Allowance, deadline_ms: int
    ) -> Generator[Any, Any, TimestampAndOffset | None]:
        """Find the first record below the local log start offset whose timestamp is at least `timestamp` (ms).

        Steps for `TimeLookUps.run`. Raises RequestTimedOut at `deadline_ms`, and the errors of remote storage.
        """


def find_in_both_tiers(
    reads: RemoteReads | None, partition: Partition, timestamp: int, allowance: Allowance, deadline_ms: int
) -> Generator[Any, Any, TimestampAndOffset | None]:
    """Find the first record whose timestamp is at least `timestamp` (ms): the remote ones are the older ones.

    Steps for `TimeLookUps.run`. `reads` is None without tiered storage. Raises as `RemoteReads.find_timestamp`, and as
    `find_timestamp` of storage/log/timestamps.py.
    """
    log = partition.log
    found = None
    if reads is not None and log.config.tiered and log.log_start_offset < log.local_start_offset:
        found = yield from reads.find_timestamp(partition, timestamp, allowance, deadline_ms)
    if found is None:
        found = yield from find_timestamp(lambda: partition.log, timestamp, allowance)
    return found
