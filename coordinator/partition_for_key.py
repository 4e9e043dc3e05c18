"""Which partition of a coordinator's topic a key belongs to, by Java's hash of it: the same in every Kafka broker."""

from __future__ import annotations

from functools import lru_cache

from protocol.java_order import java_hash

_LOWEST_INT32 = -(2**31)


@lru_cache(maxsize=8192)
def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id, transactional id or share key. The lowest hash has no opposite: it is 0."""
    value = java_hash(key)
    return 0 if value == _LOWEST_INT32 else abs(value) % partition_count
