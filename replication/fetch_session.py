"""A follower's side of an incremental fetch session (KIP-227): each request names only what has changed.

The first request, of session epoch 0, names all partitions. The leader gives it a session id if it has room; else each
request is a full one again. After any doubt, a full request closes the session and asks for a new one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

_FULL_EPOCH = 0
_LAST_EPOCH = 0x7FFFFFFF

Key = TypeVar("Key", bound=Hashable)


class Position(NamedTuple):
    """The fields of a partition in a Fetch request."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class SessionRequest(NamedTuple, Generic[Key]):
    """The fields of the next request: partitions to add or change, and those to forget."""

    session_id: int
    session_epoch: int
    partitions: dict[Key, Position]
    forgotten: list[Key]


class FetchSession(Generic[Key]):
    """One session with one leader. A request must be answered, or have failed, before the next."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = _FULL_EPOCH
        self._sent: dict[Key, Position] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request names all partitions."""
        return self._epoch == _FULL_EPOCH

    def request(self, wanted: Mapping[Key, Position], changed: Iterable[Key]) -> SessionRequest[Key]:
        """Return the next request for the partitions `wanted`, of which only `changed` may differ from the last one."""
        if self.is_full:
            self._sent = dict(wanted)
            return SessionRequest(self._id, _FULL_EPOCH, dict(wanted), [])
        partitions: dict[Key, Position] = {}
        forgotten: list[Key] = []
        for key in changed:
            position = wanted.get(key)
            if position is None:
                if self._sent.pop(key, None) is not None:
                    forgotten.append(key)
            elif self._sent.get(key) != position:
                partitions[key] = self._sent[key] = position
        return SessionRequest(self._id, self._epoch, partitions, forgotten)

    def answered(self, session_id: int) -> None:
        """Note a response without an error of the session."""
        if not self.is_full:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1
        else:
            self._id = session_id
            self._epoch = 1 if session_id else _FULL_EPOCH

    def failed(self) -> None:
        """Note an error of the session, or a response that did not come."""
        self._epoch = _FULL_EPOCH
