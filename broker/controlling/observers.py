"""The observers of the metadata log: brokers that fetch it, and how far each of them is (KIP-595, KIP-836)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

#: An observer that has not fetched for so long is forgotten, as in Kafka.
_FORGOTTEN_AFTER_MS = 300_000
#: Most observers that are kept, so that a client that invents ids does not fill the memory.
_MOST = 10_000
_NEVER = -1


class Observer(msgspec.Struct):
    """An observer by its last fetch. Times are of the wall clock, in ms; -1: never."""

    node_id: int
    directory_id: bytes
    log_end_offset: int = 0
    last_fetch_ms: int = _NEVER
    last_caught_up_ms: int = _NEVER
    #: The end of the leader's log at the last fetch.
    leader_end_offset: int = 0


class Observers:
    """All observers, by node id and directory id."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._observers: dict[tuple[int, bytes], Observer] = {}

    def __iter__(self) -> Iterator[Observer]:
        """Return the observers that have fetched lately, by node id."""
        self._forget(self._now_ms() - _FORGOTTEN_AFTER_MS)
        return iter(sorted(self._observers.values(), key=lambda each: (each.node_id, each.directory_id)))

    def have_fetched_within(self, interval_ms: int) -> bool:
        """Return whether an observer has fetched in the last `interval_ms`."""
        since_ms = self._now_ms() - interval_ms
        return any(each.last_fetch_ms >= since_ms for each in self._observers.values())

    def note_fetch(self, node_id: int, directory_id: bytes, fetch_offset: int, leader_end_offset: int) -> None:
        """Note a valid fetch of a node. Caught up is one that has reached the leader's end at its fetch before."""
        key = node_id, directory_id
        now_ms = self._now_ms()
        observer = self._observers.get(key)
        if observer is None:
            if len(self._observers) >= _MOST:
                self._forget(now_ms - _FORGOTTEN_AFTER_MS)
            if len(self._observers) >= _MOST:
                return
            observer = self._observers[key] = Observer(node_id, directory_id)
        if fetch_offset >= leader_end_offset:
            observer.last_caught_up_ms = now_ms
        elif fetch_offset >= observer.leader_end_offset > 0:
            observer.last_caught_up_ms = max(observer.last_caught_up_ms, observer.last_fetch_ms)
        observer.log_end_offset, observer.leader_end_offset = fetch_offset, leader_end_offset
        observer.last_fetch_ms = now_ms

    def _forget(self, before_ms: int) -> None:
        for key in [key for key, each in self._observers.items() if each.last_fetch_ms < before_ms]:
            del self._observers[key]
