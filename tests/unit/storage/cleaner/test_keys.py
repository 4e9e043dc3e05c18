"""The table of keys: the last offset of each, in a dict or in an array, and the resulting marks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.cleaner import compiled_walk, walk
from storage.cleaner import keys as keys_module
from storage.cleaner.keys import DROP, KEEP, TOMBSTONE, DictKeys, KeyTable, TableKeys, _free_slots

batches = st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=2)), max_size=6), max_size=30)
PLACES = 1001


def numbered(found: list[list[bytes | None]]) -> list[tuple[list[bytes | None], range]]:
    """Return batches with their offsets, from 10 on."""
    offset = 10
    result = []
    for keys in found:
        result.append((keys, range(offset, offset + len(keys))))
        offset += len(keys)
    return result


@given(batches, st.sampled_from(["table", "dict", "dict that gives way"]))
def test_marks_keep_the_last_record_of_each_key(found: list[list[bytes | None]], kind: str) -> None:
    """Both when all keys fit into the dict and when the table replaces it (S15.6: 24 bytes per key)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "IS_COMPILED", kind == "table")
        table = KeyTable(10, 10 + sum(map(len, found)), 24 * 400, 1.0)
    if kind == "dict that gives way":
        assert isinstance(table._keys, DictKeys)
        table._keys._max_keys = 5
    last = {}
    for keys, offsets in numbered(found):
        table.note(keys, offsets, ())
        last.update((key, offset) for key, offset in zip(keys, offsets, strict=True) if key is not None)
    expected = [
        KEEP if key is not None and last[key] == offset else DROP
        for keys, offsets in numbered(found)
        for key, offset in zip(keys, offsets, strict=True)
    ]
    table.finish()
    assert list(table.marks) == expected
    assert table.size == len(last)
    asked = [b"", b"a", b"\0\0", None, *last]
    known = table.look_up(asked, ())
    assert [mark == DROP for mark in known] == [key is None or key in last for key in asked]


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(0, PLACES - 1)), max_size=200), st.data())
def test_dict_and_table_give_the_same_result(found: list[tuple[bytes | None, int]], data: st.DataObject) -> None:
    """The table may be as full as possible. None is not a key, and offsets before the start are skipped."""
    start = data.draw(st.sampled_from([7, 107]))
    keys, offsets = [key for key, _ in found], sorted(7 + place for _, place in found)
    exact, table = DictKeys(start, 1 << 20), TableKeys(start, len(set(keys)))
    at = data.draw(st.integers(0, len(keys)))
    for part in (slice(at), slice(at, None)):
        if keys[part]:
            assert exact.put(keys[part], offsets[part])
            table.put(keys[part], offsets[part])
    assert len(exact) == len(table)
    marks = bytearray([DROP]) * (PLACES + 7), bytearray([DROP]) * (PLACES + 7)
    exact.flip_marks(marks[0])
    table.flip_marks(marks[1])
    assert marks[0] == marks[1]
    asked = [*keys, None, b"none of them"]
    assert exact.contains(asked) == table.contains(asked)


def test_table_grows_within_its_memory() -> None:
    """The table grows fourfold and keeps a quarter free up to its maximum; 24 bytes per key even while it grows."""
    table, slots = TableKeys(0, 100_000), []
    for offset in range(0, 100_000, 500):
        table.put([b"%d" % number for number in range(offset, offset + 500)], range(offset, offset + 500))
        if len(table._table) // 2 not in slots:
            slots.append(len(table._table) // 2)
    assert slots[0] <= 1 << 12
    assert slots[-1] == 120_001
    assert all(16 * (before + after) <= 24 * 100_000 + 1024 for before, after in pairwise(slots))
    assert len(table) == 100_000
    marks = bytearray([DROP]) * 100_000
    table.flip_marks(marks)
    assert not any(marks)
    known = table.contains([b"%d" % number for number in range(99_000, 101_000)])
    assert known == bytes([1]) * 1000 + bytes(1000)


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=300), st.integers(0, 1 << 40))
def test_consecutive_offsets_equal_a_range(keys: list[bytes], start: int) -> None:
    of_list, of_range = _free_slots(400), _free_slots(400)
    offsets = range(start, start + len(keys))
    assert compiled_walk.put_keys(keys, list(offsets), of_list, start) == compiled_walk.put_keys(
        keys, offsets, of_range, start
    )
    assert of_list == of_range


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=300), st.integers(0, 1 << 20))
def test_compiled_table_has_the_same_bytes(keys: list[bytes], start: int) -> None:
    """The compiled and the interpreted functions can continue each other's table."""
    tables = []
    for module in (walk, compiled_walk):
        table, larger = _free_slots(301), _free_slots(600)
        module.put_keys(keys, range(start, start + len(keys)), table, start)
        module.move_keys(table, larger)
        marks = bytearray(len(keys))
        module.flip_marks(larger, marks, DROP)
        tables.append((table, larger, marks, module.known_keys([*keys, b"none of them"], larger)))
    assert tables[0] == tables[1]


