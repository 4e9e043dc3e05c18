"""Refuse to start with partitions that the metadata log does not know, before anything is changed.

The metadata log may be the wrong one: an old copy, a restored backup, that of another directory. Then its topics are
not those of the partitions on the disk. Apache Kafka renames such partitions to `-stray` and starts with empty topics.
This broker does so only if the metadata log says that the topic was deleted or that the partition was moved to another
broker, or if the partition has no records: a power failure can leave the directory of a topic whose creation was not
acknowledged yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from broker.startup.topic_id_repair import may_be_damaged
from controller.former_topics import FormerTopics, find_former_topics
from controller.metadata_log import MetadataLog
from metadata.image import MetadataImage
from protocol.records.batch import LOG_OVERHEAD
from storage.checkpoints import CLEAN_SHUTDOWN, PARTITION_METADATA, read_clean_shutdown, read_topic_id
from storage.directory_names import DirectoryKind, parse_name
from storage.errors import DirectoryRefused
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.recovery.log_dir_scan import METADATA_TOPIC
from storage.recovery.segment import CORRUPT_SUFFIX
from storage.segment.files import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, parse_file_name

#: How many partitions a message names.
_NAMED = 3
#: The files of a partition that say nothing without its records.
_SMALL_FILES = (LEADER_EPOCHS, PARTITION_METADATA)
_DERIVED = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


def check_known(directories: Sequence[LogDirectory], metadata_log: MetadataLog, image: MetadataImage) -> None:
    """Check that the metadata log knows all partitions in log directories. A directory that cannot be read fails.

    Raises DirectoryRefused if a partition is neither known nor deleted, or if the metadata log is older than a
    directory.
    """

    @cache
    def former() -> FormerTopics:
        return find_former_topics(metadata_log, image)

    _check_age(directories, metadata_log)
    unknown: list[str] = []
    for directory in directories:
        try:
            unknown += _unknown_in(directory, image, former)
        except FileNotFoundError:
            continue  # it is new
        except OSError as error:
            failure = directory.fail(error)
            if directory.is_online:  # no descriptor was free, so the disk is not at fault
                raise failure from error
    if unknown:
        others = f" (nor of {_listed(unknown[1:])})" if len(unknown) > 1 else ""
        raise DirectoryRefused(
            unknown[0],
            f"the metadata log {metadata_log.path} knows neither this partition nor a deletion of it{others}. Is it an"
            " old or another metadata log? Restore the right one, or move these partitions elsewhere",
        )


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def _check_age(directories: Sequence[LogDirectory], metadata_log: MetadataLog) -> None:
    """Refuse a metadata log that ends before the last clean shutdown of a directory: the log is an old copy.

    A broker epoch is the offset of the broker's registration in the metadata log. If recovery has cut the log off, now
    or at an earlier start, it may end before that offset.
    """
    fs, path = metadata_log.partition_log.directory.fs, metadata_log.path
    if any(name.endswith(CORRUPT_SUFFIX) for name in fs.names(path)):
        return
    for directory in directories:
        epoch = read_clean_shutdown(directory.fs, directory.path)
        if epoch is not None and epoch >= metadata_log.end_offset:
            raise DirectoryRefused(
                directory.path,
                f"was used with a newer metadata log (broker epoch {epoch}) than {path}, which ends at offset"
                f" {metadata_log.end_offset}. Restore the right metadata log; or, to use the old one, remove"
                f" {directory.path}/{CLEAN_SHUTDOWN}",
            )


def _unknown_in(directory: LogDirectory, image: MetadataImage, former: Callable[[], FormerTopics]) -> Iterator[str]:
    """Yield the paths of partitions and copies with records that the metadata neither has nor had. Raises OSError."""
    fs = directory.fs
    for entry in fs.list(directory.path):
        kind, name, index = parse_name(entry.name) if entry.is_directory else (DirectoryKind.OTHER, "", -1)
        if kind not in (DirectoryKind.PARTITION, DirectoryKind.FUTURE) or name == METADATA_TOPIC:
            continue
        path = f"{directory.path}/{entry.name}"
        try:
            found = read_topic_id(fs, path)
        except OSError:  # no descriptor is free: the id is checked when the log is opened
            found = None
        if is_known(image, name, index, found) or _was_deleted(former(), name, found) or _is_empty(fs, path):
            continue
        yield path


def is_known(image: MetadataImage, name: str, index: int, found: bytes | None) -> bool:
    """Return whether the metadata has a partition, on this broker or another. `found` is the topic id in its directory.

    The id may be damaged, or exchanged with that of another topic (topic_id_repair.py).
    """
    topic = image.topic(name)
    if topic is None or index not in topic.partitions:
        return False
    return may_be_damaged(found, topic.topic_id) or image.topic_by_id(found or b"") is not None


def _was_deleted(former: FormerTopics, name: str, found: bytes | None) -> bool:
    return name in former.names if found is None else found in former.ids


def _is_empty(fs: FileSystem, path: str) -> bool:
    """Return whether a directory has never had records, and has no file of others."""
    for entry in fs.list(path):
        offset, suffix = parse_file_name(entry.name) or (-1, "")
        if entry.is_directory:
            return False
        if entry.name.startswith(_SMALL_FILES) or (offset >= 0 and suffix in _DERIVED):
            continue
        if offset or suffix != LOG_SUFFIX or any(fs.read_file(f"{path}/{entry.name}", LOG_OVERHEAD)):
            return False  # a preallocated file is zero where no batch is
    return True
