"""What can be wrong with an archive, or with what it is made of."""

from __future__ import annotations


class ArchiveError(Exception):
    """Base of everything below; raised itself for what has no class of its own."""


class DamagedArchive(ArchiveError):
    """Files that are no archive's, or that are not what the manifest says."""


class ArchiveBusy(ArchiveError):
    """Another process has the archive, or the restore's state."""


class LogChanged(ArchiveError):
    """The log is not the one that was archived, or has lost what was not archived yet."""


class UnusableTarget(ArchiveError):
    """A topic that an archive cannot be restored into."""
