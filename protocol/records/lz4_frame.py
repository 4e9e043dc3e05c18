"""What Kafka does otherwise than others with lz4 frames: where they end, and the header checksum in messages v0.

Kafka's reader stops after one frame; more frames, or anything else, may follow and are not looked at.

A frame's descriptor ends with the second byte of xxHash32 over the descriptor. Kafka before 0.10 hashed the frame's
magic number too; readers of v0 must take such frames, and what is written as v0 must have them (KIP-57).
"""

from struct import Struct

from protocol.records.errors import CorruptBatch

_MAGIC = b"\x04\x22\x4d\x18"
_LANES = Struct("<4I")
_LANE = Struct("<I")
_MASK = 0xFFFFFFFF
#: Blocks of up to 64 kB that stand alone, no checksum but that of these bytes: so Java's client begins its frames.
_USUAL_HEADER = _MAGIC + b"\x60\x40\x82"
_USUAL_BLOCK_AT = len(_USUAL_HEADER) + _LANE.size
USUAL_BLOCK_SIZE = 64 << 10
_END = bytes(_LANE.size)
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def with_right_header_checksum(frame: bytes) -> bytes:
    """The frame with the checksum that the lz4 format asks for."""
    at = _checksum_position(frame)
    return frame[:at] + _second_byte(xxh32(frame[4:at])) + frame[at + 1 :]


def with_broken_header_checksum(frame: bytes) -> bytes:
    """The frame with the checksum that clients before 0.10 wrote and expect."""
    at = _checksum_position(frame)
    return frame[:at] + _second_byte(xxh32(frame[:at])) + frame[at + 1 :]


def first_frame_size(frame: memoryview) -> int:
    """The bytes of the first frame in `frame`; all there are where that is no whole frame."""
    if len(frame) < 7 or frame[:4] != _MAGIC:
        return len(frame)
    flags = frame[4]
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    checksum_size = 4 if flags & 0x10 else 0  # of each block
    while position + 4 <= len(frame):
        (size,) = _LANE.unpack_from(frame, position)
        position += 4
        if not size:
            return min(position + (4 if flags & 0x04 else 0), len(frame))  # checksum of the content
        position += (size & 0x7FFFFFFF) + checksum_size
    return len(frame)


def only_block(frame: memoryview) -> memoryview | None:
    """The block of a frame that has one, compressed, behind the usual header. None: it is no such frame."""
    if len(frame) < _USUAL_BLOCK_AT or frame[: len(_USUAL_HEADER)] != _USUAL_HEADER:
        return None
    (size,) = _LANE.unpack_from(frame, len(_USUAL_HEADER))
    end = _USUAL_BLOCK_AT + size  # far behind all there is where the upper bit says that it is not compressed
    return frame[_USUAL_BLOCK_AT:end] if size and frame[end : end + len(_END)] == _END else None


def frame_of_block(block: bytes) -> bytes:
    """A frame with the usual header and that block: what was compressed alone, of up to USUAL_BLOCK_SIZE."""
    return b"".join((_USUAL_HEADER, _LANE.pack(len(block)), block, _END))


def _checksum_position(frame: bytes) -> int:
    if len(frame) < 7 or frame[:4] != _MAGIC:
        raise CorruptBatch("no lz4 frame")
    flags = frame[4]
    at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    if at >= len(frame):
        raise CorruptBatch("an lz4 frame is cut off in its header")
    return at


def _second_byte(digest: int) -> bytes:
    return bytes([digest >> 8 & 0xFF])


def xxh32(data: bytes) -> int:
    """xxHash32 with seed 0; for a frame header's few bytes, not for speed."""
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
