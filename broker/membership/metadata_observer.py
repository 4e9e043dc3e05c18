"""Run the observer of the controllers' metadata log: send its requests, and apply what is committed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.controllers import CHECK_CONTROLLERS, ControllerChannel, NoController
from broker.network.outbound_errors import OutboundError
from metadata.features import unsupported_level
from metadata.replay import ReplayError
from protocol.client_session import Response
from protocol.error_codes import ProtocolError
from protocol.records.errors import RecordsError
from replication.observing import CannotObserve, Endpoint, Observer
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.outage_log import OutageLog
from runtime.timers import Timer, Timers
from storage.errors import StorageError

log = logging.getLogger(__name__)

_SOURCE = "metadata"


class FollowedMetadata(Protocol):
    """The metadata log of the active controller, as a broker follows it."""

    @property
    def leader(self) -> Endpoint | None:
        """The address of the active controller; None if nobody is known to lead."""

    @property
    def leader_id(self) -> int:
        """The node id of the active controller; -1 if nobody is known to lead."""

    @property
    def epoch(self) -> int:
        """The leader epoch."""

    @property
    def high_watermark(self) -> int:
        """The end of the committed part of the log."""

    @property
    def end_offset(self) -> int:
        """The end of the log as this broker has it."""

    def apply(self) -> None:
        """Apply what is committed, and was not applied while the metadata was paused."""

    def close(self) -> None:
        """Follow no longer."""


class MetadataObserver:
    """Follows the metadata log until `close`.

    Args:
        on_change: called after each response, when the leader, the high watermark or the image may have changed.
        on_fatal: called with a line when the log cannot be followed any more.
        outage: logs requests that fail, here and in the lifecycle.
    """

    def __init__(
        self,
        observer: Observer,
        metadata: CommittedMetadata,
        channel: ControllerChannel,
        clock: Clock,
        timers: Timers,
        on_change: Callable[[], None],
        on_fatal: Callable[[str], None],
        outage: OutageLog,
    ) -> None:
        self.last_error: str | None = None
        self._observer = observer
        self._metadata = metadata
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._on_change = on_change
        self._on_fatal = on_fatal
        self._timer: Timer | None = None
        self._is_closed = False
        self._logged_epoch = -1
        self._outage = outage

    @property
    def leader(self) -> Endpoint | None:
        """The address of the active controller; None if nobody is known to lead."""
        return self._observer.endpoint

    @property
    def leader_id(self) -> int:
        """The node id of the active controller; -1 if nobody is known to lead."""
        return self._observer.leader_id

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self._observer.leader_epoch

    @property
    def high_watermark(self) -> int:
        """The end of the committed part of the log."""
        return self._observer.high_watermark

    @property
    def end_offset(self) -> int:
        """The end of this broker's copy of the log."""
        return self._metadata.log.log_end_offset

    def start(self) -> None:
        """Begin to follow."""
        self._step()

    def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()

    def apply(self) -> None:
        """Apply what is committed, and was not applied while the metadata was paused."""
        try:
            self._metadata.advance(self._observer.high_watermark)
        except (ProtocolError, RecordsError, ReplayError, StorageError, OSError) as error:
            self._fail(f"the metadata log cannot be applied after offset {self._metadata.last_offset}: {error}")
            return
        unsupported = unsupported_level(self._metadata.image.features)
        if unsupported is not None and self._metadata.is_current:  # an old log may begin below today's levels
            self._fail(f"the cluster is at {unsupported}")
            return
        self._on_change()

    def _step(self) -> None:
        self._timer = None
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        request = self._observer.next_request(now_ms)
        if request is None:
            self._timer = self._timers.call_later(max(1, self._observer.due_ms - now_ms), self._step)
            return
        self._channel.request(request.endpoint, request.api, request.body).add_done_callback(self._on_answer)

    def _on_answer(self, answered: Deferred[Response]) -> None:
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        try:
            self._observer.answered(answered.result().fields, now_ms)
        except CannotObserve as error:
            self._fail(str(error))
            return
        except (OutboundError, ProtocolError) as error:
            self.last_error = str(error)
            self._observer.failed(now_ms)
            self._note_failure(error)
        except (StorageError, OSError) as error:
            self._fail(f"the metadata log cannot be written: {error}")
            return
        else:
            if self._observer.endpoint is None:
                self._note_failure(NoController())
            elif self._outage.lasts:
                self._outage.worked(_SOURCE)
        self._log_leader()
        self.apply()
        self._store_leader()
        self._step()

    def _note_failure(self, error: Exception) -> None:
        self._outage.failed(f"metadata: {error}", CHECK_CONTROLLERS, _SOURCE)

    def _store_leader(self) -> None:
        """Write down a new leader, once the log shows which layout the file has."""
        observer = self._observer
        if self._is_closed or observer.endpoint is None or not self._metadata.is_current:
            return
        try:
            self._metadata.log.store_leader(observer.leader_id, observer.leader_epoch)
        except OSError as error:
            self._fail(f"the metadata log cannot be written: {error}")

    def _log_leader(self) -> None:
        """Log a new leader once: while it is down, other controllers still name it."""
        observer, endpoint = self._observer, self._observer.endpoint
        if endpoint is not None and self._logged_epoch < observer.leader_epoch:
            self._logged_epoch = observer.leader_epoch
            where = f"{endpoint.host}:{endpoint.port}"
            log.info(
                "Controller %d leads the metadata log in epoch %d, at %s",
                observer.leader_id,
                observer.leader_epoch,
                where,
            )

    def _fail(self, reason: str) -> None:
        self.close()
        self._on_fatal(reason)
