"""Run the lifecycle of a member: send registrations and heartbeats to the active controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.controllers import CHECK_CONTROLLERS, ControllerChannel, Leader
from broker.network.outbound_errors import OutboundError
from broker.replicas.cordoned_dirs import KEY as CORDONED_DIRS
from config import BrokerConfig
from metadata.features import DIRECTORIES_LEVEL
from protocol.client_session import Response
from protocol.error_codes import ProtocolError
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from replication.lifecycle import BrokerLifecycle, LifecycleState, RegistrationRefused
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.outage_log import OutageLog
from runtime.timers import Timer, Timers
from storage.log_manager import LogManager

log = logging.getLogger(__name__)

_SOURCE = "lifecycle"


class MemberLifecycle:
    """Sends what `replication.lifecycle` asks for, until it ends.

    Args:
        leader: returns the address of the active controller.
        on_state: called after each change of the state.
        on_refused: called with a line when the controller will never accept this broker.
        outage: logs requests that fail, here and in the metadata observer.
    """

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        channel: ControllerChannel,
        leader: Leader,
        clock: Clock,
        timers: Timers,
        on_state: Callable[[], None],
        on_refused: Callable[[str], None],
        outage: OutageLog,
    ) -> None:
        self._lifecycle = lifecycle
        self._channel = channel
        self._leader = leader
        self._clock = clock
        self._timers = timers
        self.on_state = on_state
        self._on_refused = on_refused
        self._timer: Timer | None = None
        self._in_flight = False
        self._asked = ""
        self._found = leader()
        self._is_closed = False
        self._outage = outage
        #: When the controller last accepted a request, by the monotonic clock.
        self.answered_ms = clock.monotonic_ms()

    @property
    def state(self) -> LifecycleState:
        return self._lifecycle.state

    @property
    def broker_epoch(self) -> int:
        """The epoch of this run's registration; -1 before it."""
        return self._lifecycle.broker_epoch

    def start(self) -> None:
        """Register, and send heartbeats."""
        self._step()

    def note_applied(self, committed: CommittedMetadata) -> None:
        """More of the metadata log is applied, or its leader has changed.

        Below metadata.version 3.7-IV2 the controllers do not keep the log directories of a registration. When that
        level is reached, this broker registers once more, as Apache Kafka's BrokerRegistrationTracker does.
        """
        self._lifecycle.note_applied(committed.last_offset)
        found, self._found = self._found, self._leader()
        if self._found is not None and self._found != found:
            self._lifecycle.controller_found(self._clock.monotonic_ms())
            self._step()
        registered = committed.image.brokers.get(self._lifecycle.identity.node_id)
        if registered is None or registered.log_directories or committed.image.metadata_version < DIRECTORIES_LEVEL:
            return
        self._lifecycle.register_again(self._clock.monotonic_ms())
        self._step()

    def logs_are_open(self) -> None:
        """All partitions are hosted: ask to be unfenced."""
        self._lifecycle.logs_are_open(self._clock.monotonic_ms())
        self._step()

    def directory_failed(self, directory_id: bytes) -> None:
        """Report a log directory that went offline."""
        self._lifecycle.directory_failed(directory_id, self._clock.monotonic_ms())
        self._step()

    def cordon(self, directory_ids: list[bytes]) -> None:
        """Report the log directories that take no new partitions (KIP-1066)."""
        self._lifecycle.cordon(directory_ids, self._clock.monotonic_ms())
        self._step()

    def leave(self) -> None:
        """Begin the controlled shutdown."""
        self._lifecycle.leave(self._clock.monotonic_ms())
        self._step()
        self.on_state()

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()

    def _step(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed or self._in_flight:
            return
        now_ms = self._clock.monotonic_ms()
        api = BROKER_REGISTRATION if self._lifecycle.registers else BROKER_HEARTBEAT
        try:
            request = self._lifecycle.next_request(now_ms)
        except RegistrationRefused as error:
            self._refuse(error)
            return
        if request is not None:
            self._in_flight = True
            self._asked = "registration" if api is BROKER_REGISTRATION else "heartbeat"
            self._channel.request(self._leader(), api, request).add_done_callback(self._on_answer)
        elif self.state is not LifecycleState.ENDED:
            self._timer = self._timers.call_later(max(1, self._lifecycle.due_ms - now_ms), self._step)

    def _on_answer(self, answered: Deferred[Response]) -> None:
        self._in_flight = False
        if self._is_closed:
            return
        before, now_ms = self.state, self._clock.monotonic_ms()
        was_fenced, advice = self._lifecycle.fenced, ""
        try:
            self._lifecycle.answered(answered.result().fields, now_ms)
        except RegistrationRefused as error:
            self._refuse(error)
            return
        except (OutboundError, ProtocolError) as error:
            self._lifecycle.failed(now_ms, str(error))
            advice = CHECK_CONTROLLERS
        if self._lifecycle.last_error is None:
            self.answered_ms = now_ms
            self._outage.worked(_SOURCE)
        else:
            self._outage.failed(f"{self._asked}: {self._lifecycle.last_error}", advice, _SOURCE)
        if self.state is not before:
            log.info("State %s -> %s (broker epoch %d)", before.name, self.state.name, self.broker_epoch)
            self.on_state()
        elif self.state is LifecycleState.RUNNING and self._lifecycle.fenced is not was_fenced:
            log.warning("The controller has %s this broker", "unfenced" if was_fenced else "fenced")
        self._step()

    def _refuse(self, error: RegistrationRefused) -> None:
        self.close()
        self._on_refused(str(error))


def report_cordoned(
    lifecycle: MemberLifecycle, config: BrokerConfig, logs: LogManager, directory_ids: Mapping[str, bytes]
) -> None:
    """Report the cordoned log directories, now and after each change (KIP-1066)."""

    def report(_: object = None) -> None:
        lifecycle.cordon([directory_ids[each.path] for each in logs.directories if each.is_cordoned])

    report()
    config.subscribe(CORDONED_DIRS, report)
