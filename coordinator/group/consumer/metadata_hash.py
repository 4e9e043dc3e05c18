"""Hashes that show whether the topics of a group have changed: XXH3 of all that assignments depend on.

They are stored with the group, so they are computed from the same bytes as in Kafka: numbers little-endian, texts as
UTF-16 units followed by their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack

from xxhash import xxh3_64_intdigest

from coordinator.group.assignors.java_order import string_rank
from coordinator.group.cluster import Cluster, Topic

_FORMAT = b"\0"


def metadata_hash(cluster: Cluster, names: Iterable[str]) -> int:
    """Return the hash of the topics that exist, as a signed number; 0 for none."""
    topics = sorted((topic for name in names if (topic := cluster.topic(name)) is not None), key=_rank)
    if not topics:
        return 0
    return _signed(xxh3_64_intdigest(b"".join(pack("<q", topic_hash(topic)) for topic in topics)))


@lru_cache(maxsize=4096)
def topic_hash(topic: Topic) -> int:
    """Return the hash of a topic's id, name, partitions and racks."""
    parts = [
        _FORMAT,
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        _text(topic.name),
        pack("<i", topic.partition_count),
    ]
    for index in range(topic.partition_count):
        parts.append(pack("<i", index))
        for rack in topic.racks[index] if topic.racks else ():
            parts += (pack("<i", len(string_rank(rack)) // 2), _text(rack))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def _rank(topic: Topic) -> bytes:
    return string_rank(topic.name)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
