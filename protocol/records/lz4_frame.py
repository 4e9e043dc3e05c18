"""Kafka's deviations from the lz4 frame format: the end of a frame, and the header checksum in messages v0.

Kafka's reader stops after one frame and ignores anything after it.

The descriptor of a frame ends with the second byte of xxHash32 over the descriptor. Kafka before 0.10 also hashed the
magic number of the frame. Readers of v0 must accept such frames, and writers of v0 must produce them (KIP-57).
"""

from struct import Struct

from protocol.records.errors import CorruptBatch

_MAGIC = b"\x04\x22\x4d\x18"
_LANES = Struct("<4I")
_LANE = Struct("<I")
_MASK = 0xFFFFFFFF
#: Independent blocks of up to 64 KiB, no checksum except that of these bytes. Java's client begins its frames so.
_USUAL_HEADER = _MAGIC + b"\x60\x40\x82"
_USUAL_BLOCK_AT = len(_USUAL_HEADER) + _LANE.size
USUAL_BLOCK_SIZE = 64 << 10
_END = bytes(_LANE.size)
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def with_right_header_checksum(frame: bytes) -> bytes:
    """Return the frame with the header checksum of the lz4 format."""
    at = _checksum_position(frame)
    return frame[:at] + _second_byte(xxh32(frame[4:at])) + frame[at + 1 :]


def with_broken_header_checksum(frame: bytes) -> bytes:
    """Return the frame with the header checksum that clients before 0.10 write and expect."""
    at = _checksum_position(frame)
    return frame[:at] + _second_byte(xxh32(frame[:at])) + frame[at + 1 :]


def first_frame_size(frame: memoryview) -> int:
    """Return the size of the first frame in `frame`, or all of it if it is not a complete frame."""
    if len(frame) < 7 or frame[:4] != _MAGIC:
        return len(frame)
    flags = frame[4]
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    checksum_size = 4 if flags & 0x10 else 0  # per block
    while position + 4 <= len(frame):
        (size,) = _LANE.unpack_from(frame, position)
        position += 4
        if not size:
            return min(position + (4 if flags & 0x04 else 0), len(frame))  # checksum of the content
        position += (size & 0x7FFFFFFF) + checksum_size
    return len(frame)


def only_block(frame: memoryview) -> memoryview | None:
    """Return the block of a frame with the usual header and exactly one compressed block; None for any other frame."""
    if len(frame) < _USUAL_BLOCK_AT or frame[: len(_USUAL_HEADER)] != _USUAL_HEADER:
        return None
    (size,) = _LANE.unpack_from(frame, len(_USUAL_HEADER))
    end = _USUAL_BLOCK_AT + size  # far beyond the frame if the top bit marks an uncompressed block
    return frame[_USUAL_BLOCK_AT:end] if size and frame[end : end + len(_END)] == _END else None


def frame_of_block(block: bytes) -> bytes:
    """Return a frame with the usual header and a block that was compressed from at most USUAL_BLOCK_SIZE bytes."""
    return b"".join((_USUAL_HEADER, _LANE.pack(len(block)), block, _END))


def _checksum_position(frame: bytes) -> int:
    if len(frame) < 7 or frame[:4] != _MAGIC:
        raise CorruptBatch("not an lz4 frame")
    flags = frame[4]
    at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    if at >= len(frame):
        raise CorruptBatch("an lz4 frame is cut off in its header")
    return at


def _second_byte(digest: int) -> bytes:
    return bytes([digest >> 8 & 0xFF])


def xxh32(data: bytes) -> int:
    """Return the xxHash32 with seed 0. It is for the few bytes of a frame header and not fast."""
    position = 0
    if len(data) >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while position + 16 <= len(data):
            words = _LANES.unpack_from(data, position)
            lanes = [_rotate(lane + word * _P2, 13) * _P1 & _MASK for lane, word in zip(lanes, words, strict=True)]
            position += 16
        digest = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        digest = _P5
    digest += len(data)
    while position + 4 <= len(data):
        digest = _rotate(digest + _LANE.unpack_from(data, position)[0] * _P3, 17) * _P4
        position += 4
    for byte in data[position:]:
        digest = _rotate(digest + byte * _P5, 11) * _P1
    digest &= _MASK
    digest = (digest ^ digest >> 15) * _P2 & _MASK
    digest = (digest ^ digest >> 13) * _P3 & _MASK
    return digest ^ digest >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
