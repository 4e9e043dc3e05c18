"""The manifest that Aiven's plugin stores with each segment: sizes of chunks, positions of the indexes.

    {"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":4194304,"originalFileSize":19500, ...},
     "segmentIndexes":{"offset":{"position":0,"size":200}, ...,"transaction":null},"compression":false,
     "remoteLogSegmentMetadata":{...}}

The plugin may compress and encrypt chunks. pybroker does neither, and reads no such segment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from protocol.id_text import id_text
from remote.errors import Damaged
from remote.segment_files import IndexKind, SegmentFiles
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

_VERSION = "1"
#: The indexes in the order in which `.indexes` has them, by the name in the manifest.
_NAMES = {
    IndexKind.OFFSET: "offset",
    IndexKind.TIMESTAMP: "timestamp",
    IndexKind.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexKind.LEADER_EPOCH: "leaderEpoch",
    IndexKind.TRANSACTION: "transaction",
}


class Part(NamedTuple):
    """Where an index is in `.indexes`."""

    position: int
    size_bytes: int


class Manifest(NamedTuple):
    """The parts that reading needs. `indexes` lacks those that the segment has not."""

    log_bytes: int
    indexes: Mapping[IndexKind, Part]


def indexes_object(files: SegmentFiles) -> tuple[bytes, dict[IndexKind, Part]]:
    """Return the content of `.indexes`, and where each index is in it."""
    content = bytearray()
    parts = {}
    for kind in _NAMES:
        index: bytes | None = getattr(files, kind.value)
        if index is not None:
            parts[kind] = Part(len(content), len(index))
            content += index
    return bytes(content), parts


def encode_manifest(
    partition: TopicIdPartition, segment: RemoteSegment, parts: Mapping[IndexKind, Part], chunk_bytes: int
) -> bytes:
    """Return the manifest of a segment that is stored as it is, in chunks of `chunk_bytes`."""
    size = segment.size_bytes
    positions = {
        name: {"position": parts[kind].position, "size": parts[kind].size_bytes} if kind in parts else None
        for kind, name in _NAMES.items()
    }
    described = {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": id_text(partition.topic_id),
                "topicPartition": {"topic": partition.topic, "partition": partition.partition},
            },
            "id": id_text(segment.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): offset for epoch, offset in segment.epochs},
        "txnIdxEmpty": segment.has_no_aborted,
    }
    manifest = {
        "version": _VERSION,
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": chunk_bytes,
            "originalFileSize": size,
            "transformedChunkSize": chunk_bytes,
            "finalTransformedChunkSize": size % chunk_bytes or chunk_bytes,
        },
        "segmentIndexes": positions,
        "compression": False,
        "remoteLogSegmentMetadata": described,
    }
    return json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode()


def decode_manifest(key: str, data: bytes) -> Manifest:
    """Return the manifest. Raises Damaged, with `key`, if it is none, or if the segment is not stored as it is."""
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise Damaged(key, f"the manifest has version {content['version']}; only {_VERSION} is supported")
        if content["compression"] or content.get("encryption") is not None:
            raise Damaged(
                key, "the segment is compressed or encrypted; pybroker reads only segments stored as they are"
            )
        positions: Mapping[str, Any] = content["segmentIndexes"]
        parts = {
            kind: Part(int(positions[name]["position"]), int(positions[name]["size"]))
            for kind, name in _NAMES.items()
            if positions[name] is not None
        }
        return Manifest(int(content["chunkIndex"]["originalFileSize"]), parts)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(key, f"no manifest of a segment: {error!r}") from error
