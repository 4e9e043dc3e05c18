"""Places: what was found for readers of a segment stays known for those behind them, and not for ever."""

from storage.position_cache import _REMEMBERED, Place, Places


def filled(places: Places, first: int, count: int) -> None:
    for offset in range(first, first + count):
        places.note(offset, place(offset), offset + 1)


def place(offset: int) -> Place:
    """Batches of one record, 10 bytes each."""
    return Place(offset, 10 * offset, 10 * offset + 10)


def test_a_find_says_where_the_next_batch_begins() -> None:
    places = Places()
    assert places.note(5, place(5), 6) == place(5)
    assert [places.get(offset) for offset in (4, 5, 6, 7)] == [None, place(5), 60, None]


def test_finds_are_forgotten_when_there_are_many_later_ones() -> None:
    places = Places()
    filled(places, 0, 1)
    filled(places, 100, _REMEMBERED)
    assert places.get(0) == place(0)
    filled(places, 200, 3 * _REMEMBERED)
    assert places.get(0) is None
    assert len(places._latest) + len(places._earlier) <= 4 * _REMEMBERED + 2


def test_what_was_found_earlier_is_not_forgotten_for_what_only_begins_there() -> None:
    """A reader that comes from behind notes where the next batch begins, of which the whole is known."""
    places = Places()
    places.note(6, place(6), 7)
    filled(places, 100, 2 * _REMEMBERED)
    assert 6 not in places._latest
    places.note(5, place(5), 6)
    assert places.get(6) == place(6)
