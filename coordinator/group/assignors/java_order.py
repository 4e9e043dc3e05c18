"""The iteration order of Java's hash tables of ids, names and partitions.

Assignors break ties by it. An assignment must not change when a group moves between a Kafka broker and this one:
members would swap partitions for nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from protocol.java_order import DEFAULT_BUCKETS, hash_order, java_hash

#: The number of hashes to cache. Each new target needs those of all member ids.
_KEPT_HASHES = 4096

_MASK = 0xFFFFFFFF


@lru_cache(_KEPT_HASHES)
def string_hash(text: str) -> int:
    """Return `String.hashCode()`."""
    return java_hash(text)


@lru_cache(_KEPT_HASHES)
def uuid_hash(uuid: bytes) -> int:
    """Return `Uuid.hashCode()`: the xor of its four words."""
    high, low = int.from_bytes(uuid[:8], "big"), int.from_bytes(uuid[8:], "big")
    both = high ^ low
    return (both >> 32) ^ (both & _MASK)


def uuid_rank(uuid: bytes) -> tuple[int, int]:
    """Return a sort key for the order of `Uuid.compareTo()`: both halves as signed numbers."""
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)


def string_rank(text: str) -> bytes:
    """Return a sort key for the order of `String.compareTo()`: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def copied_set_buckets(count: int) -> int:
    """Return the number of buckets of a Java set that was copied from a collection of this size."""
    wanted = max(int(count / 0.75) + 1, DEFAULT_BUCKETS)
    return 1 << (wanted - 1).bit_length()


def member_order(member_ids: Collection[str]) -> list[str]:
    """Return member ids in the order of a Java table's keys."""
    return hash_order(member_ids, string_hash)


def topic_order(topic_ids: Collection[bytes]) -> list[bytes]:
    """Return topic ids in the order of a Java table's keys."""
    return hash_order(topic_ids, uuid_hash)


def name_set_order(names: Collection[str]) -> list[str]:
    """Return texts in the order of a Java set that was copied from an ascending list."""
    return hash_order(sorted(names), string_hash, copied_set_buckets(len(names)))


def topic_set_order(topic_ids: Collection[bytes]) -> list[bytes]:
    """Return topic ids in the order of a Java set that was copied."""
    return hash_order(topic_ids, uuid_hash, copied_set_buckets(len(topic_ids)))


def partition_set_order(partitions: Collection[int]) -> list[int]:
    """Return partitions in the order of a Java set that was copied from an ascending list. A number is its own hash."""
    mask = copied_set_buckets(len(partitions)) - 1
    return sorted(sorted(partitions), key=lambda number: (number ^ (number >> 16)) & mask)
