"""A round: what has changed in the logs of a broker since the round before, up to one moment.

All ends of a round are noted in one turn of the event loop. So the rounds up to one of them, together, are what a kill
of the process at that moment would leave on the disk, and a start recovers it.
"""

from __future__ import annotations

from typing import NamedTuple


class LogId(NamedTuple):
    """A partition. `topic_id` has 16 bytes."""

    topic_id: bytes
    topic: str
    partition: int


class StoredRange(NamedTuple):
    """Whole batches of a log, as bytes of an object.

    `key` is the key of the object within the folder of rounds; empty: the object that names the range. `crc` is the
    CRC32C of the bytes. Offsets from `from_offset` to `to_offset` (exclusive) that have no record are gone.
    """

    key: str
    position: int
    size_bytes: int
    crc: int
    from_offset: int
    to_offset: int


class LogState(NamedTuple):
    """A log at the moment of a round, if it has changed since the one before.

    `ranges` continue those of earlier rounds; if `replaces` is set, they stand alone: the log was compacted, or it is
    new in these rounds. What is below `stored_from` is not in them: it is in finished copies of segments (KIP-405), or
    below the log's start. `directory` is an index of `Node.directory_ids`.
    """

    log: LogId
    log_start_offset: int
    stored_from: int
    log_end_offset: int
    directory: int
    ranges: tuple[StoredRange, ...]
    replaces: bool = False


class StoredFile(NamedTuple):
    """A file of the metadata log's folder that a round has as a whole: a snapshot (KIP-630)."""

    name: str
    key: str
    position: int
    size_bytes: int
    crc: int


class Node(NamedTuple):
    """Whose rounds they are, as in meta.properties. `directory_ids` are in the order of log.dirs.

    `metadata_directory` is the index of the one that has the metadata log.
    """

    cluster_id: str
    node_id: int
    directory_ids: tuple[bytes, ...]
    metadata_directory: int = 0


class Round(NamedTuple):
    """One round. `number` counts from 1 without a gap over all brokers that ever held the rounds of this cluster.

    `parent` is the number of the round that it continues, 0 for none: rounds between them are void. `term` grows when
    another `holder` takes over. `time_ms` is the holder's wall clock. `is_released`: the holder has ended, and any
    other one may take over at once. `gone`: logs that do not exist any more.
    """

    number: int
    parent: int
    term: int
    holder: str
    time_ms: int
    node: Node
    logs: tuple[LogState, ...] = ()
    gone: tuple[LogId, ...] = ()
    files: tuple[StoredFile, ...] = ()
    is_released: bool = False
