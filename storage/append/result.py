"""What became of an append."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Of one batch. `log_append_time_ms` is -1 with CreateTime.

    `duplicate`: the batch had been appended before, and these are the offsets that it has. `flush_due`: by
    flush.messages it should be on the disk before anyone is told.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    flush_due: bool
