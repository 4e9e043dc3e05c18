"""Which partition of a coordinator's topic a key belongs to, by Java's hash of the key, as in all Kafka brokers."""

from __future__ import annotations

from functools import lru_cache

from protocol.java_order import java_hash

_LOWEST_INT32 = -(2**31)


@lru_cache(maxsize=8192)
def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id, transactional id or share key.

    The lowest hash has no positive counterpart and counts as 0, as in Java.
    """
    value = java_hash(key)
    return 0 if value == _LOWEST_INT32 else abs(value) % partition_count
