"""The metadata logs of a handover: a copy to look at, a copy for a new voter, and the rest for one that has a part."""

from __future__ import annotations

from shutil import copyfile

from config import BrokerConfig
from controller.directory_checks import METADATA_LOG
from controller.leadership import open_metadata_log
from controller.metadata_log import READ_BYTES, MetadataLog
from controller.quorum_state import FILE_NAME as QUORUM_STATE
from metadata.loading import MetadataLoader
from storage.fs import LOCAL
from storage.log.closing import close_logs
from storage.log.directory import LogDirectory

_STAGED = f"{METADATA_LOG}.handover"


def open_log(directory: LogDirectory, config: BrokerConfig, now_ms: int) -> tuple[MetadataLog, MetadataLoader]:
    """Open and read the metadata log of a directory, whoever leads it. It is repaired after a crash.

    Raises MetadataLogDamaged and the storage's errors.
    """
    metadata_log = MetadataLog(open_metadata_log(directory, config, now_ms))
    return metadata_log, metadata_log.load()


def opened_copy(source: str, path: str, config: BrokerConfig, now_ms: int) -> tuple[MetadataLog, MetadataLoader]:
    """Open a copy of a directory's metadata log, which stays as it is."""
    LOCAL.make_directory(path)
    copy_log(source, path)
    quorum_state = f"{METADATA_LOG}/{QUORUM_STATE}"
    if LOCAL.exists(f"{source}/{quorum_state}"):
        LOCAL.write_file(f"{path}/{quorum_state}", LOCAL.read_file(f"{source}/{quorum_state}"))
    return open_log(LogDirectory(path), config, now_ms)


def copy_log(source: str, target: str) -> None:
    """Copy the files of a metadata log to a directory without one, all but the quorum's state. Raises OSError.

    The copy gets its name once it is complete.
    """
    staged = f"{target}/{_STAGED}"
    LOCAL.make_directory(staged)
    for name in LOCAL.names(f"{source}/{METADATA_LOG}"):
        if name != QUORUM_STATE and not name.endswith((".deleted", ".tmp", ".part")):
            copyfile(f"{source}/{METADATA_LOG}/{name}", f"{staged}/{name}")
            LOCAL.sync_path(f"{staged}/{name}")
    LOCAL.sync_path(staged)
    LOCAL.rename(staged, f"{target}/{METADATA_LOG}")
    LOCAL.sync_path(target)


def append_rest(source: LogDirectory, target: LogDirectory, config: BrokerConfig, now_ms: int) -> None:
    """Append to a part of a log what follows in the whole one, as a follower would. Raises the storage's errors."""
    whole = open_metadata_log(source, config, now_ms)
    part = open_metadata_log(target, config, now_ms)
    while part.log_end_offset < whole.log_end_offset:
        found = whole.read(part.log_end_offset, READ_BYTES, whole.log_end_offset)
        part.append_replicated(memoryview(found if isinstance(found, bytes) else found.read()), now_ms=now_ms)
    close_logs([whole, part], now_ms)
