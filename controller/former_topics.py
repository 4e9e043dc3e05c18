"""Find topics that the metadata log once had and has no more, also those deleted before its newest snapshot.

A snapshot has no deletions. But segments and snapshots older than the newest one are kept for a while
(metadata.max.retention.ms), so a start can find in them why a partition's topic is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import field

from controller.metadata_log import READ_BYTES, MetadataLog
from controller.metadata_snapshot import read_snapshot, snapshots_in
from metadata.framing import MetadataRecord, decode_record
from metadata.image import MetadataImage
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import RemoveTopicRecord, TopicRecord
from protocol.records.batch import iter_batches
from protocol.records.errors import RecordsError
from protocol.records.record import iter_batch_records
from storage.errors import CorruptFile


class FormerTopics(msgspec.Struct, frozen=True):
    """The ids of deleted topics, and the names of those whose creation is still recorded."""

    ids: set[bytes] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def find_former_topics(metadata_log: MetadataLog, image: MetadataImage) -> FormerTopics:
    """Return the topics that the log and its snapshots have, but not `image`, the state at the end of the log."""
    found = FormerTopics()
    for value in _all_values(metadata_log):
        try:
            record = decode_record(value)
        except ProtocolError:  # such a record is no topic's; if it matters, loading the log reports it
            continue
        if not isinstance(record, MetadataRecord) or record.message not in (TopicRecord, RemoveTopicRecord):
            continue
        if image.topic_by_id(record.value.topic_id) is None:
            found.ids.add(record.value.topic_id)
            if record.message is TopicRecord:
                found.names.add(record.value.name)
    return found


def _all_values(metadata_log: MetadataLog) -> Iterator[bytes]:
    """Yield all record values that are left, those of old snapshots first. Damaged snapshots are skipped."""
    partition_log = metadata_log.partition_log
    fs = partition_log.directory.fs
    for snapshot_id in snapshots_in(fs, metadata_log.path):
        if snapshot_id.end_offset <= metadata_log.end_offset:
            try:
                yield from read_snapshot(fs, f"{metadata_log.path}/{snapshot_id.file_name}").values
            except (CorruptFile, ProtocolError, RecordsError):
                continue
    offset = partition_log.log_start_offset
    while offset < metadata_log.end_offset:
        part = partition_log.read(offset, READ_BYTES, metadata_log.end_offset)
        data = part if isinstance(part, bytes) else part.read()
        before = offset
        for position, header in iter_batches(data):
            offset = header.next_offset
            if not header.is_control:
                batch = memoryview(data)[position : position + header.size_bytes]
                yield from (each.value for each in iter_batch_records(batch, header) if each.value is not None)
        if offset <= before:
            return
