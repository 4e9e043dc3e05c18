"""A link: messages between the main process and a worker, in order each way, over a socket pair.

A message is its length and a pickle of (kind, number, value), as on the pipes of `storage/worker_process.py`. Some
messages only inform. Others are requests: each is answered under its number, at once or when a Deferred resolves. Both
ends are processes of this broker, and no other process has the sockets. Sending never blocks the loop: data that the
other end has not read yet is buffered here.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from runtime.deferred import Deferred
from storage.worker_process import LENGTH, pack

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 18
#: An upper bound of a message's size. The longest is a client's request, which is below 2^31 bytes.
MOST_BYTES = 1 << 32
#: Messages served in one turn of the loop: a worker may have forwarded the requests of hundreds of clients.
MESSAGES_PER_TURN = 32


class LinkEnded(Exception):
    """The process at the other end has ended."""


class Kind(IntEnum):
    """The kind of a message."""

    MESSAGE = 0
    ASK = 1
    ANSWER = 2
    FAILURE = 3


def receive_first(sock: socket.socket) -> Any:
    """Receive the first message, before there is a loop; blocks. Raises EOFError."""
    sock.setblocking(True)
    (size,) = LENGTH.unpack(_receive(sock, LENGTH.size))
    return pickle.loads(_receive(sock, size))[2]


def _receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError("the other end has closed the link")
        data += more
    return bytes(data)


class Link:
    """One end of a link.

    Args:
        serve: handles each message. Its result, or that of its Deferred, answers a request.
        on_end: called once, when the other end has ended. Pending requests have failed with LinkEnded by then.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket.socket,
        serve: Callable[[Any], object],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._serve = serve
        self._on_end = on_end
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._flushes = False
        self._number = 0
        self._asked: dict[int, Deferred[Any]] = {}
        self.ended = False
        sock.setblocking(False)

    def listen(self) -> None:
        """Begin to receive."""
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def send(self, message: object) -> None:
        """Send a message without an answer. It is lost if the other end has ended."""
        self._send(Kind.MESSAGE, 0, message)

    def ask(self, message: object) -> Deferred[Any]:
        """Send a request, and return the answer. Fails with the other end's error, or with LinkEnded."""
        answered: Deferred[Any] = Deferred()
        if self.ended:
            answered.fail(LinkEnded())
            return answered
        self._number += 1
        self._asked[self._number] = answered
        self._send(Kind.ASK, self._number, message)
        return answered

    def close(self) -> None:
        """Close the link. Pending requests fail."""
        if self.ended:
            return
        self.ended = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        asked, self._asked = self._asked, {}
        for each in asked.values():
            if not each.done:
                each.fail(LinkEnded())

    async def drained(self) -> None:
        """Wait until the other end has read all messages, or has ended."""
        while self._outgoing and not self.ended:
            await asyncio.sleep(0.001)

    # -- sending -----------------------------------------------------------------------------------------------------

    def _send(self, kind: Kind, number: int, value: object) -> None:
        if self.ended:
            return
        self._outgoing += pack((kind, number, value))
        if not self._flushes:  # the messages of one turn are sent together
            self._flushes = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self.ended:
            return
        try:
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            self._loop.add_writer(self._socket.fileno(), self._flush)
            return
        except OSError:
            self._end()
            return
        self._flushes = False
        self._loop.remove_writer(self._socket.fileno())

    # -- receiving ---------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._incoming += data
        self._serve_some()

    def _serve_some(self) -> None:
        """Serve the complete messages, a limited number in a turn. Nothing more is received until all are served."""
        try:
            for _ in range(MESSAGES_PER_TURN):
                message = self._next()
                if message is None:
                    break
                self._receive(*message)
                if self.ended:
                    return
        except Exception:  # an end that missed a message has wrong state, and must be restarted
            log.exception("A message of the other process cannot be decoded: the link is closed")
            self._end()
            return
        if message is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self.ended:
            self.listen()
            self._serve_some()

    def _next(self) -> tuple[Kind, int, Any] | None:
        """Return the next message if it is complete. Raises what unpickling raises."""
        incoming = self._incoming
        if len(incoming) < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(incoming)
        if size > MOST_BYTES:
            raise ValueError(f"a message of {size} bytes")
        end = LENGTH.size + size
        if len(incoming) < end:
            return None
        message: tuple[Kind, int, Any] = pickle.loads(memoryview(incoming)[LENGTH.size : end])
        del incoming[:end]
        return message

    def _receive(self, kind: Kind, number: int, value: Any) -> None:
        if kind is Kind.ANSWER or kind is Kind.FAILURE:
            asked = self._asked.pop(number, None)
            if asked is None:
                log.error("Received an answer without a request: %r", value)
            elif kind is Kind.ANSWER:
                asked.resolve(value)
            else:
                asked.fail(value)
            return
        try:
            answer = self._serve(value)
        except Exception as error:
            self._answer_failure(kind, number, value, error)
            return
        if kind is Kind.ASK:
            answered = answer if isinstance(answer, Deferred) else Deferred.resolved(answer)
            answered.add_done_callback(lambda done: self._answer_done(number, value, done))

    def _answer_done(self, number: int, asked: object, done: Deferred[Any]) -> None:
        try:
            self._send(Kind.ANSWER, number, done.result())
        except Exception as error:
            self._answer_failure(Kind.ASK, number, asked, error)

    def _answer_failure(self, kind: Kind, number: int, value: object, error: Exception) -> None:
        if kind is Kind.MESSAGE:
            log.error("%s could not be served", type(value).__name__, exc_info=error)
            return
        try:
            pickle.loads(pickle.dumps(error))  # an error that only pickles, and does not unpickle, would be lost
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self._send(Kind.FAILURE, number, error)

    def _end(self) -> None:
        if not self.ended:
            self.close()
            self._on_end()
