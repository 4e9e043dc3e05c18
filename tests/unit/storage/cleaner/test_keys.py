"""The table of keys: the last place of each, exact or compact, and the marks that come of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.cleaner.keys import DROP, KEEP, TOMBSTONE, KeyTable, _CompactKeys, _ExactKeys

batches = st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=2)), max_size=6), max_size=30)


def numbered(found: list[list[bytes | None]]) -> list[tuple[list[bytes | None], range]]:
    """Batches with their offsets, from 10 on."""
    offset = 10
    result = []
    for keys in found:
        result.append((keys, range(offset, offset + len(keys))))
        offset += len(keys)
    return result


@given(batches, st.booleans())
def test_marks_are_those_of_the_last_of_each_key(found: list[list[bytes | None]], small: bool) -> None:
    """Whether all fit into the dict, or it gives way to arrays on the way (S15.6: 24 bytes a key)."""
    table = KeyTable(10, 10 + sum(map(len, found)), 24 * 400 if not small else 24 * 300, 1.0)
    if small:
        table._max_exact = 5
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


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 1000)), max_size=200))
def test_both_kinds_say_the_same(found: list[tuple[bytes, int]]) -> None:
    """Also where the arrays are as full as they ever get."""
    exact, compact = _ExactKeys(), _CompactKeys(len({key for key, _ in found}), 7)
    found = [(key, 7 + place) for key, place in found]
    exact.put(found)
    compact.put(found)
    assert len(exact) == len(compact)
    assert sorted(exact.offsets()) == sorted(compact.offsets()) == sorted(dict(found).values())
    keys = [key for key, _ in found] + [b"none of them"]
    assert exact.contains(keys) == compact.contains(keys)


def test_tombstones_are_marked_until_they_are_superseded() -> None:
    table = KeyTable(0, 10, 1 << 20, 0.9)
    table.note([b"a", b"b", b"a", None], range(4), [0, 1, 2, 3])
    table.note([b"b"], range(4, 5), [])
    table.finish()
    assert list(table.marks[:5]) == [DROP, DROP, TOMBSTONE, DROP, KEEP]
    assert list(table.look_up([b"a", b"x", None], [1, 2])) == [DROP, TOMBSTONE, DROP]


def test_records_below_the_start_are_left_out() -> None:
    """A round that begins within a batch."""
    table = KeyTable(5, 10, 1 << 20, 0.9)
    table.note([b"a", None, b"b"], range(3, 6), [0, 2])
    table.finish()
    assert table.marks[0] == TOMBSTONE
    assert table.size == 1


def test_full_table_takes_what_there_is_room_for() -> None:
    """S15.8: a record with a key is the end, even of a key that is known; as in Apache Kafka."""
    table = KeyTable(0, 100, 24 * 4, 0.5)
    assert table.max_keys == 2
    assert not table.note_some([b"a", None, b"b", b"a"], range(4), [])
    assert (table.size, table.latest_offset) == (2, 2)
    table.finish()
    assert list(table.marks[:3]) == [KEEP, DROP, KEEP]


def test_long_keys_are_not_kept() -> None:
    """The memory is bounded by what they have of it, not by their number; those that come again count once."""
    table = KeyTable(0, 1000, 1 << 20, 0.9)
    for offset in range(900):
        table.note([b"%d" % (offset % 10) + bytes(10_000)], range(offset, offset + 1), ())
    assert isinstance(table._keys, _ExactKeys)
    for offset in range(900, 1000):
        table.note([b"%d" % offset + bytes(10_000)], range(offset, offset + 1), ())
    assert isinstance(table._keys, _CompactKeys)
    assert table.size == 110
    table.finish()
    assert list(table.marks) == [DROP] * 890 + [KEEP] * 110


def test_marks_are_bounded_too(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A round of few keys and very many offsets ends where there is no byte for them any more."""
    monkeypatch.setattr("storage.cleaner.keys._LEAST_OFFSETS", 8)
    table = KeyTable(0, 1 << 40, 24, 1.0)
    assert (table.end_offset, len(table.marks)) == (8, 8)
    assert not table.note_some([None] * 3, range(6, 9), [])
