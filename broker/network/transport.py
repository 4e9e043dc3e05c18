"""The seam between what a connection says and how its bytes travel.

A `Connection` finds requests in bytes and puts answers out as chunks; a `Transport` moves them: plaintext on sockets
of ours, others (TLS) beside it. A transport drives its connection by the methods of asyncio's BufferedProtocol
(get_buffer, buffer_updated) and by `on_sent`, `on_eof`, `on_hang_up` and `on_lost`, so that asyncio's own transports
fit behind a thin adapter.
"""

from __future__ import annotations

from typing import Protocol

from broker.network.output_queue import release
from protocol.schema import Chunk


class Transport(Protocol):
    """What a connection asks of the way its bytes travel. Nothing here blocks or raises."""

    @property
    def queued_bytes(self) -> int:
        """Bytes taken by `send` that the kernel has not taken yet."""

    @property
    def sendfile_bytes(self) -> int:
        """Bytes that went from files to the client by sendfile."""

    def send(self, chunks: list[Chunk]) -> int:
        """Send chunks in order; the transport owns them from now on, and releases file slices. `queued_bytes` of now.

        Calls `on_sent` when the queue, once it was not empty after a `send`, has become empty.
        """

    def pause_reading(self) -> None:
        """Receive no more until `resume_reading`. A hang-up of the other side is noticed all the same."""

    def resume_reading(self) -> None:
        """Receive again."""

    def close_when_sent(self) -> None:
        """Receive no more, and close once the queue is empty."""

    def abort(self) -> None:
        """Close now, and drop what is queued. `on_lost` has been called when this returns."""


class _Gone:
    """The way of a connection that is gone: nothing travels on it."""

    __slots__ = ()

    queued_bytes = sendfile_bytes = 0

    def send(self, chunks: list[Chunk]) -> int:
        release(chunks)
        return 0

    def do_nothing(self) -> None:
        """There is nothing to be received or closed."""

    pause_reading = resume_reading = close_when_sent = abort = do_nothing


GONE: Transport = _Gone()
