"""The small text files of a log directory and of a partition.

A checkpoint file is a version (0), a number of entries, and as many lines of fields with spaces between them.
recovery-point-offset-checkpoint, replication-offset-checkpoint (high watermarks), log-start-offset-checkpoint and
cleaner-offset-checkpoint have "topic partition offset". Each is written beside itself and renamed, so that a crash
leaves the old one or the new one. A file that cannot be read counts as missing: recovery starts further back then.

    meta.properties       whose directory this is: node id, cluster id, directory id (KIP-858); version 1
    partition.metadata    the topic id of a partition directory (KIP-516)
    .kafka_cleanshutdown  {"version":0,"brokerEpoch":12}: everything was written, recovery is not needed
    .lock                 locked by the broker that uses the directory
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.open_files import OUT_OF_DESCRIPTORS

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LOCK = ".lock"
#: Locked, where several processes have a directory, by whoever replaces one of its checkpoint files.
CHECKPOINTS_LOCK = ".checkpoints.lock"

_VERSION = "0"
#: More than the smallest of these files ever have; what lies beyond is not looked at.
_TINY_BYTES = 64 << 10
#: 16 bytes in base64, with Kafka's alphabet.
_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")

TopicPartition = tuple[str, int]


def read_lines(fs: FileSystem, path: str) -> list[list[str]] | None:
    """The fields of each entry of a checkpoint file; None where there is no file. CorruptFile: not such a file."""
    try:
        data = fs.read_file(path)
    except FileNotFoundError:
        return None
    try:
        version, count, *lines = data.decode().splitlines()
        if version != _VERSION or int(count) != len(lines):
            raise CorruptFile(path, f"version {version} with {count} entries announced, {len(lines)} found")
    except ValueError:
        raise CorruptFile(path, "is no checkpoint file: no version and number of entries") from None
    return [line.split() for line in lines]


def format_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def write_lines(fs: FileSystem, path: str, lines: Sequence[str]) -> None:
    fs.replace_file(path, format_lines(lines))


def read_offsets(fs: FileSystem, path: str, remarks: list[str] | None = None) -> dict[TopicPartition, int]:
    """Offsets by (topic, partition); none where the file is missing or damaged. Lines that are no entry are left out.

    `remarks` gets what is wrong with the file. An empty file is not damaged: Apache Kafka begins with empty ones.
    """
    try:
        lines = read_lines(fs, path) or []
    except CorruptFile as error:
        if remarks is not None and fs.read_file(path, 1):
            remarks.append(f"{error}; it counts as missing")
        return {}
    found = {}
    for fields in lines:
        try:
            topic, partition, offset = fields
            found[topic, int(partition)] = int(offset)
        except ValueError:
            if remarks is not None:
                remarks.append(f"{path}: {' '.join(fields)!r} is no entry, and does not count")
    return found


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return format_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


class MetaProperties(msgspec.Struct, frozen=True):
    """Whose directory this is. Ids in Kafka's base64 form; `version` 0 was written by ZooKeeper's brokers."""

    cluster_id: str
    node_id: int
    directory_id: str | None = None
    version: int = 1


def read_meta_properties(fs: FileSystem, directory: str) -> MetaProperties | None:
    """None where the directory is not formatted. CorruptFile: a version, a number or an id that cannot be."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        text = fs.read_file(path, _TINY_BYTES).decode("latin-1")
    except FileNotFoundError:
        return None
    values = _parse_properties(text)
    try:
        version = int(values["version"])
        node_id = int(values["node.id"] if version else values["broker.id"])
        if version not in (0, 1):
            raise CorruptFile(path, f"unknown version {version}")
        return MetaProperties(values["cluster.id"], node_id, _checked_id(values.get("directory.id")), version)
    except (KeyError, ValueError) as error:
        raise CorruptFile(path, f"no usable value: {error}") from None


def _checked_id(text: str | None) -> str | None:
    """An id of 16 bytes in base64, as it is. ValueError."""
    if text is not None and _ID.fullmatch(text) is None:
        raise ValueError(f"directory.id {text!a} is no id")
    return text


def write_meta_properties(fs: FileSystem, directory: str, properties: MetaProperties) -> None:
    lines = ["#", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={properties.directory_id}")
    lines += ["version=1", f"cluster.id={properties.cluster_id}"]
    fs.replace_file(f"{directory}/{META_PROPERTIES}", "".join(f"{line}\n" for line in lines).encode(), sync=True)


def _parse_properties(text: str) -> dict[str, str]:
    values = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            key, _, value = stripped.partition("=")
            values[key.strip()] = value.strip().replace("\\", "")
    return values


def read_clean_shutdown(fs: FileSystem, directory: str) -> int | None:
    """The broker epoch at the last clean stop, -1 where the file does not tell; None after an unclean one."""
    try:
        data = fs.read_file(f"{directory}/{CLEAN_SHUTDOWN}", _TINY_BYTES)
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return -1


def write_clean_shutdown(fs: FileSystem, directory: str, broker_epoch: int) -> None:
    fs.replace_file(
        f"{directory}/{CLEAN_SHUTDOWN}", f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode(), sync=True
    )


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """The 16 bytes of a partition directory's topic id; None where the file is missing or damaged.

    OSError: for want of a descriptor nobody knows.
    """
    try:
        data = fs.read_file(f"{directory}/{PARTITION_METADATA}", _TINY_BYTES)
    except OSError as error:
        if error.errno in OUT_OF_DESCRIPTORS:
            raise
        return None
    return _parse_topic_id(data)


@lru_cache(maxsize=100)  # the partitions of a topic have the same, and a start reads thousands
def _parse_topic_id(data: bytes) -> bytes | None:
    try:
        values = dict(line.split(": ", 1) for line in data.decode().splitlines())
        topic_id = base64.urlsafe_b64decode(values["topic_id"] + "==")
    except (ValueError, KeyError):
        return None
    return topic_id if len(topic_id) == 16 else None


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    text = f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}"
    fs.replace_file(f"{directory}/{PARTITION_METADATA}", text.encode())
