"""Remote storage in the options of a source: a URL in the place of a directory, or beside one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pybroker.source.errors import UnusableOption

SCHEMES = ("s3://", "gs://", "az://", "file://")


class Place(NamedTuple):
    """The fields `path` and `remote` of a request. One of them is not None."""

    path: str | None
    remote: dict[str, Any] | None


def place_of(path: str | None, remote: str | None, options: Mapping[str, str] | None) -> Place:
    """Return where to read: `path` is a directory or a URL; `remote` is a URL. Errors: UnusableOption."""
    if path is not None and path.startswith(SCHEMES):
        if remote is not None:
            raise UnusableOption(f"{path} and {remote} are both URLs of remote storage; give only one")
        path, remote = None, path
    if remote is None:
        if options:
            raise UnusableOption("options of remote storage are given, and no URL of it")
        if path is None:
            raise UnusableOption("neither a directory nor a URL of remote storage is given")
        return Place(os.path.abspath(path), None)
    if not remote.startswith(SCHEMES):
        raise UnusableOption(f"{remote!r} is no URL of remote storage: it begins with one of {', '.join(SCHEMES)}")
    return Place(None if path is None else os.path.abspath(path), {"url": remote, "options": dict(options or {})})
