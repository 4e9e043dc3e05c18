"""A manifest of the logs that a clean shutdown left in order, so that the next start need not read their directories.

The broker writes it to `.pybroker_in_order`, beside the clean shutdown mark, after everything else. It is not part of
the data: if it is missing, damaged, of another version or of another shutdown than the last, a start reads each log's
directory. The manifest counts for a log only if nothing has changed since. Its directory and the file with its topic id
must have the recorded identities (size, inode, mtime, ctime), and so must the checkpoint files that were used. Times
are compared only for equality: a clock may have gone back, and every change sets another ctime.

    {"version":1,"brokerEpoch":12,"checkpoints":[[38,5,1700000000000000000,1700000000000000000],null],
     "topics":{"orders":{"topicId":"<base64>","partitions":{"0":"<base64>"}}}}

`partitions` are the partitions in order, each with the identities of its directory and of its partition.metadata (four
numbers of 8 bytes each). `checkpoints` are the identities of the files with recovery points and log start offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from storage.checkpoints import (
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TopicPartition,
    read_topic_id,
)
from storage.fs import FileSystem, Identity
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.recovery.order import has_small_files, is_in_order, opens_quickly

MANIFEST = ".pybroker_in_order"

_VERSION = 1
#: The checkpoint files that decide whether a log is in order.
_CHECKPOINTS = RECOVERY_POINTS, LOG_START_OFFSETS
#: The identities of a partition's directory and of the file with its topic id.
_STATE = struct.Struct(">qQqqqQqq")


class _Topic(msgspec.Struct, rename="camel"):
    topic_id: bytes
    partitions: dict[int, bytes]


class _Manifest(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int
    checkpoints: list[Identity | None]
    topics: dict[str, _Topic]


class CleanState(NamedTuple):
    """The state of a log in order at a start. `state` comes from `state_of`."""

    recovery_point: int
    log_start_offset: int
    state: bytes | None


class ClosedLog(NamedTuple):
    """A log that a shutdown has closed, or that was never opened.

    `topic_id`: None if it must be read. `found`: None if this broker's start did not find the log in order.
    """

    key: TopicPartition
    path: str
    config: LogConfig
    topic_id: bytes | None
    found: CleanState | None


def state_of(fs: FileSystem, path: str) -> bytes | None:
    """Return bytes that change with a log's topic id and with the names of its files; None if unknown."""
    try:
        directory = fs.identity(path, follow=False)
        metadata = fs.identity(f"{path}/{PARTITION_METADATA}", follow=False)
    except OSError:  # whoever opens the log gets the error
        return None
    return None if directory is None or metadata is None else _STATE.pack(*directory, *metadata)


class CleanShutdownManifest:
    """The manifest of the last shutdown."""

    def __init__(self, fs: FileSystem, content: _Manifest) -> None:
        self._fs = fs
        self._topics = content.topics

    def topic_id(self, key: TopicPartition, state: bytes | None) -> bytes | None:
        """Return the topic id (16 bytes) of a log that was left in order and is unchanged; None if it must be
        inspected.
        """
        topic = self._topics.get(key[0])
        if topic is None or state is None or topic.partitions.get(key[1]) != state:
            return None
        return topic.topic_id


def read_manifest(fs: FileSystem, directory: str, broker_epoch: int) -> CleanShutdownManifest | None:
    """Read the manifest of the shutdown with that broker epoch; None if it is missing or cannot be trusted."""
    try:
        content = msgspec.json.decode(fs.read_file(f"{directory}/{MANIFEST}"), type=_Manifest)
        if content.version != _VERSION or content.broker_epoch != broker_epoch or broker_epoch < 0:
            return None
        if content.checkpoints != _identities(fs, directory):
            return None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return CleanShutdownManifest(fs, content)


def write_manifest(
    directory: LogDirectory,
    broker_epoch: int,
    points: Mapping[str, Mapping[TopicPartition, int]],
    logs: Iterable[ClosedLog],
) -> None:
    """Write the manifest, as the last step before the clean shutdown mark. Raises OSError.

    `points` are the offsets in the checkpoint files, by file and partition.
    """
    fs, path = directory.fs, directory.path
    temporary = f"{path}/{MANIFEST}.tmp"
    fs.write_file(temporary, b"")
    now = fs.identity(temporary)
    topics: dict[str, _Topic] = {}
    for log in logs:
        name, partition = log.key
        rest = points[RECOVERY_POINTS][log.key], points[LOG_START_OFFSETS].get(log.key, 0)
        state = state_of(fs, log.path)
        if state is None or now is None or _may_change_unseen(state, now.changed_ns):
            continue
        if not _is_left_in_order(directory, log, state, *rest):
            continue
        is_as_found = log.found is not None and log.found.state == state
        topic_id = log.topic_id if is_as_found else None
        if topic_id is None:
            topic_id = read_topic_id(fs, log.path)
        if topic_id is not None:
            topic = topics.setdefault(name, _Topic(topic_id, {}))
            if topic.topic_id == topic_id:
                topic.partitions[partition] = state
    content = _Manifest(_VERSION, broker_epoch, _identities(fs, path), topics)
    fs.replace_file(f"{path}/{MANIFEST}", msgspec.json.encode(content))


def _may_change_unseen(state: bytes, now_ns: int) -> bool:
    """Return whether the last change is so recent that another one could get the same ctime."""
    values = _STATE.unpack(state)
    changed_ns: int = max(values[3], values[7])
    return now_ns <= changed_ns


def _is_left_in_order(
    directory: LogDirectory, log: ClosedLog, state: bytes, recovery_point: int, log_start_offset: int
) -> bool:
    """Return whether the next start can use the log without reading its directory. Raises OSError."""
    fs, path, config = directory.fs, log.path, log.config
    if config.compacted or not opens_quickly(config):
        return False  # a start inspects such a log anyway
    if log.found == (recovery_point, log_start_offset, state):
        return True
    names = fs.names(path)
    return is_in_order(names, recovery_point, log_start_offset) and has_small_files(fs, path, names, recovery_point)


def _identities(fs: FileSystem, path: str) -> list[Identity | None]:
    return [fs.identity(f"{path}/{name}") for name in _CHECKPOINTS]
