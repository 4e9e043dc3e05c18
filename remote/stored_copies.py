"""The segments that a store has, by the names of their objects: for readers that have no metadata of them.

Both layouts have topic, topic id, partition, first offset and the id of the copy in each key. A copy counts if it has
all objects that its layout needs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from protocol.id_text import id_bytes, id_text
from remote.aiven_layout import INDEXES, LOG, MANIFEST, AivenLayout
from remote.layout import Layout
from remote.local_tiered_layout import LocalTieredLayout
from remote.store import Store
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

_ID = "[A-Za-z0-9_-]{22}"
_FILE = rf"(?P<start>\d{{20}})-(?P<copy>{_ID})\.(?P<suffix>[a-z_-]+)"
_AIVEN = re.compile(rf"(?P<prefix>(?:.*/)?)(?P<topic>[^/]+)-(?P<id>{_ID})/(?P<partition>\d+)/{_FILE}", re.DOTALL)
_LOCAL = re.compile(rf"(?P<prefix>(?:.*/)?)(?P<topic>[^/]+)-(?P<partition>\d+)-(?P<id>{_ID})/{_FILE}", re.DOTALL)
_NEEDED = {
    _AIVEN: {LOG, INDEXES, MANIFEST},
    _LOCAL: {LOG, "index", "timeindex", "snapshot", "leader_epoch_checkpoint"},
}


class StoredCopy(NamedTuple):
    """A copy of a segment.

    `segment` has what the names say: id, first offset and size. Its last offset is the one before the next copy's
    first offset; that of the last copy is not known, and -1.
    """

    segment: RemoteSegment
    suffixes: frozenset[str]


class StoredPartition(NamedTuple):
    """The copies of a partition by their first offsets, with one copy for each."""

    partition: TopicIdPartition
    layout: Layout
    copies: list[StoredCopy]


class _Folder(NamedTuple):
    partition: TopicIdPartition
    pattern: re.Pattern[str]
    prefix: str
    path: str


#: Sizes by folder, by first offset and id of the copy, and by suffix.
_Objects = dict[_Folder, dict[tuple[int, bytes], dict[str, int]]]


class ListedCopy(NamedTuple):
    """The objects of a copy, complete or not: their sizes by their suffixes."""

    partition: TopicIdPartition
    start_offset: int
    id: bytes
    key: str
    sizes: dict[str, int]
    is_complete: bool


def listed_copies(store: Store, path: str) -> list[ListedCopy]:
    """Return all copies below `path`; `key` is the beginning of the keys of each. Raises as `list`."""
    found = []
    for folder, by_copy in _listed(store, path).items():
        for (start, copy_id), sizes in by_copy.items():
            key = f"{folder.path}/{start:020}-{id_text(copy_id)}"
            is_complete = _NEEDED[folder.pattern] <= sizes.keys()
            found.append(ListedCopy(folder.partition, start, copy_id, key, sizes, is_complete))
    return found


def stored_partitions(store: Store, path: str) -> list[StoredPartition]:
    """Return the partitions below `path`, a folder of a topic or a partition, or one with many. Raises as `list`."""
    listed = sorted(_listed(store, path).items(), key=lambda item: (*item[0].partition[1:], item[0].partition[0]))
    return [
        StoredPartition(folder.partition, _layout(store, folder), copies)
        for folder, by_copy in listed
        if (copies := _copies(by_copy, _NEEDED[folder.pattern]))
    ]


def _listed(store: Store, path: str) -> _Objects:
    objects: _Objects = defaultdict(lambda: defaultdict(dict))
    for key, size_bytes in store.list(f"{path.strip('/')}/" if path.strip("/") else ""):
        for pattern in _NEEDED:
            found = pattern.fullmatch(key)
            if found is not None:
                place = TopicIdPartition(id_bytes(found["id"]), found["topic"], int(found["partition"]))
                copy = int(found["start"]), id_bytes(found["copy"])
                folder = _Folder(place, pattern, found["prefix"], key.rpartition("/")[0])
                objects[folder][copy][found["suffix"]] = size_bytes
                break
    return objects


def _layout(store: Store, folder: _Folder) -> Layout:
    if folder.pattern is _AIVEN:
        return AivenLayout(store, folder.prefix)
    return LocalTieredLayout(store, folder=folder.prefix.rstrip("/"))


def _copies(by_copy: dict[tuple[int, bytes], dict[str, int]], needed: set[str]) -> list[StoredCopy]:
    """Return the complete copies, the largest one of each first offset."""
    largest: dict[int, StoredCopy] = {}
    for (start, copy_id), sizes in by_copy.items():
        if not needed <= sizes.keys():
            continue
        segment = RemoteSegment(copy_id, start, -1, -1, -1, -1, sizes[LOG], ((0, start),))
        known = largest.get(start)
        if known is None or known.segment.size_bytes < segment.size_bytes:
            largest[start] = StoredCopy(segment, frozenset(sizes))
    starts = sorted(largest)
    ends = [*(start - 1 for start in starts[1:]), -1]
    return [
        largest[start]._replace(segment=largest[start].segment._replace(end_offset=end))
        for start, end in zip(starts, ends, strict=True)
    ]
