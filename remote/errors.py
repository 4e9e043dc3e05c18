"""Errors of remote storage. Each one names the object or the setting; none has credentials in its text."""

from __future__ import annotations


class SettingError(Exception):
    """A setting of the storage cannot be used; the text is one line. `value` is None if there is none, or a secret."""

    def __init__(self, key: str, value: str | None, reason: str, allowed: str = "") -> None:
        self.key = key
        self.value = value
        self.reason = reason
        self.allowed = allowed
        what = key if value is None else f"{key}={value}"
        super().__init__(f"{what}: {reason}" + (f"; allowed: {allowed}" if allowed else ""))


class RemoteStorageError(Exception):
    """An operation on an object failed."""

    #: Whether the same operation may succeed later without a change of the configuration.
    is_temporary = True

    def __init__(self, key: str, reason: object) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        #: The text without the key.
        self.reason = str(reason)


class Unreachable(RemoteStorageError):
    """The store did not answer in time, or answered that it cannot serve now."""


class Throttled(Unreachable):
    """The store asks for fewer requests."""


class Absent(RemoteStorageError):
    """The store has no such object. This is no proof: some stores give the same answer to wrong credentials."""


class Exists(RemoteStorageError):
    """An object was to be created, and there is one of that key."""

    is_temporary = False


class Denied(RemoteStorageError):
    """The store refuses the credentials, or what they may do."""

    is_temporary = False
    #: The operator's next step, for the log line.
    advice = "Check the credentials"


class WrongClock(Denied):
    """The store refuses requests whose signatures have a time too far from its own."""

    advice = "Set the clock"


class Damaged(RemoteStorageError):
    """An object is shorter than its description says, or is not what its name says."""

    is_temporary = False


class OutOfSpace(RemoteStorageError):
    """The file system of a directory store is full."""
