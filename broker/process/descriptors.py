"""File descriptors: how many the process may have, and how they are shared out.

A broker that runs out of them can neither accept nor roll a segment. So connections and log files each have a share,
and a reserve is left for what comes and goes: checkpoints, snapshots, a file that a response still holds. A listener
whose share is used up lets clients wait, as with max.connections.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

import msgspec

from storage.open_files import DEFAULT_CAPACITY

# Of what the process may have, at most so much is kept: the kernel's own limit may be a thousand million.
_ENOUGH = 1 << 20
# Log files get a quarter, at least one partition's worth and never more than they gain from.
_LOG_FILES_PART = 4
_FEWEST_LOG_FILES = 16
# Left over, half where there are few: the loop, the locks, the threads, one file of each directory at a time; and the
# workers, without whom batches that have to be opened are refused: three for each, and some more while it starts.
_RESERVE = 64
_RESERVE_PART = 2
# Free ones, without which a start would fail halfway, or at the first client: the loop's, the lock, a listener, a log,
# a connection, and a worker while it starts.
_LEAST = 32


class Shares(msgspec.Struct, frozen=True):
    """How many descriptors log files and connections may have."""

    log_files: int
    connections: int


def raise_limit() -> int:
    """Let the process have as many as it may (Java does the same); how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY and hard <= _ENOUGH else max(soft, _ENOUGH)
    if soft != wanted:
        with suppress(OSError, ValueError):  # above what the kernel gives to anyone
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _ENOUGH


def lack() -> str | None:
    """Why the process has too few for a broker, in one line for people; None where there are enough."""
    limit = raise_limit()
    try:
        taken = len(os.listdir("/proc/self/fd")) - 1  # without the one for looking
    except OSError:
        taken = limit
    if limit - taken >= _LEAST:
        return None
    return f"the process may have {limit} files open (ulimit -n), {taken} of them are; a broker needs {_LEAST} more"


def share_out(limit: int) -> Shares:
    """The shares of so many descriptors."""
    log_files = max(_FEWEST_LOG_FILES, min(DEFAULT_CAPACITY, limit // _LOG_FILES_PART))
    reserve = min(_RESERVE, limit // _RESERVE_PART)
    return Shares(log_files, max(1, limit - log_files - reserve))
