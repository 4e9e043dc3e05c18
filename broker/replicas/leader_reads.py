"""Read committed records of partitions that other brokers lead: of this broker's own topics."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred


class CannotRead(Exception):
    """The leader has refused a read, or no leader has answered."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class CommittedRecords(NamedTuple):
    """Whole batches from the wanted offset on; none if it is below the start. The last batch may be cut."""

    records: bytes
    log_start_offset: int
    high_watermark: int


class LeaderOffset(NamedTuple):
    """An offset of the leader's log, and the leader epoch of its record; -1 if that is unknown."""

    offset: int
    leader_epoch: int


class LeaderReads(Protocol):
    """Reads partitions at their leaders."""

    def read(self, topic: str, index: int, offset: int, max_bytes: int) -> Deferred[CommittedRecords]:
        """Read from `offset` on. Fails with CannotRead."""

    def end_of_epoch(self, topic: str, index: int, leader_epoch: int) -> Deferred[LeaderOffset]:
        """Return the largest epoch of the leader's log up to `leader_epoch`, and its end; -1 for both if it has none.

        Fails with CannotRead.
        """

    def find_offset(self, topic: str, index: int, timestamp: int) -> Deferred[LeaderOffset]:
        """Find the offset of a special timestamp of ListOffsets. Fails with CannotRead."""
