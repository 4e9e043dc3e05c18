"""The keys of a cleaning round and the last offset of each, within a memory limit that is fixed in advance.

If the cleaner is not compiled, the keys are first kept in a dict, because Python's own C code is fast. If they become
too many, or if the cleaner is compiled, they are kept in a hash table with open addressing in one array (`walk.py`).
The table needs a seventh of the memory per key. It is faster than the dict if compiled, and half as fast if
interpreted. It stores 96 bits of two hashes of each key: among 16 million keys the chance that two are confused is one
in 10**15. The hashes are Python's own, with a new seed in each process, so no client can construct colliding keys.
Apache Kafka stores 128 bits of MD5, for which collisions can be constructed.

Memory is counted as in Kafka: 24 bytes per key, of which log.cleaner.io.buffer.load.factor is used; a round ends when
that many keys were found. The table starts small and grows fourfold, up to 19.2 of the 24 bytes: slots of 16 bytes, at
most 75 % of them used at a factor of 0.9, while the previous table exists until its keys are moved. The dict may use
half of the memory before it is replaced, or less if keys are long, because the table does not store the keys
themselves. Each offset of the round needs one more byte for its mark.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from storage.cleaner.compiled_walk import IS_COMPILED, flip_marks, known_keys, move_keys, put_keys

#: Bytes of log.cleaner.dedupe.buffer.size per key, as in Apache Kafka: an MD5 digest and an offset.
BYTES_PER_KEY = 24
#: The maximum number of offsets in a round per key that fits; the second number is always allowed.
_OFFSETS_PER_KEY, _LEAST_OFFSETS = 6, 1 << 24

#: Twice the memory of a key and its objects in a dict, and the share of the memory that the bytes of the keys may have.
_DICT_BYTES_PER_KEY = 256
_KEY_BYTES_PART = 4
#: The initial maximum number of slots of a table.
_SLOTS = 1 << 12

#: The mark of a record: it is kept; it is dropped because it has no key or its key has a later record; it is kept until
#: its tombstone expires.
KEEP: Final = 0
DROP: Final = 1
TOMBSTONE: Final = 2
_SUPERSEDED_TOMBSTONE: Final = TOMBSTONE ^ DROP
#: Whether a record with a given mark is kept, for `bytes.translate`.
STAYS = bytes(mark != DROP for mark in range(256))

Keys = Sequence[bytes | None]


class DictKeys:
    """The last offset of each key, from `start_offset` on, in a dict within `memory_bytes`."""

    __slots__ = ("_key_bytes", "_max_key_bytes", "_max_keys", "_offsets", "_start_offset")

    def __init__(self, start_offset: int, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._start_offset = start_offset
        self._max_keys = memory_bytes // _DICT_BYTES_PER_KEY
        #: An upper bound for the total size of the keys: repeated keys are counted again.
        self._key_bytes = 0
        self._max_key_bytes = memory_bytes // _KEY_BYTES_PART

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, keys: Keys, offsets: Sequence[int]) -> bool:
        """Record the offsets of keys. Returns False if they do not fit; then none was recorded."""
        start = self._start_offset
        try:
            key_bytes = len(b"".join(keys))  # type: ignore[arg-type]
            all_count = offsets[0] >= start
        except TypeError:  # some records have no key
            key_bytes = sum(map(len, filter(None, keys)))
            all_count = False
        if not self._have_room(len(keys), key_bytes):
            return False
        found = zip(keys, offsets, strict=True)
        if all_count:
            self._offsets.update(found)  # type: ignore[arg-type]
        else:
            self._offsets.update([(key, offset) for key, offset in found if key is not None and offset >= start])
        return True

    def _have_room(self, keys: int, more: int) -> bool:
        """Return whether there is room for `keys` more keys of `more` bytes in total."""
        self._key_bytes += more
        if self._key_bytes > self._max_key_bytes:
            self._key_bytes = sum(map(len, self._offsets)) + more
            if self._key_bytes > self._max_key_bytes // 2:  # otherwise the sizes would soon be summed again
                return False
        return len(self._offsets) + keys <= self._max_keys

    def in_table(self, max_keys: int) -> TableKeys:
        """Return a table with the same keys and room for `max_keys`."""
        table = TableKeys(self._start_offset, max_keys)
        if self._offsets:
            table.put(list(self._offsets), list(self._offsets.values()))
        return table

    def flip_marks(self, marks: bytearray) -> None:
        """Flip the DROP bit in the mark of each key's last offset."""
        start = self._start_offset
        for offset in self._offsets.values():
            marks[offset - start] ^= DROP

    def contains(self, keys: Keys) -> bytearray:
        """Return a 1 for each known key and a 0 for each other."""
        return bytearray(map(self._offsets.__contains__, keys))


