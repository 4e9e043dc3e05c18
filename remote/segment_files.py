"""The files of a segment that are copied together, and which of them a reader asks for (LogSegmentData, IndexType)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from remote.store import Source


class SegmentFiles(NamedTuple):
    """A closed segment.

    `producer_snapshot` is the producers' state at its end, and `leader_epochs` the text of `leader-epoch-checkpoint`
    with all epochs up to its end. `transaction_index` is None if no transaction in it was aborted.
    """

    log: Source
    offset_index: bytes
    time_index: bytes
    producer_snapshot: bytes
    leader_epochs: bytes
    transaction_index: bytes | None = None


class IndexKind(Enum):
    """The parts of a segment beside its records; the value is the field of `SegmentFiles`."""

    OFFSET = "offset_index"
    TIMESTAMP = "time_index"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCH = "leader_epochs"
    TRANSACTION = "transaction_index"
