"""Refuse to start with data that the metadata log does not have in this place, before anything is changed.

The metadata log may be the wrong one: an old copy, a restored backup, that of another directory. Then its topics are
not those of the partitions on the disk. Apache Kafka renames such partitions to `-stray` and starts with empty topics.
This broker does so only if the metadata log says that the topic was deleted or that the partition was moved to another
broker, or if the partition has no records: a power failure can leave the directory of a topic whose creation was not
acknowledged yet.

Three more kinds of directories would hide records from clients: a partition under the name of another topic, two
directories of one partition side by side (`orders-0` and `orders-00`), and a directory with the ending `-delete` or
`-stray` whose partition the metadata log still has, while no other directory has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

from broker.startup.topic_id_repair import may_be_damaged
from controller.former_topics import FormerTopics, find_former_topics
from controller.metadata_log import MetadataLog
from metadata.image import MetadataImage
from metadata.partition_registration import is_reserved_directory
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
_READ_BYTES = 1 << 20
#: The files of a partition that say nothing without its records.
_SMALL_FILES = (LEADER_EPOCHS, PARTITION_METADATA)
_DERIVED = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


def check_known(
    directories: Sequence[LogDirectory],
    metadata_log: MetadataLog,
    image: MetadataImage,
    node_id: int,
    directory_ids: Collection[bytes],
) -> None:
    """Check that the metadata log knows all partitions in log directories. A directory that cannot be read fails.

    `directory_ids` are those of the directories that were found. Raises DirectoryRefused for a partition that is
    neither known nor deleted, for one that a start would hide, and if the metadata log is older than a directory.
    """

    @cache
    def former() -> FormerTopics:
        return find_former_topics(metadata_log, image)

    _check_age(directories, metadata_log)
    unknown: list[str] = []
    renamed: list[str] = []
    for directory in directories:
        try:
            unknown += _unknown_in(directory, image, former, renamed)
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
    for path in renamed:
        _check_renamed(path, directories, image, node_id, directory_ids)


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


def _unknown_in(
    directory: LogDirectory, image: MetadataImage, former: Callable[[], FormerTopics], renamed: list[str]
) -> Iterator[str]:
    """Yield the paths of partitions and copies with records that the metadata neither has nor had. Raises OSError.

    Directories with the ending `-delete` or `-stray` are added to `renamed`.
    """
    fs = directory.fs
    seen: dict[tuple[str, int], str] = {}
    for entry in fs.list(directory.path):
        kind, name, index = parse_name(entry.name) if entry.is_directory else (DirectoryKind.OTHER, "", -1)
        path = f"{directory.path}/{entry.name}"
        if kind is DirectoryKind.DELETED or kind is DirectoryKind.STRAY:
            renamed.append(path)
        if kind not in (DirectoryKind.PARTITION, DirectoryKind.FUTURE) or name == METADATA_TOPIC:
            continue
        if kind is DirectoryKind.PARTITION and (other := seen.setdefault((name, index), path)) is not path:
            raise DirectoryRefused(path, f"is the same partition as {other}. Move the wrong one elsewhere")
        try:
            found = read_topic_id(fs, path)
        except OSError:  # no descriptor is free: the id is checked when the log is opened
            found = None
        if is_known(image, name, index, found):
            _check_name(path, name, image, found)
        elif not (_was_deleted(former(), name, found) or _is_empty(fs, path)):
            yield path


def _check_name(path: str, name: str, image: MetadataImage, found: bytes | None) -> None:
    """Refuse a known partition whose topic id is that of a topic with another name."""
    topic = image.topic_by_id(found) if found is not None else None
    if topic is not None and topic.name != name:
        raise DirectoryRefused(
            path,
            f"has the topic id of {topic.name}. Give the directory the name of that topic; or, if only its"
            f" {PARTITION_METADATA} is the wrong one, remove that file",
        )


def _check_renamed(
    path: str,
    directories: Sequence[LogDirectory],
    image: MetadataImage,
    node_id: int,
    directory_ids: Collection[bytes],
) -> None:
    """Refuse a `-delete` or `-stray` directory with records of a partition that this node has, but no directory.

    A partition in a directory that is missing is offline, and not created again.
    """
    fs = directories[0].fs
    try:
        topic = image.topic_by_id(read_topic_id(fs, path) or b"")
        index = int(path.rpartition(".")[0].rpartition("-")[2])
        registration = topic.partitions.get(index) if topic is not None else None
        if topic is None or registration is None or node_id not in registration.replicas:
            return
        assigned = registration.directory_of(node_id)
        if assigned not in directory_ids and not is_reserved_directory(assigned):
            return
        name = f"{topic.name}-{index}"
        if any(fs.exists(f"{each.path}/{name}") for each in directories) or _is_empty(fs, path):
            return
    except OSError:  # the directory fails, or no descriptor is free: the start goes on without looking into it
        return
    raise DirectoryRefused(
        path,
        f"has records of {name}, which is in use and in no other directory. Rename the directory to {name}; or, to"
        " begin with an empty partition, move it elsewhere",
    )


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
        if offset or suffix != LOG_SUFFIX or not _is_zero(fs, f"{path}/{entry.name}", entry.size_bytes):
            return False
    return True


def _is_zero(fs: FileSystem, path: str, size_bytes: int) -> bool:
    """Return whether all bytes of a file are zero: a preallocated file is, where no batch is."""
    if any(fs.read_file(path, LOG_OVERHEAD)):
        return False
    if size_bytes <= LOG_OVERHEAD:
        return True
    part = bytearray(_READ_BYTES)
    with fs.reading(path) as handle:
        for position in range(0, size_bytes, _READ_BYTES):
            if any(part[: fs.read_into(handle, part, position)]):
                return False
    return True
