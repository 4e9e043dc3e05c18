"""What ends a request; `str()` is the line that people read."""

from __future__ import annotations


class ConsoleError(Exception):
    """Base of everything below; never raised itself."""


class NotThere(ConsoleError):
    """What the address names does not exist, or no more."""


class BadRequest(ConsoleError):
    """The address asks for something that makes no sense."""


class Unanswered(ConsoleError):
    """The broker does not answer, or refuses to."""
