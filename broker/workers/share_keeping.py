"""Read and write share state, in the main process, for the share-partitions that a worker leads (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.workers.messages import ReadShare, WriteShare
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey, ShareState
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator


class ShareKeeper:
    """Keeps the share states of one worker process.

    The worker continues before it learns that a change was written. So after a failed write the keeper rejects further
    changes of the same share-partition until the worker reads it again: they build on the missing one.
    """

    def __init__(self, states: ShareCoordinator) -> None:
        self._states = states
        self._behind: set[ShareKey] = set()
        #: Changes that wait for the disk, of share-partitions that were not read since.
        self._waiting: dict[ShareKey, set[object]] = {}

    def read(self, asked: ReadShare) -> ShareState:
        """Return the state for the leader of that epoch. Raises Refused as `ShareCoordinator.read`."""
        self._behind.discard(asked.share)
        self._waiting.pop(asked.share, None)
        return self._states.read(asked.share, asked.leader_epoch)

    def write(self, asked: WriteShare) -> Deferred[None] | None:
        """Write changes; return a Deferred if they wait for the disk. Raises, or fails with, Refused."""
        share = asked.share
        if share in self._behind:
            raise Refused(ErrorCode.FENCED_STATE_EPOCH, "What was written before is missing")
        states = self._states
        try:
            states.write(
                share,
                state_epoch=asked.state_epoch,
                leader_epoch=asked.leader_epoch,
                start_offset=asked.start_offset,
                delivery_complete_count=asked.delivery_complete_count,
                batches=asked.batches,
            )
        except Refused:
            self._behind.add(share)
            raise
        failed: Any = ErrorCode  # the code itself
        forced: Any = states.after_commit((share.coordinator_key,), _WRITTEN, failed)
        if not isinstance(forced, Deferred):
            return None
        change = object()
        self._waiting.setdefault(share, set()).add(change)
        return forced.then(lambda code: self._check(share, change, code))

    def _check(self, share: ShareKey, change: object, code: ErrorCode) -> None:
        waiting = self._waiting.get(share, set())
        was_read_since = change not in waiting
        waiting.discard(change)
        if not waiting:
            self._waiting.pop(share, None)
        if code is not _WRITTEN:
            if not was_read_since:  # else the worker's later changes already build on the stored state
                self._behind.add(share)
            raise Refused(code, code.text)


_WRITTEN: Any = ErrorCode.NONE
