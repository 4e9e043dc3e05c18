"""Format a dump as lines of text, equal to those of Apache Kafka's kafka-dump-log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.data.decoders import Rendered
from tools.data.dump.events import (
    AbortedTransactionEntry,
    Batch,
    Event,
    FileStart,
    LoggedRecord,
    Note,
    OffsetEntry,
    Producer,
    TimeEntry,
)
from tools.data.java_text import decode, optional_long, to_json


def line(event: Event) -> str:
    """Return the line for a value, without its line end."""
    return _LINES[type(event)](event)


def _truth(value: bool | None) -> str:
    return "true" if value else "false"


def _batch(batch: Batch) -> str:
    if batch.base_offset is None:
        head = f"offset: {batch.last_offset}"
    else:
        head = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
            f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
            f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
            f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {_truth(batch.is_transactional)}"
            f" isControl: {_truth(batch.is_control)} deleteHorizonMs: {optional_long(batch.delete_horizon_ms)}"
        )
    return (
        f"{head} position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp} size: {batch.size_bytes}"
        f" magic: {batch.magic} compresscodec: {batch.codec} crc: {batch.crc} isvalid: {_truth(batch.is_valid)}"
    )


def _record(record: LoggedRecord) -> str:
    parts = []
    if record.with_metadata:
        parts.append(
            f"| offset: {record.offset} {record.timestamp_type}: {record.timestamp}"
            f" keySize: {record.key_size} valueSize: {record.value_size}"
        )
        if record.header_keys is not None:
            parts.append(f"sequence: {record.sequence} headerKeys: [{','.join(record.header_keys)}]")
        if record.is_valid is not None:
            parts.append(f"isValid: {_truth(record.is_valid)} crc: {record.crc}")
        if record.control is not None:
            value = record.control.value
            parts.append(f"{record.control.name} {value if isinstance(value, str) else to_json(value)}")
    elif record.key is not None or record.payload is not None:
        parts.append("|")
    if record.key is not None:
        parts.append(f"key: {_shown(record.key)}")
    if record.payload is not None:
        parts.append(f"payload: {_shown(record.payload)}")
    return " ".join(parts)


def _shown(value: Rendered) -> str:
    if isinstance(value, bytes):
        return decode(value)
    return value if isinstance(value, str) else to_json(value)


def _producer(producer: Producer) -> str:
    head = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch}"
        f" coordinatorEpoch: {producer.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(producer.transaction_first_offset)}"
        f" lastTimestamp: {producer.last_timestamp}"
    )
    if producer.last_sequence is None:
        return head
    return (
        f"{head} firstSequence: {producer.first_sequence} lastSequence: {producer.last_sequence}"
        f" lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _transaction(entry: AbortedTransactionEntry) -> str:
    return (
        f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
        f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
    )


_LINES: dict[type[Event], Callable[[Any], str]] = {
    FileStart: lambda event: f"Dumping {event.path}",
    Note: lambda event: event.text,
    Batch: _batch,
    LoggedRecord: _record,
    OffsetEntry: lambda event: f"offset: {event.offset} position: {event.position}",
    TimeEntry: lambda event: f"timestamp: {event.timestamp} offset: {event.offset}",
    Producer: _producer,
    AbortedTransactionEntry: _transaction,
}
