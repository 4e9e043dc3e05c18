"""What ends a request; `str()` is the line that people read."""

from __future__ import annotations


class ConsoleError(Exception):
    """Base of everything below; never raised itself."""


class NotThere(ConsoleError):
    """What the address names does not exist, or no more."""


class BadRequest(ConsoleError):
    """The address asks for something that makes no sense."""


class Refused(ConsoleError):
    """The broker, or the console, does not let this user do that."""


class Declined(ConsoleError):
    """The broker answers that this cannot be."""


class TooMany(ConsoleError):
    """So many do that at the moment that there is no room for one more."""


class Unanswered(ConsoleError):
    """The broker does not answer, or cannot at the moment."""
