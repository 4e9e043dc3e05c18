"""Which logs a clean stop left in order, noted so that the next start need not look at the files of each.

A stop notes it in `.pybroker_in_order`, beside its mark, when all else is written. The note is no part of the data: if
it is missing, damaged, of another version, or of another stop than the last, a start looks at each log, and that is
all. A log that has changed since is not believed to be as it was left: its directory and its topic id's file have to be
the very ones of the stop (size, inode, mtime, ctime), and so have the checkpoints by which it was in order. Times are
compared for equality only: a clock may have gone back, and every change leaves another ctime than before.

    {"version":1,"brokerEpoch":12,"checkpoints":[[38,5,1700000000000000000,1700000000000000000],null],
     "topics":{"orders":{"topicId":"<base64>","partitions":{"0":"<base64>"}}}}

`partitions` are those that are in order, each with the identities of its directory and its partition.metadata (each
four numbers of 8 bytes), and `checkpoints` the identities of recovery points and start offsets.
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
from storage.recovery.order import is_in_order, is_opened_in_a_moment, is_read_in_a_moment

NOTE = ".pybroker_in_order"

_VERSION = 1
#: The checkpoints that decide whether a log is in order.
_CHECKPOINTS = RECOVERY_POINTS, LOG_START_OFFSETS
#: The identities of a partition's directory, and of the file with its topic id.
_STATE = struct.Struct(">qQqqqQqq")


class _Topic(msgspec.Struct, rename="camel"):
    topic_id: bytes
    partitions: dict[int, bytes]


class _Note(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int
    checkpoints: list[Identity | None]
    topics: dict[str, _Topic]


class FoundInOrder(NamedTuple):
    """How a start found a log in order: `state` as of `state_of`."""

    recovery_point: int
    log_start_offset: int
    state: bytes | None


class ClosedLog(NamedTuple):
    """A log that a stop has closed, or that nobody has opened.

    `topic_id` None: it has to be read. `found`: None where this broker's start did not find it in order.
    """

    key: TopicPartition
    path: str
    config: LogConfig
    topic_id: bytes | None
    found: FoundInOrder | None


def state_of(fs: FileSystem, path: str) -> bytes | None:
    """Differs after any change of a log's topic id, or of the names of its files; None: nobody can tell."""
    try:
        directory = fs.identity(path, follow=False)
        metadata = fs.identity(f"{path}/{PARTITION_METADATA}", follow=False)
    except OSError:  # whoever looks at it will see
        return None
    return None if directory is None or metadata is None else _STATE.pack(*directory, *metadata)


class AsLeft:
    """The note of the last stop, believed as far as it can be."""

    def __init__(self, fs: FileSystem, note: _Note) -> None:
        self._fs = fs
        self._topics = note.topics

    def topic_id(self, key: TopicPartition, state: bytes | None) -> bytes | None:
        """A log's topic id (16 bytes), if it was left in order and is as it was left; None: it has to be looked at."""
        topic = self._topics.get(key[0])
        if topic is None or state is None or topic.partitions.get(key[1]) != state:
            return None
        return topic.topic_id


def read_note(fs: FileSystem, directory: str, broker_epoch: int) -> AsLeft | None:
    """What the stop with that broker epoch has noted; None where nothing of it can be believed."""
    try:
        note = msgspec.json.decode(fs.read_file(f"{directory}/{NOTE}"), type=_Note)
        if note.version != _VERSION or note.broker_epoch != broker_epoch or broker_epoch < 0:
            return None
        if note.checkpoints != _identities(fs, directory):
            return None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return AsLeft(fs, note)


def write_note(
    directory: LogDirectory,
    broker_epoch: int,
    points: Mapping[str, Mapping[TopicPartition, int]],
    logs: Iterable[ClosedLog],
) -> None:
    """Note which logs are in order, as the last thing before the mark of a clean stop. OSError.

    `points` are what the checkpoint files have.
    """
    fs, path = directory.fs, directory.path
    temporary = f"{path}/{NOTE}.tmp"
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
    note = _Note(_VERSION, broker_epoch, _identities(fs, path), topics)
    fs.replace_file(f"{path}/{NOTE}", msgspec.json.encode(note))


def _may_change_unseen(state: bytes, now_ns: int) -> bool:
    """Whether the last change is so recent that another one could still leave the same time."""
    values = _STATE.unpack(state)
    changed_ns: int = max(values[3], values[7])
    return now_ns <= changed_ns


def _is_left_in_order(
    directory: LogDirectory, log: ClosedLog, state: bytes, recovery_point: int, log_start_offset: int
) -> bool:
    """OSError."""
    fs, path, config = directory.fs, log.path, log.config
    if config.compacted or not is_opened_in_a_moment(config):
        return False  # a start looks at it in any case
    if log.found == (recovery_point, log_start_offset, state):
        return True
    names = fs.names(path)
    return is_in_order(names, recovery_point, log_start_offset) and is_read_in_a_moment(fs, path, names, recovery_point)


def _identities(fs: FileSystem, path: str) -> list[Identity | None]:
    return [fs.identity(f"{path}/{name}") for name in _CHECKPOINTS]
