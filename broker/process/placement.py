"""Which process of a broker has a partition: computed from its name, and recorded nowhere."""

from __future__ import annotations

from zlib import crc32

from metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS

#: The number of the main process, which has the metadata and the coordinators, and so their topics.
MAIN = 0

_OF_THE_MAIN_PROCESS = INTERNAL_TOPICS | {CLUSTER_METADATA}


def worker_of(topic: str, partition: int, count: int) -> int:
    """Return the number of the worker, of `count` from 0, that has a partition. Partitions of a topic go round."""
    if count == 1 or topic in _OF_THE_MAIN_PROCESS:
        return MAIN
    return (crc32(topic.encode()) + partition) % count
