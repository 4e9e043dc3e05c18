"""Which process of a broker hosts a partition. It is computed from the name, and not recorded."""

from __future__ import annotations

from zlib import crc32

from metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS

#: The number of the main process, which has the metadata, and the coordinators with their topics.
MAIN = 0

_OF_THE_MAIN_PROCESS = INTERNAL_TOPICS | {CLUSTER_METADATA}


def worker_of(topic: str, partition: int, count: int) -> int:
    """Return the number, from 0, of the worker among `count` that hosts a partition. A topic's partitions rotate."""
    if count == 1 or topic in _OF_THE_MAIN_PROCESS:
        return MAIN
    return (crc32(topic.encode()) + partition) % count
