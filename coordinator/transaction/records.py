"""The records of `__transaction_state` as values, and their bytes.

A key is an int16 type, 0, and the transactional id. A value is an int16 version and the state of the id. Version 1 is
written from transaction.version 1 on. It has the previous and next producer ids and the client's protocol as tagged
fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class

import msgspec

from coordinator.shard import UnknownRecord
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import TopicPartition, Transaction
from protocol.error_codes import ProtocolError
from protocol.messages.coordinator.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

TRANSACTION = 0
#: The states in records; the other TransactionStates are never stored.
_STORED_STATES = frozenset(TransactionState) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}

_PREFIX = Layout(">h")


class TransactionRecord(msgspec.Struct, frozen=True):
    """The state of a transactional id; None deletes it. `version` is the version of the value."""

    transactional_id: str
    transaction: Transaction | None
    version: int = 1

    @property
    def key(self) -> bytes:
        return _PREFIX.pack(TRANSACTION) + TransactionLogKey.encode(
            0, TransactionLogKey(transactional_id=self.transactional_id)
        )

    @property
    def value(self) -> bytes | None:
        found = self.transaction
        if found is None:
            return None
        value = TransactionLogValue(
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_timeout_ms=found.timeout_ms,
            transaction_status=found.state.value,
            transaction_partitions=None
            if found.state is TransactionState.EMPTY
            else [
                PartitionsSchema(topic=topic, partition_ids=indexes)
                for topic, indexes in by_topic(found.partitions).items()
            ],
            transaction_last_update_timestamp_ms=found.update_ms,
            transaction_start_timestamp_ms=found.start_ms,
        )
        if self.version >= 1:
            value.previous_producer_id = found.previous_producer_id
            value.next_producer_id = found.next_producer_id
            value.client_transaction_version = found.client_version
        return _PREFIX.pack(self.version) + TransactionLogValue.encode(self.version, value)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions' indexes by topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def parse_record(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Parse a record. Raises UnknownRecord."""
    if key is None:
        raise UnknownRecord("a record without a key")
    try:
        (record_type,) = _PREFIX.unpack_from(key)
        if record_type != TRANSACTION:
            raise UnknownRecord(f"record type {record_type}")
        transactional_id: str = TransactionLogKey.decode(0, key, 2)[0].transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        (version,) = _PREFIX.unpack_from(value)
        stored, _ = TransactionLogValue.decode(version, value, 2)
        state = TransactionState(stored.transaction_status)
    except (ProtocolError, LayoutError, ValueError) as error:
        raise UnknownRecord(f"key {key[:64]!r}: {error}") from error
    if state not in _STORED_STATES:
        raise UnknownRecord(f"key {key[:64]!r}: state {state.text}")
    transaction = Transaction(
        transactional_id,
        stored.producer_id,
        stored.transaction_timeout_ms,
        stored.transaction_last_update_timestamp_ms,
        stored.producer_epoch,
        state,
        frozenset(
            TopicPartition(each.topic, index)
            for each in stored.transaction_partitions or ()
            for index in each.partition_ids
        ),
        stored.transaction_start_timestamp_ms,
        stored.previous_producer_id,
        stored.next_producer_id,
        stored.client_transaction_version,
    )
    return TransactionRecord(transactional_id, transaction, version)
