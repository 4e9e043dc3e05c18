"""Build message sets v0 and v1, optionally compressed, for old clients.

See `legacy` for the formats.
"""

import zlib

from protocol.records.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_BIT
from protocol.records.compression import Codec, compress
from protocol.records.errors import UnsupportedCodec
from protocol.records.lz4_frame import with_broken_header_checksum


class MessageSetBuilder:
    """Collects messages and builds a message set; with a codec it is one wrapper around all of them.

    `log_append_time_ms` (v1) is the timestamp of every message, which then has the type LogAppendTime.
    """

    __slots__ = (
        "_first_offset",
        "_last_offset",
        "_messages",
        "_newest",
        "base_offset",
        "codec",
        "level",
        "log_append_time_ms",
        "magic",
    )

    def __init__(
        self,
        magic: int,
        base_offset: int = 0,
        codec: int = Codec.NONE,
        *,
        level: int | None = None,
        log_append_time_ms: int | None = None,
    ) -> None:
        if magic not in (0, 1):
            raise ValueError(f"magic {magic} is not that of a message set")
        if codec > Codec.LZ4:
            raise UnsupportedCodec(codec)
        self.magic = magic
        self.base_offset = base_offset
        self.codec = codec
        self.level = level
        self.log_append_time_ms = log_append_time_ms
        self._messages: list[bytes] = []
        self._first_offset = self._last_offset = 0
        self._newest = NO_TIMESTAMP

    @property
    def message_count(self) -> int:
        return len(self._messages)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, *, offset: int | None = None) -> None:
        """Add a message; v0 drops the timestamp (ms). `offset` is absolute; None is the next one."""
        if offset is None:
            offset = self._last_offset + 1 if self._messages else self.base_offset
        if self.log_append_time_ms is not None:
            timestamp = self.log_append_time_ms
        if not self._messages:
            self._first_offset, self._newest = offset, timestamp
        self._last_offset, self._newest = offset, max(self._newest, timestamp)
        # Offsets inside a v1 wrapper are relative to the first message.
        written = offset - self._first_offset if self.codec != Codec.NONE and self.magic == 1 else offset
        self._messages.append(encode_message(written, self.magic, self._time_bit, timestamp, key, value))

    def build(self) -> bytes:
        """Return the message set; empty if no message was added."""
        messages = b"".join(self._messages)
        if self.codec == Codec.NONE or not messages:
            return messages
        wrapped = compress(self.codec, messages, self.level)
        if self.magic == 0 and self.codec == Codec.LZ4:
            wrapped = with_broken_header_checksum(wrapped)
        return encode_message(self._last_offset, self.magic, self.codec | self._time_bit, self._newest, None, wrapped)

    @property
    def _time_bit(self) -> int:
        return TIMESTAMP_TYPE_BIT if self.magic == 1 and self.log_append_time_ms is not None else 0


def encode_message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """Return one entry with its checksum. v0 drops the timestamp."""
    body = bytes([magic, attributes])
    if magic == 1:
        body += timestamp.to_bytes(8, "big", signed=True)
    for item in (key, value):
        body += (-1 if item is None else len(item)).to_bytes(4, "big", signed=True)
        body += item or b""
    return (
        offset.to_bytes(8, "big", signed=True)
        + (len(body) + 4).to_bytes(4, "big")
        + zlib.crc32(body).to_bytes(4, "big")
        + body
    )
