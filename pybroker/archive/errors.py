"""Errors of archives and restores."""

from __future__ import annotations


class ArchiveError(Exception):
    """Base class of the errors below; raised itself where no subclass fits."""


class DamagedArchive(ArchiveError):
    """Files do not belong to an archive, or differ from its manifest."""


class ArchiveBusy(ArchiveError):
    """Another process uses the archive, or the journal of the restore."""


class LogChanged(ArchiveError):
    """The log is another one than the archived log, or has lost records that were not archived yet."""


class UnusableTarget(ArchiveError):
    """An archive cannot be restored into this topic."""
