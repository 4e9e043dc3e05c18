"""Which worker has a partition: worked out anew by whoever asks, and recorded nowhere."""

from __future__ import annotations

from zlib import crc32

from metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS

#: The process that has the metadata and the coordinators, and so their topics.
OWNER = 0

_OF_THE_OWNER = INTERNAL_TOPICS | {CLUSTER_METADATA}


def worker_of(topic: str, partition: int, count: int) -> int:
    """The worker of so many, from 0, that has a partition: those of a topic go round."""
    if count == 1 or topic in _OF_THE_OWNER:
        return OWNER
    return (crc32(topic.encode()) + partition) % count
