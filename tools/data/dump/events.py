"""The contents of dumped files, one value per output line; text_lines.py and json_lines.py format them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tools.data.decoders import Rendered
from tools.data.java_text import JsonValue


@dataclass(frozen=True, slots=True)
class FileStart:
    """The start of a file: the events after it are of this file."""

    path: str


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the file; with `problem` an error, which Kafka's tool prints on standard error."""

    text: str
    problem: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch v2, or a message of v0 or v1, whose fields from `base_offset` to `delete_horizon_ms` are None."""

    position: int
    size_bytes: int
    magic: int
    last_offset: int
    timestamp_type: str
    max_timestamp: int
    codec: str
    crc: int
    is_valid: bool
    base_offset: int | None = None
    count: int | None = None
    base_sequence: int | None = None
    last_sequence: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    leader_epoch: int | None = None
    is_transactional: bool | None = None
    is_control: bool | None = None
    delete_horizon_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """A control record: the name that Kafka's tool gives it, and the value in the tool's text or as JSON."""

    name: str
    value: str | JsonValue


class LoggedRecord(NamedTuple):
    """A record of the preceding batch. v0 and v1 have no sequence and no headers, v2 has no checksum per record.

    `with_metadata`: print more than key and payload. It is a tuple because there may be millions.
    """

    offset: int
    timestamp_type: str
    timestamp: int
    key_size: int
    value_size: int
    sequence: int | None = None
    header_keys: tuple[str, ...] | None = None
    is_valid: bool | None = None
    crc: int | None = None
    control: Control | None = None
    key: Rendered = None
    payload: Rendered = None
    with_metadata: bool = True


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """An entry of an offset index."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """An entry of a time index."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer in a snapshot; the fields from the sequences to the timestamp are None if it has no batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_first_offset: int | None
    last_timestamp: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    last_offset: int | None = None
    offset_delta: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class AbortedTransactionEntry:
    """An entry of a transaction index."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


Event: TypeAlias = (
    FileStart | Note | Batch | LoggedRecord | OffsetEntry | TimeEntry | Producer | AbortedTransactionEntry
)
