"""The murmur2 hash, by which Java clients and brokers choose partitions (org.apache.kafka.common.utils.Utils)."""

from __future__ import annotations

_SEED, _MULTIPLIER, _SHIFT = 0x9747B28C, 0x5BD1E995, 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32 bits of the hash, as an unsigned number."""
    length = len(data)
    result = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> _SHIFT
        word = word * _MULTIPLIER & _MASK
        result = result * _MULTIPLIER & _MASK ^ word
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    result ^= result >> 13
    result = result * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, as Java producers choose it: by 31 bits of the hash."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
