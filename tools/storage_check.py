"""The check of remote storage in `pybroker doctor`: whether a directory can be used, and whether a bucket answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from config import BrokerConfig
from config.tiering import storage_settings
from remote.configured import PROBE, store_of
from remote.errors import Absent, RemoteStorageError, SettingError
from remote.storage_settings import read_settings
from tools.health_checks import Check, Level

_NAME = "remote storage"
_ADVICE = "check the address, the credentials and what they may do"


def remote_storage(config: BrokerConfig) -> Iterator[Check]:
    """Check the storage of a valid configuration, if it has any. A bucket may get a small object of pybroker's own."""
    if not config.get_bool("remote.log.storage.system.enable") or config.is_controller:
        return
    class_name, settings, prefix = storage_settings(config)
    chosen = read_settings(class_name, settings, prefix)
    if chosen.directory is not None:
        yield _directory(chosen.directory)
        return
    try:
        store_of(chosen, prefix).get(f"{chosen.prefix}{PROBE}")
    except Absent:
        pass  # it answers, and accepts objects
    except SettingError as error:
        yield Check(_NAME, Level.WRONG, str(error))
        return
    except RemoteStorageError as error:
        yield Check(_NAME, Level.WRONG, f"{chosen.url} cannot be used: {error}", _ADVICE)
        return
    yield Check(_NAME, Level.OK, f"{chosen.url} answers")


def _directory(directory: str) -> Check:
    path = Path(directory)
    nearest = next(each for each in (path, *path.parents) if each.exists())
    if not nearest.is_dir() or not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        return Check(_NAME, Level.WRONG, f"{directory} is not writable", "chown it to the user that the broker runs as")
    space = os.statvfs(nearest)
    created = "" if path.exists() else ", created at the first start"
    return Check(_NAME, Level.OK, f"{directory}{created}; {space.f_bavail * space.f_frsize / (1 << 30):.1f} GiB free")
