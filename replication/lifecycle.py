"""The life of a broker as its controller sees it: registration, heartbeats, fencing, controlled shutdown (KIP-631).

    REGISTERING -> CATCHING_UP -> RECOVERING -> UNFENCING -> RUNNING -> LEAVING -> ENDED

Kafka's BrokerLifecycleManager. One request at a time: `next_request` when it is due, then `answered` or `failed`.

- A broker that starts again before its old session has ended is refused with DUPLICATE_BROKER_REGISTRATION, and tries
  again. So is Apache Kafka's broker after a clean stop: the last heartbeat of a controlled shutdown renews the session,
  and nothing ends it early (ClusterControlManager.registerBroker asks hasValidSession alone, 4.3.1 and 4.4.0).
- Heartbeats carry the last *applied* offset of the metadata log. A late one would hold up the controlled shutdown of
  other brokers, so the caller notes it at once.
- A running broker that is fenced goes on serving. Clients learn it by the metadata log, and the next heartbeat that the
  controller hears unfences the broker with the same epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from protocol.client_session import error_text
from protocol.error_codes import ErrorCode
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.schema import Struct

NO_EPOCH = -1
#: Between heartbeats of a broker that waits for its own registration in the metadata log.
_CATCH_UP_MS = 10
_FIRST_BACKOFF_MS = 100
#: Retries of a registration are not further apart than this, so that a broker is unfenced within a second after the end
#: of the old session. Apache Kafka's broker waits broker.heartbeat.interval.ms; a refusal costs its controller 0.2 ms.
_MOST_REGISTRATION_BACKOFF_MS = 500


class LifecycleState(Enum):
    """In this order; no state comes back."""

    REGISTERING = 0
    CATCHING_UP = 1  # the metadata log is not applied up to the own registration
    RECOVERING = 2  # logs are opened
    UNFENCING = 3
    RUNNING = 4
    LEAVING = 5  # controlled shutdown: leadership moves away
    ENDED = 6

    def __lt__(self, other: LifecycleState) -> bool:
        return self.value < other.value

    def __gt__(self, other: LifecycleState) -> bool:
        return self.value > other.value

    def __ge__(self, other: LifecycleState) -> bool:
        return self.value >= other.value


class RegistrationRefused(Exception):
    """The controller will never accept this broker; the message says why."""


_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller is of another cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has a feature level that this broker does not support",
    ErrorCode.INVALID_REGISTRATION: "the controller found the registration invalid; its log says why",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this broker's principal may not register: it needs CLUSTER_ACTION",
}


class Identity(NamedTuple):
    """The fields of a registration. `listeners` and `features` are structs of BrokerRegistration."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: Sequence[Struct]
    features: Sequence[Struct]
    rack: str | None
    log_dirs: Sequence[bytes]
    previous_epoch: int = NO_EPOCH


class LifecycleTimes(NamedTuple):
    """In ms: broker.heartbeat.interval.ms, broker.session.timeout.ms, initial.broker.registration.timeout.ms, and
    log.dir.failure.timeout.ms.
    """

    heartbeat_ms: int = 2_000
    session_ms: int = 9_000
    registration_ms: int = 60_000
    directory_failure_ms: int = 30_000


