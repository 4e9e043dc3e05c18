"""How far the observers of the metadata log are."""

from __future__ import annotations

from broker.controlling.observers import Observers

DIRECTORY = b"d" * 16


class Stage:
    """Observers whose time the test sets."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.observers = Observers(lambda: self.now_ms)

    def fetch(self, offset: int, end: int, node_id: int = 1) -> None:
        self.observers.note_fetch(node_id, DIRECTORY, offset, end)

    def times(self) -> list[tuple[int, int, int]]:
        return [(each.log_end_offset, each.last_fetch_ms, each.last_caught_up_ms) for each in self.observers]


def test_an_observer_at_the_end_is_caught_up() -> None:
    stage = Stage()
    stage.fetch(5, 10)
    assert stage.times() == [(5, 1000, -1)]
    stage.now_ms = 1100
    stage.fetch(10, 12)  # the end at its last fetch
    assert stage.times() == [(10, 1100, 1000)]
    stage.now_ms = 1200
    stage.fetch(12, 12)
    assert stage.times() == [(12, 1200, 1200)]


def test_observers_are_forgotten() -> None:
    stage = Stage()
    stage.fetch(1, 1)
    stage.fetch(1, 1, node_id=2)
    assert [each.node_id for each in stage.observers] == [1, 2]
    assert stage.observers.have_fetched_within(100)
    stage.now_ms += 300_001
    stage.fetch(1, 1, node_id=2)
    assert [each.node_id for each in stage.observers] == [2]
    stage.now_ms += 101
    assert not stage.observers.have_fetched_within(100)
