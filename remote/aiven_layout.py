"""The layout of Aiven's plugin for tiered storage: three objects of each segment.

    <prefix>orders-sYyf7c_nSwaY_r9QjP-oCQ/0/00000000000000000130-WMupQAOOTNmn2G9qna4vhA.log
                                                                                       .indexes
                                                                                       .rsm-manifest

The manifest is stored last, so a segment with a manifest is complete. The plugin may note prefix and key of a segment
in its custom metadata, as tagged fields; then they are valid instead of this store's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from protocol.error_codes import ProtocolError
from protocol.id_text import id_text
from protocol.primitives import read_unsigned_varint, unsigned_varint
from remote.aiven_settings import CUSTOM_FIELDS
from remote.errors import Damaged
from remote.guarded_store import GuardedStore
from remote.manifest import Manifest, decode_manifest, encode_manifest, indexes_object
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Health, Store
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
DEFAULT_CHUNK_BYTES = 4 << 20
#: Tags of the custom metadata (SegmentCustomMetadataField): the size of all objects, and where they are.
_SIZE_TAG, _PREFIX_TAG, _KEY_TAG = 0, 1, 2
#: Manifests that are kept in memory, some 500 bytes each.
_KEPT_MANIFESTS = 2048


class AivenLayout:
    """Segments in the layout of Aiven's plugin, below a prefix that is empty or ends as the user likes."""

    def __init__(
        self,
        store: Store,
        prefix: str = "",
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        custom_fields: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._chunk_bytes = chunk_bytes
        self._custom_tags = sorted(CUSTOM_FIELDS.index(name) for name in custom_fields)
        self._lock = Lock()
        self._manifests: OrderedDict[str, Manifest] = OrderedDict()

    def key_of(self, partition: TopicIdPartition, segment: RemoteSegment, suffix: str) -> str:
        """Return the key of one object of the segment. Raises Damaged if its custom metadata cannot be read."""
        main = _main_key(partition, segment)
        try:
            noted = _tagged_texts(segment.custom or b"\0")
        except (ProtocolError, UnicodeDecodeError) as error:
            raise Damaged(main, f"custom metadata: {error}") from error
        return f"{noted.get(_PREFIX_TAG, self._prefix)}{noted.get(_KEY_TAG, main)}.{suffix}"

    def copy(self, partition: TopicIdPartition, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        """Store records, indexes and manifest, in this order. Returns the wanted fields as custom metadata."""
        self._store.put(self.key_of(partition, segment, LOG), files.log)
        content, parts = indexes_object(files)
        self._store.put(self.key_of(partition, segment, INDEXES), content)
        manifest = encode_manifest(partition, segment, parts, self._chunk_bytes)
        self._store.put(self.key_of(partition, segment, MANIFEST), manifest)
        if not self._custom_tags:
            return None
        fields = {
            _SIZE_TAG: _varlong(files.log.size_bytes + len(content) + len(manifest)),
            _PREFIX_TAG: _text(self._prefix),
            _KEY_TAG: _text(_main_key(partition, segment)),
        }
        return _tagged({tag: fields[tag] for tag in self._custom_tags})

    def read(self, partition: TopicIdPartition, segment: RemoteSegment, start: int, size_bytes: int) -> bytes:
        """Return bytes of `.log`, after a look at the manifest."""
        self._manifest(partition, segment)
        return self._store.get(self.key_of(partition, segment, LOG), start, size_bytes)

    def read_index(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        """Return a part of `.indexes`."""
        part = self._manifest(partition, segment).indexes.get(kind)
        if part is None:
            return None
        return self._store.get(self.key_of(partition, segment, INDEXES), part.position, part.size_bytes)

    def delete(self, partition: TopicIdPartition, segment: RemoteSegment) -> None:
        """Delete the objects, the manifest first: without it nothing counts as a segment."""
        manifest = self.key_of(partition, segment, MANIFEST)
        with self._lock:
            self._manifests.pop(manifest, None)
        self._store.delete([manifest])
        self._store.delete([self.key_of(partition, segment, suffix) for suffix in (LOG, INDEXES)])

    def health(self) -> Health:
        """Return what the store has noted, if it notes anything."""
        return self._store.health() if isinstance(self._store, GuardedStore) else Health()

    def close(self) -> None:
        """Do nothing: the store has no state to end."""

    def _manifest(self, partition: TopicIdPartition, segment: RemoteSegment) -> Manifest:
        key = self.key_of(partition, segment, MANIFEST)
        with self._lock:
            manifest = self._manifests.get(key)
        if manifest is None:
            manifest = decode_manifest(key, self._store.get(key))
            if manifest.log_bytes != segment.size_bytes:
                raise Damaged(key, f"describes {manifest.log_bytes} bytes of records, not {segment.size_bytes}")
            with self._lock:
                self._manifests[key] = manifest
                if len(self._manifests) > _KEPT_MANIFESTS:
                    self._manifests.popitem(last=False)
        return manifest


def _main_key(partition: TopicIdPartition, segment: RemoteSegment) -> str:
    """Return a key without prefix and suffix."""
    folder = f"{partition.topic}-{id_text(partition.topic_id)}/{partition.partition}"
    return f"{folder}/{segment.start_offset:020}-{id_text(segment.id)}"


def _tagged(fields: dict[int, bytes]) -> bytes:
    """Return tagged fields, by ascending tags."""
    parts = [unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in fields.items()]
    return unsigned_varint(len(parts)) + b"".join(parts)


def _text(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def _varlong(value: int) -> bytes:
    """Return a number that is not negative as Kafka's VARLONG, which has the sign in the lowest bit."""
    return unsigned_varint(value << 1)


def _tagged_texts(data: bytes) -> dict[int, str]:
    """Return the texts among the tagged fields: a count, then tag, size and bytes of each; a text has a length."""
    texts = {}
    count, position = read_unsigned_varint(data, 0)
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        end = position + size
        if tag in (_PREFIX_TAG, _KEY_TAG):
            length, start = read_unsigned_varint(data, position)
            if start + length - 1 != end or end > len(data):
                raise ProtocolError(f"field {tag} has {end - start} bytes, not {length - 1}")
            texts[tag] = data[start:end].decode()
        position = end
    return texts
