"""Topics, partitions, segments, files, and a partition's offsets: figures of logs that the broker has written."""

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

A topic is a name: it has no file and no directory of its own. Its partitions are logs, each in a directory that is
called after topic and number, from 0 on, in one of `log.dirs`. A log is cut into segments; the last one is active, and
only that is written to. A segment is a few files beside each other, called after the first offset in it, with 20
digits. What is drawn was written by the broker's code: {len(_TOPICS)} topics of {_PARTITIONS} partitions, and
{_BATCHES} batches of {_RECORDS} records in one of them, with a small
[log.segment.bytes](../../generated/configs.md#log.segment.bytes).
"""
_FILES = """\
Which file is what: [log directory](log-directory.md). Retention and compaction take whole segments, never the active
one; neither asks whether anybody has read them. How a record is found among them: [look-ups](look-ups.md).

## The offsets of a partition

Each record has the next offset. Offsets are never given twice; where compaction took records away, or a transaction
was marked as ended, there are offsets without a record. Four of them say what may be read:
"""
_OFFSETS = (
    ("log start offset", "the first that may be read: raised by retention and DeleteRecords", "ListOffsets (earliest)"),
    (
        "last stable offset",
        "where the first open transaction begins; else the high watermark. Readers with `read_committed` get what is"
        " below",
        "Fetch; ListOffsets (latest) with `read_committed`",
    ),
    (
        "high watermark",
        "what is below is on all replicas that are in sync, and will not be lost with one of them. All other readers"
        " get what is below",
        "Fetch; ListOffsets (latest)",
    ),
    ("log end offset", "what the next record gets", "one above what Produce answers for the last record"),
)
_ALONE = """
A broker that is a partition's only replica has its high watermark at the log end offset after each append. All but the
log end offset are kept in files, so that a start has them: the log start offset and the high watermark in checkpoints,
the open transactions in producer snapshots.
"""


def partitions_page() -> str:
    """The page."""
    rows = [(f"**{name}**", what, where) for name, what, where in _OFFSETS]
    offsets = table(("offset", "what it says", "where clients see it"), rows)
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
    """A topic, and its partitions' directories; of one of them what is in it."""
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
    """How many offsets there are, and the four: records were deleted, a transaction is open, a replica lags behind."""
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
