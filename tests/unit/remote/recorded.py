"""The remote directories that Apache Kafka wrote, and the metadata records of their segments (tests/data/remote)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Source
from tests.support.dump_log import LOGS
from tests.support.metadata_log import stored_values
from tiered.metadata_records import TopicIdPartition, decode
from tiered.segment import RemoteSegment

RECORDED = LOGS.parent / "remote"
AIVEN = RECORDED / "aiven-on-4.3.1"
LOCAL = sorted(RECORDED.glob("local-*"))
#: The suffixes of LocalTieredStorage's files.
SUFFIXES = {
    IndexKind.OFFSET: "index",
    IndexKind.TIMESTAMP: "timeindex",
    IndexKind.TRANSACTION: "txnindex",
    IndexKind.PRODUCER_SNAPSHOT: "snapshot",
    IndexKind.LEADER_EPOCH: "leader_epoch_checkpoint",
}


class Copied(NamedTuple):
    """A segment that Apache Kafka copied."""

    partition: TopicIdPartition
    segment: RemoteSegment


def copied_segments(recorded: Path) -> Iterator[Copied]:
    """Yield each segment whose copy was recorded, as its first record describes it."""
    for log in sorted((recorded / "log.dirs").glob("__remote_log_metadata-*/*.log")):
        for _, value in stored_values(log):
            partition, event = decode(value)
            if isinstance(event, RemoteSegment):
                yield Copied(partition, event)


def files_of(folder: Path, name: str) -> SegmentFiles:
    """Return the files of a segment in LocalTieredStorage's layout."""
    log = folder / f"{name}.log"
    found = {
        kind.value: path.read_bytes()
        for kind, suffix in SUFFIXES.items()
        if (path := folder / f"{name}.{suffix}").exists()
    }
    return SegmentFiles(log=Source(str(log), log.stat().st_size), **found)
