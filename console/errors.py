"""Exceptions that end a request; `str()` is the line that the user reads."""

from __future__ import annotations


class ConsoleError(Exception):
    """Base of the exceptions below; never raised itself."""


class NotFound(ConsoleError):
    """The object in the URL does not exist, or was deleted."""


class BadRequest(ConsoleError):
    """The request is malformed or has invalid values."""


class Refused(ConsoleError):
    """The broker or the console does not authorize this user to do that."""


class BrokerRejected(ConsoleError):
    """The broker answered with an error."""


class TooMany(ConsoleError):
    """The limit of concurrent requests of this kind is reached."""


class BrokerUnavailable(ConsoleError):
    """The broker does not answer, or is not ready."""
