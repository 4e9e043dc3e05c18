"""Errors that end an offline command; `str()` is the line that the user reads."""

from __future__ import annotations


class OfflineError(Exception):
    """Base of the errors below; never raised itself."""


class DumpFailed(OfflineError):
    """A file cannot be read further: the dump ends with exit code 1, as Kafka's tool does."""


class FormatRefused(OfflineError):
    """A directory is already formatted, or options contradict each other."""


class VerifyRefused(OfflineError):
    """Directories cannot be checked: they are missing, or a broker uses them."""
