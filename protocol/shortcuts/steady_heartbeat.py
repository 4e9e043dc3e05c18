"""A hand-written codec for ConsumerGroupHeartbeat of members without changes, which are nearly all of them.

A member repeats the same bytes, from its client id on. They are decoded by the schema once and cached
(prefix_cache.py). `read` returns None for any other request.
"""

from __future__ import annotations

from struct import Struct as Layout

from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.shortcuts.prefix_cache import Head, Heads

#: API key and version, and correlation id: the bytes before the client id.
_FRONT = Layout(">hhi")
#: The bytes of group, member, epoch and instance in an encoded request in which all fields have their defaults.
_NAMES_SIZE = 7
#: The front of a response: its size, correlation id, no tagged fields. Its end: the heartbeat interval, null for no
#: assignment, no tagged fields.
_ANSWER_FRONT, _ANSWER_END = Layout(">iix"), Layout(">ibx")
_NO_ASSIGNMENT = -1
#: The minimum number of cached members, of about 600 bytes each.
_CAPACITY = 8_192


class SteadyHeartbeat(Head):
    """A decoded request, with the names of the schema, and its client id."""

    __slots__ = ("_answer_start", "client_id", "group_id", "instance_id", "member_epoch", "member_id")

    def __init__(self, version: int, head: bytes) -> None:
        """Decode a request. Raises ProtocolError or ValueError for any other request."""
        super().__init__(head)
        frame = _FRONT.pack(CONSUMER_GROUP_HEARTBEAT.key, version, 0) + head
        header = decode_request_header(frame)
        request, _ = CONSUMER_GROUP_HEARTBEAT.request.decode(version, frame, header.position)
        self.client_id = header.client_id or ""
        self.group_id: str = request.group_id
        self.member_id: str = request.member_id
        self.member_epoch: int = request.member_epoch
        self.instance_id: str | None = request.instance_id
        said = {name: getattr(self, name) for name in ("group_id", "member_id", "member_epoch", "instance_id")}
        if request != CONSUMER_GROUP_HEARTBEAT.request(**said):
            raise ValueError("it has other fields")
        answer = CONSUMER_GROUP_HEARTBEAT.response(member_id=self.member_id, member_epoch=self.member_epoch)
        self._answer_start = CONSUMER_GROUP_HEARTBEAT.response.encode(version, answer)[: -_ANSWER_END.size]

    def answer(self, correlation_id: int, heartbeat_interval_ms: int) -> bytes:
        """Return the frame of a response without changes."""
        body = self._answer_start + _ANSWER_END.pack(heartbeat_interval_ms, _NO_ASSIGNMENT)
        return _ANSWER_FRONT.pack(_ANSWER_FRONT.size - 4 + len(body), correlation_id) + body


class SteadyHeartbeats(Heads[SteadyHeartbeat]):
    """Reads requests of one version."""

    __slots__ = ("_end", "_version")

    def __init__(self, version: int) -> None:
        super().__init__(_CAPACITY)
        self._version = version
        self._end = CONSUMER_GROUP_HEARTBEAT.request.encode(version, CONSUMER_GROUP_HEARTBEAT.request())[_NAMES_SIZE:]

    def read(self, frame: memoryview) -> SteadyHeartbeat | None:
        """Return the request in a frame; None if it has other fields or is malformed."""
        head = bytes(frame[_FRONT.size :])
        return self._latest.get(head) or (self._recall(head) if head.endswith(self._end) else None)

    def _parse(self, head: bytes) -> SteadyHeartbeat | None:
        try:
            return SteadyHeartbeat(self._version, head)
        except (ProtocolError, ValueError):
            return None
