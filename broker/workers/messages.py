"""The messages between the main process and a worker: values that pickle. Answers are in link.py.

A worker gets metadata as any KRaft follower does: first a snapshot, then the batches of records.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.coordinators.transaction.markers import Marker
from broker.coordinators.transaction.verifier import FirstBatch
from broker.startup.missing_partitions import Missing
from config.listening import Listening
from config.setting import Setting
from config.values import ConfigValue
from coordinator.share.state import ShareKey, StateBatch


class WorkerConfig(msgspec.Struct, frozen=True):
    """The parts of a BrokerConfig. The main process has read the file, which may have changed since."""

    path: str | None
    settings: Mapping[str, Setting]
    values: Mapping[str, ConfigValue]
    listening: Listening


class WorkerDirectory(msgspec.Struct, frozen=True):
    """A log directory: its id, whether it was closed cleanly, and why it is offline if it is."""

    path: str
    directory_id: bytes | None
    had_clean_shutdown: bool
    failure: str | None


class InheritedListener(msgspec.Struct, frozen=True):
    """A listener with its sockets, which the worker inherits."""

    name: str
    security_protocol: str
    handles: tuple[int, ...]


class Begin(msgspec.Struct, frozen=True):
    """The first message to a worker. `ports`: of all workers, by listener.

    `records`: a snapshot of the metadata, up to `last_offset`; `kraft_version` stands beside it in the log.
    """

    number: int
    config: WorkerConfig
    cluster_id: str
    kraft_version: int
    last_offset: int
    records: tuple[bytes, ...]
    deleted_topics: frozenset[bytes]
    directories: tuple[WorkerDirectory, ...]
    missing: Missing
    listeners: tuple[InheritedListener, ...]
    ports: Mapping[str, tuple[int, ...]]
    log_levels: Mapping[str, str]
    log_as_json: bool


# ---- from the main process


class Open(msgspec.Struct, frozen=True):
    """Accept clients."""


class Records(msgspec.Struct, frozen=True):
    """A batch of the metadata log, and the offset of its last record. Answered when it is applied."""

    last_offset: int
    records: tuple[bytes, ...]


class WriteMarker(msgspec.Struct, frozen=True):
    """Write a marker. Answered with an ErrorCode, as `append_marker`."""

    marker: Marker
    topic: str
    partition: int


class AppendRecords(msgspec.Struct, frozen=True):
    """Append a batch of the broker's own. Answered with an ErrorCode. From both."""

    topic: str
    partition: int
    records: bytes


class LogLevels(msgspec.Struct, frozen=True):
    """The log levels that were set, by logger."""

    levels: Mapping[str, str]


class EndOffset(msgspec.Struct, frozen=True):
    """Ask for the end of a partition. Answered with its high watermark; fails with Refused."""

    topic: str
    partition: int


class KnownEnds(msgspec.Struct, frozen=True):
    """Ask for the ends of partitions, (topic, partition) each. Answered with the high watermarks of open logs."""

    places: tuple[tuple[str, int], ...]


class ForgetShares(msgspec.Struct, frozen=True):
    """Drop the states of a share group's partitions of a topic: they were changed or deleted. None: all partitions."""

    group_id: str
    topic_id: bytes
    partitions: frozenset[int] | None


class LivenessCheck(msgspec.Struct, frozen=True):
    """Check that the loop runs. Answered with None."""


class Stop(msgspec.Struct, frozen=True):
    """Stop cleanly. Answered when all data is on disk, with the reason by path for directories where it is not."""


# ---- from a worker


class Ready(msgspec.Struct, frozen=True):
    """The worker hosts all of its partitions."""


class Refused(msgspec.Struct, frozen=True):
    """The worker cannot start. The reason is one line of text."""

    reason: str


class PartitionDirectories(msgspec.Struct, frozen=True):
    """Report the directories of partitions: (topic id, partition, directory id)."""

    placed: tuple[tuple[bytes, int, bytes], ...]


class AutoCreate(msgspec.Struct, frozen=True):
    """Create topics that clients use. Answered when they are created, or cannot be."""

    names: tuple[str, ...]
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)


class Verify(msgspec.Struct, frozen=True):
    """Ask whether partitions take part in a transaction. Answered with an ErrorCode for each (topic, partition)."""

    transactional_id: str
    batches: tuple[FirstBatch, ...]
    api_version: int


class ReadShare(msgspec.Struct, frozen=True):
    """Read the state of a share-partition, for its leader. Answered with a ShareState; fails with Refused."""

    share: ShareKey
    leader_epoch: int


class WriteShare(msgspec.Struct, frozen=True):
    """Write changes of a share-partition. Answered when they are written; fails with Refused."""

    share: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Client(msgspec.Struct, frozen=True):
    """A client of a worker, whose request is forwarded to the main process."""

    listener_name: str
    security_protocol: str
    client_host: str
    client_port: int
    local_host: str
    local_port: int
    principal: str
    client_software_name: str
    client_software_version: str


class Forward(msgspec.Struct, frozen=True):
    """A client's request, undecoded, for the main process to serve. Answered with Forwarded."""

    client: Client
    frame: bytes


class Forwarded(msgspec.Struct, frozen=True):
    """The frame of an answer, and how long the worker mutes the client, which has exceeded its quota."""

    frame: bytes
    throttle_ms: int = 0


# ---- from both


class DirectoryFailed(msgspec.Struct, frozen=True):
    """A log directory is offline. If it fails in one process, it is offline in all."""

    path: str
    reason: str
