"""What some topics ask of a batch beyond its header: a look at its records, timestamps of the broker."""

from __future__ import annotations

from protocol.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, parse_header, patch_timestamp
from storage.append.opening import Opened, open_inline
from storage.append.rules import AppendOrigin, must_open
from storage.log_config import LogConfig


def prepared(
    view: memoryview, header: BatchHeader, config: LogConfig, origin: AppendOrigin, now_ms: int, opened: Opened | None
) -> tuple[memoryview, BatchHeader]:
    """The batch as it is to be written, and its header: records written anew, timestamps of the broker.

    A writable `view` gets these where it is, another one is copied. `opened` is what became of the batch in a worker.
    Raises as `open_inline`.
    """
    if must_open(header, config, origin):
        anew = open_inline(view, header, config, now_ms, opened)
        if anew is not None:
            view, header = memoryview(anew), parse_header(anew)
    if config.log_append_time or header.attributes & TIMESTAMP_TYPE_BIT:
        if view.readonly:
            view = memoryview(bytearray(view))
        max_timestamp = now_ms if config.log_append_time else header.max_timestamp
        patch_timestamp(view, 0, header.size_bytes, int(config.log_append_time), max_timestamp)
        header = parse_header(view)
    return view, header
