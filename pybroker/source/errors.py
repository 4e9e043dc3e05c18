"""What can be wrong when records are read or written. Each class passes from the reader's process as it is."""

from __future__ import annotations


class SourceError(Exception):
    """Base of everything below; raised itself for what has no class of its own."""


class UnusableOption(SourceError, ValueError):
    """An option that makes no sense, or that contradicts another one."""


class UnknownPartition(SourceError):
    """A topic or a partition that is not there."""


class DataLoss(SourceError):
    """Offsets that were wanted are not there any more, or never were."""


class NoSuchTime(SourceError):
    """No record of a partition is as late as a timestamp by which its offset was asked for."""


class DamagedLog(SourceError):
    """Files that are no log, or not whole: where, and what is wrong."""


class BrokerFailed(SourceError):
    """The broker cannot be reached, or has answered with an error."""


class AccessDenied(SourceError):
    """The broker does not let one in, or is not who it should be: credentials, certificates."""


class ReaderDied(SourceError):
    """The process that reads has ended without an answer."""


_BY_NAME = {
    each.__name__: each
    for each in (
        *(SourceError, UnusableOption, UnknownPartition, DataLoss, NoSuchTime, DamagedLog, BrokerFailed),
        AccessDenied,
    )
}


def to_json(error: SourceError) -> dict[str, str]:
    """The error as it goes through a pipe."""
    return {"error": type(error).__name__, "message": str(error)}


def from_json(told: dict[str, str]) -> SourceError:
    """The error again. One of an unknown class is a SourceError."""
    return _BY_NAME.get(told["error"], SourceError)(told["message"])
