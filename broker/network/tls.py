"""TLS connections: the sockets of plaintext ones, with OpenSSL between the socket and the connection.

OpenSSL never has the socket: what is received is handed to it piece by piece, and what it makes is sent for it. Reading
from a socket by itself it would go on for as long as a client sends records that bring nothing (key updates of TLS
1.3), and hold the loop with it.

What is read from log files is copied on its way: sendfile would put it on the wire as it lies on the disk. The
handshake's steps, which compute, are run by a pool; until it is done nothing of the client is looked at.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from broker.network.connection import Connection
from broker.network.output_queue import TURN_BYTES, FileEndedEarly, OutputQueue, release
from broker.network.plaintext import HangUps, PlaintextTransport
from protocol.schema import Chunk
from runtime.deferred import Deferred

#: Bytes that are encrypted in one go. OpenSSL keeps buffers of the largest piece for as long as the connection lasts.
_PIECE_BYTES = 32 * 1024
#: Encrypted bytes that are received in a turn; a record has 16 KiB and some more at most. So many of key updates alone
#: take OpenSSL some 20 ms.
_TURN_RECEIVED_BYTES = 40 * 1024
#: Records that are decrypted in a turn; what OpenSSL has beyond them comes in the next.
_TURN_RECORDS = 16
_BYTES = (bytes, bytearray, memoryview)

#: Where all connections receive; what is there has been handed to OpenSSL when the next one does.
_received = memoryview(bytearray(_TURN_RECEIVED_BYTES))

Run: TypeAlias = Callable[[Callable[[], None]], Deferred[None]]
"""Has a function run by somebody else; done when it has."""


class TlsTransport(PlaintextTransport):
    """Moves the bytes of one connection.

    Args:
        context: with the server's certificate.
        run: runs the steps of the handshake.
        on_secured: called with the client's certificate in DER, or None, before anything is
            served; what it raises ends the connection.
    """

    __slots__ = ("_has_more", "_incoming", "_on_secured", "_outgoing", "_run", "_secured", "_stepping", "_tls")

    _queue: TlsOutputQueue

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        connection: Connection,
        hang_ups: HangUps,
        context: ssl.SSLContext,
        run: Run,
        on_secured: Callable[[Connection, bytes | None], None],
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)  # raises, before it is watched
        super().__init__(loop, sock, connection, hang_ups)
        self._run = run
        self._on_secured = on_secured
        self._secured = False
        self._stepping = False
        self._has_more = False  # whether OpenSSL may have records that it was not asked for
        self._queue = TlsOutputQueue(self._encrypt)

    def send(self, chunks: list[Chunk]) -> int:
        """As `Transport.send`."""
        queue = self._queue
        if self._closing:
            release(chunks)
            return queue.size_bytes
        queue.put(chunks)
        if not self._writing:
            self._send_queued()
        return queue.size_bytes

    def resume_reading(self) -> None:
        """Receive again, beginning with what OpenSSL has already."""
        super().resume_reading()
        if self._stepping:
            self._loop.remove_reader(self._fd)  # the step's end has it watched again
        elif self._has_more:
            self._loop.call_soon(self._read_more)

    def _encrypt(self, data: bytes) -> bytes:
        """What is to be sent: what OpenSSL has to say by itself, and `data`, encrypted."""
        if data:
            self._tls.write(data)
        return self._outgoing.read()

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        """Have the next step taken. Until it is, nobody else touches OpenSSL's state, nor is the socket watched."""
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._stepping = True
        self._run(self._tls.do_handshake).add_done_callback(self._on_step)

    def _on_step(self, step: Deferred[None]) -> None:
        self._stepping = False
        if self._sock is None:
            return  # the client was let go while a step was under way
        try:
            step.result()
            self._on_secured(self._connection, self._tls.getpeercert(binary_form=True))
        except ssl.SSLWantReadError:
            pass
        except Exception as error:
            self._fail_handshake(error)
            return
        else:
            self._secured = self._has_more = True
        self._send_queued()
        if self._reading:
            self._loop.add_reader(self._fd, self._on_readable)
        self._read_more()

    def _fail_handshake(self, error: Exception) -> None:
        self._connection.close(f"Failed authentication (SSL handshake failed: {error})")

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._has_more:
            return  # which comes first, in this turn or when there is room for it
        try:
            received = self._recv_into(_received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if self._secured:
                self._close()
            else:
                self._fail_handshake(error)
            return
        if not self._secured:
            if received:
                self._incoming.write(_received[:received])
            else:
                self._incoming.write_eof()
            self._shake_hands()
        elif received:
            self._incoming.write(_received[:received])
            if not self._read() and received == _TURN_RECEIVED_BYTES:
                self._connection.close(f"{received} bytes of TLS with nothing in them")
        else:
            self._on_end()

    def _read_more(self) -> None:
        """What OpenSSL has already does not make the socket readable."""
        if self._has_more and self._reading and self._sock is not None:
            self._read()

    def _read(self) -> bool:
        """Hand on what some records hold; False where there was nothing, though there is room for it."""
        self._has_more = True
        try:
            room = self._connection.get_buffer()
        except BlockingIOError:
            return True
        taken = 0
        ended = broken = False
        try:
            for _ in range(_TURN_RECORDS):
                received: int = self._tls.read(len(room) - taken, room[taken:])  # type: ignore[assignment]  # as `recv_into`
                taken += received
                if not received:
                    ended = True
                    break
                if taken == len(room):
                    break
        except ssl.SSLWantReadError:
            self._has_more = False
        except OSError:
            broken = True
        # As a plaintext read, once a turn, however little each record brings: each time costs a copy of the rest.
        if taken:
            self._connection.buffer_updated(taken)
        if broken:
            self._close()
        elif ended:
            self._on_end()
        elif self._sock is not None:
            if self._outgoing.pending:
                self._send_besides()
            if self._has_more:
                self._loop.call_soon(self._read_more)
        return taken > 0 or ended or broken

    def _send_besides(self) -> None:
        """Send what OpenSSL says by itself: that keys are updated, which a client may ask for again and again."""
        if not self._writing:
            self._send_queued()
        elif self._outgoing.pending > _TURN_RECEIVED_BYTES:
            self._connection.close("it wants keys updated and does not read that they are")

    def _on_end(self) -> None:
        """The client sends no more."""
        self._has_more = False
        if not self._closing:
            self._stop_reading()
            self._connection.on_eof()

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_when_sent(self) -> None:
        """As `Transport.close_when_sent`; during the handshake there is nothing to send."""
        if self._secured:
            super().close_when_sent()
        else:
            self.abort()

    def _close_socket(self, sock: socket.socket) -> None:
        if not self._stepping:
            if self._secured:
                with suppress(OSError, ValueError):
                    self._tls.unwrap()  # tells the client that this is the end, and no attacker's doing
            with suppress(OSError):
                sock.send(self._outgoing.read())  # that, or why there is no handshake
        sock.close()


class TlsOutputQueue(OutputQueue):
    """Chunks not yet encrypted, in order. Slices of files are read as the socket takes them.

    Args:
        encrypt: what is to be sent for so many bytes; of none, what has to be sent besides.
    """

    __slots__ = ("_encrypt", "_piece", "_piece_bytes")

    def __init__(self, encrypt: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._encrypt = encrypt
        self._piece = memoryview(b"")  # encrypted, of what was at the front of the chunks
        self._piece_bytes = 0  # which was so much

    def send(self, sock: socket.socket) -> bool:
        """As `OutputQueue.send`."""
        budget = TURN_BYTES
        try:
            while budget > 0:
                if not self._piece and not self._encrypt_next():
                    return True
                sent = sock.send(self._piece)
                self._piece = self._piece[sent:]
                budget -= sent
                if not self._piece:
                    self.size_bytes -= self._piece_bytes
        except (BlockingIOError, InterruptedError):
            pass
        return False

    def clear(self) -> None:
        """Drop everything, and let go of the files."""
        super().clear()
        self._piece = memoryview(b"")
        self._encrypt = bytes  # of nothing; whose method it was knows this queue, and would be garbage

    def _encrypt_next(self) -> bool:
        """Whether there is anything to be sent."""
        data = self._next_piece()
        self._piece_bytes = len(data)
        self._piece = memoryview(self._encrypt(data))
        return len(self._piece) > 0

    def _next_piece(self) -> bytes:
        """So many bytes from the front as are encrypted in one go; small chunks together."""
        parts: list[bytes | bytearray | memoryview] = []
        room = _PIECE_BYTES
        while self._chunks and room:
            chunk = self._chunks[0]
            end = min(self._sent + room, len(chunk))
            if isinstance(chunk, _BYTES):
                part: bytes | bytearray | memoryview = memoryview(chunk)[self._sent : end]
            else:
                part = chunk.read(self._sent, end - self._sent)  # type: ignore[attr-defined]
                if len(part) != end - self._sent:
                    raise FileEndedEarly(f"the file ends {end - self._sent - len(part)} bytes before the slice does")
            parts.append(part)
            room -= len(part)
            self._sent = end
            if end == len(chunk):
                self._chunks.popleft()
                self._sent = 0
                release([chunk])
        return b"".join(parts)
