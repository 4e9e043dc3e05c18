"""Find partitions whose log directory is missing at a start. They are reported, and never created again by accident.

A disk that is not mounted looks like an empty directory. Formatting it, and creating its partitions in it, would
silently lose their records. Like Apache Kafka, the broker refuses to start if it would have to format a directory while
the metadata has partitions in a missing directory (KIP-858). If a directory is unusable, or was removed from log.dirs,
its partitions are offline, without a leader, until it is back or their topic is deleted. An administrator who has lost
a disk for good formats a new directory with `pybroker format --ignore-formatted`. The broker then creates the lost
partitions there, empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from metadata.image import MetadataImage
from metadata.partition_registration import LOST_DIRECTORY, is_reserved_directory
from protocol.id_text import id_bytes, id_text
from storage.checkpoints import MetaProperties, read_meta_properties, read_topic_id
from storage.directory_names import DirectoryKind, parse_name
from storage.errors import CorruptFile, DirectoryRefused
from storage.fs import FileSystem
from storage.log.directory import LogDirectory

log = logging.getLogger(__name__)

Missing = Mapping[tuple[bytes, int], str]
"""By (topic id, partition), the error message for clients of the partition."""

#: How many partitions a log line names.
_NAMED = 10


def leave_out_unusable(directories: Iterable[LogDirectory], metadata_path: str) -> None:
    """Take unusable directories offline, except for the metadata's. It is unknown which partitions they have."""
    for directory in directories:
        if directory.path == metadata_path:
            continue
        try:
            directory.fs.check_usable(directory.path)
            read_meta_properties(directory.fs, directory.path)
        except OSError as error:
            directory.fail(error)
        except CorruptFile:
            continue  # the disk works; a later check reports the file


def find_missing(fs: FileSystem, image: MetadataImage, node_id: int, found: Mapping[str, MetaProperties]) -> Missing:
    """Return partitions of this node that the metadata has in directories which are not among those `found`, by path.

    A partition that exists in any directory that was found is not missing, wherever the metadata has it. One that this
    node has reported as lost is in an unknown directory.
    """
    there = {id_bytes(each.directory_id) for each in found.values() if each.directory_id is not None}
    missing = {}
    for name, topic in image.topics_by_name.items():
        for index, registration in topic.partitions.items():
            directory = registration.directory_of(node_id)
            if directory in there or node_id not in registration.replicas:
                continue
            is_lost = directory == LOST_DIRECTORY and registration.relies_on(node_id)
            if is_reserved_directory(directory) and not is_lost:
                continue
            if not any(fs.exists(f"{path}/{name}-{index}") for path in found):
                which = "" if is_lost else f" (directory.id {id_text(directory)})"
                reason = f"its log directory is missing{which}"
                missing[topic.topic_id, index] = reason
    return missing


def find_unfinished_moves(fs: FileSystem, image: MetadataImage, node_id: int, paths: Iterable[str]) -> Missing:
    """Return partitions of which these directories have no log, but a copy that a move has not finished.

    The controller of a member knows the target of a move before the copy is complete. If the old directory is missing,
    the copy must not lead in place of its log: it may lack any records, also all of them.
    """
    logs: set[str] = set()
    copies: dict[tuple[str, int], str] = {}
    for path in paths:
        for name in fs.names(path):
            kind, topic, index = parse_name(name)
            if kind is DirectoryKind.FUTURE:
                copies[topic, index] = f"{path}/{name}"
            else:
                logs.add(name)
    missing = {}
    for (name, index), copy in copies.items():
        found = image.topic(name)
        registration = None if found is None else found.partitions.get(index)
        if found is None or registration is None or f"{name}-{index}" in logs or not registration.relies_on(node_id):
            continue
        if read_topic_id(fs, copy) == found.topic_id:
            missing[found.topic_id, index] = f"its log directory is missing; {copy} is an unfinished copy"
    return missing


def check_unformatted(missing: Missing, image: MetadataImage, unformatted: Sequence[str]) -> None:
    """Check unformatted directories. Raises DirectoryRefused if one may be the unmounted home of missing partitions."""
    if missing and unformatted:
        reason = (
            f"has no meta.properties, while partitions ({_names(missing, image)}) are in a log directory that is "
            "missing: is it mounted? (To create them again, empty: pybroker format --ignore-formatted)"
        )
        raise DirectoryRefused(unformatted[0], reason)
    for path in unformatted:
        log.warning(
            "Log directory %s has no meta.properties (other directories have one): it is formatted as new", path
        )


def still_missing(missing: Missing, image: MetadataImage, node_id: int, found: Mapping[str, MetaProperties]) -> Missing:
    """Return and log the partitions that stay offline.

    If an operator formatted a new directory, there are none: the broker creates them there again.
    """
    if not missing:
        return missing
    former = image.brokers[node_id].log_directories if node_id in image.brokers else ()
    partitions = (each for topic in image.topics_by_name.values() for each in topic.partitions.values())
    known = {*former, *(each.directory_of(node_id) for each in partitions)}
    for path, properties in found.items():
        if properties.directory_id is not None and id_bytes(properties.directory_id) not in known:
            log.warning(
                "Log directory %s is new: partitions of a missing directory are created again, empty: %s",
                path,
                _names(missing, image),
            )
            return {}
    if found:
        log.error("Partitions are in a missing log directory: %s", _names(missing, image))
    else:  # a member: its metadata comes from the controllers
        log.warning(
            "All log directories are new, and partitions are in missing ones. Replicas are copied from other brokers; "
            "partitions without another replica stay offline until their directory is back, or their topic is deleted: "
            "%s",
            _names(missing, image),
        )
    return missing


def _names(missing: Missing, image: MetadataImage) -> str:
    topics = {topic_id: topic.name for topic_id, _ in missing if (topic := image.topic_by_id(topic_id)) is not None}
    names = sorted(f"{topics[topic_id]}-{index}" for topic_id, index in missing)
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
