"""Control records: keys and values of control batches, which brokers write and clients never do.

A key is version int16 and type int16. The value of a transaction marker is version int16 and coordinator epoch int32.
Values in the metadata log (leader change, snapshot header and footer, KRaft version, voters) are messages of their own.
Readers skip unknown types (KIP-98).
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct

from protocol.records.batch import NO_LEADER_EPOCH
from protocol.records.builder import BatchBuilder
from protocol.records.errors import InvalidRecord
from protocol.records.record import Record

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record. ABORT and COMMIT end a transaction; the others are in the metadata log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def encode_control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(_VERSION, control_type)


def control_type(record: Record) -> ControlType:
    """Return the type in the key of a control record; UNKNOWN for newer types. Raises InvalidRecord."""
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecord("a control record without a version and a type in its key")
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"a control record of version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def encode_end_transaction(coordinator_epoch: int) -> bytes:
    """Return the value of an ABORT or COMMIT record."""
    return _END_TRANSACTION.pack(_VERSION, coordinator_epoch)


def coordinator_epoch(record: Record) -> int:
    """Return the epoch of the coordinator that ended the transaction. Raises InvalidRecord."""
    if record.value is None or len(record.value) < _END_TRANSACTION.size:
        raise InvalidRecord("an end-of-transaction record without a version and an epoch in its value")
    epoch: int = _END_TRANSACTION.unpack_from(record.value)[1]
    return epoch


def build_control_batch(
    records: Iterable[tuple[ControlType, bytes]],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build a batch of control records, each (type, value), for the metadata log."""
    builder = BatchBuilder(base_offset, control=True, leader_epoch=leader_epoch)
    for control_type, value in records:
        builder.append(timestamp_ms, encode_control_key(control_type), value)
    return builder.build()


def build_end_transaction_marker(
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the marker that a coordinator writes to each partition of a transaction when it ends (KIP-98)."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    builder.append(timestamp_ms, encode_control_key(kind), encode_end_transaction(coordinator_epoch))
    return builder.build()
