"""The bytes of a record of the metadata log (KIP-631).

A frame (`protocol/record_frame.py`) is followed by the body. A record type of a later release is kept unchanged: it is
written into the next snapshot, and no decision uses it. An unknown version of a known type is an error, because
skipping it could change the meaning of all later records.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from metadata.features import record_version
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.record_frame import frame, read_frame
from protocol.schema import Message, Struct


class MetadataRecord(NamedTuple):
    """A record, and the version in which it was or will be written."""

    message: Message
    version: int
    value: Struct


class UnknownRecord(msgspec.Struct, frozen=True):
    """A record of an unknown type: its type, version and body."""

    key: int
    version: int
    body: bytes


AnyRecord: TypeAlias = MetadataRecord | UnknownRecord


def new_record(metadata_version: int, message: Message, **fields: Any) -> MetadataRecord:
    """Return a record in the newest version that a cluster at this metadata.version may write."""
    assert message.key is not None
    return MetadataRecord(message, record_version(message.key, metadata_version), message.new(**fields))


def encode_record(record: AnyRecord) -> bytes:
    """Return the bytes of a record's value in the log. Raises EncodeError."""
    if isinstance(record, UnknownRecord):
        return frame(record.key, record.version) + record.body
    assert record.message.key is not None
    return frame(record.message.key, record.version) + record.message.encode(record.version, record.value)


def decode_record(data: bytes | memoryview) -> AnyRecord:
    """Return the record in these bytes.

    Raises ProtocolError for another frame version, an unknown version of a known type, or extra bytes.
    """
    key, version, position = read_frame(data)
    message = METADATA_RECORDS.get(key)
    if message is None:
        return UnknownRecord(key, version, bytes(data[position:]))
    value, end = message.decode(version, data, position)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes are left after a {message.name}")
    return MetadataRecord(message, version, value)
