"""A client's connection: it parses frames from received bytes, and sends answers in the order of the requests.

Rules:
1. Requests are started in order and answered in order. A request that waits mutes the connection (as Kafka mutes the
   channel): no later request is started. If its wait does not mute, later requests start, and their answers queue.
2. A frame is decoded where it was received. Bytes that cannot be served now (an incomplete frame, requests behind one
   that waits) are copied to the connection; beyond a limit it receives no more. The total of all connections is limited
   as well (`request_memory`).
3. A turn of the loop serves a bounded number of requests of one connection, and none while the client does not read its
   answers.
4. A client over its quota is not served for the throttle time in its answer; its later requests wait.
5. Malformed bytes, too large frames and unsupported requests end the connection, after the answers before them.
6. When a client disconnects, its waiting requests are dropped, also while the connection does not receive.
"""

from __future__ import annotations

import logging
from functools import partial
from struct import Struct as Layout
from typing import TYPE_CHECKING

from broker.network.answer_queue import Answer, AnswerQueue
from broker.network.backlog import Backlog
from broker.network.output_queue import OUTPUT_LIMIT_BYTES, release
from broker.network.peer import Peer
from broker.network.receive_buffer import LARGE_FRAME_BYTES, LargeFrame
from broker.network.transport import GONE, Transport
from broker.requests.dispatcher import CloseConnection, Waiting
from protocol.error_codes import ProtocolError
from protocol.framing import FrameTooLarge
from protocol.schema import Chunk

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from broker.network.connection_owner import ConnectionOwner

    Dispatch = Callable[["Connection", memoryview], Answer]

log = logging.getLogger(__name__)

_size_at = Layout(">I").unpack_from

# Requests of one connection served in one turn: enough for a full pipeline of every known client (5 to 1000 in flight,
# but sent one by one), few enough that other connections wait well under a millisecond.
TURN_REQUESTS = 32
# Answers of one connection that may wait for the end of the turn, if some of them come from files.
_SENT_TOGETHER_BYTES = 64 * 1024

# The reasons why no request is started, as bits.
_MUTED, _OUTPUT_FULL, _TURN_OVER, _CLOSED, _THROTTLED = 1, 2, 4, 8, 16


