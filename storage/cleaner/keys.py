"""The keys of a cleaning round and where each was seen last, in memory that is bounded beforehand.

Where the cleaner is not compiled, they are first kept in a dict: Python's own C code does the work for each record.
When there are too many for that, and from the beginning where the cleaner is compiled, they are kept in a table with
open addressing over one array (`walk.py`). It takes a seventh of the memory for a key; compiled it is faster than the
dict, interpreted half as fast. It holds 96 bits of two hashes of a key: the chance that any two of 16 million keys are
taken for one is one in 10**15. These are Python's own hashes, whose seed is new in each process, so nobody can make
keys collide. Apache Kafka's table holds 128 bits of MD5, for which anybody can.

Memory is reckoned as in Kafka: 24 bytes a key, of which log.cleaner.io.buffer.load.factor are used; a round ends when
that many keys are found. The table begins small and grows fourfold, up to 19.2 of the 24 bytes (slots of 16 bytes, at
most 75 % of them taken at a factor of 0.9), while the one before is still there for its keys to be moved. The dict may
take up half of all before it gives way, or less where keys are long: the table does not hold the keys themselves. Each
offset of the round has one more byte, its mark.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from storage.cleaner.twin import IS_COMPILED, flip_marks, known_keys, move_keys, put_keys

#: Bytes of log.cleaner.dedupe.buffer.size for each key, as in Apache Kafka: an MD5 digest and an offset.
BYTES_PER_KEY = 24
#: A round has at most so many offsets for each key that fits, but may always have the second number.
_OFFSETS_PER_KEY, _LEAST_OFFSETS = 6, 1 << 24

#: Bytes that a key takes in a dict, with its objects, twice over; and the part that the keys' own bytes may have.
_DICT_BYTES_PER_KEY = 256
_KEY_BYTES_PART = 4
#: A table has no more to begin with.
_SLOTS = 1 << 12

#: What becomes of a record: it stays; a later one has its key, or it has none; it stays as a tombstone does.
KEEP: Final = 0
DROP: Final = 1
TOMBSTONE: Final = 2
_SUPERSEDED_TOMBSTONE: Final = TOMBSTONE ^ DROP
#: Of each mark, whether its record stays: for `bytes.translate`.
STAYS = bytes(mark != DROP for mark in range(256))

Keys = Sequence[bytes | None]


class DictKeys:
    """Offsets by key, not below `start_offset`, as long as they fit into so much memory."""

    __slots__ = ("_key_bytes", "_max_key_bytes", "_max_keys", "_offsets", "_start_offset")

    def __init__(self, start_offset: int, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._start_offset = start_offset
        self._max_keys = memory_bytes // _DICT_BYTES_PER_KEY
        #: Of the keys, and no less than they have: those that came again are counted again.
        self._key_bytes = 0
        self._max_key_bytes = memory_bytes // _KEY_BYTES_PART

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, keys: Keys, offsets: Sequence[int]) -> bool:
        """Note where keys are now. False: they do not fit, and none of them was noted."""
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
        """For so many keys, of so many bytes, too."""
        self._key_bytes += more
        if self._key_bytes > self._max_key_bytes:
            self._key_bytes = sum(map(len, self._offsets)) + more
            if self._key_bytes > self._max_key_bytes // 2:  # or it would soon be counted again
                return False
        return len(self._offsets) + keys <= self._max_keys

    def in_table(self, max_keys: int) -> TableKeys:
        """The same keys in a table, with room for `max_keys`."""
        table = TableKeys(self._start_offset, max_keys)
        if self._offsets:
            table.put(list(self._offsets), list(self._offsets.values()))
        return table

    def flip_marks(self, marks: bytearray) -> None:
        """Flip DROP of the marks of where each key is now."""
        start = self._start_offset
        for offset in self._offsets.values():
            marks[offset - start] ^= DROP

    def contains(self, keys: Keys) -> bytearray:
        """A 1 for each key that is known, a 0 for each other."""
        return bytearray(map(self._offsets.__contains__, keys))


class TableKeys:
    """Offsets by key, as DictKeys, for at most `max_keys` of them, in an array."""

    __slots__ = ("_max_slots", "_size", "_start_offset", "_table")

    def __init__(self, start_offset: int, max_keys: int) -> None:
        self._size = 0
        self._start_offset = start_offset
        self._max_slots = slots = max_keys * 6 // 5 + 1
        while slots > _SLOTS:
            slots = -(-slots // 4)  # rounded up: the last step is a fourfold one, too
        self._table = _free_slots(slots)

    def __len__(self) -> int:
        return self._size

    def put(self, keys: Keys, offsets: Sequence[int]) -> None:
        self._make_room(self._size + len(keys))
        self._size += put_keys(keys, offsets, self._table, self._start_offset)

    def _make_room(self, keys: int) -> None:
        """Keep a fourth free as long as it may grow."""
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

    First `note` or `note_some` all keys, then `finish`; only then ask. Offsets above `latest_offset` were not seen.
    """

    __slots__ = ("_keys", "_room", "end_offset", "latest_offset", "marks", "max_keys", "start_offset")

    def __init__(self, start_offset: int, end_offset: int, memory_bytes: int, load_factor: float) -> None:
        """`end_offset` is lowered if there is no memory for so many marks."""
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
        #: What becomes of each offset that was seen, once `finish` was called; until then as if no key's were the last.
        self.marks = bytearray([DROP]) * offsets

    @property
    def size(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    def note(self, keys: Keys, offsets: Sequence[int], tombstones: Sequence[int]) -> None:
        """Records in order; `tombstones` are places among them. There must be room for all of their keys."""
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
        """All is noted: `marks` has KEEP, DROP or TOMBSTONE for each offset that was seen, from `start_offset` on."""
        self._keys.flip_marks(self.marks)
        if _SUPERSEDED_TOMBSTONE in self.marks:
            self.marks = self.marks.replace(bytes([_SUPERSEDED_TOMBSTONE]), bytes([DROP]))

    def note_some(self, keys: Keys, offsets: Sequence[int], tombstones: Sequence[int]) -> bool:
        """`note` as many records as there is room for; False if these were not all.

        As in Kafka a record with a key is the end once the table is full, whether its key is new or not.
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
        """The marks of records that lie before the round: those with a key in it have been superseded."""
        marks = self._keys.contains(keys)
        for number in tombstones:
            if marks[number] == KEEP:
                marks[number] = TOMBSTONE
        if None in keys:
            for number, key in enumerate(keys):
                if key is None:
                    marks[number] = DROP
        return marks
