"""Topics, partitions, segments, files, and a partition's offsets: diagrams of logs that the broker's code writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from protocol.records.builder import BatchBuilder
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tools.site.diagrams import (
    Mark,
    Tree,
    offsets_diagram,
    tree_diagram,
)
from tools.site.markdown import table

_TIME_MS = 1_767_225_600_000  # 2026-01-01
_TOPICS = ("launch_info", "report_push")
_PARTITIONS = 4
_CONFIG = LogConfig(segment_bytes=300)
_BATCHES, _RECORDS = 7, 3

_HEAD = f"""\
# Topics, partitions, segments

A topic is only a name: it has no file and no directory. Its partitions are logs. Each has a directory in one of
`log.dirs`, named after the topic and the partition's number from 0. A log is divided into segments; only the last one,
the active segment, is written. A segment is a few files, named after its first offset with 20 digits. The broker's own
code wrote the data in the pictures: {len(_TOPICS)} topics of {_PARTITIONS} partitions, and
{_BATCHES} batches of {_RECORDS} records in one of them, with a small
[log.segment.bytes](../../generated/configs.md#log.segment.bytes).
"""
_FILES = """\
The meaning of each file: [log directory](log-directory.md). Retention and compaction process whole segments, never the
active one, whether consumers have read them or not. How a record is found in them: [look-ups](look-ups.md).

## The offsets of a partition

Each new record gets the next offset. An offset is never assigned twice. Some offsets have no record, because compaction
removed it or because the offset belongs to a transaction marker. Four offsets limit what clients read:
"""
_OFFSETS = (
    ("log start offset", "the first readable offset: raised by retention and DeleteRecords", "ListOffsets (earliest)"),
    (
        "last stable offset",
        "the start of the first open transaction, else the high watermark. Consumers with `read_committed` get the"
        " records below it",
        "Fetch; ListOffsets (latest) with `read_committed`",
    ),
    (
        "high watermark",
        "all in-sync replicas have the records below it, so the loss of one replica does not lose them. All other"
        " consumers get the records below it",
        "Fetch; ListOffsets (latest)",
    ),
    (
        "log end offset",
        "the offset of the next record",
        "one above the offset that Produce returns for the last record",
    ),
)
_ALONE = """
If a broker is a partition's only replica, the high watermark equals the log end offset after each append. All but the
log end offset are stored in files for the next start: the log start offset and the high watermark in checkpoints, the
open transactions in producer snapshots.
"""


def partitions_page() -> str:
    """Return the page."""
    rows = [(f"**{name}**", what, where) for name, what, where in _OFFSETS]
    offsets = table(("offset", "meaning", "where clients see it"), rows)
    with TemporaryDirectory() as directory:
        manager = LogManager([directory])
        manager.lock()
        manager.load(lambda topic: _CONFIG, _TIME_MS)
        for topic in _TOPICS:
            for partition in range(_PARTITIONS):
                manager.create(topic, partition, bytes(16), _CONFIG, _TIME_MS)
        log = manager.logs[_TOPICS[-1], 0]
        for _ in range(_BATCHES):
            _append(log, BatchBuilder(), _RECORDS)
        hierarchy = tree_diagram([_topic(manager, topic, log) for topic in _TOPICS])
        marks = offsets_diagram(*_read_so_far(manager))
        manager.close(_TIME_MS)
    return "".join((_HEAD, hierarchy, _FILES, marks, "\n", offsets, _ALONE))


def _topic(manager: LogManager, topic: str, drawn: PartitionLog) -> Tree:
    """Return a topic with its partitions' directories; that of `drawn` has its files."""
    partitions = []
    for partition in range(_PARTITIONS):
        log = manager.logs[topic, partition]
        name = os.path.basename(log.path) + "/"
        partitions.append(Tree(name, _segments(log) if log is drawn else ()))
    return Tree(f"topic {topic}", partitions)


def _segments(log: PartitionLog) -> list[Tree]:
    files = sorted(
        os.listdir(log.path), key=lambda name: (name.partition(".")[0], name.partition(".")[2] != "log", name)
    )
    segments = list(log.segments)
    ends = [*(each.base_offset for each in segments[1:]), log.log_end_offset]
    trees = []
    for segment, end in zip(segments, ends, strict=True):
        own = [Tree(name) for name in files if name.startswith(f"{segment.base_offset:020}.")]
        active = ", active" if segment is segments[-1] else ""
        trees.append(Tree(f"segment: {segment.base_offset} to {end - 1}{active}", own))
    others = [Tree(name) for name in files if not name[0].isdigit()]
    return [*trees, *others]


def _read_so_far(manager: LogManager) -> tuple[int, Sequence[Mark]]:
    """Return the number of offsets, and the four marks: records were deleted, a transaction is open, a replica lags."""
    log = manager.create("orders", 0, bytes(16), LogConfig(), _TIME_MS)
    log.replicated = True
    _append(log, BatchBuilder(), 9)
    _append(log, BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 3)
    log.advance_high_watermark(log.log_end_offset)
    _append(log, BatchBuilder(), 3)
    log.delete_records(3)
    values = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
    return log.log_end_offset, [Mark(name, value) for (name, *_), value in zip(_OFFSETS, values, strict=True)]


def _append(log: PartitionLog, builder: BatchBuilder, count: int) -> None:
    for number in range(count):
        builder.append(_TIME_MS + number, b"17", b"two apples")
    log.append(bytearray(builder.build()), leader_epoch=0, now_ms=_TIME_MS)
