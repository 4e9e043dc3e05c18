"""From the settings of a broker to the store and the layout of its segments: three classes, and the keys of each.

| `remote.log.storage.manager.class.name` | store and layout |
|---|---|
| LocalTieredStorage of Apache Kafka's tests | a directory, in its layout |
| RemoteStorageManager of Aiven's plugin | a bucket or a directory, in its layout, by its keys |
| `pybroker.ObjectStore` | the same layout, with one URL |

This file is pure: it reads no environment and touches no storage.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from urllib.parse import urlsplit

from remote.aiven_settings import read_aiven
from remote.errors import SettingError
from remote.given import Given
from remote.stored_where import LayoutKind, StorageSettings, checked_prefix

LOCAL_TIERED_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
AIVEN_CLASS = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
OWN_CLASS = "pybroker.ObjectStore"
CLASSES = (LOCAL_TIERED_CLASS, AIVEN_CLASS, OWN_CLASS)
CLASS_KEY = "remote.log.storage.manager.class.name"
DEFAULT_PREFIX = "rsm.config."

_SCHEMES = ("s3", "gs", "az", "file")
#: Own keys that become settings of object_store, by the scheme of the URL.
_OWN_OPTIONS = {
    "s3": {
        "endpoint.url": "aws_endpoint",
        "region": "aws_region",
        "access.key.id": "aws_access_key_id",
        "secret.access.key": "aws_secret_access_key",
        "session.token": "aws_session_token",
    },
    "gs": {"endpoint.url": "google_base_url", "credentials.path": "google_service_account"},
    "az": {
        "endpoint.url": "azure_endpoint",
        "account.name": "azure_storage_account_name",
        "account.key": "azure_storage_account_key",
        "sas.token": "azure_storage_sas_key",
    },
    "file": {},
}
_LONGEST_MS = 3_600_000


def read_settings(class_name: str | None, settings: Mapping[str, str], prefix: str = DEFAULT_PREFIX) -> StorageSettings:
    """Return where a class with these settings stores segments; their keys are without `prefix`.

    Raises SettingError for an unknown class, and for a setting that cannot be used.
    """
    given = Given(settings, prefix)
    if class_name == LOCAL_TIERED_CLASS:
        return _local_tiered(given)
    if class_name == AIVEN_CLASS:
        return read_aiven(given)
    if class_name == OWN_CLASS:
        return _own(given)
    reason = "must be set" if not class_name else "this storage class is not supported"
    raise SettingError(CLASS_KEY, class_name or None, reason, ", ".join(CLASSES))


def setting_errors(class_name: str | None, settings: Mapping[str, str], prefix: str) -> list[SettingError]:
    """Return why these settings cannot be used, each with its key; none if they can.

    Behind a setting that cannot be used, the others are read as if it were not given. Keys that are missing then are
    not reported, because the bad value may be the reason.
    """
    left, found = dict(settings), list[SettingError]()
    while True:
        try:
            read_settings(class_name, left, prefix)
        except SettingError as error:
            given = error.key.removeprefix(prefix)
            if not found or given in left:
                found.append(error)
            if error.key == CLASS_KEY or left.pop(given, None) is None:
                return found
        else:
            return found


def _local_tiered(given: Given) -> StorageSettings:
    """LocalTieredStorage's keys. Without `dir` Kafka stores in a directory that nobody finds after a restart."""
    if given.text("transferer.class") is not None:
        raise given.refused("transferer.class", "Java classes are not supported")
    return StorageSettings(
        layout=LayoutKind.LOCAL_TIERED,
        url=_file_url(given.required("dir")),
        location_key="dir",
        deletes_on_close=bool(given.flag("delete.on.close")),
        may_delete=given.flag("delete.enable") is not False,
    )


def _own(given: Given) -> StorageSettings:
    url = given.required("url")
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        allowed = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise SettingError(given.name("url"), None, f"the scheme {parts.scheme!r} is not supported", allowed)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingError(
            given.name("url"), None, "has more than a bucket and a path; credentials have keys of their own"
        )
    options = _OWN_OPTIONS[parts.scheme]
    common = ("url", "chunk.size", "timeout.ms", *(("path.style.access.enabled",) if parts.scheme == "s3" else ()))
    if unknown := given.others((*common, *options)):
        raise given.refused(unknown[0], f"unknown key for {parts.scheme}://", ", ".join((*common, *options)))
    chosen = {theirs: value for ours, theirs in options.items() if (value := given.text(ours)) is not None}
    if given.flag("path.style.access.enabled") is False:
        chosen["aws_virtual_hosted_style_request"] = "true"
    if parts.scheme == "file":
        location, path = _file_url(parts.netloc + parts.path), ""
    else:
        if not parts.netloc:
            raise given.refused("url", "names no bucket")
        location, path = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    return StorageSettings(
        layout=LayoutKind.AIVEN,
        url=location,
        location_key="url",
        options=chosen,
        prefix=checked_prefix(given, "url", f"{path}/") if path else "",
        chunk_bytes=given.number("chunk.size", StorageSettings.chunk_bytes, (1 << 30) - 1),
        timeout_s=given.number("timeout.ms", int(StorageSettings.timeout_s * 1000), _LONGEST_MS) / 1000,
    )


def _file_url(directory: str) -> str:
    return f"file://{os.path.abspath(directory)}"
