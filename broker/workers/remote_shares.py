"""A worker's access to the share coordinator, which runs in the main process (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.workers.messages import ReadShare, WriteShare
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey, ShareState, StateBatch
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.workers.link import Link
    from runtime.timers import Timers

#: An unused state is dropped after this time: its client may have disconnected, and the state may become stale.
_KEPT_MS = 5_000


class RemoteShareStates:
    """The states of share-partitions that this worker leads.

    Args:
        on_read: called once a requested state has arrived.
    """

    def __init__(self, link: Link, timers: Timers, on_read: Callable[[ShareKey], None]) -> None:
        self._link = link
        self._timers = timers
        self._on_read = on_read
        self._pending_reads: dict[ShareKey, Deferred[ShareState]] = {}

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state and forget it: a later call reads it again.

        Raises Refused: COORDINATOR_LOAD_IN_PROGRESS until it arrives.
        """
        asked = self._pending_reads.get(share)
        if asked is None:
            asked = self._pending_reads[share] = self._link.ask(ReadShare(share, leader_epoch))
            asked.add_done_callback(lambda done: self._on_answer(share, done))
        if not asked.done:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        del self._pending_reads[share]
        return asked.result()

    def _on_answer(self, share: ShareKey, asked: Deferred[ShareState]) -> None:
        def drop() -> None:
            if self._pending_reads.get(share) is asked:
                del self._pending_reads[share]

        if self._pending_reads.get(share) is asked:
            self._timers.call_later(_KEPT_MS, drop)
        self._on_read(share)

    def forget(self, topic_id: bytes, group_id: str | None = None) -> None:
        """Drop the states of a topic, for one group or for all groups, because they have changed."""
        for share in [each for each in self._pending_reads if each.topic_id == topic_id]:
            if group_id in (None, share.group_id):
                del self._pending_reads[share]

    def write(
        self,
        share: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Deferred[None]:
        """Write changes, in the order of the calls. Fails with Refused."""
        return self._link.ask(
            WriteShare(share, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches)
        )

    def after_commit(self, keys: Iterable[str], response: Struct, failed: Callable[[ErrorCode], Struct]) -> Struct:
        """Return `response` at once: the main process answers `write` only when the data is on disk."""
        return response
