"""Faults of the leader's side of followers' fetch sessions: a change that nobody reads, or time that passes wrongly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replication.follower import Follower
from replication.follower_session import FollowerSession
from replication.leading import LeaderState
from tests.simulation.mutation import mutation


@mutation("change-marks-nothing", "a change leaves its partition unread", (LeaderState, "wake_followers"))
def _wake_followers(self: LeaderState) -> None:
    pass


_change = LeaderState.change


@mutation(
    "isr-change-marks-nothing",
    "a follower that leaves the ISR of an idle partition is never proposed again",
    (LeaderState, "change"),
)
def _change_silently(self: LeaderState, *change: Any) -> bool:
    rests = {each: each.rests for each in self.followers.values()}
    sessions = {each: each.session for each in rests}
    for each in rests:
        each.session = None
    try:
        return _change(self, *change)
    finally:
        for each, session in sessions.items():
            each.session = session


@mutation(
    "rests-uncommitted",
    "a partition is unread while its records are not committed",
    (LeaderState, "may_rest"),
    is_rare=True,
)
def _may_rest_uncommitted(self: LeaderState, follower: Follower, broker_epoch: int, leader_end: int) -> bool:
    return follower.log_end_offset == leader_end and follower.broker_id in self.isr.committed


@mutation("rests-out-of-sync", "a follower that is not in sync is not read", (LeaderState, "may_rest"))
def _may_rest_out_of_sync(self: LeaderState, follower: Follower, broker_epoch: int, leader_end: int) -> bool:
    return follower.log_end_offset == leader_end == self.high_watermark and follower.broker_epoch == broker_epoch


@mutation(
    "idle-time-is-lost",
    "a follower has not caught up since its partition became idle",
    (Follower, "end_rest"),
)
def _end_rest(self: Follower) -> None:
    if self.session is not None and self.rests:
        self.rests = False
        self.session.note_end_of_rest(self.key)


_begin_fetch = FollowerSession.begin_fetch


@mutation(
    "forgotten-partition-counts",
    "fetches count for a partition that the session has forgotten",
    (FollowerSession, "begin_fetch"),
    is_rare=True,
)
def _begin_fetch_of_all(
    self: FollowerSession[Any],
    broker_id: int,
    epoch: int,
    named: Any,
    forgotten: Iterable[Any],
    *rest: Any,
    **counts: Any,
) -> None:
    _begin_fetch(self, broker_id, epoch, named, (), *rest, **counts)
    for key in forgotten:
        self.due.pop(key, None)
