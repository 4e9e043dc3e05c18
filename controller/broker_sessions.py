"""The sessions of registered brokers, and the offsets that they report (KIP-631).

Kafka's BrokerHeartbeatManager and its tracker. None of it is in the metadata log: a controller that starts gives each
unfenced broker a new session.
"""

from __future__ import annotations

import sys

import msgspec

from metadata.broker_heartbeat import BrokerState

NO_OFFSET = -1


class BrokerSession(msgspec.Struct):
    """A broker since its registration, or since the controller's start.

    Offsets are those of the metadata log: of the registration, the last one that the broker applied, and the one that
    ends its controlled shutdown.
    """

    registration_offset: int
    is_fenced: bool
    ends_ms: int | None = None  # None: no heartbeat yet, or none for too long
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET

    @property
    def state(self) -> BrokerState:
        """Return the state between heartbeats."""
        if self.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.is_fenced else BrokerState.UNFENCED


class BrokerSessions:
    """The sessions by broker id. Times are of one monotonic clock, in milliseconds."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._by_broker: dict[int, BrokerSession] = {}

    def begin(self, broker_id: int, registration_offset: int, *, is_fenced: bool) -> None:
        """Note a process that registers, instead of an older one. Its first heartbeat begins the session."""
        self._by_broker[broker_id] = BrokerSession(registration_offset, is_fenced)

    def begin_again(self, broker_id: int, registration_offset: int) -> None:
        """Note that the same process registers again: it stays as fenced as it is, and its session goes on."""
        old = self._by_broker[broker_id]
        self._by_broker[broker_id] = BrokerSession(registration_offset, old.is_fenced, old.ends_ms)

    def of(self, broker_id: int) -> BrokerSession:
        """Return the session of a registered broker."""
        return self._by_broker[broker_id]

    def end(self, broker_id: int) -> None:
        """End the session of a broker whose process has ended. It stays as fenced as it is."""
        session = self._by_broker.get(broker_id)
        if session is not None:
            session.ends_ms = None

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the broker has a session that has not ended."""
        session = self._by_broker.get(broker_id)
        return session is not None and session.ends_ms is not None and session.ends_ms > now_ms

    def touch(self, broker_id: int, metadata_offset: int, now_ms: int, *, is_fenced: bool) -> None:
        """Note a heartbeat. A broker that is fenced leaves its controlled shutdown."""
        session = self._by_broker[broker_id]
        session.ends_ms = now_ms + self.timeout_ms
        session.metadata_offset = metadata_offset
        session.is_fenced = is_fenced
        if is_fenced:
            session.shutdown_offset = NO_OFFSET

    def forget_offset(self, broker_id: int) -> None:
        """Let what the broker has applied count from its next heartbeat on: as in Kafka, its registration changed."""
        self._by_broker[broker_id].metadata_offset = NO_OFFSET

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """Note the offset that other brokers have to reach before the broker may stop; a later one changes nothing."""
        session = self._by_broker[broker_id]
        if session.shutdown_offset == NO_OFFSET:
            session.shutdown_offset = offset

    def remove(self, broker_id: int) -> None:
        """Forget an unregistered broker."""
        self._by_broker.pop(broker_id, None)

    def take_ended(self, now_ms: int) -> int | None:
        """End one session without a heartbeat in time, and return the broker's id; None if there is none."""
        for broker_id, session in self._by_broker.items():
            if session.ends_ms is not None and session.ends_ms <= now_ms:
                session.ends_ms = None
                return broker_id
        return None

    def fence(self, broker_id: int) -> None:
        """Note that a broker is fenced."""
        session = self._by_broker[broker_id]
        session.is_fenced, session.shutdown_offset = True, NO_OFFSET

    def next_end_ms(self) -> int | None:
        """Return when the first session ends; None without sessions."""
        return min((each.ends_ms for each in self._by_broker.values() if each.ends_ms is not None), default=None)

    def lowest_active_offset(self) -> int:
        """Return the lowest offset that an active broker has applied."""
        active = (
            each.metadata_offset
            for each in self._by_broker.values()
            if not each.is_fenced and each.shutdown_offset == NO_OFFSET
        )
        return min(active, default=sys.maxsize)
