"""What the owner and a worker say to each other, besides answers (link.py): values that pickle.

Metadata goes as it does to any follower in KRaft: a snapshot first, then batch after batch of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.config.listening import Listening
from broker.config.setting import Setting
from broker.config.values import ConfigValue
from broker.coordinators.markers import Marker
from broker.missing import Missing
from broker.produce_verification import FirstBatch


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """What a BrokerConfig is made of: the owner has read it, and files may have changed since."""

    path: str | None
    settings: Mapping[str, Setting]
    values: Mapping[str, ConfigValue]
    listening: Listening


@dataclass(frozen=True, slots=True)
class GivenDirectory:
    """A log directory: its id, whether it was left cleanly, why it is offline if it is."""

    path: str
    directory_id: bytes | None
    was_left_clean: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class GivenListener:
    """A listener with its sockets, which the worker inherits."""

    name: str
    security_protocol: str
    handles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """The first thing that a worker hears. `ports`: of all workers, by listener.

    `records`: a snapshot of the metadata, up to `last_offset`; `kraft_version` stands beside it in the log.
    """

    number: int
    config: GivenConfig
    cluster_id: str
    kraft_version: int
    last_offset: int
    records: tuple[bytes, ...]
    deleted_topics: frozenset[bytes]
    directories: tuple[GivenDirectory, ...]
    missing: Missing
    listeners: tuple[GivenListener, ...]
    ports: Mapping[str, tuple[int, ...]]
    log_levels: Mapping[str, str]
    log_as_json: bool


# ---- from the owner


@dataclass(frozen=True, slots=True)
class Open:
    """Let clients in."""


@dataclass(frozen=True, slots=True)
class Records:
    """A batch of the metadata log, and the offset of its last record. Answered when it is carried out."""

    last_offset: int
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Write a marker. Answered with an ErrorCode, as `append_marker`."""

    marker: Marker
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The levels that were set, by logger."""

    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Beat:
    """Say that the loop turns: the answer is nothing."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Go down in good order. Answered when all is on the disk, with why by path for directories where it is not."""


# ---- from a worker


@dataclass(frozen=True, slots=True)
class Ready:
    """All partitions are there."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker cannot start, and why, in one line for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Partitions are in these directories: (topic id, partition, directory id)."""

    placed: tuple[tuple[bytes, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Make topics that somebody uses. Answered when they are there, or not."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verify:
    """Whether partitions take part in a transaction. Answered with an ErrorCode for each (topic, partition)."""

    transactional_id: str
    batches: tuple[FirstBatch, ...]
    api_version: int


@dataclass(frozen=True, slots=True)
class Client:
    """A client of a worker, whose request goes to the owner."""

    listener_name: str
    security_protocol: str
    client_host: str
    client_port: int
    local_host: str
    local_port: int
    principal: str
    client_software_name: str
    client_software_version: str


@dataclass(frozen=True, slots=True)
class Forward:
    """A request as it came, for the owner to serve. Answered with Forwarded."""

    client: Client
    frame: bytes


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The frame of an answer, and for how long its client is not served now: it has taken more than its quota."""

    frame: bytes
    throttle_ms: int = 0


# ---- from both


@dataclass(frozen=True, slots=True)
class DirectoryFailed:
    """A log directory is offline: for one process, so for all."""

    path: str
    reason: str
