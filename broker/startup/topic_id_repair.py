"""Repair the topic id of a log whose partition.metadata has another id, or none: the id of its topic's name.

The broker may have crashed before that file was written, a bit may have flipped, or the file is another topic's. Apache
Kafka would set the log aside as a stray, with all its records, or leave it without a leader.
"""

from __future__ import annotations

import logging

from protocol.id_text import id_text
from storage.checkpoints import PARTITION_METADATA, write_topic_id
from storage.log.partition_log import PartitionLog

log = logging.getLogger("broker.startup.node")  # the module that logs the rest of the start


def may_be_damaged(found: bytes | None, topic_id: bytes) -> bool:
    """Return whether `found` may be a damaged `topic_id`. Ids are random: two of them differ in several characters."""
    return found is None or sum(one != other for one, other in zip(id_text(found), id_text(topic_id), strict=True)) <= 1


def assign_topic_id(partition_log: PartitionLog, topic_id: bytes) -> None:
    """Give a log that id, on disk too. If the write fails, the log's directory is offline."""
    if partition_log.topic_id is not None:
        name = partition_log.topic
        log.warning("%s/%s: not the topic id of %s: rewritten", partition_log.path, PARTITION_METADATA, name)
    try:
        write_topic_id(partition_log.directory.fs, partition_log.path, topic_id)
    except OSError as error:
        partition_log.directory.fail(error)
        return
    partition_log.topic_id = topic_id
    partition_log.mark_unsynced(f"{partition_log.path}/{PARTITION_METADATA}")