class TableKeys:
    """The same as DictKeys in an array, for at most `max_keys` keys."""

    __slots__ = ("_max_slots", "_size", "_start_offset", "_table")

    def __init__(self, start_offset: int, max_keys: int) -> None:
        self._size = 0
        self._start_offset = start_offset
        self._max_slots = slots = max_keys * 6 // 5 + 1
        while slots > _SLOTS:
            slots = -(-slots // 4)  # rounded up, so the last growth is fourfold too
        self._table = _free_slots(slots)

    def __len__(self) -> int:
        return self._size

    def put(self, keys: Keys, offsets: Sequence[int]) -> None:
        self._make_room(self._size + len(keys))
        self._size += put_keys(keys, offsets, self._table, self._start_offset)

    def _make_room(self, keys: int) -> None:
        """Keep a quarter of the slots free as long as the table may grow."""
        slots = now = len(self._table) // 2
        while slots < self._max_slots and keys > slots * 3 // 4:
            slots = min(4 * slots, self._max_slots)
        if slots > now:
            larger = _free_slots(slots)
            move_keys(self._table, larger)
            self._table = larger

    def flip_marks(self, marks: bytearray) -> None:
        flip_marks(self._table, marks, DROP)

    def contains(self, keys: Keys) -> bytearray:
        return known_keys(keys, self._table)


def _free_slots(slots: int) -> array[int]:
    return array("q", [0]) * (2 * slots)


class KeyTable:
    """The last offset of each key among the offsets from `start_offset` on, at most `max_keys` of them.

    First call `note` or `record_fitting_keys` for all records, then `finish`, and only then read the marks. Offsets
    above `latest_offset` were not read.
    """

    __slots__ = ("_keys", "_room", "end_offset", "latest_offset", "marks", "max_keys", "start_offset")

    def __init__(self, start_offset: int, end_offset: int, memory_bytes: int, load_factor: float) -> None:
        """`end_offset` is lowered if the memory is too small for the marks."""
        keys = max(1, memory_bytes // BYTES_PER_KEY)
        offsets = min(end_offset - start_offset, max(_OFFSETS_PER_KEY * keys, _LEAST_OFFSETS))
        self.start_offset = start_offset
        self.end_offset = start_offset + offsets
        self.latest_offset = -1
        self.max_keys = max(1, int(keys * min(load_factor, 1.0)))
        self._room = min(keys, offsets)
        self._keys: DictKeys | TableKeys = (
            TableKeys(start_offset, self._room) if IS_COMPILED else DictKeys(start_offset, memory_bytes)
        )
        #: The mark of each offset. Until `finish` it assumes that no record is the last of its key.
        self.marks = bytearray([DROP]) * offsets

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def note(self, keys: Keys, offsets: Sequence[int], tombstones: Sequence[int]) -> None:
        """Record keys in order; `tombstones` are indexes into them. There must be room for all."""
        if not keys:
            return
        if isinstance(self._keys, DictKeys) and not self._keys.put(keys, offsets):
            self._keys = self._keys.in_table(self._room)
        if isinstance(self._keys, TableKeys):
            self._keys.put(keys, offsets)
        for number in tombstones:
            at = offsets[number] - self.start_offset
            if at >= 0 and keys[number] is not None:
                self.marks[at] = _SUPERSEDED_TOMBSTONE

    def finish(self) -> None:
        """Complete `marks`: KEEP, DROP or TOMBSTONE for each offset that was read, from `start_offset` on."""
        self._keys.flip_marks(self.marks)
        if _SUPERSEDED_TOMBSTONE in self.marks:
            self.marks = self.marks.replace(bytes([_SUPERSEDED_TOMBSTONE]), bytes([DROP]))

    def record_fitting_keys(self, keys: Keys, offsets: Sequence[int], tombstones: Sequence[int]) -> bool:
        """Record as many keys as fit; return False if these were not all.

        As in Kafka, a full table ends the round at the next record with a key, whether the key is new or not.
        """
        places = frozenset(tombstones)
        for number, key in enumerate(keys):
            offset = offsets[number]
            if offset < self.start_offset:
                continue
            if offset >= self.end_offset or (key is not None and self.size >= self.max_keys):
                return False
            self.note((key,), (offset,), (0,) if number in places else ())
            if key is not None:
                self.latest_offset = offset
        return True

    def look_up(self, keys: Keys, tombstones: Sequence[int]) -> bytearray:
        """Return the marks of records before the round: a record whose key occurs in the round is superseded."""
        marks = self._keys.contains(keys)
        for number in tombstones:
            if marks[number] == KEEP:
                marks[number] = TOMBSTONE
        if None in keys:
            for number, key in enumerate(keys):
                if key is None:
                    marks[number] = DROP
        return marks
