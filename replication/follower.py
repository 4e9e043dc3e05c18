"""A follower of one partition, as the leader knows it from its fetches. Kafka's Replica."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replication.follower_session import FollowerSession

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
NEVER_MS = -(1 << 62)


class Follower:
    """A follower. It may rest in a fetch session, whose fetches then count for it (`FollowerSession`)."""

    __slots__ = (
        "_caught_up_ms",
        "broker_epoch",
        "broker_id",
        "fetched_at_end",
        "fetched_ms",
        "key",
        "log_end_offset",
        "log_start_offset",
        "rests",
        "session",
    )

    def __init__(self, broker_id: int, *, caught_up_ms: int) -> None:
        self.broker_id = broker_id
        #: The epoch of the broker's registration, from its fetches (KIP-903).
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self._caught_up_ms = caught_up_ms
        #: The time of its last fetch that was read, and the leader's log end then.
        self.fetched_ms = NEVER_MS
        self.fetched_at_end = UNKNOWN_OFFSET
        #: The session that has last read the partition for this follower, and the partition's key there.
        self.session: FollowerSession[Any] | None = None
        self.key: Hashable = None
        self.rests = False

    @property
    def caught_up_ms(self) -> int:
        """When it last had all records that the leader had."""
        if self.rests and self.session is not None:
            return max(self._caught_up_ms, self.session.fetched_ms)
        return self._caught_up_ms

    def fetched(self, broker_epoch: int, offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch at `offset`."""
        self.end_rest()
        if offset >= leader_end:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif offset >= self.fetched_at_end:
            self._caught_up_ms = max(self._caught_up_ms, self.fetched_ms)
        self.broker_epoch = broker_epoch
        self.log_start_offset, self.log_end_offset = log_start_offset, offset
        self.fetched_ms, self.fetched_at_end = now_ms, leader_end

    def has_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms

    # -- its fetch session -------------------------------------------------------------------------------------------

    def read_by(self, session: FollowerSession[Any], key: Hashable) -> None:
        """A fetch of `session` reads the partition, which has this key there."""
        if self.session is not session:
            self.end_rest()
            self.session = session
        self.key = key

    def wake(self) -> None:
        """The partition has changed: the next fetch has to read it, and one that waits is tried again."""
        if self.session is not None:
            self.end_rest()
            self.session.wake()

    def end_rest(self) -> None:
        """Note what the session's fetches have said while the follower rested, and let the next one read it."""
        session = self.session
        if session is None or not self.rests:
            return
        self.rests = False
        session.note_end_of_rest(self.key)
        if session.fetched_ms > self.fetched_ms:
            self._caught_up_ms = max(self._caught_up_ms, session.fetched_ms)
            # While it rests, the leader's log ends where the follower's does.
            self.fetched_ms, self.fetched_at_end = session.fetched_ms, self.log_end_offset
