"""Which partition of a coordinator's topic a key belongs to, by Java's hash of it: the same in every Kafka broker."""

from __future__ import annotations

from array import array
from functools import lru_cache
from sys import byteorder

_LOWEST_INT32 = -(2**31)


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 units, wrapping at 32 bits, signed."""
    units = array("H", text.encode(f"utf-16-{byteorder[0]}e", "surrogatepass"))
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=8192)
def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id, transactional id or share key. The lowest hash has no opposite: it is 0."""
    value = java_hash(key)
    return 0 if value == _LOWEST_INT32 else abs(value) % partition_count
