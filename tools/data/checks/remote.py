"""Compare remote storage with `__remote_log_metadata`: missing and damaged copies, and objects without a record.

Only finished copies are checked. Names and sizes come from one listing; with `deep` the records are read, too.
Nothing is ever deleted because of a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from protocol.error_codes import ProtocolError
from protocol.id_text import id_text
from protocol.records.batch import entry_at, parse_header, verify_crc
from protocol.records.entries import iter_records
from protocol.records.errors import RecordsError
from remote.errors import Absent, Damaged
from remote.layout import Layout
from remote.segment_files import IndexKind
from remote.store import Store
from remote.stored_copies import ListedCopy, listed_copies
from storage.checkpoints import read_topic_id
from storage.directory_names import DirectoryKind, parse_name
from storage.fs import LOCAL
from storage.segment.files import LOG_SUFFIX, file_name, parse_file_name
from storage.segment.scan import scan_valid
from tiered.metadata_records import PartitionDeletion, TopicIdPartition, decode
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate, may_follow
from tools.data.checks.findings import Finding, Kind, Severity

METADATA_TOPIC = "__remote_log_metadata"
_THREADS = 8
_PIECE_BYTES = 8 << 20
_MAGIC_V2 = 2
_LEAST_ENTRY_BYTES = {IndexKind.OFFSET: 8, IndexKind.TIMESTAMP: 12}


class Copied(NamedTuple):
    """A finished copy, and the directory of the partition here; None if no directory has the partition."""

    partition: TopicIdPartition
    segment: RemoteSegment
    directory: str | None

    @property
    def local_log(self) -> str | None:
        """Return the path of the same segment on the disk; None if it is not there."""
        if self.directory is None:
            return None
        path = f"{self.directory}/{file_name(self.segment.start_offset, LOG_SUFFIX)}"
        try:
            return path if LOCAL.size_of(path) == self.segment.size_bytes else None
        except FileNotFoundError:
            return None

    def __str__(self) -> str:
        topic_id, topic, index = self.partition
        name = f"{self.segment.start_offset:020}-{id_text(self.segment.id)}"
        return f"{topic}-{index} ({id_text(topic_id)}), {name}"


class RemoteCheck:
    """One check. `damaged` has the finished copies with findings, once `findings` is consumed."""

    def __init__(self, directories: Sequence[str], layout: Layout, store: Store, path: str, *, deep: bool) -> None:
        """`path` is the folder of the store that has all segments."""
        self._directories = directories
        self._layout = layout
        self._store = store
        self._path = path
        self._deep = deep
        self.damaged: list[Copied] = []
        self.checked = 0

    def findings(self) -> Iterator[Finding]:
        """Yield the findings. Raises RemoteStorageError if the storage does not answer, OSError."""
        try:
            copies = finished_copies(self._directories)
        except RecordsError as error:
            what = f"remote storage was not checked, since {METADATA_TOPIC} is damaged: {error}"
            yield Finding(self._directories[0], Kind.REMOTE, what)
            return
        listed = {(each.partition[0], each.partition[2], each.id): each for each in self._list()}
        with ThreadPoolExecutor(_THREADS) as threads:
            places = [(each.partition[0], each.partition[2], each.segment.id) for each in copies]
            checked = threads.map(self._check, copies, map(listed.get, places))
            for copy, wrong in zip(copies, checked, strict=True):
                self.checked += 1
                if wrong is not None:
                    self.damaged.append(copy)
                    is_here = copy.local_log is not None
                    what = f"{wrong}; the disk still has the segment" if is_here else wrong
                    severity = Severity.DAMAGE if is_here else Severity.LOSS
                    yield Finding(str(copy), Kind.REMOTE, what, severity, offset=copy.segment.start_offset)
        for key in listed.keys() - set(places):
            what = f"{len(listed[key].sizes)} objects belong to no finished copy in the metadata here"
            yield Finding(f"{listed[key].key}.*", Kind.REMOTE, what, Severity.NOTE)

    def _list(self) -> list[ListedCopy]:
        try:
            return listed_copies(self._store, self._path)
        except Absent:
            return []  # a directory that no segment was copied to

    def _check(self, copy: Copied, listed: ListedCopy | None) -> str | None:
        """Return what is wrong with a copy. It reads objects only if the listing raises a doubt, or with `deep`."""
        is_whole = listed is not None and listed.is_complete and listed.sizes["log"] == copy.segment.size_bytes
        if is_whole and not self._deep:
            return None
        try:
            self._read(copy)
        except Absent as error:
            return f"an object is missing: {error}"
        except (Damaged, RecordsError) as error:
            return str(error)
        return None

    def _read(self, copy: Copied) -> None:
        """Read a copy. Raises Absent, Damaged and RecordsError."""
        partition, segment, _ = copy
        for kind in IndexKind:
            index = self._layout.read_index(partition, segment, kind)
            if index is None and (kind is not IndexKind.TRANSACTION or not segment.has_no_aborted):
                raise Absent(str(copy), f"there is no {kind.value}")
            if index is not None and len(index) % _LEAST_ENTRY_BYTES.get(kind, 1):
                raise Damaged(str(copy), f"{kind.value} has {len(index)} bytes")
        if not self._deep:
            self._layout.read(partition, segment, segment.size_bytes - 1, 1)
            return
        end = _check_records(self._layout, copy)
        if end > segment.end_offset + 1:
            raise Damaged(str(copy), f"the records end at offset {end - 1}, behind {segment.end_offset}")


def _check_records(layout: Layout, copy: Copied) -> int:
    """Read all batches, with their checksums. Returns the offset behind the last one."""
    segment, position, end = copy.segment, 0, copy.segment.start_offset
    rest = b""
    while position < segment.size_bytes:
        size = min(_PIECE_BYTES, segment.size_bytes - position)
        data = memoryview(rest + layout.read(copy.partition, segment, position, size))
        position += size
        at = 0
        while (entry := entry_at(data, at)) is not None:
            base_offset, entry_bytes, magic = entry
            if not end <= base_offset <= segment.end_offset and magic == _MAGIC_V2:
                raise Damaged(str(copy), f"a batch of offset {base_offset} follows offset {end - 1}")
            if magic == _MAGIC_V2:
                if not verify_crc(data, at, entry_bytes):
                    raise Damaged(str(copy), f"the checksum of the batch at offset {base_offset} is wrong")
                end = base_offset + parse_header(data, at).last_offset_delta + 1
            else:
                end = base_offset + 1
            at += entry_bytes
        rest = bytes(data[at:])
    if rest:
        raise Damaged(str(copy), f"{len(rest)} bytes after offset {end - 1} are no batch")
    return end


def finished_copies(directories: Sequence[str]) -> list[Copied]:
    """Return the finished copies that the metadata in these directories has. Raises OSError, RecordsError."""
    found: dict[tuple[TopicIdPartition, bytes], RemoteSegment] = {}
    places: dict[tuple[bytes | None, int], str] = {}
    for directory in directories:
        for name in sorted(LOCAL.names(directory)):
            kind, topic, index = parse_name(name)
            if kind is not DirectoryKind.PARTITION:
                continue
            path = f"{directory}/{name}"
            places[read_topic_id(LOCAL, path), index] = path
            if topic == METADATA_TOPIC:
                _replay(path, found)
    copies = (
        Copied(partition, segment, places.get((partition.topic_id, partition.partition)))
        for (partition, _), segment in found.items()
        if segment.state is SegmentState.COPY_FINISHED
    )
    return sorted(copies, key=lambda copy: (copy.partition[1:], copy.segment.start_offset, copy.segment.id))


def _replay(path: str, found: dict[tuple[TopicIdPartition, bytes], RemoteSegment]) -> None:
    for name in sorted(each for each in LOCAL.names(path) if (parse_file_name(each) or (0, ""))[1] == LOG_SUFFIX):
        with LOCAL.reading(f"{path}/{name}") as handle:
            for entry, batch in scan_valid(LOCAL, handle, 0, LOCAL.size(handle)):
                if entry.header is not None and entry.header.is_control:
                    continue
                for record in iter_records(batch):
                    if record.value is not None:
                        _apply(record.value, found)


def _apply(value: bytes | memoryview, found: dict[tuple[TopicIdPartition, bytes], RemoteSegment]) -> None:
    try:
        partition, event = decode(value)
    except ProtocolError:
        return  # the check of the log's records reports it
    if isinstance(event, PartitionDeletion):
        return
    known = found.get((partition, event.id))
    if isinstance(event, SegmentUpdate):
        if known is not None and may_follow(event.state, known.state):
            found[partition, event.id] = known._replace(state=event.state, custom=event.custom or known.custom)
    elif known is None:
        found[partition, event.id] = event
