"""The owner's side of share-partitions that a worker leads: their states, which the share coordinator has (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.cores.messages import ReadShare, WriteShare
from broker.deferred import Deferred
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey, ShareState
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.broker import Broker


class ShareKeeper:
    """For one process of a worker.

    It goes on before it hears that a change was written. So after a change that was not, no other is taken of the same
    share-partition until it reads anew: the others stand on the one that is missing.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._behind: set[ShareKey] = set()

    def read(self, asked: ReadShare) -> ShareState:
        """The state, for the leader of that epoch. Raises Refused as `ShareStates.read`."""
        self._behind.discard(asked.share)
        return self._broker.share_states.read(asked.share, asked.leader_epoch)

    def write(self, asked: WriteShare) -> Deferred[None] | None:
        """Take changes over; a Deferred where the disk is waited for. Raises, or fails with, Refused."""
        share = asked.share
        if share in self._behind:
            raise Refused(ErrorCode.FENCED_STATE_EPOCH, "What was written before is missing")
        states = self._broker.share_states
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
        forced: Any = states.when_forced((share.text,), _WRITTEN, failed)
        return forced.then(lambda code: self._check(share, code)) if isinstance(forced, Deferred) else None

    def _check(self, share: ShareKey, code: ErrorCode) -> None:
        if code is not _WRITTEN:
            self._behind.add(share)
            raise Refused(code, code.text)


_WRITTEN: Any = ErrorCode.NONE
