"""Where segments are stored and how: what the settings of all storage classes lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from remote.given import Given


class LayoutKind(Enum):
    """The layouts of this room."""

    LOCAL_TIERED = "LocalTieredStorage"
    AIVEN = "Aiven's plugin"


@dataclass(frozen=True)
class StorageSettings:
    """A store and a layout.

    `url` is `file:///directory`, or a scheme and a bucket. `options` are object_store's names with values, secrets
    among them. `location_key` is the setting, without its prefix, that names the directory or the bucket.
    """

    layout: LayoutKind
    url: str
    location_key: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The beginning of all keys, in Aiven's layout.
    prefix: str = ""
    chunk_bytes: int = 4 << 20
    #: The fields of the custom metadata, in Aiven's layout.
    custom_fields: tuple[str, ...] = ()
    #: For one request.
    timeout_s: float = 30
    part_bytes: int = 25 << 20
    storage_class: str | None = None
    checks_certificates: bool = True
    deletes_on_close: bool = False
    may_delete: bool = True
    #: Given keys that have no effect here.
    ignored: tuple[str, ...] = ()

    @property
    def directory(self) -> str | None:
        """Return the directory of a directory store; None for a bucket."""
        return self.url.removeprefix("file://") if self.url.startswith("file://") else None


def checked_prefix(given: Given, key: str, prefix: str) -> str:
    """Return a beginning of keys that every store can have. Raises SettingError for another one."""
    if prefix.startswith("/") or any(part in ("", ".", "..") for part in prefix.split("/")[:-1]):
        raise given.refused(key, "cannot begin the keys of objects: it has an empty part, '.' or '..'")
    return prefix
