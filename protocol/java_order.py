"""The iteration order of Java's hash tables, for responses in which Kafka sends the keys of one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from sys import byteorder
from typing import TypeVar

K = TypeVar("K")

DEFAULT_BUCKETS = 16
_MASK = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Return `String.hashCode()`: over UTF-16 code units, wrapping at 32 bits, signed."""
    units = array("H", text.encode(f"utf-16-{byteorder[0]}e", "surrogatepass"))
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value - 2**32 if value >= 2**31 else value


def grown(count: int, least: int = DEFAULT_BUCKETS) -> int:
    """Return the number of buckets of a table that has grown to `count` keys: it doubles beyond three quarters."""
    buckets = least
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def hash_order(keys: Collection[K], hash_of: Callable[[K], int], buckets: int | None = None) -> list[K]:
    """Sort keys by bucket, and in insertion order within a bucket. `buckets` None: the table has grown to this size."""
    if len(keys) < 2:
        return list(keys)
    mask = (grown(len(keys)) if buckets is None else buckets) - 1

    def bucket(key: K) -> int:
        value = hash_of(key) & _MASK
        return (value ^ (value >> 16)) & mask

    return sorted(keys, key=bucket)
