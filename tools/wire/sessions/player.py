"""Play a recorded session against a broker, and compare the answers.

The player sends requests and waits for answers in the recorded order. So a request that followed an answer follows it
again, and a request that had to wait (JoinGroup, a long Fetch) may wait again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from protocol.api_keys import ApiKey
from protocol.error_codes import EncodeError, ErrorCode, ProtocolError
from protocol.headers import encode_request_header
from protocol.schema import Struct
from tools.data.java_text import JsonValue
from tools.wire.sessions.addresses import ADDRESS_APIS, Address, addresses_in
from tools.wire.sessions.conversation import Conversation, PendingRequest, Unfollowable
from tools.wire.sessions.differences import Comparison, Difference
from tools.wire.sessions.ids import Ids
from tools.wire.sessions.link import Link, LinkBroken
from tools.wire.sessions.plain import plain
from tools.wire.sessions.recording import Kind, RecordingUnreadable, SessionEvent

#: Errors after which a client retries; the number of retries depends on timing.
PASSING: frozenset[int] = frozenset(
    (
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS),
    )
)
_AGAIN_AFTER_S = 0.1
_AGAIN_WITHIN_S = 5
#: The path of a missing or unreadable answer.
WHOLE_ANSWER = "(answer)"


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer with its differences; `request`: the number of the request on its connection, from 1."""

    connection: int
    request: int
    api: str
    version: int
    differences: Sequence[Difference]


@dataclass(slots=True)
class _Sent:
    number: int
    frame: bytes
    group: str


@dataclass(slots=True)
class _Line:
    """A recorded connection, and the new connection in its place."""

    link: Link | None
    broken: str = ""
    conversation: Conversation = field(default_factory=Conversation)
    sent: deque[_Sent] = field(default_factory=deque)
    count: int = 0


