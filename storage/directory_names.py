"""Names of partition directories: topic-partition, and what they become on their way out.

orders-0                                              a partition
orders-0.3f2e...-delete                               deleted, to be removed after file.delete.delay.ms
orders-0.3f2e...-stray                                found at a start, though no topic has it any more
orders-0.3f2e...-future                               a copy under way to this directory
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
    """What a directory in a log directory is."""

    PARTITION = 0
    DELETED = 1
    STRAY = 2
    OTHER = 3
    FUTURE = 4


def parse_name(name: str) -> tuple[DirectoryKind, str, int]:
    """Kind, topic and partition; ("", -1) for what is neither a partition in use nor a copy of one.

    A directory with the name of something deleted is going to be removed, so the whole name has to match.
    """
    if not name[-1:].isdigit():  # a start asks for thousands of partitions
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
    """The name of a deleted partition's directory; the topic is cut where the name would be too long for the disk."""
    return _with_suffix(topic, partition, unique, _DELETE)


def stray_name(topic: str, partition: int, unique: str) -> str:
    return _with_suffix(topic, partition, unique, _STRAY)


def future_name(topic: str, partition: int, unique: str) -> str | None:
    """The name of a copy that is to take the place of a partition; None where it would be too long for the disk."""
    name = f"{topic}-{partition}.{unique}{_FUTURE}"
    return name if len(name) <= _MAX_NAME else None


def _with_suffix(topic: str, partition: int, unique: str, suffix: str) -> str:
    end = f"-{partition}.{unique}{suffix}"
    return topic[: _MAX_NAME - len(end)] + end
