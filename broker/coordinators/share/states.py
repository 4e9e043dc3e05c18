"""The interface of the share coordinator for the leaders of share-partitions (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from coordinator.share.state import ShareKey, ShareState, StateBatch

if TYPE_CHECKING:
    from broker.requests.served_api import Reply
    from protocol.error_codes import ErrorCode
    from protocol.schema import Struct
    from runtime.deferred import Deferred


class ShareStates(Protocol):
    """The states of share-partitions, in this process or another one."""

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for the leader of that epoch.

        Raises Refused: COORDINATOR_LOAD_IN_PROGRESS while it is being loaded, FENCED_LEADER_EPOCH, NOT_COORDINATOR.
        """

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
        """Write changes, in the order of the calls. Returns a Deferred where another process writes them.

        Raises, or fails with, Refused: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, and the errors of a failed write.
        """

    def after_commit(self, keys: Iterable[str], response: Struct, failed: Callable[[ErrorCode], Struct]) -> Reply:
        """Return `response` once the writes for these keys are on disk, where flush.messages asks for that."""
