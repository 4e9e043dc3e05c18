"""Make the layout that the settings describe. obstore is imported only if they name a bucket."""

from __future__ import annotations

import os
from collections.abc import Mapping

from remote.aiven_layout import AivenLayout
from remote.directory_store import DirectoryStore
from remote.errors import SettingError
from remote.guarded_store import GuardedStore
from remote.layout import Layout
from remote.local_tiered_layout import FOLDER, LocalTieredLayout
from remote.storage_settings import DEFAULT_PREFIX, OWN_CLASS, read_settings
from remote.store import Store
from remote.stored_where import LayoutKind, StorageSettings

#: The object that shows whether a bucket can be believed.
PROBE = "_pybroker/probe"
EXTRA = "pip install 'pybroker[tiered]'"


def layout_of(class_name: str | None, settings: Mapping[str, str], prefix: str = DEFAULT_PREFIX) -> Layout:
    """Return the layout of a storage class with these settings; their keys are without `prefix`.

    It makes the directory of LocalTieredStorage, and does not connect to a bucket. Raises SettingError, with the key,
    its value and what is allowed: for an unknown class or setting, a directory that cannot be used, a missing extra.
    """
    chosen = read_settings(class_name, settings, prefix)
    return layout_in(store_of(chosen, prefix), chosen)


def layout_in(store: Store, chosen: StorageSettings) -> Layout:
    """Return the layout of segments in a store."""
    if chosen.layout is LayoutKind.LOCAL_TIERED:
        return LocalTieredLayout(store, deletes_on_close=chosen.deletes_on_close, may_delete=chosen.may_delete)
    return AivenLayout(store, chosen.prefix, chosen.chunk_bytes, chosen.custom_fields)


def listing_path(chosen: StorageSettings) -> str:
    """Return the folder that has all segments."""
    return FOLDER if chosen.layout is LayoutKind.LOCAL_TIERED else chosen.prefix.rpartition("/")[0]


def store_of(chosen: StorageSettings, prefix: str = DEFAULT_PREFIX) -> GuardedStore:
    """Return the store. Raises SettingError if it cannot be made."""
    key = prefix + chosen.location_key
    directory = chosen.directory
    if directory is not None:
        files = _directory_store(key, directory, is_made=chosen.layout is LayoutKind.LOCAL_TIERED)
        return GuardedStore(files, directory, deadline_s=chosen.timeout_s)
    probe_key = f"{chosen.prefix}{PROBE}"
    return GuardedStore(_bucket(chosen, key), chosen.url, deadline_s=chosen.timeout_s, probe_key=probe_key)


def _bucket(chosen: StorageSettings, key: str) -> Store:
    try:
        from remote.object_store import ObjectStore
    except ImportError:
        raise SettingError(key, chosen.url, f"needs a library for buckets: {EXTRA}") from None
    try:
        return ObjectStore(
            chosen.url,
            chosen.options,
            chosen.timeout_s,
            part_bytes=chosen.part_bytes,
            storage_class=chosen.storage_class,
            checks_certificates=chosen.checks_certificates,
        )
    except ValueError as error:
        raise SettingError(key, None, str(error)) from None


def store_for_reading(settings: Mapping[str, str]) -> GuardedStore:
    """Return the store that the keys of the own class name, for a program that only reads. Raises SettingError."""
    chosen = read_settings(OWN_CLASS, settings, "")
    if chosen.directory is not None:
        return GuardedStore(DirectoryStore(chosen.directory), chosen.directory, deadline_s=chosen.timeout_s)
    return GuardedStore(_bucket(chosen, chosen.location_key), chosen.url, deadline_s=chosen.timeout_s)


def _directory_store(key: str, directory: str, *, is_made: bool) -> DirectoryStore:
    try:
        if is_made:
            os.makedirs(f"{directory}/{FOLDER}", exist_ok=True)
    except OSError as error:
        raise SettingError(key, directory, f"this directory cannot be made: {error.strerror}") from None
    if not os.path.isdir(directory) or not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise SettingError(key, directory, "must be a directory that the broker may read and write")
    return DirectoryStore(directory, FOLDER if is_made else "")
