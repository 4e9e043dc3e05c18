"""Names of partition directories: topic-partition, and what they become on their way out.

orders-0                                              a partition
orders-0.3f2e...-delete                               deleted, to be removed after file.delete.delay.ms
orders-0.3f2e...-stray                                found at a start, though no topic has it any more
orders-0.3f2e...-future                               a copy under way to this directory, of Apache Kafka
"""

from __future__ import annotations

from enum import Enum

_MAX_NAME = 255
_DELETE, _STRAY, _FUTURE = "-delete", "-stray", "-future"


class DirectoryKind(Enum):
    """What a directory in a log directory is."""

    PARTITION = 0
    DELETED = 1
    STRAY = 2
    OTHER = 3


def parse_name(name: str) -> tuple[DirectoryKind, str, int]:
    """Kind, topic and partition; ("", -1) for what is no partition that is in use."""
    if name.endswith(_DELETE) and "." in name:
        return DirectoryKind.DELETED, "", -1
    if name.endswith(_STRAY) and "." in name:
        return DirectoryKind.STRAY, "", -1
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return DirectoryKind.OTHER, "", -1
    return DirectoryKind.PARTITION, topic, int(number)


def delete_name(topic: str, partition: int, unique: str) -> str:
    """The name of a deleted partition's directory; the topic is cut where the name would be too long for the disk."""
    return _with_suffix(topic, partition, unique, _DELETE)


def stray_name(topic: str, partition: int, unique: str) -> str:
    return _with_suffix(topic, partition, unique, _STRAY)


def _with_suffix(topic: str, partition: int, unique: str, suffix: str) -> str:
    end = f"-{partition}.{unique}{suffix}"
    return topic[: _MAX_NAME - len(end)] + end
