"""Compare two log directories file by file: two brokers wrote the same topics for the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storage.fs import LOCAL
from storage.producers.snapshot import encode_snapshot, read_snapshot
from tests.support.batch_values import comparable_batches
from tests.support.scripts import Script

# ids differ, and the clock decides when deleted files disappear
_LEFT_OUT = ("partition.metadata", ".deleted")
# these depend on LogAppendTime, compressors, or index.interval.bytes
_OF_TIME = (".timeindex", ".snapshot")
_OF_SIZE = (".index", ".timeindex")
_LEADER_EPOCHS = "leader-epoch-checkpoint"


def partition_files(log_dir: Path, topic: str) -> dict[str, Path]:
    """Return the files of a topic's partitions by name, `partition directory/file`."""
    found = {}
    for directory in log_dir.glob(f"{topic}-*"):
        name, _, index = directory.name.rpartition("-")
        if name == topic and index.isdigit():
            for path in directory.iterdir():
                if not path.name.endswith(_LEFT_OUT):
                    found[f"{directory.name}/{path.name}"] = path
    return found


def differences(ours: Path, kafka: Path, script: Script, *, killed: bool = False) -> Iterator[str]:
    """Yield the differences between the partitions of a script's topic, a line each; both brokers are stopped.

    `killed`: at some time before. A kill costs Kafka's partitions two leader epochs and ours one. It rebuilds the last
    index with the current index.interval.bytes, and our broker may know more producers (docs/decisions/interchange.md).
    """
    topic = script.name
    left, right = partition_files(ours, topic), partition_files(kafka, topic)
    if left.keys() != right.keys():
        yield f"{topic}: only ours {sorted(left.keys() - right)}, only Kafka's {sorted(right.keys() - left)}"
    anew = script.reencoded or (killed and script.changes_index_interval)
    excepted = (_OF_SIZE if anew else ()) + (_OF_TIME if script.stamped else ())
    for name in sorted(left.keys() & right.keys()):
        if name.endswith(excepted):
            continue
        mine, theirs = left[name].read_bytes(), right[name].read_bytes()
        if name.endswith(".log") and (script.reencoded or script.stamped):
            batches, others = (comparable_batches(data, reencoded=script.reencoded) for data in (mine, theirs))
            if batches != others:
                yield f"{name}: {batches} and {others}"
        elif killed and name.endswith(_LEADER_EPOCHS):
            if _start_offsets(mine) != _start_offsets(theirs):
                yield f"{name}: {mine!r} and {theirs!r}"
        elif killed and name.endswith(".snapshot"):
            if not _producers(right[name]).items() <= _producers(left[name]).items():
                yield f"{name}: Apache Kafka knows other producers"
        elif mine != theirs:
            yield f"{name}: {len(mine)} and {len(theirs)} bytes, the first other one at {_first_other(mine, theirs)}"


def _producers(snapshot: Path) -> dict[int, bytes]:
    return {entry.producer_id: encode_snapshot([entry]) for entry in read_snapshot(LOCAL, str(snapshot))}


def _start_offsets(epochs: bytes) -> list[bytes]:
    """Return the start offsets of a leader-epoch-checkpoint, a line for each epoch."""
    return [line.split()[1] for line in epochs.splitlines()[2:]]


def _first_other(left: bytes, right: bytes) -> int:
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return position
    return min(len(left), len(right))
