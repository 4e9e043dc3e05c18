"""The leader's side of a follower's fetch session: which of its partitions a fetch has to read.

A partition of the session is *due*, or it *rests*. It rests once a fetch has found nothing in it, and nothing can come
of another one (`LeaderState.may_rest`). Whatever changes it makes it due again (`LeaderState.wake_followers`). So a
fetch costs O(due partitions). KIP-227 alone limits what is sent: Apache Kafka reads all partitions of the session.

A fetch says of each partition that it does not name that the follower is where it was. For those that rest this means
that it still has everything: `fetched_ms` is the time of the last such fetch, and their common caught-up time. A
partition that becomes due takes it over. Without that, the first append after a long idle time would find a follower
that has not caught up for as long, and the ISR would shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from replication.follower import NEVER_MS, Follower

Key = TypeVar("Key", bound=Hashable)


class FollowerSession(Generic[Key]):
    """A session, whose partitions are all due at first.

    Args:
        wake: called with the session when one of its partitions has changed: a fetch may wait.
    """

    __slots__ = ("_resting", "_sender", "_wake", "due", "fetched_ms")

    def __init__(self, keys: Iterable[Key], wake: Callable[[FollowerSession[Any]], None]) -> None:
        #: The partitions that the next fetch reads, in this order.
        self.due: dict[Key, None] = dict.fromkeys(keys)
        self._resting: dict[Key, Follower] = {}
        self._wake = wake
        #: The broker of the last fetch, and its epoch.
        self._sender: tuple[int, int] | None = None
        #: The time of the last fetch that counts.
        self.fetched_ms = NEVER_MS

    @property
    def resting(self) -> list[Key]:
        """The partitions that no fetch reads."""
        return list(self._resting)

    @property
    def has_resting(self) -> bool:
        """Whether there are any."""
        return bool(self._resting)

    def was_fetched_by(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether the last fetch that counts came from this broker, with this epoch."""
        return self._sender == (broker_id, broker_epoch)

    def begin_fetch(
        self,
        broker_id: int,
        broker_epoch: int,
        named: Iterable[Key],
        forgotten: Iterable[Key],
        now_ms: int,
        *,
        counts: bool,
    ) -> None:
        """Note a fetch, which names some partitions, and has others forgotten.

        `counts`: the broker may fetch, and has not registered again since (KIP-903). Else the fetch says nothing of
        any partition, and reads all of them, which gives an error for each.
        """
        for key in named:
            self._make_due(key)
        for key in forgotten:
            self._make_due(key)
            self.due.pop(key, None)
        sender = broker_id, broker_epoch
        if not counts or sender != self._sender:  # the leader keeps the epoch by partition
            for key in list(self._resting):
                self._make_due(key)
        if counts:
            self._sender, self.fetched_ms = sender, now_ms

    def rest(self, key: Key, follower: Follower) -> None:
        """Read the partition no more until it changes. A fetch has read it for this follower."""
        self.due.pop(key, None)
        self._resting[key] = follower
        follower.rests = True

    def serve_last(self, keys: Iterable[Key]) -> None:
        """Read partitions whose records are sent after all others that are due."""
        for key in keys:
            if key in self.due:
                del self.due[key]
                self.due[key] = None

    def wake(self) -> None:
        """A partition has changed: try a waiting fetch again."""
        self._wake(self)

    def note_end_of_rest(self, key: Key) -> None:
        """A partition rests no longer. For `Follower.end_rest`."""
        self._resting.pop(key, None)
        self.due[key] = None

    def _make_due(self, key: Key) -> None:
        follower = self._resting.get(key)
        if follower is None:
            self.due[key] = None
        else:
            follower.end_rest()
