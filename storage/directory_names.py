"""Parse and build the names of partition directories.

orders-0                    a partition
orders-0.3f2e...-delete     deleted; removed after file.delete.delay.ms
orders-0.3f2e...-stray      found at a start, but its topic was deleted, or it was moved to another broker
orders-0.3f2e...-future     a copy that is being moved to this log directory (KIP-113)
"""

from __future__ import annotations

import re
from enum import Enum

from storage.log_config import INT_MAX

_MAX_NAME = 255
_DELETE, _STRAY, _FUTURE = "-delete", "-stray", "-future"
_RENAMED = re.compile(rf".*-[0-9]+\.[0-9a-f]{{32}}({_DELETE}|{_STRAY})")
_COPY = re.compile(rf"(.+)-([0-9]+)\.[0-9a-f]{{32}}{_FUTURE}")


class DirectoryKind(Enum):
    """The kinds of entries in a log directory."""

    PARTITION = 0
    DELETED = 1
    STRAY = 2
    OTHER = 3
    FUTURE = 4


def parse_name(name: str) -> tuple[DirectoryKind, str, int]:
    """Return the kind, topic and partition of a directory name.

    Topic and partition are ("", -1) unless the directory is a partition in use or a copy of one. The whole name must
    match the pattern of a deleted directory, because such directories are removed.
    """
    if not name[-1:].isdigit():  # a fast path: a start parses thousands of partition names
        if renamed := _RENAMED.fullmatch(name):
            return DirectoryKind.DELETED if renamed[1] == _DELETE else DirectoryKind.STRAY, "", -1
        copied = _COPY.fullmatch(name)
        if copied is not None and int(copied[2]) <= INT_MAX:
            return DirectoryKind.FUTURE, copied[1], int(copied[2])
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()) or int(number) > INT_MAX:
        return DirectoryKind.OTHER, "", -1
    return DirectoryKind.PARTITION, topic, int(number)


def delete_name(topic: str, partition: int, unique: str) -> str:
    """Return the name for the directory of a deleted partition.

    The topic is shortened if the name would exceed the file system's limit of 255 bytes.
    """
    return _with_suffix(topic, partition, unique, _DELETE)


def stray_name(topic: str, partition: int, unique: str) -> str:
    return _with_suffix(topic, partition, unique, _STRAY)


def future_name(topic: str, partition: int, unique: str) -> str | None:
    """Return the directory name of a copy that will replace a partition, or None if it would exceed 255 bytes."""
    name = f"{topic}-{partition}.{unique}{_FUTURE}"
    return name if len(name) <= _MAX_NAME else None


def _with_suffix(topic: str, partition: int, unique: str, suffix: str) -> str:
    end = f"-{partition}.{unique}{suffix}"
    return topic[: _MAX_NAME - len(end)] + end
