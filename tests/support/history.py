"""The history of a test: what clients did and saw, one JSON object a line. `checker.py` finds its anomalies.

A value is sent once. It belongs to one producer, one partition and at most one transaction. All events come from
clients: sent values, acknowledged offsets, ends of transactions, values read, and the assignments and commits of group
members.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, TypeAlias

#: topic and number
Partition: TypeAlias = tuple[str, int]


class Outcome(StrEnum):
    """How a transaction ended, as its producer knows: the answer may be lost."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer is about to send a value; noted before any of it is on the way."""

    kind: ClassVar[str] = "sent"
    producer: str
    topic: str
    partition: int
    value: str
    transaction: str | None = None


#: librdkafka acknowledges a value without an offset if the broker has acknowledged a later one of the same producer.
UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker acknowledged a value, at an offset or at one that the client does not know: UNKNOWN_OFFSET."""

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
    """A reader saw a value; `committed`: it reads only committed records."""

    kind: ClassVar[str] = "read"
    reader: str
    topic: str
    partition: int
    offset: int
    value: str
    committed: bool = True


@dataclass(frozen=True, slots=True)
class ReadAll:
    """A reader, or a group, read a partition from its start to its end, after all producers had ended."""

    kind: ClassVar[str] = "read-all"
    reader: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """A member of a group was assigned a partition; `reader` is its name while it owns that."""

    kind: ClassVar[str] = "assigned"
    group: str
    reader: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Committing:
    """A member commits its position; noted before any of the request is on the way."""

    kind: ClassVar[str] = "committing"
    reader: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The broker accepted the commit."""

    kind: ClassVar[str] = "committed"
    reader: str
    topic: str
    partition: int
    offset: int


Event: TypeAlias = Sent | Acknowledged | Ended | Read | ReadAll | Assigned | Committing | Committed
_EVENTS: tuple[type[Event], ...] = (Sent, Acknowledged, Ended, Read, ReadAll, Assigned, Committing, Committed)
_KINDS: dict[str, type[Event]] = {each.kind: each for each in _EVENTS}


class History:
    """A file of events, for several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def note(self, *events: Event) -> None:
        """Write events, in this order."""
        lines = "".join(json.dumps({"event": each.kind, **asdict(each)}) + "\n" for each in events)
        with self._lock:
            self._file.write(lines)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_history(path: Path) -> Iterator[Event]:
    """Yield the events of a file, in order."""
    with path.open() as file:
        for line in file:
            fields = json.loads(line)
            kind = _KINDS[fields.pop("event")]
            yield kind(**fields)


def of_partition(events: Iterable[Event], partition: Partition) -> list[Event]:
    """Return the events of a partition."""
    return [each for each in events if not isinstance(each, Ended) and (each.topic, each.partition) == partition]
