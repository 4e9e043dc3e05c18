"""The order in which Java's hash tables give their keys out: answers that Kafka makes of one come in it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from sys import byteorder
from typing import TypeVar

K = TypeVar("K")

DEFAULT_BUCKETS = 16
_MASK = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 units, wrapping at 32 bits, signed."""
    units = array("H", text.encode(f"utf-16-{byteorder[0]}e", "surrogatepass"))
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value - 2**32 if value >= 2**31 else value


def grown(count: int, least: int = DEFAULT_BUCKETS) -> int:
    """Buckets of a table that has grown to so many keys: it doubles beyond three quarters."""
    buckets = least
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def hash_order(keys: Collection[K], hash_of: Callable[[K], int], buckets: int | None = None) -> list[K]:
    """The keys by bucket; within one as they were put in. `buckets` None: of a table that grew."""
    if len(keys) < 2:
        return list(keys)
    mask = (grown(len(keys)) if buckets is None else buckets) - 1

    def bucket(key: K) -> int:
        value = hash_of(key) & _MASK
        return (value ^ (value >> 16)) & mask

    return sorted(keys, key=bucket)
