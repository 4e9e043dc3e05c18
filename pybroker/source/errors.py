"""Errors of reading and writing records. An error of the reader process reaches the caller with the same class."""

from __future__ import annotations


class SourceError(Exception):
    """Base class of the errors below; raised itself where no subclass fits."""


class UnusableOption(SourceError, ValueError):
    """An option is invalid, or contradicts another one."""


class UnknownPartition(SourceError):
    """A topic or a partition does not exist."""


class DataLoss(SourceError):
    """Requested offsets were deleted, or never existed."""


class NoSuchTime(SourceError):
    """A partition has no record at or after the requested timestamp."""


class DamagedLog(SourceError):
    """Files are not a log, or are incomplete: the text says where and why."""


class BrokerFailed(SourceError):
    """The broker cannot be reached, or returned an error."""


class AccessDenied(SourceError):
    """The broker rejects the credentials, or its certificate is not trusted."""


class ReaderDied(SourceError):
    """The reader process ended without a response."""


_BY_NAME = {
    each.__name__: each
    for each in (
        *(SourceError, UnusableOption, UnknownPartition, DataLoss, NoSuchTime, DamagedLog, BrokerFailed),
        AccessDenied,
    )
}


def to_json(error: SourceError) -> dict[str, str]:
    """Return the error in its JSON form, which goes through a pipe."""
    return {"error": type(error).__name__, "message": str(error)}


def from_json(fields: dict[str, str]) -> SourceError:
    """Return the error from its JSON form; a SourceError when the class is unknown."""
    return _BY_NAME.get(fields["error"], SourceError)(fields["message"])
