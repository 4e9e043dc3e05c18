"""The keys of a cleaning round and where each was seen last, in memory that is bounded beforehand.

Up to a number of keys they stand in a dict, which is exact and fast: what is done for each record is done by Python's
own C code. Beyond that they go into a table with open addressing over two arrays, which takes a seventh of the memory
for a key and twice the time: 64 bits of one hash and the offset; where they lie comes from a second hash, of the key
with a byte more. Python's own hashes: their seed is new in each process, so nobody can make keys collide. Two keys that
agree in 64 bits and lie side by side would be taken for one, which takes 2**40 keys to be likely; Apache Kafka's
table (MD5) has the same kind of limit.

Memory is reckoned as in Kafka: 24 bytes a key, of which log.cleaner.io.buffer.load.factor are used; a round ends where
that many keys are found. 15 of the 24 are the table's (12 bytes, at most 72 % full at a factor of 0.9). The dict may
have half of all until it gives way, or less where keys are long: the arrays hold nothing of them. There is a byte for
each offset of the round, its mark.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from storage.cleaner.twin import known_keys, put_keys

#: Bytes of log.cleaner.dedupe.buffer.size for each key, as in Apache Kafka: an MD5 digest and an offset.
BYTES_PER_KEY = 24
#: A round has at most so many offsets for each key that fits, and always may have so many.
_OFFSETS_PER_KEY, _LEAST_OFFSETS = 6, 1 << 24

#: Bytes that a key takes in a dict, with its objects, twice over; and the part that the keys' own bytes may have.
_DICT_BYTES_PER_KEY = 256
_KEY_BYTES_PART = 4

#: What becomes of a record: it stays; a later one has its key, or it has none; it stays as a tombstone does.
KEEP: Final = 0
DROP: Final = 1
TOMBSTONE: Final = 2
_SUPERSEDED_TOMBSTONE: Final = TOMBSTONE ^ DROP
#: Of each mark, whether its record stays: for `bytes.translate`.
STAYS = bytes(mark != DROP for mark in range(256))

Keys = Sequence[bytes | None]


class _ExactKeys:
    """Offsets by key."""

    __slots__ = ("_offsets", "put")

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        #: Note where keys are now: pairs of a key and its offset.
        self.put: Callable[[Iterable[tuple[bytes, int]]], None] = self._offsets.update

    def __len__(self) -> int:
        return len(self._offsets)

    def items(self) -> Iterable[tuple[bytes, int]]:
        return self._offsets.items()

    def offsets(self) -> Iterable[int]:
        """Where each key is now."""
        return self._offsets.values()

    def key_bytes(self) -> int:
        """How long all keys are together."""
        return sum(map(len, self._offsets))

    def contains(self, keys: Iterable[bytes]) -> bytearray:
        """A 1 for each key that is known, a 0 for each other."""
        return bytearray(map(self._offsets.__contains__, keys))


class _CompactKeys:
    """The same in arrays with room for so many, whose offsets are not below `start_offset`."""

    __slots__ = ("_fingerprints", "_places", "_size", "_start_offset")

    def __init__(self, keys: int, start_offset: int) -> None:
        self._size = 0
        self._start_offset = start_offset
        slots = keys * 5 // 4 + 1
        self._fingerprints = array("q", bytes(8 * slots))
        self._places = array("I", bytes(4 * slots))

    def __len__(self) -> int:
        return self._size

    def put(self, found: Iterable[tuple[bytes, int]]) -> None:
        self._size += put_keys(found, self._fingerprints, self._places, self._start_offset)

    def offsets(self) -> Iterable[int]:
        start = self._start_offset
        return (
            start + place for fingerprint, place in zip(self._fingerprints, self._places, strict=True) if fingerprint
        )

    def contains(self, keys: Iterable[bytes]) -> bytearray:
        return known_keys(keys, self._fingerprints)


class KeyTable:
    """The last offset of each key among the offsets from `start_offset` on, at most `max_keys` of them.

    Offsets above `latest_offset` were not seen. To be told of all keys, and then of its end.
    """

    __slots__ = (
        "_key_bytes",
        "_keys",
        "_max_exact",
        "_max_key_bytes",
        "_room",
        "end_offset",
        "latest_offset",
        "marks",
        "max_keys",
        "start_offset",
    )

    def __init__(self, start_offset: int, end_offset: int, memory_bytes: int, load_factor: float) -> None:
        """`end_offset` is lowered to where there are marks for."""
        keys = max(1, memory_bytes // BYTES_PER_KEY)
        offsets = min(end_offset - start_offset, max(_OFFSETS_PER_KEY * keys, _LEAST_OFFSETS))
        self.start_offset = start_offset
        self.end_offset = start_offset + offsets
        self.latest_offset = -1
        self.max_keys = max(1, int(keys * min(load_factor, 1.0)))
        self._room = min(keys, offsets)
        self._max_exact = memory_bytes // _DICT_BYTES_PER_KEY
        #: Of the keys in the dict, and no less than they have: those that came again are counted again.
        self._key_bytes = 0
        self._max_key_bytes = memory_bytes // _KEY_BYTES_PART
        self._keys: _ExactKeys | _CompactKeys = _ExactKeys()
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
        try:
            key_bytes = len(b"".join(keys))  # type: ignore[arg-type]
            all_count = offsets[0] >= self.start_offset
        except TypeError:  # some records have no key
            key_bytes = sum(map(len, filter(None, keys)))
            all_count = False
        if isinstance(self._keys, _ExactKeys) and not self._fits_exactly(self._keys, len(keys), key_bytes):
            exact, self._keys = self._keys, _CompactKeys(self._room, self.start_offset)
            self._keys.put(exact.items())
        start = self.start_offset
        found = zip(keys, offsets, strict=True)
        if all_count:
            self._keys.put(found)  # type: ignore[arg-type]
        else:
            self._keys.put([(key, offset) for key, offset in found if key is not None and offset >= start])
        for number in tombstones:
            at = offsets[number] - start
            if at >= 0 and keys[number] is not None:
                self.marks[at] = _SUPERSEDED_TOMBSTONE

    def _fits_exactly(self, exact: _ExactKeys, keys: int, more: int) -> bool:
        """Whether the dict has room for so many keys, of so many bytes, too."""
        self._key_bytes += more
        if self._key_bytes > self._max_key_bytes:
            self._key_bytes = exact.key_bytes() + more
            if self._key_bytes > self._max_key_bytes // 2:  # or it would soon be counted again
                return False
        return len(exact) + keys <= self._max_exact

    def finish(self) -> None:
        """All is noted: `marks` has KEEP, DROP or TOMBSTONE for each offset that was seen, from `start_offset` on."""
        marks, start = self.marks, self.start_offset
        for offset in self._keys.offsets():
            marks[offset - start] ^= DROP
        if _SUPERSEDED_TOMBSTONE in marks:
            self.marks = marks.replace(bytes([_SUPERSEDED_TOMBSTONE]), bytes([DROP]))

    def note_some(self, keys: Keys, offsets: Sequence[int], tombstones: Sequence[int]) -> bool:
        """The same where there may be no room for all: as many records as there is; False if that were not all.

        As in Kafka a record with a key is the end once the table is full, whether its key is new or not.
        """
        for number, key in enumerate(keys):
            offset = offsets[number]
            if offset < self.start_offset:
                continue
            if offset >= self.end_offset or (key is not None and self.size >= self.max_keys):
                return False
            self.note((key,), (offset,), (0,) if number in tombstones else ())
            if key is not None:
                self.latest_offset = offset
        return True

    def look_up(self, keys: Keys, tombstones: Sequence[int]) -> bytearray:
        """The marks of records that lie before the round: those with a key in it have been superseded."""
        without = [number for number, key in enumerate(keys) if key is None] if None in keys else []
        marks = self._keys.contains(key or b"" for key in keys) if without else self._keys.contains(keys)  # type: ignore[arg-type]
        for number in tombstones:
            if marks[number] == KEEP:
                marks[number] = TOMBSTONE
        for number in without:
            marks[number] = DROP
        return marks