class Player:
    """Plays a recording.

    Args:
    bootstrap: brokers to play against, tried in order.
    timeout_s: the time limit for an answer, in seconds.
    keeps_pace: send nothing earlier than in the recording, counted from its start.
        ignored: names of fields that are not compared.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        timeout_s: float = 30,
        keeps_pace: bool = True,
        ignored: Collection[str] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._keeps_pace = keeps_pace
        self._sleep = sleep
        self._ids = Ids()
        self._comparison = Comparison(self._ids, ignored)
        self._lines: dict[int, _Line] = {}
        self._nodes: dict[int, Address] = {}
        self.requests = 0

    def play(self, events: Iterable[SessionEvent]) -> Iterator[Compared]:
        """Play all; yield each answer as it arrives. Raises LinkBroken if no broker listens, RecordingUnreadable."""
        began_s = time.monotonic()
        try:
            for each in events:
                if self._keeps_pace and each.kind is not Kind.ANSWER:
                    self._sleep(max(0.0, began_s + each.at_s - time.monotonic()))
                if each.kind is Kind.OPEN:
                    self._lines[each.connection] = _Line(self._connected(self._nodes.get(each.node or 0)))
                elif each.connection not in self._lines:
                    raise RecordingUnreadable(f"connection {each.connection} was not opened before it was used")
                elif each.kind is Kind.CLOSE:
                    line = self._lines.pop(each.connection)
                    if each.by == "broker" and line.sent:
                        yield self._not_closed(line, each)
                    self._hang_up(line)
                elif each.kind is Kind.REQUEST:
                    self._send(self._lines[each.connection], each)
                else:
                    yield self._compare(self._lines[each.connection], each)
        except Unfollowable as error:
            raise RecordingUnreadable(str(error)) from None
        finally:
            for line in self._lines.values():
                self._hang_up(line)

    def _connected(self, node: Address | None) -> Link:
        failed = LinkBroken("no broker is named")
        for each in [node] if node is not None else self._bootstrap:
            try:
                return Link(each, self._timeout_s)
            except LinkBroken as error:
                failed = error
        raise failed

    def _hang_up(self, line: _Line) -> None:
        if line.link is not None:
            line.link.close()
            line.link = None

    def _send(self, line: _Line, event: SessionEvent) -> None:
        waiting = line.conversation.waiting
        pending = line.conversation.note_request(event.frame)
        line.count += 1
        self.requests += 1
        frame, group = self._of_now(pending, event.frame)
        if line.conversation.waiting > waiting:
            line.sent.append(_Sent(line.count, frame, group))
        if line.link is not None:
            try:
                line.link.send(frame)
            except LinkBroken as error:
                self._break(line, error)

    def _of_now(self, pending: PendingRequest, frame: bytes) -> tuple[bytes, str]:
        """Return the request with new ids, and its group. An unreadable request is sent unchanged."""
        try:
            request = pending.request(memoryview(frame))
        except ProtocolError:
            return frame, ""
        if request is None or pending.api is None:
            return frame, ""
        group = getattr(request, "group_id", None) or ""
        if self._ids.replace_in(request):
            head = encode_request_header(pending.api, pending.version, pending.correlation_id, pending.client_id)
            with suppress(EncodeError):  # then it is sent unchanged
                frame = head + pending.api.request.encode(pending.version, request)
        return frame, group

    def _compare(self, line: _Line, event: SessionEvent) -> Compared:
        pending = line.conversation.note_answer(event.frame)
        sent = line.sent.popleft()
        differences: Sequence[Difference]
        try:
            if line.link is None:
                raise LinkBroken(line.broken)
            differences = self._differences(pending, sent, line, event.frame)
        except LinkBroken as error:
            self._break(line, error)
            differences = [Difference(WHOLE_ANSWER, "an answer", str(error))]
        return Compared(event.connection, sent.number, pending.name, pending.version, differences)

    def _not_closed(self, line: _Line, event: SessionEvent) -> Compared:
        """Compare the case that the recorded broker closed the connection instead of answering."""
        pending, sent = line.conversation.next_due, line.sent[0]
        now = "closed"
        if line.link is not None:
            try:
                line.link.receive()
                now = "an answer"
            except LinkBroken as error:
                now = "closed" if error.is_closed else str(error)
        differences = [] if now == "closed" else [Difference(WHOLE_ANSWER, "closed", now)]
        return Compared(event.connection, sent.number, pending.name, pending.version, differences)

    def _differences(
        self, pending: PendingRequest, sent: _Sent, line: _Line, recorded_frame: bytes
    ) -> Sequence[Difference]:
        assert line.link is not None
        until_s = time.monotonic() + min(_AGAIN_WITHIN_S, self._timeout_s)
        try:
            recorded = pending.answer(memoryview(recorded_frame))
        except ProtocolError as error:
            line.link.receive()
            return [Difference(WHOLE_ANSWER, f"unreadable: {error}", None)]
        then = None if recorded is None else plain(*recorded)
        while True:
            frame = line.link.receive()
            if recorded is None or then is None:
                return [] if frame == recorded_frame else [Difference(WHOLE_ANSWER, "an answer", "another answer")]
            if frame[:4] != recorded_frame[:4]:
                raise LinkBroken("the answer to another request arrived")
            try:
                answer = pending.answer(memoryview(frame))
            except ProtocolError as error:
                return [Difference(WHOLE_ANSWER, "an answer", f"unreadable: {error}")]
            assert answer is not None
            now = plain(*answer)
            passing = error_codes(now) & _passing(pending) - error_codes(then)
            if not passing or line.sent or time.monotonic() > until_s:
                break
            self._sleep(_AGAIN_AFTER_S)
            line.link.send(sent.frame)
        if pending.key in ADDRESS_APIS:
            self._learn_nodes(pending, recorded[0], answer[0])
        found = self._comparison.differences(then, now, sent.group)
        return [] if error_codes(then) & _passing(pending) and not error_codes(now) else found

    def _learn_nodes(self, pending: PendingRequest, recorded: Struct, now: Struct) -> None:
        """Map recorded brokers to new ones: by their order, and coordinators by the key of the request."""
        then_told, now_told = list(addresses_in(recorded)), list(addresses_in(now))
        if pending.key != ApiKey.FIND_COORDINATOR:
            then_told.sort(key=lambda found: found.node)
            now_told.sort(key=lambda found: found.node)
        for place, found in enumerate(then_told):
            if now_told:
                self._nodes[found.node] = now_told[place % len(now_told)].address

    def _break(self, line: _Line, error: LinkBroken) -> None:
        line.broken = line.broken or str(error)
        self._hang_up(line)


def _passing(pending: PendingRequest) -> frozenset[int]:
    """Return the errors to retry; clients also wait for a topic that a Metadata request creates."""
    return PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if pending.key == ApiKey.METADATA else PASSING


def error_codes(value: JsonValue) -> set[int]:
    """Return all error codes in an answer except NONE."""
    found: set[int] = set()
    if isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code") and isinstance(each, int):
                found |= {each} if each else set()
            elif name != "records":
                found |= error_codes(each)
    elif isinstance(value, list):
        for each in value:
            found |= error_codes(each)
    return found