def test_keys_with_one_equal_hash_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in neighbouring slots, and the second hash distinguishes them; also after the table has grown."""
    monkeypatch.setattr(walk, "hash", lambda key: len(key) << 40 if key.endswith(b"\0") else 77, raising=False)
    table, larger = _free_slots(4), _free_slots(9)
    assert walk.put_keys([b"a", b"bc", b"a"], range(3), table, 0) == 2
    walk.move_keys(table, larger)
    for each in (table, larger):
        assert walk.known_keys([b"bc", b"a", b"def"], each) == b"\1\1\0"
        marks = bytearray(3)
        walk.flip_marks(each, marks, DROP)
        assert marks == b"\0\1\1"


def test_tombstones_are_marked_until_they_are_superseded() -> None:
    table = KeyTable(0, 10, 1 << 20, 0.9)
    table.note([b"a", b"b", b"a", None], range(4), [0, 1, 2, 3])
    table.note([b"b"], range(4, 5), [])
    table.finish()
    assert list(table.marks[:5]) == [DROP, DROP, TOMBSTONE, DROP, KEEP]
    assert list(table.look_up([b"a", b"x", None], [1, 2])) == [DROP, TOMBSTONE, DROP]


def test_records_below_the_start_are_skipped() -> None:
    """A round may begin inside a batch."""
    table = KeyTable(5, 10, 1 << 20, 0.9)
    table.note([b"a", None, b"b"], range(3, 6), [0, 2])
    table.finish()
    assert table.marks[0] == TOMBSTONE
    assert table.size == 1


def test_full_table_takes_keys_while_there_is_room() -> None:
    """S15.8: as in Apache Kafka, a full table ends the round at the next record with a key, even a known key."""
    table = KeyTable(0, 100, 24 * 4, 0.5)
    assert table.max_keys == 2
    assert not table.record_fitting_keys([b"a", None, b"b", b"a"], range(4), [])
    assert (table.size, table.latest_offset) == (2, 2)
    table.finish()
    assert list(table.marks[:3]) == [KEEP, DROP, KEEP]


def test_tombstones_are_not_searched_for_each_record() -> None:
    """A batch may have a million tombstones when the table has no room for all of its keys."""
    compared = 0

    class Place(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

    table = KeyTable(0, 1000, 24 * 2000, 1.0)
    assert table.record_fitting_keys(
        [b"%d" % number for number in range(1000)], range(1000), [*map(Place, range(0, 1000, 2))]
    )
    table.finish()
    assert list(table.marks) == [TOMBSTONE, KEEP] * 500
    assert compared <= 1000


def test_long_keys_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies to the dict's memory, not to the number of keys. Repeated keys count once."""
    monkeypatch.setattr(keys_module, "IS_COMPILED", False)
    table = KeyTable(0, 1000, 1 << 20, 0.9)
    for offset in range(900):
        table.note([b"%d" % (offset % 10) + bytes(10_000)], range(offset, offset + 1), ())
    assert isinstance(table._keys, DictKeys)
    for offset in range(900, 1000):
        table.note([b"%d" % offset + bytes(10_000)], range(offset, offset + 1), ())
    assert isinstance(table._keys, TableKeys)
    assert table.size == 110
    table.finish()
    assert list(table.marks) == [DROP] * 890 + [KEEP] * 110


def test_marks_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round with few keys and very many offsets ends when no byte is left for their marks."""
    monkeypatch.setattr(keys_module, "_LEAST_OFFSETS", 8)
    table = KeyTable(0, 1 << 40, 24, 1.0)
    assert (table.end_offset, len(table.marks)) == (8, 8)
    assert not table.record_fitting_keys([None] * 3, range(6, 9), [])
