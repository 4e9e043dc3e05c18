"""What ends an offline command; `str()` is the line that people read."""

from __future__ import annotations


class OfflineError(Exception):
    """Base of everything below; never raised itself."""


class DumpFailed(OfflineError):
    """A file that cannot be read on: the dump ends here, with exit code 1, as Kafka's does by an exception."""


class FormatRefused(OfflineError):
    """A directory that is formatted already, or wishes that cannot be met together."""


class VerifyRefused(OfflineError):
    """Directories that cannot be checked: they are not there, or a broker is using them."""
