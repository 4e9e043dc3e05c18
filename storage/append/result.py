"""The result of an append."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The result of appending one batch. `log_append_time_ms` is -1 with CreateTime.

    `duplicate`: the batch was already in the log, and the offsets are those of its first append. `flush_due`:
    flush.messages requires a flush before the response.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    flush_due: bool
