"""The content of a broker's files for a trace, read with the functions of `pybroker dump-log`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from protocol.records.batch import iter_batches
from tools.data.decoders import CONVERTERS, Decoder, plain_decoder
from tools.data.dump import json_lines, text_lines
from tools.data.dump.events import (
    AbortedTransactionEntry,
    Event,
    FileStart,
    LoggedRecord,
    Note,
    OffsetEntry,
    TimeEntry,
)
from tools.data.dump.indexes import IndexErrors, IndexOptions, dump_offset_index
from tools.data.dump.segment import SegmentOptions
from tools.data.dump_log import dump
from tools.wire.traces.fields import batch_fields
from tools.wire.traces.steps import Row, Step, rows_of

_MAX_INT = (1 << 31) - 1
_STRING = CONVERTERS["org.apache.kafka.tools.api.StringDecoder"]
_AS_TEXT = plain_decoder(_STRING, _STRING)
#: Bytes of an entry on the disk.
_ENTRY_BYTES: dict[type[Event], int] = {OffsetEntry: 8, TimeEntry: 12, AbortedTransactionEntry: 34}


def segment(directory: Path) -> Path:
    """Return the first segment of a partition's directory; its indexes are beside it."""
    return directory / f"{0:020}.log"


def dumped(path: Path, decoder: Decoder = _AS_TEXT, *, records_only: bool = False) -> Iterator[Row]:
    """Yield the output of `pybroker dump-log` for a file; entries of indexes with their bytes."""
    segments = SegmentOptions(deep=True, decoder=decoder, with_metadata=not records_only, max_bytes=_MAX_INT)
    indexes = IndexOptions(max_message_size=_MAX_INT)
    data = path.read_bytes()
    position = 0
    for event in dump([str(path)], segments, indexes):
        if isinstance(event, FileStart) or (records_only and not isinstance(event, LoggedRecord)):
            continue
        fields = json.loads(json_lines.line(event))
        size = _ENTRY_BYTES.get(type(event))
        text = text_lines.line(event)
        if size is None or isinstance(event, Note):
            yield Row(fields.pop("type"), fields, text=text)
        else:
            yield Row(fields.pop("type"), fields, position, data[position : position + size], text)
            position += size


def index_entries(path: Path) -> list[OffsetEntry]:
    """Return the entries of an offset index."""
    events = dump_offset_index(str(path), IndexOptions(max_message_size=_MAX_INT), IndexErrors())
    return [each for each in events if isinstance(each, OffsetEntry)]


def batch_positions(path: Path) -> list[int]:
    """Return the positions at which the batches of a segment begin."""
    return [position for position, _ in iter_batches(path.read_bytes())]


def batch_step(path: Path, position: int, title: str, about: str) -> Step:
    """Return a step with the batch at a position of a segment, read from the disk."""
    data = path.read_bytes()
    return Step("append", title, about, rows_of(batch_fields(data, position), data))
