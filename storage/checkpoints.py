"""Read and write the small text files of a log directory and of a partition directory.

A checkpoint file has a version (0), a number of entries, and one line per entry, with fields separated by spaces. The
entries of recovery-point-offset-checkpoint, replication-offset-checkpoint (high watermarks),
log-start-offset-checkpoint and cleaner-offset-checkpoint are "topic partition offset". Each file is written to a
temporary file and then renamed, so a crash leaves either the old file or the new one. An unreadable file counts as
missing; recovery then starts at an earlier offset.

    meta.properties       the owner of the directory: node id, cluster id, directory id (KIP-858); version 1
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

_VERSION = "0"
#: An upper limit for the smallest of these files. Bytes beyond it are not read.
_TINY_BYTES = 64 << 10
#: 16 bytes in base64, in Kafka's alphabet.
_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")

TopicPartition = tuple[str, int]


def read_lines(fs: FileSystem, path: str) -> list[list[str]] | None:
    """Return the fields of each entry of a checkpoint file, or None if the file is missing.

    Raises CorruptFile if the content is not that of a checkpoint file.
    """
    try:
        data = fs.read_file(path)
    except FileNotFoundError:
        return None
    try:
        version, count, *lines = data.decode().splitlines()
        if version != _VERSION or int(count) != len(lines):
            raise CorruptFile(path, f"version {version} with {count} entries announced, {len(lines)} found")
    except ValueError:
        raise CorruptFile(path, "not a checkpoint file: version or number of entries is missing") from None
    return [line.split() for line in lines]


def format_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def write_lines(fs: FileSystem, path: str, lines: Sequence[str]) -> None:
    fs.replace_file(path, format_lines(lines))


def read_offsets(fs: FileSystem, path: str, remarks: list[str] | None = None) -> dict[TopicPartition, int]:
    """Return offsets by (topic, partition); an empty dict if the file is missing or damaged.

    Lines that are not entries are skipped. Each problem is appended to `remarks` as one line. An empty file is not a
    problem: Apache Kafka creates empty checkpoint files.
    """
    try:
        lines = read_lines(fs, path) or []
    except CorruptFile as error:
        if remarks is not None and fs.read_file(path, 1):
            remarks.append(f"{error}; the file is ignored")
        return {}
    found = {}
    for fields in lines:
        try:
            topic, partition, offset = fields
            found[topic, int(partition)] = int(offset)
        except ValueError:
            if remarks is not None:
                remarks.append(f"{path}: {' '.join(fields)!r} is not an entry and is ignored")
    return found


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return format_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


class MetaProperties(msgspec.Struct, frozen=True):
    """The identity of a log directory.

    Ids are in Kafka's base64 form. `version` 0 was written by brokers that used ZooKeeper.
    """

    cluster_id: str
    node_id: int
    directory_id: str | None = None
    version: int = 1


def read_meta_properties(fs: FileSystem, directory: str) -> MetaProperties | None:
    """Read meta.properties; return None if the directory is not formatted.

    Raises CorruptFile for an unknown version, an invalid number or an invalid id.
    """
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
    except KeyError as missing:
        raise CorruptFile(path, f"the property {missing} is missing") from None
    except ValueError as error:
        raise CorruptFile(path, str(error)) from None


def _checked_id(text: str | None) -> str | None:
    """Return `text` unchanged if it is a base64 id of 16 bytes or None. Raises ValueError otherwise."""
    if text is not None and _ID.fullmatch(text) is None:
        raise ValueError(f"directory.id {text!a} is not a valid id")
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
    """Return the broker epoch of the last clean shutdown, or None after an unclean shutdown.

    The epoch is -1 if the file does not contain it.
    """
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
    """Return the topic id of a partition directory (16 bytes), or None if its file is missing or damaged.

    Raises OSError if the process has no free descriptor, because the id is then unknown.
    """
    try:
        data = fs.read_file(f"{directory}/{PARTITION_METADATA}", _TINY_BYTES)
    except OSError as error:
        if error.errno in OUT_OF_DESCRIPTORS:
            raise
        return None
    return _parse_topic_id(data)


# A start reads this file for thousands of partitions, and all partitions of a topic have the same content.
@lru_cache(maxsize=100)
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
