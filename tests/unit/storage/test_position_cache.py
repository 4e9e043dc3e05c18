"""PositionCache: positions found for one reader are cached for later ones, within a limit."""

from storage.position_cache import _CACHED_POSITIONS, BatchPosition, PositionCache


def filled(cache: PositionCache, first: int, count: int) -> None:
    for offset in range(first, first + count):
        cache.put(offset, batch(offset), offset + 1)


def batch(offset: int) -> BatchPosition:
    """Batches of one record, 10 bytes each."""
    return BatchPosition(offset, 10 * offset, 10 * offset + 10)


def test_find_caches_the_start_of_the_next_batch() -> None:
    cache = PositionCache()
    assert cache.put(5, batch(5), 6) == batch(5)
    assert [cache.get(offset) for offset in (4, 5, 6, 7)] == [None, batch(5), 60, None]


def test_old_positions_are_evicted() -> None:
    cache = PositionCache()
    filled(cache, 0, 1)
    filled(cache, 100, _CACHED_POSITIONS)
    assert cache.get(0) == batch(0)
    filled(cache, 200, 3 * _CACHED_POSITIONS)
    assert cache.get(0) is None
    assert len(cache._latest) + len(cache._earlier) <= 4 * _CACHED_POSITIONS + 2


def test_whole_position_is_not_replaced_by_a_start() -> None:
    """A slower reader stores where the next batch begins, of which the whole position is cached already."""
    cache = PositionCache()
    cache.put(6, batch(6), 7)
    filled(cache, 100, 2 * _CACHED_POSITIONS)
    assert 6 not in cache._latest
    cache.put(5, batch(5), 6)
    assert cache.get(6) == batch(6)