class Connection(Peer):
    """One client. The creator sets `transport` before the first byte arrives."""

    __slots__ = (
        "_backlog",
        "_dispatch",
        "_eof",
        "_hold",
        "_max_request_bytes",
        "_out",
        "_receive",
        "_rest_full",
        "_saturated",
        "_server",
        "_throttle",
        "_waiting",
        "active",
        "idle_since_ms",
        "on_close",
        "transport",
    )

    transport: Transport

    def __init__(
        self,
        server: ConnectionOwner,
        listener_name: str,
        security_protocol: str,
        client_address: tuple[str, int],
        local_address: tuple[str, int],
        principal: str = "User:ANONYMOUS",
    ) -> None:
        super().__init__(listener_name, security_protocol, client_address, local_address, principal)
        self._server = server
        self._dispatch: Dispatch = server.dispatcher.dispatch
        self._max_request_bytes = server.max_request_bytes
        self._receive = server.receive_buffer
        self._hold = 0
        self._backlog = Backlog(server.memory)
        self._out: list[Chunk] = []
        self._waiting = AnswerQueue()
        self._eof = False
        self._rest_full = False
        self._saturated = False
        self._throttle: TimerHandle | None = None  # until the throttle time is over
        self.active = True
        self.idle_since_ms = 0
        self.on_close: Callable[[], None] | None = None  # called when the connection is closed

    @property
    def waiting_count(self) -> int:
        """The number of requests that were started and are not answered yet."""
        return self._waiting.waiting_count

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed."""
        return self._hold & _CLOSED != 0

    @property
    def is_held_back(self) -> bool:
        """Whether no request may be started now."""
        return self._hold != 0

    @property
    def is_blocked_by_broker(self) -> bool:
        """Whether only the broker, not the client, can make progress with the client's requests."""
        return self._saturated or self._hold & _MUTED != 0

    # -- called by the transport -------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return the buffer for received bytes; `buffer_updated` follows before any other call of it. Raises
        BlockingIOError if there is no memory for them; the transport is paused then until there is.
        """
        backlog = self._backlog
        large = backlog.large
        if large is not None and not large.complete:
            room = backlog.room(large)
            if not room:
                self._receive_no_more()
                raise BlockingIOError("other requests have the memory")
            return room
        if backlog.rest and not self._hold:
            return self._receive.space_after(backlog.rest)
        return self._receive.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` received bytes."""
        self.active = True
        backlog = self._backlog
        large = backlog.large
        if large is not None and not large.complete:
            large.filled += nbytes
            if large.complete and not self._hold:
                self._serve_large(large)
            return
        receive = self._receive
        start = receive.position
        if not self._hold:
            if backlog.rest:
                nbytes += len(backlog.take_rest())
            receive.claim(nbytes)
            self._serve(receive.view, start, start + nbytes)
        elif not self._hold & _CLOSED:
            backlog.keep(backlog.rest + receive.view[start : start + nbytes])
            if backlog.is_over_limit:
                self._receive_no_more()

    def on_sent(self) -> None:
        """Serve again if a full output queue had stopped it: everything queued was sent."""
        self.active = True
        if self._hold & _OUTPUT_FULL:
            self._release(_OUTPUT_FULL)

    def on_eof(self) -> None:
        """The client sends no more but may still read. Serve what it sent; abort if a request waits."""
        self._eof = True
        self._end_if_served()

    def on_hang_up(self) -> None:
        """Handle a disconnect, or the end of what the client sends, while the transport is paused."""
        if self._waiting.is_parked:
            self.transport.abort()
        elif self._hold & _THROTTLED and self._backlog.large is not None:  # the rest of the frame may be unread
            self.transport.resume_reading()

    def on_lost(self) -> None:
        """Drop everything that belongs to the lost connection."""
        self._drop()
        self._server.forget(self)
        self.transport = GONE  # breaks the reference cycle, which only the garbage collector would free

    # -- called by the server ----------------------------------------------------------------------------------------

    def set_saturated(self, saturated: bool) -> None:
        """Stop or resume receiving, when the broker as a whole has too much queued, or no longer has."""
        if saturated == self._saturated or self._hold & _CLOSED:
            return
        self._saturated = saturated
        if saturated:
            self.transport.pause_reading()
        elif not self._rest_full and not self._eof:
            self.transport.resume_reading()

    def on_room(self) -> None:
        """Resume receiving: there is memory again."""
        self._rest_full = False
        if not self._saturated:
            self.transport.resume_reading()

    def redirect(self, dispatch: Dispatch, max_request_bytes: int | None = None) -> None:
        """Pass requests to another function, from the next one on, even if it was received already.

        A caller within a request must return a list of chunks, not bytes: only then the loop checks for this change.
        `max_request_bytes` limits frames; None means socket.request.max.bytes.
        """
        self._dispatch = dispatch
        self._max_request_bytes = self._server.max_request_bytes if max_request_bytes is None else max_request_bytes
        self._end_turn()

    def throttle(self, wait_ms: int) -> None:
        """Start no more requests for `wait_ms`, or until a later throttle ends: the client is over a quota."""
        if self._hold & _CLOSED:
            return
        timer = self._server.call_later(wait_ms / 1000, self._end_throttle)
        if self._throttle is not None:  # an earlier request was over another quota
            sooner, timer = sorted((self._throttle, timer), key=lambda each: each.when())
            sooner.cancel()
        self._hold |= _THROTTLED
        self._throttle = timer
        if self._backlog.large is not None:  # its rest is received after the throttle
            self._receive_no_more()

    def _end_throttle(self) -> None:
        self._throttle = None
        self._release(_THROTTLED)

    def close(self, reason: str, last_answer: list[Chunk] | None = None) -> None:
        """Close the connection after the finished answers and `last_answer`; log the reason."""
        if self._hold & _CLOSED:
            return
        self._out += last_answer or ()
        self._server.closing_log.warning("Connection %s is closed: %s", self, reason)
        self._close()

    # -- serving -----------------------------------------------------------------------------------------------------

    def _serve(self, view: memoryview, position: int, end: int) -> None:
        """Serve the requests in `view[position:end]`; keep bytes that have to wait."""
        dispatch = self._dispatch
        max_bytes = self._max_request_bytes
        try:
            for _ in range(TURN_REQUESTS):
                if end - position < 4:
                    break
                (size,) = _size_at(view, position)
                if size > max_bytes:  # negative sizes, too, as they are read unsigned
                    raise FrameTooLarge(size, max_bytes)
                start = position + 4
                following = start + size
                if following > end:
                    if size > LARGE_FRAME_BYTES:
                        self._backlog.begin_large(self, size + 4, view[position:end])
                        position = end
                    break
                position = following
                answer = dispatch(self, view[start:position])
                if type(answer) is bytes and not self._waiting:
                    self._out.append(answer)
                elif self._hold if answer is None else self._take(answer):
                    break
            else:
                if position < end:
                    self._end_turn()
        except Exception as error:
            self._close_for(error)
        if self._hold & _CLOSED:
            return
        if position < end:
            self._backlog.keep(bytes(view[position:end]))
        if self._out:
            self._server.turn.send_at_end(self._send_out)

    def _serve_large(self, large: LargeFrame) -> None:
        """Serve the request in `large`, which is complete now."""
        self._backlog.large = None
        turn = self._server.turn
        turn.at_end(partial(self._server.memory.release, large))  # the handler may use the request until then
        turn.send_now()
        self._serve(large.view, 0, large.size)

    def _take(self, answer: bytes | list[Chunk] | Waiting) -> bool:
        """Queue an answer in its place; return True if no more requests may be started now."""
        if isinstance(answer, Waiting):
            self._waiting.append(answer)
            if answer.deferred.mutes or self._waiting.is_full:
                self._hold |= _MUTED
            answer.deferred.add_done_callback(self._on_done)
        else:
            chunks: list[Chunk] = [answer] if isinstance(answer, bytes) else answer
            if self._waiting:
                self._waiting.append(chunks)
            else:
                self._out += chunks
                if len(chunks) > 1 and sum(map(len, self._out)) > _SENT_TOGETHER_BYTES:
                    self._send_out()  # at once: it may exceed the limit of queued output
        return self._hold != 0

    def _send_out(self) -> None:
        """Pass finished answers to the transport; do nothing if that was done earlier in the turn."""
        out, self._out = self._out, []
        if out and self.transport.send(out) > OUTPUT_LIMIT_BYTES:
            self._hold |= _OUTPUT_FULL

    def _on_done(self, _: object) -> None:
        self._server.turn.at_end(self._answer_waiting)

    def _answer_waiting(self) -> None:
        """Queue the finished answers, up to the first unfinished one; then serve the requests behind them."""
        if self._hold & _CLOSED:
            return
        try:
            self._waiting.take_ready(self._out, partial(self._server.dispatcher.finish, self), self._on_done)
        except Exception as error:  # the answers behind it would never be sent
            self._close_for(error)
            return
        if self._out:
            self.active = True
            self._server.turn.send_at_end(self._send_out)
        if self._hold & _MUTED and not self._waiting.is_parked and not self._waiting.is_full:
            self._release(_MUTED)
        elif self._eof:
            self._end_if_served()

    send_now = _send_out  # for the measurement of requests

    def _end_turn(self) -> None:
        """Start no more requests in this turn of the loop."""
        self._hold |= _TURN_OVER
        self._server.call_soon(partial(self._release, _TURN_OVER))

    def _release(self, reason: int) -> None:
        """Clear one reason not to start requests; without any left, serve what was received meanwhile."""
        if self._hold & _CLOSED:
            return
        self._hold &= ~reason
        backlog = self._backlog
        if not self._hold and backlog.large is not None and backlog.large.complete:
            self._serve_large(backlog.large)
        if backlog.rest and not self._hold:
            rest = backlog.take_rest()
            self._serve(memoryview(rest), 0, len(rest))
        if self._eof:
            self._end_if_served()
        elif self._rest_full and not self._hold:
            self.on_room()

    def _end_if_served(self) -> None:
        """After the client's last byte: close once everything is served, or abort if a request waits."""
        self._send_out()
        if self._waiting.is_parked:
            self.transport.abort()
        elif not self._waiting and (not self._hold or (self._hold == _THROTTLED and not self._backlog.may_be_served)):
            self.transport.close_when_sent()

    def _receive_no_more(self) -> None:
        """Stop receiving until `on_room`: there is no memory for more bytes."""
        self._rest_full = True
        self.transport.pause_reading()

    # -- closing -----------------------------------------------------------------------------------------------------

    def _close_for(self, error: Exception) -> None:
        if not isinstance(error, ProtocolError | CloseConnection):
            log.error("Connection %s is closed: serving it failed", self, exc_info=error)
            self._close()
        else:
            is_said = isinstance(error, CloseConnection | FrameTooLarge)
            self.close(str(error) if is_said else f"malformed request: {error}")

    def _close(self) -> None:
        if self._hold & _CLOSED:
            return
        self._send_out()
        self._drop()
        self.transport.close_when_sent()

    def _drop(self) -> None:
        """Drop all received bytes and waiting requests."""
        if self._hold & _CLOSED:
            return
        self._hold |= _CLOSED
        if self.on_close is not None:
            self.on_close()
        if self.authenticator is not None:
            self.authenticator.close()
        if self._throttle is not None:
            self._throttle.cancel()
        self._waiting.drop()
        release(self._out)
        self._out = []
        self._backlog.drop()
