"""Faults of logs, followers and fetch sessions."""

from __future__ import annotations

from typing import Any

from replication.fetch_session import FetchSession, Position, SessionRequest
from replication.followed_log import DamagedRecords
from replication.following import Fetcher, Followed, Phase
from tests.simulation.leaders import Leaders
from tests.simulation.log import ReplicaLog
from tests.simulation.mutation import mutation


@mutation("high-watermark-at-log-end", "a start takes the log end for the high watermark", (ReplicaLog, "open"))
def _open(self: ReplicaLog) -> None:
    self.high_watermark = self.log_end_offset


@mutation(
    "gap-after-damage", "after a power failure the log goes on behind the records that it lost", (ReplicaLog, "crash")
)
def _crash(self: ReplicaLog, kept: int | None) -> None:
    if kept is not None:
        for index in range(max(0, self.flushed + kept - self.base), len(self.entries)):
            self.entries[index] = self.entries[index][0], -1
    self.broken = False


_cut = ReplicaLog._cut


@mutation(
    "epochs-outlive-records",
    "truncation keeps the epochs that begin at the new end (KAFKA-10706)",
    (ReplicaLog, "_cut"),
)
def _cut_records(self: ReplicaLog, offset: int) -> None:
    epochs = self.epochs
    _cut(self, offset)
    self.epochs = epochs


_append = ReplicaLog.append


@mutation(
    "records-of-later-epochs",
    "a follower appends records of a later epoch than its fetch (KAFKA-18723)",
    (ReplicaLog, "append"),
    is_rare=True,
)
def _append_any(self: ReplicaLog, records: Any, max_epoch: int) -> None:
    _append(self, records, 1 << 30)


@mutation(
    "records-of-earlier-epochs",
    "a follower appends records of an earlier epoch than its last one",
    (ReplicaLog, "append"),
    is_rare=True,
)
def _append_earlier(self: ReplicaLog, records: Any, max_epoch: int) -> None:
    if self.broken or records[0][0] != self.log_end_offset:
        raise DamagedRecords
    for _, epoch, value in records:
        if epoch <= max_epoch:
            self.write(epoch, value)


_add = Fetcher.add


@mutation(
    "truncate-to-high-watermark",
    "a follower truncates to its high watermark, not by epochs (KIP-101)",
    (Fetcher, "add"),
)
def _add_truncated(self: Fetcher, key: Any, log: Any, leader_epoch: int) -> None:
    log.truncate(log.high_watermark)
    _add(self, key, log, leader_epoch)


def _divergence(log: ReplicaLog, asked: Any) -> None:
    return None


mutation("no-divergence", "a leader does not compare the epochs of logs (KIP-101)", (Leaders, "_divergence"))(
    staticmethod(_divergence)
)


def _truncate(log: Any, leader: Any) -> None:
    log.truncate(min(leader.end_offset, log.log_end_offset))


mutation(
    "divergence-by-leader-alone",
    "a follower truncates to the leader's end of an epoch alone (KIP-279)",
    (Fetcher, "_truncate"),
    is_rare=True,
)(staticmethod(_truncate))


@mutation(
    "last-epoch-of-leader",
    "an empty answer makes the leader's epoch the last fetched one (KAFKA-15510)",
    (Fetcher, "_note_wanted"),
)
def _note_wanted(self: Fetcher, key: Any) -> None:
    followed = self.partitions.get(key)
    if followed is None or followed.phase is not Phase.FETCHING:
        self._wanted.pop(key, None)
        return
    log = followed.log
    self._wanted[key] = Position(
        followed.leader_epoch, log.log_end_offset, followed.leader_epoch, log.log_start_offset, 1
    )


def _is_current(followed: Followed, sent: Position) -> bool:
    return followed.phase is Phase.FETCHING


mutation(
    "stale-answers",
    "a follower takes over an answer for a position that has changed since",
    (Fetcher, "_is_current"),
    is_rare=True,
)(staticmethod(_is_current))


@mutation("reset-to-latest", "a follower out of range goes on at the leader's end", (Fetcher, "reset"), is_rare=True)
def _reset(self: Fetcher, key: Any, leader_epoch: int, offset: int) -> None:
    followed = self.partitions.get(key)
    if followed is not None and followed.phase is Phase.RESETTING:
        followed.log.start_over(offset)
        followed.phase = Phase.FETCHING
        self._changed.add(key)


@mutation(
    "session-survives-failure",
    "a fetch session goes on after a lost response (KIP-227)",
    (FetchSession, "failed"),
    is_rare=True,
)
def _session_failed(self: FetchSession[Any]) -> None:
    self._epoch = self._epoch and self._epoch + 1


@mutation(
    "session-forgets-changes",
    "a fetch session does not name partitions that have moved (KIP-227)",
    (FetchSession, "request"),
)
def _session_request(self: FetchSession[Any], wanted: Any, changed: Any) -> SessionRequest[Any]:
    if self._epoch == 0:
        return SessionRequest(self._id, 0, dict(wanted), [])
    return SessionRequest(self._id, self._epoch, {}, [])


@mutation("error-stops-partition", "a partition with an error is not fetched again", (Fetcher, "_end_delays"))
def _end_delays(self: Fetcher, now_ms: int) -> None:
    self._delayed.clear()