class BrokerLifecycle:
    """One run of a broker. `broker_epoch` is -1 until it is registered; `fenced` is what the controller said last."""

    def __init__(self, identity: Identity, times: LifecycleTimes, now_ms: int) -> None:
        self.identity = identity
        self.times = times
        self.state = LifecycleState.REGISTERING
        self.broker_epoch = NO_EPOCH
        self.fenced = True
        self.applied_offset = -1
        self.offline_dirs: frozenset[bytes] = frozenset()
        self.cordoned_dirs: Sequence[bytes] | None = None
        #: Since when a failed directory waits to be reported, and whether the request in flight reports all of them.
        self._unreported_since_ms: int | None = None
        self._reports_all = False
        self._began_ms = self.due_ms = now_ms
        self._failures = 0
        self._in_flight: LifecycleState | None = None
        #: Why the last request failed, for messages.
        self.last_error: str | None = None
        #: Whether something must be said that the request in flight did not.
        self._news = False
        self._registers_again = False

    # -- what happens at this broker ---------------------------------------------------------------------------------

    def note_applied(self, offset: int) -> None:
        """The metadata log is applied up to and with `offset`."""
        self.applied_offset = offset

    def register_again(self, now_ms: int) -> None:
        """Send this run's registration once more, because the controllers now keep more of it. Its epoch stays."""
        if self.state > LifecycleState.REGISTERING and not self._registers_again:
            self._registers_again = True
            self._say(now_ms)

    def logs_are_open(self, now_ms: int) -> None:
        """All partitions of the metadata are hosted: ask to be unfenced."""
        if self.state is LifecycleState.RECOVERING:
            self.state = LifecycleState.UNFENCING
            self._say(now_ms)

    def directory_failed(self, directory_id: bytes, now_ms: int) -> None:
        """A log directory went offline: its replicas must move at once."""
        self.offline_dirs |= {directory_id}
        self._reports_all = False
        if self._unreported_since_ms is None:
            self._unreported_since_ms = now_ms
        self._say(now_ms)

    def cordon(self, directory_ids: Sequence[bytes], now_ms: int) -> None:
        """These log directories take no new partitions (KIP-1066)."""
        self.cordoned_dirs = directory_ids
        self._say(now_ms)

    def controller_found(self, now_ms: int) -> None:
        """Another controller is active, or one again: a request that failed is sent to it without a further wait."""
        if self._failures:
            self._failures = 0
            self.due_ms = now_ms

    def leave(self, now_ms: int) -> None:
        """Begin the controlled shutdown. A broker that serves nothing yet ends at once."""
        if self.state < LifecycleState.RUNNING:
            self.state = LifecycleState.ENDED
        elif self.state is LifecycleState.RUNNING:
            self.state = LifecycleState.LEAVING
            self._say(now_ms)

    def _say(self, now_ms: int) -> None:
        self._news = True
        if self.state > LifecycleState.REGISTERING:
            self.due_ms = now_ms

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> Struct | None:
        """Return the request that is due, or None.

        Raises RegistrationRefused if the broker could not register in time, or not report that a directory failed.
        Registration: `BROKER_REGISTRATION.request`; later `BROKER_HEARTBEAT.request`.
        """
        if self._in_flight is not None or self.state is LifecycleState.ENDED:
            return None
        if self.state is LifecycleState.REGISTERING and now_ms - self._began_ms >= self.times.registration_ms:
            reason = f": {self.last_error}" if self.last_error else ""
            raise RegistrationRefused(
                f"no controller registered this broker for {self.times.registration_ms} ms{reason}"
            )
        unreported_ms = self._unreported_since_ms
        if unreported_ms is not None and now_ms - unreported_ms >= self.times.directory_failure_ms:
            raise RegistrationRefused(
                f"a log directory failed, and no controller heard of it for {self.times.directory_failure_ms} ms"
            )
        if now_ms < self.due_ms:
            return None
        self._in_flight = LifecycleState.REGISTERING if self.registers else self.state
        self._reports_all, self._news = not self.registers, False
        return self._registration() if self.registers else self._heartbeat()

    @property
    def registers(self) -> bool:
        """Whether the next request is a registration, and not a heartbeat."""
        return self.state is LifecycleState.REGISTERING or self._registers_again

    def _registration(self) -> Struct:
        who = self.identity
        return BROKER_REGISTRATION.request(
            broker_id=who.node_id,
            cluster_id=who.cluster_id,
            incarnation_id=who.incarnation_id,
            listeners=list(who.listeners),
            features=list(who.features),
            rack=who.rack,
            log_dirs=sorted(who.log_dirs),
            previous_broker_epoch=who.previous_epoch,
        )

    def _heartbeat(self) -> Struct:
        return BROKER_HEARTBEAT.request.new(
            broker_id=self.identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.applied_offset,
            want_fence=self.state < LifecycleState.UNFENCING,
            want_shut_down=self.state is LifecycleState.LEAVING,
            offline_log_dirs=sorted(self.offline_dirs),
            cordoned_log_dirs=None if self.cordoned_dirs is None else sorted(self.cordoned_dirs),
        )

    # -- responses ---------------------------------------------------------------------------------------------------

    def failed(self, now_ms: int, reason: str | None = None) -> None:
        """No controller answered, or one that does not serve."""
        self.last_error = reason
        self._in_flight = None
        self._failures += 1
        most_ms = self.times.session_ms // 2
        if self.state is LifecycleState.REGISTERING:
            most_ms = min(most_ms, _MOST_REGISTRATION_BACKOFF_MS)
        self.due_ms = now_ms + min(most_ms, _FIRST_BACKOFF_MS << min(self._failures - 1, 16))

    def answered(self, response: Struct, now_ms: int) -> None:
        """Take over the response to the last request. Raises RegistrationRefused if no other try can help."""
        asked = self._in_flight
        if response.error_code != ErrorCode.NONE:
            reason = _FATAL.get(response.error_code)
            if reason is not None and asked is LifecycleState.REGISTERING:
                raise RegistrationRefused(reason)
            self.failed(now_ms, self._text_of(response.error_code))
            return
        self._in_flight, self._failures, self.last_error = None, 0, None
        self.due_ms = now_ms
        if self.state is LifecycleState.ENDED:
            return
        if asked is LifecycleState.REGISTERING:
            self.broker_epoch = response.broker_epoch
            self._registers_again = False
            if self.state is LifecycleState.REGISTERING:
                self.state = LifecycleState.CATCHING_UP
            return
        if self._reports_all:
            self._unreported_since_ms = None
        self._take_heartbeat(response, asked)
        if not self._news:
            waits_ms = _CATCH_UP_MS if self.state is LifecycleState.CATCHING_UP else self.times.heartbeat_ms
            self.due_ms = now_ms + waits_ms

    def _text_of(self, code: int) -> str:
        if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return (
                f"another broker with node.id {self.identity.node_id} is registered and alive, or the session of this "
                "broker's former process has not ended yet"
            )
        if code == ErrorCode.STALE_BROKER_EPOCH:
            return (
                f"another process with node.id {self.identity.node_id} has registered, or somebody has removed the "
                "registration; this one takes part again after a restart"
            )
        return error_text(code)

    def _take_heartbeat(self, response: Struct, asked: LifecycleState | None) -> None:
        """`asked` is the state in which the heartbeat was sent: an answer to an earlier question moves nothing on."""
        self.fenced = response.is_fenced
        if self.state is LifecycleState.CATCHING_UP and response.is_caught_up:
            self.state = LifecycleState.RECOVERING
        elif self.state is asked is LifecycleState.UNFENCING and not response.is_fenced:
            self.state = LifecycleState.RUNNING
        elif self.state is asked is LifecycleState.LEAVING and response.should_shut_down:
            self.state = LifecycleState.ENDED
