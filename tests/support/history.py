"""What clients did and saw, written down as it happens: one JSON object a line. `checker.py` says what is wrong in it.

A value is sent once, and belongs to one producer, partition and, where there is one, transaction. All that is known of
it comes from clients: what was sent, which offset was acknowledged, how transactions ended, what readers saw, and what
members of groups were given and committed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, TypeAlias

#: Topic and number.
Partition: TypeAlias = tuple[str, int]


class Outcome(StrEnum):
    """How a transaction ended, as its producer knows: the answer may have been lost."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer has handed over a value; before any of it was on the way."""

    kind: ClassVar[str] = "sent"
    producer: str
    topic: str
    partition: int
    value: str
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker has said where the value is."""

    kind: ClassVar[str] = "acknowledged"
    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction is over, as far as its producer knows."""

    kind: ClassVar[str] = "ended"
    transaction: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Read:
    """A reader saw a value; `committed`: it reads committed records alone."""

    kind: ClassVar[str] = "read"
    reader: str
    topic: str
    partition: int
    offset: int
    value: str
    committed: bool = True


@dataclass(frozen=True, slots=True)
class ReadAll:
    """A reader, or a group, has come from the beginning of a partition to its end, after all producers had ended."""

    kind: ClassVar[str] = "read-all"
    reader: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """A member of a group has been given a partition; `reader` is what it is called as long as it has that."""

    kind: ClassVar[str] = "assigned"
    group: str
    reader: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Committing:
    """A member commits how far it is; before any of it was on the way."""

    kind: ClassVar[str] = "committing"
    reader: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The broker has taken the commit."""

    kind: ClassVar[str] = "committed"
    reader: str
    topic: str
    partition: int
    offset: int


Event: TypeAlias = Sent | Acknowledged | Ended | Read | ReadAll | Assigned | Committing | Committed
_EVENTS: tuple[type[Event], ...] = (Sent, Acknowledged, Ended, Read, ReadAll, Assigned, Committing, Committed)
_KINDS: dict[str, type[Event]] = {each.kind: each for each in _EVENTS}


class History:
    """Appends events to a file; for use by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def note(self, *events: Event) -> None:
        """Write them down, in this order."""
        lines = "".join(json.dumps({"event": each.kind, **asdict(each)}) + "\n" for each in events)
        with self._lock:
            self._file.write(lines)

    def close(self) -> None:
        """Nothing more happens."""
        self._file.close()


def read_history(path: Path) -> Iterator[Event]:
    """The events of a file, in order."""
    with path.open() as file:
        for line in file:
            fields = json.loads(line)
            kind = _KINDS[fields.pop("event")]
            yield kind(**fields)


def of_partition(events: Iterable[Event], partition: Partition) -> list[Event]:
    """Those that happened there."""
    return [each for each in events if not isinstance(each, Ended) and (each.topic, each.partition) == partition]
