"""The directories of `log.dirs`, and the folders of partitions in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.errors import NotFound
from console.logs.folder import Folder, is_partition, read_folder
from metadata.topic_names import CLUSTER_METADATA

#: The limit of a file name on common file systems.
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A partition's folder, with the number of the log directory that it is in."""

    directory: int
    folder: Folder


class LogDirectories:
    """All log directories, numbered in the order of `log.dirs`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)

    def folders(self, topic: str | None = None) -> Iterator[FoundFolder]:
        """Yield all partition folders, or the active ones of a topic, sorted by topic and partition."""
        for number, path in enumerate(self.paths):
            try:
                names = os.listdir(path)
            except OSError:
                continue  # a failed disk, which the broker reports
            for name in sorted(names, key=_in_order):
                if not is_shown(name) or (topic is not None and name.rpartition("-")[0] != topic):
                    continue
                try:
                    yield FoundFolder(number, read_folder(os.path.join(path, name)))
                except NotFound:
                    continue  # removed meanwhile

    def folder(self, directory: int, name: str) -> Folder:
        """Return a folder by its name. Raises NotFound."""
        if not 0 <= directory < len(self.paths):
            raise NotFound(f"there is no log directory {directory}")
        if len(name) > _LONGEST_NAME or os.path.basename(name) != name or not is_shown(name):
            raise NotFound(f"{name[:_LONGEST_NAME]} is not a visible partition folder")
        return read_folder(os.path.join(self.paths[directory], name))


def is_shown(name: str) -> bool:
    """Whether a folder is a partition's, other than the metadata log's, which has credentials of users."""
    return is_partition(name) and not name.startswith(f"{CLUSTER_METADATA}-")


def _in_order(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts orders-2 before orders-10."""
    topic, _, number = name.rpartition("-")
    return (topic, int(number), name) if number.isascii() and number.isdigit() else (name, -1, name)
