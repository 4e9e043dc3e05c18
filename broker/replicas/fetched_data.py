"""Parts of a Fetch response for one partition: errors, diverging epochs, aborted transactions, and slices in memory."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from protocol.fetch_answer import Aborted, Epoch, FetchedData
from storage.errors import OffsetOutOfRange
from storage.log.aborted_transactions import fetch_upper_bound

if TYPE_CHECKING:
    from broker.replicas.fetch_session import FetchedPartition
    from broker.replicas.partition import Partition
    from protocol.error_codes import ErrorCode
    from storage.fetch_slice import FetchSlice
    from storage.log.partition_log import PartitionLog


def failed_data(wanted: FetchedPartition, code: ErrorCode) -> FetchedData:
    """Return the answer with an error: the code, and -1 for each offset."""
    return FetchedData(wanted.index, code)


def absent_data(index: int, code: ErrorCode) -> FetchedData:
    """Return the answer with an error before any look-up: Kafka gives it an empty list of aborted transactions."""
    return FetchedData(index, code, aborted=())


def divergence(partition: Partition, wanted: FetchedPartition) -> Epoch | None:
    """Return where the client's log diverges from ours, by its last record's epoch (KIP-595). OffsetOutOfRange."""
    log = partition.log
    newest, offset = log.leader_epochs.latest, wanted.fetch_offset
    if wanted.last_fetched_epoch == newest and log.log_start_offset <= offset <= log.log_end_offset:
        return None  # as nearly always
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(wanted.fetch_offset, log.log_start_offset, log.log_end_offset)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return Epoch(epoch, end_offset)
    return None


def aborted_in(log: PartitionLog, fetch_offset: int, records: FetchSlice) -> list[Aborted]:
    """Return the aborted transactions that a consumer of `records` must skip (KIP-98)."""
    found = log.aborted_transactions(fetch_offset, fetch_upper_bound(log, fetch_offset, records))
    return [Aborted(each.producer_id, each.first_offset) for each in found]


def warm(slices: list[FetchSlice]) -> None:
    """Read the slices into the page cache. Called in a thread."""
    for each in slices:
        with suppress(OSError):  # the send will fail with the same error
            each.warm()
