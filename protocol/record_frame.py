"""The frame of records in the metadata log and in `__remote_log_metadata` (KIP-631, KIP-405).

Unsigned varints for frame version, record type and record version are followed by the body.
"""

from __future__ import annotations

from protocol.error_codes import ProtocolError
from protocol.primitives import read_unsigned_varint, unsigned_varint

FRAME_VERSION = 1


def frame(key: int, version: int) -> bytes:
    """Return the bytes before the body of a record of type `key`."""
    return unsigned_varint(FRAME_VERSION) + unsigned_varint(key) + unsigned_varint(version)


def read_frame(data: bytes | memoryview) -> tuple[int, int, int]:
    """Return type and version of the record, and the position of its body.

    Raises ProtocolError for another frame version, or if the data ends before.
    """
    frame_version, position = read_unsigned_varint(data, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"the record has frame version {frame_version}; only {FRAME_VERSION} is supported")
    key, position = read_unsigned_varint(data, position)
    version, position = read_unsigned_varint(data, position)
    return key, version, position
