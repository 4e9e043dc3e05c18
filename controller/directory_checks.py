"""Checks of log directories before a start or a format changes any of them.

A start must not hide data. So it refuses directories of another node or cluster, data without meta.properties, a
metadata log outside the metadata directory, and partitions without any metadata log. Otherwise it would begin an empty
metadata log, and its clients would see no topics. Apache Kafka refuses some of these too ("Found unexpected metadata
location in data directory").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from controller.metadata_snapshot import BOOTSTRAP_FILE, ZERO_CHECKPOINT, snapshot_id
from storage.checkpoints import LOCK, META_PROPERTIES, MetaProperties, read_meta_properties
from storage.directory_names import DirectoryKind, parse_name
from storage.errors import CorruptFile, DirectoryRefused
from storage.fs import DirEntry, FileSystem

METADATA_LOG = "__cluster_metadata-0"
#: Files of a formatted directory without the metadata log, and of file systems themselves.
_FIRST_FILES = {META_PROPERTIES, BOOTSTRAP_FILE, LOCK, "lost+found"}
#: The files that an interrupted format leaves in the directory of the metadata log. Apache Kafka writes the last name.
_HALF_FORMATTED = {ZERO_CHECKPOINT, f"{ZERO_CHECKPOINT}.tmp", f"{ZERO_CHECKPOINT}.part"}


def inspect(
    fs: FileSystem,
    directories: Sequence[str],
    metadata_directory: str,
    node_id: int,
    cluster_id: str | None = None,
) -> dict[str, MetaProperties]:
    """Read meta.properties of the formatted directories. Changes nothing.

    Raises DirectoryRefused for data of another node or cluster, and for data that a start would hide. `cluster_id` is
    the configured one, if any.
    """
    found = formatted(fs, [*directories, metadata_directory], node_id)
    for path, properties in found.items():
        if cluster_id is not None and cluster_id != properties.cluster_id:
            message = (
                f"belongs to cluster {properties.cluster_id}, but pybroker.cluster.id is {cluster_id}. Set the id of"
                " its cluster, or use another directory"
            )
            raise DirectoryRefused(path, message)
    check_contents(fs, directories, metadata_directory, found)
    return found


def formatted(fs: FileSystem, directories: Sequence[str], node_id: int) -> dict[str, MetaProperties]:
    """Return meta.properties of the formatted directories, by path.

    Raises DirectoryRefused for another node's data, and for directories of different clusters.
    """
    found: dict[str, MetaProperties] = {}
    for path in dict.fromkeys(directories):
        properties = _read(fs, path)
        if properties is not None:
            _check(path, properties, node_id, found)
            found[path] = properties
    return found


def _read(fs: FileSystem, path: str) -> MetaProperties | None:
    try:
        return read_meta_properties(fs, path)
    except CorruptFile as error:
        raise DirectoryRefused(
            path, f"{META_PROPERTIES} cannot be used: {error.reason}. Restore the file from a backup"
        ) from None
    except OSError as error:
        raise DirectoryRefused(
            path,
            f"cannot be read: {error.strerror or error}. Make the directory and its {META_PROPERTIES} readable, or"
            " restore them from a backup",
        ) from None


def _check(path: str, properties: MetaProperties, node_id: int, others: Mapping[str, MetaProperties]) -> None:
    if properties.version == 0:
        raise DirectoryRefused(
            path,
            "was written by a broker that kept its metadata in ZooKeeper. Migrate it to KRaft with Apache Kafka 3.9, or"
            " use another directory",
        )
    if properties.node_id != node_id:
        raise DirectoryRefused(
            path,
            f"belongs to node {properties.node_id}, but node.id is {node_id}. Set node.id={properties.node_id}, or use"
            " another directory",
        )
    for other_path, other in others.items():
        if other.cluster_id != properties.cluster_id:
            raise DirectoryRefused(
                path,
                f"belongs to cluster {properties.cluster_id}, but {other_path} to cluster {other.cluster_id}. Remove"
                " the directory of the other cluster from log.dirs and metadata.log.dir",
            )
        if properties.directory_id is not None and other.directory_id == properties.directory_id:
            raise DirectoryRefused(
                path,
                f"has the same directory.id as {other_path}: one is a copy of the other, or a second path to it."
                " Remove one of them from the configuration",
            )


def check_contents(
    fs: FileSystem, directories: Sequence[str], metadata_directory: str, found: Mapping[str, MetaProperties]
) -> None:
    """Check that a start with these directories hides no data. `found` are the formatted ones.

    Raises DirectoryRefused, which names the directory and the remedy.
    """
    paths = list(dict.fromkeys([*directories, metadata_directory]))
    for path in paths:
        if path not in found and (name := _data_in(fs, path)) is not None:
            raise DirectoryRefused(
                path,
                f"has {name}, but no meta.properties, so its node and cluster are unknown. Restore meta.properties"
                " from a backup, or move the data elsewhere",
            )
    if metadata_directory not in found:
        other = next((path for path in found if not _is_only_formatted(fs, path)), None)
        if other is not None:
            has_log = fs.exists(f"{other}/{METADATA_LOG}")
            remedy = f" Or set metadata.log.dir={other}, which has a metadata log" if has_log else ""
            raise DirectoryRefused(
                metadata_directory, f"has no meta.properties, while {other} has one: is it mounted?{remedy}"
            )
    _check_metadata_location(fs, paths, metadata_directory)
    if metadata_directory in found and not has_metadata(fs, metadata_directory):
        _check_no_partitions(fs, found, metadata_directory)


def _check_metadata_location(fs: FileSystem, paths: Sequence[str], metadata_directory: str) -> None:
    """Refuse a metadata log in another directory than the metadata directory, as Apache Kafka does."""
    for path in paths:
        if path != metadata_directory and fs.exists(f"{path}/{METADATA_LOG}"):
            raise DirectoryRefused(
                path,
                f"has a metadata log ({METADATA_LOG}), but the configured metadata directory is {metadata_directory}"
                f" (metadata.log.dir, or the first of log.dirs). Set metadata.log.dir={path}; or, if this metadata log"
                " is not the one of the cluster, move it elsewhere",
            )


def _check_no_partitions(fs: FileSystem, paths: Iterable[str], metadata_directory: str) -> None:
    """Refuse partitions without a metadata log: only that one knows their topics."""
    for path in paths:
        for entry in _entries(fs, path):
            kind = parse_name(entry.name)[0] if entry.is_directory else DirectoryKind.OTHER
            if kind in (DirectoryKind.PARTITION, DirectoryKind.FUTURE) and entry.name != METADATA_LOG:
                raise DirectoryRefused(
                    metadata_directory,
                    f"has no metadata log, while {path} has partitions ({entry.name}). Set metadata.log.dir, or"
                    " restore the order of log.dirs, so that the directory with the metadata log is used again",
                )


def _entries(fs: FileSystem, path: str) -> list[DirEntry]:
    """Return the entries of a directory; none if it is missing, or cannot be read, which the start finds later."""
    with suppress(OSError):
        return fs.list(path)
    return []


def _metadata_files(fs: FileSystem, directory: str) -> list[DirEntry]:
    """Return the files of the metadata log; none without it. Raises DirectoryRefused if it cannot be read."""
    try:
        return fs.list(f"{directory}/{METADATA_LOG}")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DirectoryRefused(directory, f"{METADATA_LOG} cannot be read: {error.strerror or error}") from None


def _data_in(fs: FileSystem, directory: str) -> str | None:
    """Return the name of something in a directory that a broker wrote after its first start, or None."""
    for entry in _entries(fs, directory):
        if not entry.is_directory:
            continue
        if entry.name == METADATA_LOG:
            if any(each.name not in _HALF_FORMATTED for each in _metadata_files(fs, directory)):
                return entry.name
        elif parse_name(entry.name)[0] is not DirectoryKind.OTHER:
            return entry.name
    return None


def _is_only_formatted(fs: FileSystem, directory: str) -> bool:
    """Return whether no broker has used the directory yet.

    Then a crash during formatting may have prevented the metadata directory, the last one, from being formatted.
    """
    return all(entry.name.removesuffix(".tmp") in _FIRST_FILES for entry in fs.list(directory))


def has_metadata(fs: FileSystem, directory: str) -> bool:
    """Return whether a directory has metadata records, in a log or in a snapshot. Raises DirectoryRefused."""
    for entry in _metadata_files(fs, directory):
        snapshot = snapshot_id(entry.name)
        if (entry.name.endswith(".log") and entry.size_bytes) or (snapshot is not None and snapshot.end_offset):
            return True
    return False
