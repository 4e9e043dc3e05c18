"""The log directories as one user may see them: only files of topics that the broker lets the user read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.cluster.client import Client
from console.errors import NotFound
from console.logs.folder import Folder
from console.logs.log_directories import FoundFolder, LogDirectories
from storage.directory_names import DirectoryKind


class ReadableLogDirectories(LogDirectories):
    """Log directories without the folders of topics that the user may not read: file access would bypass ACLs.

    Folders that are being deleted are hidden: their topic has no ACLs any more, or a new topic has its name.
    """

    def __init__(self, paths: Sequence[str], client: Client) -> None:
        super().__init__(paths)
        self._client = client

    def folders(self, topic: str | None = None) -> Iterator[FoundFolder]:
        """Yield the folders of topics that the user may read."""
        readable = self._client.readable_topics()
        for found in super().folders(topic):
            if found.folder.topic in readable and found.folder.kind is DirectoryKind.PARTITION:
                yield found

    def folder(self, directory: int, name: str) -> Folder:
        """Return a folder. Raises NotFound, also for folders that only others may read."""
        found = super().folder(directory, name)
        if found.kind is not DirectoryKind.PARTITION or found.topic not in self._client.readable_topics():
            raise NotFound(f"there is no folder {name} that you may read")
        return found
