"""Prepare a batch for topics that need more than header validation: inspected records, or LogAppendTime."""

from __future__ import annotations

from protocol.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, parse_header, patch_timestamp
from storage.append.header_validation import AppendOrigin, must_open
from storage.append.record_validation import Opened, open_inline
from storage.log_config import LogConfig


def prepared(
    view: memoryview, header: BatchHeader, config: LogConfig, origin: AppendOrigin, now_ms: int, opened: Opened | None
) -> tuple[memoryview, BatchHeader]:
    """Return the batch to write and its header, with rewritten records and the broker's timestamps.

    A writable `view` is changed in place; a read-only one is copied. `opened` is a worker's result for the batch.
    Raises as `open_inline`.
    """
    if must_open(header, config, origin):
        rewritten = open_inline(view, header, config, now_ms, opened)
        if rewritten is not None:
            view, header = memoryview(rewritten), parse_header(rewritten)
    if config.log_append_time or header.attributes & TIMESTAMP_TYPE_BIT:
        if view.readonly:
            view = memoryview(bytearray(view))
        max_timestamp = now_ms if config.log_append_time else header.max_timestamp
        patch_timestamp(view, 0, header.size_bytes, int(config.log_append_time), max_timestamp)
        header = parse_header(view)
    return view, header
