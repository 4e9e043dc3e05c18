"""The data of a cluster that pages show, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A broker."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster and its brokers."""

    id: str
    controller: int | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """`start` and `end` are offsets: of the first record, and after the last."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic in a list."""

    name: str
    partition_count: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """A configuration's value; `is_own`: it is the topic's, not the broker's."""

    name: str
    value: str
    source: str
    is_own: bool
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic."""

    name: str
    id: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in a list."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, and what it reads."""

    id: str
    client: str
    host: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """The offset and lag of a group in a partition. `offset` is None before the first commit, `end` if the partition
    does not exist any more, and `lag` in both cases.
    """

    topic: str
    partition: int
    offset: int | None
    end: int | None
    client: str | None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.end is None else self.end - self.offset


@dataclass(frozen=True, slots=True)
class Group:
    """A group."""

    name: str
    state: str
    protocol: str
    assignor: str
    members: tuple[Member, ...]
    lags: tuple[Lag, ...]

    @property
    def lag(self) -> int:
        """Return the sum over all partitions with a committed offset."""
        return sum(each.lag or 0 for each in self.lags)


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a client receives it; `more_headers` counts the headers left out."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    more_headers: int = 0

    @property
    def size_bytes(self) -> int:
        """Return the size of key, value and headers."""
        header_bytes = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + header_bytes

    def has(self, word: bytes) -> bool:
        """Return whether the key, the value or a header contains `word`, which is in lower case."""
        parts = (self.key, self.value, *(part for name, value in self.headers for part in (name.encode(), value)))
        return any(word in part.lower() for part in parts if part is not None)
