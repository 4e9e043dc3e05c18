"""Share sessions (KIP-932): the broker remembers between requests what a member of a share group fetches.

A session belongs to a group's member and to the connection that opened it. A fetch of epoch 0 opens it, and one of
epoch -1 ends it. In between each request has the next epoch. When a session ends, for whatever reason, the records that
its member had acquired are released. Unlike Kafka, the broker also limits the partitions in all sessions: clients may
name any partitions, and any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
#: Partitions in all sessions, of some 300 bytes each.
MOST_PARTITIONS = 1 << 19


class SessionKey(NamedTuple):
    """The group and member that a session belongs to."""

    group_id: str
    member_id: str


class TopicIdPartition(NamedTuple):
    """A partition in a session."""

    topic_id: bytes
    partition: int


class ShareSession:
    """A member's session. `places` are in the order of the requests; `epoch` is that of the next request."""

    __slots__ = ("_unreported", "connection", "epoch", "key", "places")

    def __init__(self, key: SessionKey, connection: ClientConnection) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.places: dict[TopicIdPartition, None] = {}
        self._unreported: dict[TopicIdPartition, None] = {}

    def add(self, place: TopicIdPartition) -> None:
        if place not in self.places:
            self.places[place] = self._unreported[place] = None

    def forget(self, place: TopicIdPartition) -> None:
        self.places.pop(place, None)
        self._unreported.pop(place, None)

    def take_new_partitions(self) -> list[TopicIdPartition]:
        """Return, once, the session's new partitions: the first answer names each of them, even without records."""
        unreported, self._unreported = self._unreported, {}
        return list(unreported)

    def advance(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1


class ShareSessions:
    """All open sessions. `on_end(session)` is called when a session has ended.

    Args:
        slots: the maximum number of sessions.
    """

    def __init__(self, slots: int, on_end: Callable[[ShareSession], None]) -> None:
        self._slots = slots
        self._on_end = on_end
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connections: dict[ClientConnection, dict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Return whether any member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        added: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
        connection: ClientConnection,
        *,
        acknowledges: bool,
    ) -> ShareSession:
        """Return the session of a fetch, which uses a slot from now on. The caller ends it after a fetch of epoch -1.

        Raises Refused: INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
        SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise _refused(ErrorCode.INVALID_REQUEST)
            session = self._open(key, connection)
        else:
            session = self.at(key, epoch)
        count = len(session.places)
        for place in added:
            session.add(place)
        for place in forgotten:
            session.forget(place)
        if len(session.places) > count and sum(len(each.places) for each in self._sessions.values()) > MOST_PARTITIONS:
            self.end(session)
            raise _refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a ShareAcknowledge; errors as for `fetch`."""
        if epoch == INITIAL_EPOCH:
            raise _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return self.at(key, epoch)

    def at(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return an open session, and advance its epoch."""
        session = self._sessions.get(key)
        if session is None:
            raise _refused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.advance()
        return session

    def end(self, session: ShareSession) -> None:
        """End a session: the member closed it, or has left."""
        if self._remove(session):
            self._on_end(session)

    def _open(self, key: SessionKey, connection: ClientConnection) -> ShareSession:
        """Open a new session. Records that the member has acquired stay acquired."""
        known = self._sessions.get(key)
        if known is not None:
            self._remove(known)
        if len(self._sessions) >= self._slots:
            raise _refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection)
        of_connection = self._of_connections.get(connection)
        if of_connection is None:
            of_connection = self._of_connections[connection] = {}
            connection.on_close = lambda: self._lost(connection)
        of_connection[key] = None
        return session

    def _remove(self, session: ShareSession) -> bool:
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        of_connection = self._of_connections.get(session.connection)
        if of_connection is not None:
            of_connection.pop(session.key, None)
        return True

    def _lost(self, connection: ClientConnection) -> None:
        for key in list(self._of_connections.pop(connection, ())):
            self.end(self._sessions[key])


def _refused(code: ErrorCode) -> Refused:
    return Refused(code)
