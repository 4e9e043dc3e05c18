"""Faults of transactions, of group offsets, and of clocks."""

from __future__ import annotations

from functools import partial
from typing import Any

from broker.coordinators.commit_gate import CommitGate
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.transaction import markers
from broker.coordinators.transaction.ending import Ending
from broker.coordinators.transaction.verification import NO_VERDICTS
from broker.coordinators.transaction.verifier import FIRST_VERSION_THAT_JOINS
from coordinator.group.offsets import Offsets
from storage.producers.state import CompletedTransaction, ProducerState
from tests.simulation.coordination import member
from tests.simulation.leaders import LAG_MS, Leaders
from tests.simulation.mutation import mutation

planted = partial(mutation, is_coordinated=True)


_when_verified = member.when_verified


@planted(
    "unverified-late-write",
    "a record opens a transaction that its coordinator has ended (KAFKA-14904)",
    (member, "when_verified"),
    is_rare=True,
)
def _serve_unverified(partitions: Any, verifier: Any, version: int, request: Any, serve: Any) -> Any:
    if version >= FIRST_VERSION_THAT_JOINS:
        return _when_verified(partitions, verifier, version, request, serve)
    return serve(NO_VERDICTS)


@planted(
    "marker-ends-next-transaction",
    "a marker that is written again ends the next transaction of its epoch (KAFKA-19999)",
    (markers, "is_of_the_next"),
    is_rare=True,
)
def _is_never_of_the_next(partition: Any, marker: Any) -> bool:
    return False


@planted("markers-before-decision", "markers are written before the decision is committed", (Ending, "begin"))
def _begin_at_once(self: Ending) -> None:
    self.write()


@planted("markers-not-repeated", "a marker without an answer is not written again", (Ending, "again"), is_rare=True)
def _never_again(self: Ending) -> None:
    pass


@planted(
    "uncommitted-marker-counts",
    "the last stable offset passes a transaction whose marker is not committed",
    (ProducerState, "end_transaction"),
    is_rare=True,
)
def _end_at_once(self: ProducerState, *marker: Any) -> CompletedTransaction | None:
    ended, self.ended = self.ended, None
    try:
        return _end_transaction(self, *marker)
    finally:
        self.ended = ended


_end_transaction = ProducerState.end_transaction


@planted(
    "early-answers",
    "a coordinator answers before its records are committed: an acknowledged offset is lost",
    (CommitGate, "answer"),
)
def _answer_at_once(self: CommitGate, partitions: Any, response: Any, failed: Any) -> Any:
    return response


@planted(
    "shard-outlives-leadership",
    "a broker that leads a coordinator's partition again has the state of its last term",
    (CoordinatorRuntime, "partition_lost"),
)
def _keep_shard(self: Any, partition: Any) -> None:
    pass


_replay = Offsets.replay


@planted("offsets-before-end", "offsets of an open transaction take effect at once (KIP-98)", (Offsets, "replay"))
def _replay_at_once(self: Offsets, record: Any, offset: int, producer_id: int = -1) -> None:
    _replay(self, record, offset)


_replay_end = Offsets.replay_transaction_end


@planted(
    "aborted-offsets-count",
    "offsets of an aborted transaction take effect",
    (Offsets, "replay_transaction_end"),
    is_rare=True,
)
def _replay_committed(self: Offsets, producer_id: int, committed: bool) -> None:
    _replay_end(self, producer_id, True)


@planted(
    "lag-by-wall-clock",
    "a step of the wall clock ends the time that followers have",
    (Leaders, "check_lag"),
    is_rare=True,
)
def _check_lag_by_wall(self: Leaders, now_ms: int) -> None:
    wall_ms = now_ms if self.member is None else self.member.clock.now_ms() - member.WALL_MS
    for leader in self.partitions.values():
        if now_ms - leader.checked_ms >= LAG_MS // 2:
            leader.checked_ms = now_ms
            self._propose(leader, leader.state.shrinkage(leader.log.log_end_offset, wall_ms), now_ms)


@planted(
    "caught-up-by-wall-clock",
    "a step of the wall clock moves the time at which a follower had caught up",
    (Leaders, "_fetched"),
)
def _fetched_by_wall(self: Leaders, leader: Any, follower_id: int, epoch: int, asked: Any, now_ms: int) -> None:
    wall_ms = now_ms if self.member is None else self.member.clock.now_ms() - member.WALL_MS
    leader.note_fetch(follower_id, epoch, asked, self.image.broker_epoch(follower_id), now_ms)
    offsets = asked.fetch_offset, asked.log_start_offset, leader.log.log_end_offset
    leader.state.fetched(follower_id, epoch, *offsets, wall_ms)
    self._moved(leader)
    self._propose(leader, leader.state.expansion(follower_id), now_ms)
