"""The result of an append."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The result of appending one batch. `log_append_time_ms` is -1 with CreateTime.

    `duplicate`: the batch was already in the log, and the offsets are those of its first append. `must_wait`:
    the response has to wait, for a flush (flush.messages) or for other replicas.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    must_wait: bool
