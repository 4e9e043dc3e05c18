"""Decisions about a share-partition's state: initialize, read, write, delete, summarize, snapshot (KIP-932).

The messages are Kafka's, because clients show them to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.refused import Refused
from coordinator.share.records import SnapshotRecord, UpdateRecord
from coordinator.share.shard import ShareEffects, ShareShard
from coordinator.share.state import (
    UNINITIALIZED,
    UNKNOWN_COUNT,
    ShareKey,
    ShareState,
    ShareUpdate,
    StateBatch,
    apply_update,
    merge_batches,
)
from protocol.error_codes import ErrorCode

#: The state in responses for a share-partition that has none.
NO_STATE = ShareState(0, UNINITIALIZED)


def initialize(
    shard: ShareShard, share: ShareKey, state_epoch: int, start_offset: int, now: Now, effects: ShareEffects
) -> None:
    """Initialize a state at a start offset, or at -1 for none yet.

    Raises Refused: FENCED_STATE_EPOCH, INVALID_REQUEST.
    """
    check_partition(share)
    check_not_negative("state epoch", state_epoch)
    old = shard.states.get(share)
    if old is not None:
        check_state_epoch(old, state_epoch)
    state = ShareState(
        state_epoch,
        start_offset,
        snapshot_epoch=0 if old is None else old.snapshot_epoch + 1,
        delivery_complete_count=UNKNOWN_COUNT if start_offset == UNINITIALIZED else 0,
        create_timestamp_ms=now.wall_ms,
        write_timestamp_ms=now.wall_ms,
    )
    effects.write([SnapshotRecord(share, state)])


def read(shard: ShareShard, share: ShareKey, leader_epoch: int, effects: ShareEffects) -> ShareState:
    """Return the state to a leader of that epoch. From then on, leaders of earlier epochs are fenced.

    Raises Refused: INVALID_REQUEST, FENCED_LEADER_EPOCH.
    """
    check_partition(share)
    check_not_negative("leader epoch", leader_epoch)
    state = shard.states.get(share)
    if state is None:
        raise _invalid("Read operation on uninitialized share partition not allowed.")
    check_leader_epoch(state, leader_epoch)
    if leader_epoch > state.leader_epoch:
        update = ShareUpdate(state.snapshot_epoch, leader_epoch, state.start_offset, state.delivery_complete_count)
        effects.write([UpdateRecord(share, update)])
    return state


def write(
    shard: ShareShard,
    share: ShareKey,
    *,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: tuple[StateBatch, ...],
    now: Now,
    effects: ShareEffects,
) -> None:
    """Write a change of the state; after a number of changes, write a snapshot of the whole state.

    Raises Refused: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
    """
    check_partition(share)
    check_not_negative("leader epoch", leader_epoch)
    check_not_negative("state epoch", state_epoch)
    state = shard.states.get(share)
    if state is None:
        raise _invalid("Write operation on uninitialized share partition not allowed.")
    check_leader_epoch(state, leader_epoch)
    check_state_epoch(state, state_epoch)
    update = ShareUpdate(
        state.snapshot_epoch,
        state.leader_epoch,
        start_offset,
        delivery_complete_count,
        merge_batches((), batches, UNINITIALIZED),
    )
    if shard.update_counts[share] >= shard.settings.updates_per_snapshot:
        effects.write([SnapshotRecord(share, folded(apply_update(state, update, now.wall_ms), now))])
    else:
        effects.write([UpdateRecord(share, update)])


def delete(shard: ShareShard, share: ShareKey, effects: ShareEffects) -> None:
    """Delete the state, if there is any. Raises Refused: INVALID_REQUEST."""
    check_partition(share)
    if share in shard.states:
        effects.write([SnapshotRecord(share, None)])


def summarize(shard: ShareShard, share: ShareKey) -> ShareState:
    """Return the state for a summary without its batches; `NO_STATE` if there is none. Raises Refused."""
    check_partition(share)
    return shard.states.get(share, NO_STATE)


def cold_snapshots(shard: ShareShard, clock: Callable[[], Now]) -> Iterator[SnapshotRecord | None]:
    """Yield snapshots of share-partitions whose last write is some time ago, so that the log can be truncated.

    Yields None for each share-partition that needs no snapshot. The shard may change between two of them.
    """
    for share in list(shard.update_counts):
        now = clock()
        before_ms = now.wall_ms - shard.settings.cold_snapshot_interval_ms
        state = shard.states.get(share)
        is_cold = state is not None and shard.update_counts.get(share) and state.write_timestamp_ms <= before_ms
        yield SnapshotRecord(share, folded(state, now)) if state is not None and is_cold else None


def folded(state: ShareState, now: Now) -> ShareState:
    """Return the state as its next snapshot."""
    return replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now.wall_ms)


def check_partition(share: ShareKey) -> None:
    """Raise Refused INVALID_REQUEST for an invalid partition."""
    check_not_negative("partition id", share.partition)


def check_not_negative(what: str, number: int) -> None:
    """Raise Refused INVALID_REQUEST for a negative number; `what` is its name in the message."""
    if number < 0:
        raise _invalid(f"The {what} cannot be a negative number.")


def check_state_epoch(state: ShareState, epoch: int) -> None:
    """Raise Refused FENCED_STATE_EPOCH if the group's epoch is lower than the state's."""
    if epoch < state.state_epoch:
        raise Refused(ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH.text)


def check_leader_epoch(state: ShareState, epoch: int) -> None:
    """Raise Refused FENCED_LEADER_EPOCH if the leader's epoch is lower than the state's."""
    if epoch < state.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH.text)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
