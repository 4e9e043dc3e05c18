"""The states of share-partitions for the leaders and the group coordinator of this broker (KIP-932).

The share coordinator of a share-partition may be this broker or another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.membership.coordination.share_operations import (
    Delete,
    Initialize,
    Read,
    ShareOperation,
    Summarize,
    T,
    Write,
)
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.membership.coordination.share_state_requests import ShareStateRequests
    from broker.requests.served_api import Reply
    from coordinator.share.state import ShareKey, ShareState, StateBatch
    from protocol.schema import Struct
    from runtime.timers import Timers

#: An unused state is dropped after this time: its client may have disconnected, and the state may become stale.
_KEPT_MS = 5_000
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class _Entry(NamedTuple):
    operation: ShareOperation[Any]
    answered: Deferred[Any]


class _PendingRead(NamedTuple):
    leader_epoch: int
    answered: Deferred[ShareState]


class PeerShareStates:
    """The states of all share-partitions.

    The operations on one share-partition are carried out in the order of the calls, one after the other. Writes that
    wait are combined. A leader continues before it knows that a change was written. So after a failed write, those that
    were made before the next read fail, too: they build on the missing one.
    """

    def __init__(self, requests: ShareStateRequests, own: ShareCoordinator, timers: Timers) -> None:
        self._requests = requests
        self._own = own
        self._timers = timers
        #: The operations on each share-partition that have no result yet. The first one is being carried out.
        self._lines: dict[ShareKey, deque[_Entry]] = {}
        self._reads: dict[ShareKey, _PendingRead] = {}

    # -- for leaders -------------------------------------------------------------------------------------------------

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state and forget it: a later call reads it again.

        Raises Refused: COORDINATOR_LOAD_IN_PROGRESS until it arrives, and the coordinator's errors.
        """
        asked = self._reads.get(share)
        if asked is None or asked.leader_epoch != leader_epoch:
            asked = self._reads[share] = _PendingRead(leader_epoch, self._run(Read(share, leader_epoch)))
        if not asked.answered.done:
            asked.answered.add_done_callback(lambda _: self._keep_for_a_while(share, asked))
            raise Refused(_LOADING)
        del self._reads[share]
        try:
            return asked.answered.result()
        except Refused as refusal:
            if refusal.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise Refused(_LOADING) from refusal  # clients do not expect another code while the coordinator moves
            raise

    def _keep_for_a_while(self, share: ShareKey, asked: _PendingRead) -> None:
        def drop() -> None:
            if self._reads.get(share) is asked:
                del self._reads[share]

        self._timers.call_later(_KEPT_MS, drop)

    def write(
        self,
        share: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Deferred[None] | None:
        """Write changes, in the order of the calls. Raises, or fails with, Refused."""
        write = Write(
            share,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=batches,
        )
        line = self._lines.get(share)
        if line is not None and len(line) > 1:
            last = line[-1]
            if isinstance(last.operation, Write) and last.operation.add(write):
                return last.answered
        return _at_once(self._run(write))

    # -- for the group coordinator -------------------------------------------------------------------------------------

    def initialize(self, share: ShareKey, state_epoch: int, start_offset: int) -> Deferred[None] | None:
        """Create the state of a share-partition, or reset it. Raises, or fails with, Refused."""
        return _at_once(self._run(Initialize(share, state_epoch, start_offset)))

    def delete(self, share: ShareKey) -> Deferred[None] | None:
        """Delete the state. Raises, or fails with, Refused."""
        return _at_once(self._run(Delete(share)))

    def summarize(self, share: ShareKey) -> ShareState | Deferred[ShareState]:
        """Return the state without its batches. Raises, or fails with, Refused."""
        found = self._run(Summarize(share))
        return found.result() if found.done else found

    def with_topic(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`, after creating the coordinator's topic if it is missing."""
        return self._own.with_topic(serve)

    def after_commit(self, keys: Iterable[str], response: Struct, failed: Callable[[ErrorCode], Struct]) -> Struct:
        """Return `response` at once: all operations have their results once they are committed."""
        return response

    # -- one after the other -------------------------------------------------------------------------------------------

    def _run(self, operation: ShareOperation[T]) -> Deferred[T]:
        answered: Deferred[T] = Deferred()
        line = self._lines.setdefault(operation.share, deque())
        line.append(_Entry(operation, answered))
        if len(line) == 1:
            self._run_first(operation.share, line)
        return answered

    def _run_first(self, share: ShareKey, line: deque[_Entry]) -> None:
        self._requests.run(line[0].operation).add_done_callback(lambda done: self._take(share, line, done))

    def _take(self, share: ShareKey, line: deque[_Entry], done: Deferred[Any]) -> None:
        """Take the result of the first operation, and begin the next one."""
        ended = [line.popleft()]
        try:
            done.result()
        except Exception:
            if isinstance(ended[0].operation, Write):
                while line and isinstance(line[0].operation, Write):
                    ended.append(line.popleft())
        if not line:
            del self._lines[share]
        for each in ended:
            each.answered.settle_as(done)
        if line:
            self._run_first(share, line)


def _at_once(written: Deferred[None]) -> Deferred[None] | None:
    """Return None if it is written already. Raises the error of a write that has failed already."""
    return written.result() if written.done else written
