"""Ask the controller for other in-sync replicas: Kafka's AlterPartitionManager."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.membership.controllers import ControllerChannel, Leader
from broker.network.outbound_errors import OutboundError
from protocol.client_session import Response
from protocol.error_codes import ProtocolError
from protocol.messages.alter_partition import ALTER_PARTITION
from replication.isr_changes import Answer, IsrChanges
from replication.leading import Proposal
from replication.partition_key import PartitionKey
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: Kafka's pause after a request that has changed nothing.
_RETRY_MS = 50


class IsrProposals:
    """Sends proposals, one request at a time, until the controller has answered each.

    Args:
        epoch: returns the broker epoch of this run.
        on_answer: called with each answer.
    """

    def __init__(
        self,
        node_id: int,
        channel: ControllerChannel,
        leader: Leader,
        epoch: Callable[[], int],
        timers: Timers,
        on_answer: Callable[[Answer], None],
    ) -> None:
        self._changes = IsrChanges(node_id)
        self._channel = channel
        self._leader = leader
        self._epoch = epoch
        self._timers = timers
        self._on_answer = on_answer
        self._retry: Timer | None = None
        self._is_closed = False
        self._log = LimitedLog(log, lines=1, seconds=30)  # a proposal is repeated each _RETRY_MS
        #: Requests that failed, for metrics.
        self.failures = 0

    def propose(self, key: PartitionKey, proposal: Proposal) -> None:
        """Ask for an ISR of a partition; it replaces a proposal that was not sent yet."""
        self._changes.propose(key, proposal)
        if self._retry is None:
            self._send()

    def forget(self, key: PartitionKey) -> None:
        """The partition is no longer led here."""
        self._changes.forget(key)

    def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._channel.close()

    def _send(self) -> None:
        self._retry = None
        request = None if self._is_closed else self._changes.next_request(self._epoch())
        if request is not None:
            self._channel.request(self._leader(), ALTER_PARTITION, request).add_done_callback(self._take)

    def _take(self, answered: Deferred[Response]) -> None:
        if self._is_closed:
            return
        answers: list[Answer] = []
        try:
            answers = self._changes.answered(answered.result().fields)
        except (OutboundError, ProtocolError) as error:
            self._log.warning("The controller did not change in-sync replicas: %s. The request is repeated", error)
            self._changes.failed()
        if answers:
            self._send_next(0)
        elif len(self._changes):
            self.failures += 1
            self._send_next(_RETRY_MS)
        for each in answers:
            self._on_answer(each)

    def _send_next(self, delay_ms: int) -> None:
        if self._retry is None and len(self._changes):
            self._retry = self._timers.call_later(delay_ms, self._send)
