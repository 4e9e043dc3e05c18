"""The log directories as one user may see them: files of topics that they may read, by the broker's word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.cluster.client import Client
from console.errors import NotThere
from console.logs.folder import Folder
from console.logs.log_directories import FoundFolder, LogDirectories
from storage.directory_names import DirectoryKind


class ReadableLogDirectories(LogDirectories):
    """Reading files goes past every ACL; so the broker is asked which topics the user may read.

    Folders on their way out are nobody's: what they belonged to has no ACL any more, or those of a topic that has its
    name now.
    """

    def __init__(self, paths: Sequence[str], client: Client) -> None:
        super().__init__(paths)
        self._client = client

    def folders(self, topic: str | None = None) -> Iterator[FoundFolder]:
        """Those of topics that the user may read."""
        readable = self._client.readable_topics()
        for found in super().folders(topic):
            if found.folder.topic in readable and found.folder.kind is DirectoryKind.PARTITION:
                yield found

    def folder(self, directory: int, name: str) -> Folder:
        """One of them. NotThere, for those that others may read, too."""
        found = super().folder(directory, name)
        if found.kind is not DirectoryKind.PARTITION or found.topic not in self._client.readable_topics():
            raise NotThere(f"there is no folder {name} that you may read")
        return found
