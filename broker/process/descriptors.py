"""File descriptors: how many the process may have, and how they are shared out.

A broker without free descriptors can neither accept connections nor roll segments. So connections and log files each
have a share, and a reserve is left for short-lived files: checkpoints, snapshots, a file that a response still holds. A
listener whose share is used up stops accepting, as with max.connections.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

import msgspec

from storage.open_files import DEFAULT_CAPACITY

# The limit is raised to at most this number: the kernel's own limit may be a thousand million.
_ENOUGH = 1 << 20
# Log files get a quarter: at least one partition's worth, and never more than is useful.
_LOG_FILES_PART = 4
_FEWEST_LOG_FILES = 16
# The reserve, half where there are few: the loop, the locks, the threads, one file of each directory at a time, and
# worker processes, without which compressed batches are rejected: three for each, and some more while it starts.
_RESERVE = 64
_RESERVE_PART = 2
# Free descriptors without which a start would fail halfway, or at the first client: the loop's, the lock, a listener, a
# log, a connection, and a worker while it starts.
_LEAST = 32


class Shares(msgspec.Struct, frozen=True):
    """The numbers of descriptors for log files and for connections."""

    log_files: int
    connections: int


def raise_limit() -> int:
    """Raise the process's limit as far as possible (Java does the same), and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY and hard <= _ENOUGH else max(soft, _ENOUGH)
    if soft != wanted:
        with suppress(OSError, ValueError):  # above the kernel's own limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _ENOUGH


def lack() -> str | None:
    """Return why the process has too few descriptors for a broker, in one line; None if it has enough."""
    limit = raise_limit()
    try:
        taken = len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
    except OSError:
        taken = limit
    if limit - taken >= _LEAST:
        return None
    return f"the process may open {limit} files (ulimit -n) and has {taken} open; a broker needs {_LEAST} more"


def share_out(limit: int) -> Shares:
    """Share out this number of descriptors."""
    log_files = max(_FEWEST_LOG_FILES, min(DEFAULT_CAPACITY, limit // _LOG_FILES_PART))
    reserve = min(_RESERVE, limit // _RESERVE_PART)
    return Shares(log_files, max(1, limit - log_files - reserve))
