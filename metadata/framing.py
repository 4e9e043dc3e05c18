"""One record of the metadata log as bytes: unsigned varints frame version, record type and version, then the body
(KIP-631).

A record type of a later release is kept as it came: it is written into the next snapshot again, and nothing is
decided by it. A known type in a version that we do not know is refused, since skipping it could change what all
later ones mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from metadata.features import record_version
from protocol.errors import ProtocolError
from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.primitives import read_unsigned_varint, unsigned_varint
from protocol.schema import Message, Struct

FRAME_VERSION = 1


class MetadataRecord(NamedTuple):
    """A record and the version in which it is, or will be, written."""

    message: Message
    version: int
    value: Struct


class UnknownRecord(msgspec.Struct, frozen=True):
    """A record of a type that we do not know: its type, version and body."""

    key: int
    version: int
    body: bytes


AnyRecord: TypeAlias = MetadataRecord | UnknownRecord


def new_record(metadata_version: int, message: Message, **fields: Any) -> MetadataRecord:
    """A record in the newest version that a cluster at this metadata.version may write."""
    assert message.key is not None
    return MetadataRecord(message, record_version(message.key, metadata_version), message.new(**fields))


def encode_record(record: AnyRecord) -> bytes:
    """The bytes that stand as a record's value in the log. Raises EncodeError."""
    if isinstance(record, UnknownRecord):
        return _frame(record.key, record.version) + record.body
    assert record.message.key is not None
    return _frame(record.message.key, record.version) + record.message.encode(record.version, record.value)


def decode_record(data: bytes | memoryview) -> AnyRecord:
    """The record in these bytes.

    Raises ProtocolError for another frame version, a known type in an unknown version, or bytes left over.
    """
    frame_version, position = read_unsigned_varint(data, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"a metadata record of frame version {frame_version}, where only {FRAME_VERSION} is known")
    key, position = read_unsigned_varint(data, position)
    version, position = read_unsigned_varint(data, position)
    message = METADATA_RECORDS.get(key)
    if message is None:
        return UnknownRecord(key, version, bytes(data[position:]))
    value, end = message.decode(version, data, position)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes are left after a {message.name}")
    return MetadataRecord(message, version, value)


def _frame(key: int, version: int) -> bytes:
    return unsigned_varint(FRAME_VERSION) + unsigned_varint(key) + unsigned_varint(version)
