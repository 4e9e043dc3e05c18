"""What a clean stop left in order: who knows that need not look at the files of each log at the next start.

A stop notes it in `.pybroker_in_order`, beside its mark, when all else is written. The note is no part of the data:
with none, with a damaged one, or one of another stop than the last, a start looks at each log, and that is all. Nor is
a log believed to be as it was left that has changed since: by the file system's own clock (ctime), which copies,
restored backups and edits move on, no name in its directory may have changed, nor its topic id; and the checkpoints by
which it was in order have to be those of the stop.

    {"version":0,"brokerEpoch":12,"untilNs":1700000000000000000,"checkpoints":[[5,6],null],
     "topics":{"orders":{"topicId":"<base64>","others":[7]}}}

`others` are partitions that were not in order, and `checkpoints` the identities of recovery points and start offsets.
"""

from __future__ import annotations

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
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.recovery.order import is_in_order, is_opened_in_a_moment, is_read_in_a_moment

NOTE = ".pybroker_in_order"

_VERSION = 0
#: By those a log is in order, or not.
_CHECKPOINTS = RECOVERY_POINTS, LOG_START_OFFSETS


class _Topic(msgspec.Struct, rename="camel"):
    topic_id: bytes
    others: set[int]


class _Note(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int
    until_ns: int
    checkpoints: list[tuple[int, int] | None]
    topics: dict[str, _Topic]


class ClosedLog(NamedTuple):
    """A log that a stop has closed, or that nobody has opened.

    `topic_id` None: it has to be read. `found`: its recovery point and start offset when this broker's start found it
    in order; None: that is not known.
    """

    key: TopicPartition
    path: str
    config: LogConfig
    topic_id: bytes | None
    found: tuple[int, int] | None


class AsLeft:
    """The note of the last stop, believed as far as it can be."""

    def __init__(self, fs: FileSystem, note: _Note) -> None:
        self._fs = fs
        self._until_ns = note.until_ns
        self._topics = note.topics

    def topic_id(self, key: TopicPartition, path: str) -> bytes | None:
        """A log's topic id (16 bytes), if it was left in order and is as it was left; None: it has to be looked at."""
        topic = self._topics.get(key[0])
        if topic is None or key[1] in topic.others:
            return None
        until_ns, changed_ns = self._until_ns, self._fs.changed_ns
        try:
            if changed_ns(path) < until_ns and changed_ns(f"{path}/{PARTITION_METADATA}") < until_ns:
                return topic.topic_id
        except OSError:  # whoever looks at it will see
            pass
        return None


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
    topics: dict[str, _Topic] = {}
    for log in logs:
        (name, partition), topic_id = log.key, log.topic_id
        rest = points[RECOVERY_POINTS][log.key], points[LOG_START_OFFSETS].get(log.key, 0)
        is_left = _is_left_in_order(directory, log, *rest)
        if is_left and (topic_id is None or _may_have_another_id(directory, log)):
            topic_id = read_topic_id(fs, log.path)
        topic = topics.setdefault(name, _Topic(b"", set()))
        if is_left and not topic.topic_id:
            topic.topic_id = topic_id or b""
        if not (is_left and topic_id == topic.topic_id):
            topic.others.add(partition)
    known = {name: topic for name, topic in topics.items() if topic.topic_id}
    temporary = f"{path}/{NOTE}.tmp"
    fs.write_file(temporary, b"")
    note = _Note(_VERSION, broker_epoch, fs.changed_ns(temporary), _identities(fs, path), known)
    fs.replace_file(f"{path}/{NOTE}", msgspec.json.encode(note))


def _is_left_in_order(directory: LogDirectory, log: ClosedLog, recovery_point: int, log_start_offset: int) -> bool:
    """OSError."""
    fs, path, config = directory.fs, log.path, log.config
    if config.compacted or not is_opened_in_a_moment(config):
        return False  # a start looks at it in any case
    if log.found == (recovery_point, log_start_offset) and fs.changed_ns(path) < directory.looked_into_ns:
        return True
    names = fs.names(path)
    return is_in_order(names, recovery_point, log_start_offset) and is_read_in_a_moment(fs, path, names, recovery_point)


def _may_have_another_id(directory: LogDirectory, log: ClosedLog) -> bool:
    """Whether somebody may have written the topic id of a log that nobody has opened, since it was read."""
    if log.found is None:
        return False
    try:
        return directory.fs.changed_ns(f"{log.path}/{PARTITION_METADATA}") >= directory.looked_into_ns
    except OSError:
        return True


def _identities(fs: FileSystem, path: str) -> list[tuple[int, int] | None]:
    return [fs.identity(f"{path}/{name}") for name in _CHECKPOINTS]
