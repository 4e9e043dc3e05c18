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


class AllShareStates(ShareStates, Protocol):
    """The states of share-partitions for the group coordinator, whichever broker stores them."""

    def initialize(self, share: ShareKey, state_epoch: int, start_offset: int) -> Deferred[None] | None:
        """Create the state of a share-partition, or reset it. Returns a Deferred where another broker stores it.

        Raises, or fails with, Refused: FENCED_STATE_EPOCH, INVALID_REQUEST, and the errors of `read` and `write`.
        """

    def delete(self, share: ShareKey) -> Deferred[None] | None:
        """Delete the state. Returns a Deferred where another broker stores it. Raises, or fails with, Refused."""

    def summarize(self, share: ShareKey) -> ShareState | Deferred[ShareState]:
        """Return the state without its batches, whatever the leader epoch is. Raises, or fails with, Refused.

        A share-partition without a state has start offset -1. NOT_COORDINATOR: no share-partition has a state yet.
        """

    def with_topic(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`, after creating the share coordinator's topic if it is missing."""
