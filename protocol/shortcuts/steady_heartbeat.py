"""ConsumerGroupHeartbeat requests of members that say no more than that they live, read and answered without structs:
nearly all are such.

A member sends the same bytes again and again, from its client's id on. So these are decoded by the schema once and
remembered (heads.py). Of a request that says anything else `read` says nothing: None.
"""

from __future__ import annotations

from struct import Struct as Layout

from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.shortcuts.prefix_cache import Head, Heads

#: Key and version of the API, correlation id: what stands before the client's id.
_FRONT = Layout(">hhi")
#: Of an encoded request in which all fields have their defaults, the bytes of group, member, epoch and instance.
_NAMES_SIZE = 7
#: The front of an answer: its size, the correlation id, no tagged fields. Its end: the heartbeat interval, null for no
#: assignment, no tagged fields.
_ANSWER_FRONT, _ANSWER_END = Layout(">iix"), Layout(">ibx")
_NO_ASSIGNMENT = -1
#: Members that are remembered at least, with some 600 bytes each.
_CAPACITY = 8_192


class SteadyHeartbeat(Head):
    """What such a request says, by the names of its schema, and who sent it."""

    __slots__ = ("_answer_start", "client_id", "group_id", "instance_id", "member_epoch", "member_id")

    def __init__(self, version: int, head: bytes) -> None:
        """Raises ProtocolError, ValueError: it is another request."""
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
            raise ValueError("it says more")
        answer = CONSUMER_GROUP_HEARTBEAT.response(member_id=self.member_id, member_epoch=self.member_epoch)
        self._answer_start = CONSUMER_GROUP_HEARTBEAT.response.encode(version, answer)[: -_ANSWER_END.size]

    def answer(self, correlation_id: int, heartbeat_interval_ms: int) -> bytes:
        """The frame of an answer that tells nothing new."""
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
        """What a request's frame says; None: anything more, or it is malformed."""
        head = bytes(frame[_FRONT.size :])
        return self._latest.get(head) or (self._recall(head) if head.endswith(self._end) else None)

    def _parse(self, head: bytes) -> SteadyHeartbeat | None:
        try:
            return SteadyHeartbeat(self._version, head)
        except (ProtocolError, ValueError):
            return None
