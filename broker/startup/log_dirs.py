"""Check the log directories at a start, before any is changed: which work, which have data, which are new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from broker.startup.missing_partitions import leave_out_unusable
from config import BrokerConfig
from controller.directory_checks import inspect
from storage.checkpoints import MetaProperties
from storage.errors import DirectoryRefused
from storage.fs import FileSystem
from storage.log.directory import LogDirectory, check_all
from storage.log_manager import LogManager


class StartDirectories(NamedTuple):
    """The directories of a start. `metadata` has the metadata log; `usable` are all that work, including that one.

    `found`: meta.properties by path. `unformatted`: directories without one, although the cluster exists. `spared`:
    directories without which the cluster can start, if they turn out not to work.
    """

    metadata: LogDirectory
    usable: list[LogDirectory]
    found: Mapping[str, MetaProperties]
    unformatted: list[LogDirectory]
    spared: list[LogDirectory]


def inspect_directories(
    config: BrokerConfig, fs: FileSystem, logs: LogManager, on_failure: Callable[[LogDirectory], None] | None
) -> StartDirectories:
    """Check the directories without changing them. Those that do not work are taken offline.

    Raises DirectoryRefused for data that this node may not use, or if no directory is left that identifies the cluster.
    """
    metadata_path = config.metadata_log_dir.rstrip("/")
    metadata = next((each for each in logs.directories if each.path == metadata_path), None)
    others = []
    if metadata is None:
        metadata = LogDirectory(metadata_path, fs, on_failure=on_failure)
        others.append(metadata)
    leave_out_unusable(logs.directories, metadata_path)
    paths = [each.path for each in logs.directories if each.is_online]
    found = inspect(fs, paths, metadata_path, config.node_id, config.get_str("pybroker.cluster.id"))
    is_new = metadata_path not in found
    failed = next((each for each in logs.directories if not each.is_online), None)
    if failed is not None and (not paths or is_new):  # which cluster would the new ones belong to?
        raise DirectoryRefused(failed.path, f"cannot be used: {failed.failure}")
    usable = [*(each for each in logs.directories if each.is_online), *others]
    check_all(usable)
    if is_new:  # a new cluster needs all of its directories
        return StartDirectories(metadata, usable, found, unformatted=[], spared=[])
    unformatted = [each for each in usable if each.path not in found]
    return StartDirectories(
        metadata, usable, found, unformatted, spared=[each for each in usable if each is not metadata]
    )


def can_do_without(spared: Sequence[LogDirectory], path: str, error: OSError) -> bool:
    """Take a directory offline that cannot be formatted; return whether the cluster can start without it."""
    for directory in spared:
        if directory.path == path:
            directory.fail(error)
            return not directory.is_online
    return False
