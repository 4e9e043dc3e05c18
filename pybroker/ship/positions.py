"""The position file: how far each log file was sent and acknowledged. A kill at any moment leaves the file intact."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

from pybroker.text_files import file_bytes

_VERSION = 1
_NONE: Mapping[str, list[Position]] = {}


class PositionFileError(Exception):
    """The position file cannot be used; the text is one line."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log file, which may have another name now."""

    device: int
    inode: int
    offset: int
    """Offset in bytes: everything before it is acknowledged."""
    head_bytes: int
    """The number of bytes at the start of the file that the checksum covers."""
    head_sha256: str
    """It detects a new file with the inode of a removed one, and finds the copy of a truncated one."""

    @classmethod
    def of(cls, status: os.stat_result, offset: int, head: bytes) -> Self:
        """Make a position; `head`: the first bytes of the file, as far as they exist."""
        return cls(status.st_dev, status.st_ino, offset, len(head), hashlib.sha256(head).hexdigest())

    def has_inode(self, status: os.stat_result) -> bool:
        return (self.device, self.inode) == (status.st_dev, status.st_ino)

    def is_in(self, fd: int) -> bool:
        """Whether the open file begins with the same bytes and reaches the offset."""
        head = os.pread(fd, self.head_bytes, 0)
        return os.fstat(fd).st_size >= self.offset and hashlib.sha256(head).hexdigest() == self.head_sha256


class PositionFile:
    """Positions by the absolute path of the log; None for a log that did not exist yet. For one process at a time.

    Errors: PositionFileError when it is unusable, in use by another process, or for another topic.
    """

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self.since_ns: dict[str, int] = {}
        """The time of the last update of each, in nanoseconds since 1970."""
        self.others: dict[str, list[Position]] = {}
        """By log, the files beside it that are never sent. Earlier versions ignore them."""
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
            raise PositionFileError(
                f"{path}: another pybroker produce is using it; name another with --position"
            ) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._lock)

    def begin(self, positions: Mapping[str, Position | None], others: Mapping[str, list[Position]] = _NONE) -> None:
        """Write positions of logs that had none; the times of the others stay, as they were not checked. OSError."""
        before = self.since_ns
        self.write(positions, others)
        self.since_ns |= before

    def write(self, positions: Mapping[str, Position | None], others: Mapping[str, list[Position]] = _NONE) -> None:
        """Update positions in the file, and files that are never sent; those of other logs stay. Errors: OSError."""
        self.positions = {**self.positions, **positions}
        self.others = {path: files for path, files in {**self.others, **others}.items() if files}
        files = {path: position and asdict(position) for path, position in self.positions.items()}
        beside = {path: [asdict(each) for each in each_others] for path, each_others in self.others.items()}
        text = json.dumps({"version": _VERSION, "topic": self._topic, "files": files, "others": beside}, indent=1)
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
            found = json.loads(file_bytes(self.path))
            version, topic, files = found["version"], found["topic"], found["files"]
            positions = {str(path): value and _position(value) for path, value in files.items()}
            self.others = {path: [_position(each) for each in files] for path, files in found.get("others", {}).items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PositionFileError(f"{self.path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise PositionFileError(
                f"{self.path}: is not a position file: remove it, and choose with --from-beginning where to begin"
            ) from None
        if version != _VERSION:
            raise PositionFileError(f"{self.path}: has version {version}, but only {_VERSION} is supported")
        if topic != self._topic:
            raise PositionFileError(f"{self.path}: belongs to the topic {topic}; name another file with --position")
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
