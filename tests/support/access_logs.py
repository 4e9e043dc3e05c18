"""Count access logs in plain Python, as the expected result of the example's pipeline."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"

_Key = TypeVar("_Key")


class Request(NamedTuple):
    """A valid line of a log, with the columns of the example's lake."""

    time: int  # seconds since the epoch
    address: str
    method: str
    path: str
    status: int
    size: int
    agent: str

    @property
    def minute(self) -> int:
        """Return the start of the request's minute, in seconds since the epoch."""
        return self.time - self.time % 60

    @property
    def date(self) -> str:
        return f"{datetime.fromtimestamp(self.time, UTC):%Y-%m-%d}"


class Counts(NamedTuple):
    """How many requests, how many bytes they sent, and how many failed."""

    requests: int
    size: int
    errors: int


class AccessLog(NamedTuple):
    """A log: its requests, and its invalid lines."""

    requests: list[Request]
    broken: list[str]

    @classmethod
    def read(cls, path: Path) -> AccessLog:
        log = cls([], [])
        for line in path.read_text().split("\n")[:-1]:
            try:
                log.requests.append(_parsed(line))
            except ValueError:
                log.broken.append(line)
        return log

    def by(self, key: Callable[[Request], _Key]) -> dict[_Key, Counts]:
        """Return the counts of the requests that share a key."""
        parts: dict[_Key, list[Request]] = defaultdict(list)
        for request in self.requests:
            parts[key(request)].append(request)
        return {
            key: Counts(len(part), sum(each.size for each in part), sum(each.status >= 400 for each in part))
            for key, part in parts.items()
        }


def write_resampled(path: Path, lines: int, *options: str) -> None:
    """Write a log of `lines` lines with the example's script."""
    subprocess.run([sys.executable, EXAMPLE / "resample.py", path, f"--lines={lines}", *options], check=True)


def _parsed(line: str) -> Request:
    """Parse a line by quotation marks and spaces, not by the pipeline's regular expression. ValueError for an invalid
    line.
    """
    where, asked, answer, _referer, _, agent, _ = line.split('"')
    address, _, _, when, _ = where.split(" ", 4)
    method, path, _ = asked.split()
    status, size = answer.split()
    return Request(_seconds(when), address, method, path.partition("?")[0], int(status), int(size), agent)


@functools.cache
def _seconds(when: str) -> int:
    """Parse a time such as [21/Nov/2026:14:36:40, in UTC."""
    return int(datetime.strptime(when, "[%d/%b/%Y:%H:%M:%S").replace(tzinfo=UTC).timestamp())
