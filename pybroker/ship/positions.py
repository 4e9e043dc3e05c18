"""How far each log file has been sent and acknowledged, in a file that a kill at any moment leaves whole."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

_VERSION = 1


class PositionFileError(Exception):
    """What is wrong with the file, in one line."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log file that may have another name by now."""

    device: int
    inode: int
    offset: int
    """Bytes: all before it is acknowledged."""
    head_bytes: int
    """How many of the file's first bytes the checksum is of."""
    head_sha256: str
    """By it a file is known that has got the inode of one that was removed, and a copy of one that was truncated."""

    @classmethod
    def of(cls, status: os.stat_result, offset: int, head: bytes) -> Self:
        """`head`: the first bytes of the file, as far as they were there."""
        return cls(status.st_dev, status.st_ino, offset, len(head), hashlib.sha256(head).hexdigest())

    def is_inode(self, status: os.stat_result) -> bool:
        return (self.device, self.inode) == (status.st_dev, status.st_ino)

    def is_in(self, fd: int) -> bool:
        """Whether the open file begins as this one did, and is as long at least."""
        head = os.pread(fd, self.head_bytes, 0)
        return os.fstat(fd).st_size >= self.offset and hashlib.sha256(head).hexdigest() == self.head_sha256


class PositionFile:
    """Positions by the absolute path of the log; None for one that was not there yet. For one process at a time.

    Errors: PositionFileError where it cannot be used, is another's at the moment, or of another topic.
    """

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self.since_ns: dict[str, int] = {}
        """When each was true last, in nanoseconds since 1970."""
        self._topic = topic
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PositionFileError(f"{error.filename or path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.positions = self._read()
        except BlockingIOError:
            self.close()
            raise PositionFileError(f"{path}: another pybroker produce is using it; --position names another") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._lock)

    def begin(self, positions: Mapping[str, Position | None]) -> None:
        """Write those of logs that had none: nobody looks now whether the others' are still true. Errors: OSError."""
        before = self.since_ns
        self.write(positions)
        self.since_ns |= before

    def write(self, positions: Mapping[str, Position | None]) -> None:
        """Put them into the file, beside those of logs that are not named. Errors: OSError."""
        self.positions = {**self.positions, **positions}
        files = {path: position and asdict(position) for path, position in self.positions.items()}
        text = json.dumps({"version": _VERSION, "topic": self._topic, "files": files}, indent=1)
        written = self.path.with_name(f"{self.path.name}.new")
        with written.open("w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.rename(self.path)
        written_ns = self.path.stat().st_mtime_ns
        self.since_ns = {**self.since_ns, **dict.fromkeys(positions, written_ns)}

    def _read(self) -> dict[str, Position | None]:
        try:
            written_ns = self.path.stat().st_mtime_ns
            found = json.loads(self.path.read_bytes())
            version, topic, files = found["version"], found["topic"], found["files"]
            positions = {str(path): value and _position(value) for path, value in files.items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PositionFileError(f"{self.path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PositionFileError(
                f"{self.path}: is no file of positions: remove it, and choose by --from-beginning where to begin"
            ) from None
        if version != _VERSION:
            raise PositionFileError(f"{self.path}: has version {version}, and only {_VERSION} is known")
        if topic != self._topic:
            raise PositionFileError(f"{self.path}: is of the topic {topic}; --position names another file")
        self.since_ns = dict.fromkeys(positions, written_ns)
        return positions


def _position(value: Mapping[str, object]) -> Position:
    position = Position(**value)  # type: ignore[arg-type]
    for field in fields(Position):
        kind = str if field.name == "head_sha256" else int
        if type(getattr(position, field.name)) is not kind:
            raise TypeError(field.name)
    if position.offset < 0 or position.head_bytes < 0:
        raise ValueError("a negative number")
    return position
